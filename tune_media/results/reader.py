"""Finds the media in a result, in every layout that Ray and its users make, and puts something else in their place.

Media are our own values at any depth, bare or in lists, and raw arrays: clips with five axes (N, T, C, H, W) and
pictures with three. RLlib may report the same clip bare in one iteration and in a list in the next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tune_media.results.clean import PLAIN, ResultWalk
from tune_media.results.content_ids import ContentIds, Place, place_of
from tune_media.results.raw_clips import RawVideo, advice, id_parts_of, raw_layout
from tune_media.results.raw_pictures import raw_pixels
from tune_media.values.convert import converted
from tune_media.values.foreign import is_a, leaf_text
from tune_media.values.image import Image
from tune_media.values.medium import Medium
from tune_media.values.secrets import error_text

_NOT_READ = frozenset({"config"})  # large, and never media
_LARGE_BYTES = 4_000_000  # an array of this size slows down every logger


@dataclass(frozen=True)
class FoundMedium:
    """A medium and its place in the result."""

    section: str  # ``train``, ``evaluation``, or another top-level key that means an evaluation, such as ``eval``
    key: str  # its place inside the section, joined by ``/``; media of one list share it
    medium: Medium


def replace_media(
    result: dict[str, Any],
    place: Callable[[FoundMedium], Any],
    raw_fps: float = 30.0,
    unread: Callable[[str, str], None] = lambda key, reason: None,
    windows: set[Place] | None = None,
) -> None:
    """Replace each medium of a result by what ``place`` returns for it, in place; a list of media becomes a tuple.

    ``clean_result`` comes first: then keys are text, and no container holds itself, raises or is too deep. ``unread``
    gets the key of each value that cannot be read, and the remedy. ``windows`` are the places that were a
    window in the trial's results so far, and change. What ``place`` raises is passed on.
    """
    walk = _Reader(result, place, raw_fps, unread, set() if windows is None else windows)
    plain = walk.plain
    for key, value in list(result.items()):
        if type(value) not in plain and key not in _NOT_READ:
            replaced = walk.walk(value, place_of(key, value), (id(result),))
            if replaced is not value:
                result[key] = replaced


class _Reader(ResultWalk):
    """One walk through a result that is clean."""

    plain = PLAIN | {int, np.str_}

    def __init__(
        self,
        result: dict[str, Any],
        place: Callable[[FoundMedium], Any],
        raw_fps: float,
        unread: Callable[[str, str], None],
        windows: set[Place],
    ) -> None:
        super().__init__(lambda place, reason: unread(place.key, reason), Place.inside)
        self._place, self._raw_fps, self._windows = place, raw_fps, windows
        # Each sequence met so far with its replacement; it is held so that its id() is not given to another object.
        self._seen: dict[int, tuple[Any, Any]] = {}
        self._ids = ContentIds(result, windows)

    def _leaf(self, value: Any, place: Place) -> Any:
        if not is_a(value, (Medium, np.ndarray)):
            value = self._converted(value, place)
        media = self._media(value, place) if is_a(value, (Medium, np.ndarray)) else None
        if media is None:
            return value
        placed = [self._place(FoundMedium(place.section, place.key, medium)) for medium in media]
        return placed[0] if len(placed) == 1 else tuple(placed)

    def _converted(self, value: Any, place: Place) -> Any:
        """Convert a value of another library; a tensor of one number becomes that number."""
        try:
            made = converted(value)
            if made is not value and isinstance(made, Medium):
                self._ids.identify(made, place)
        except Exception as error:
            self._report(place, f"{type(value).__name__} could not be read: {error_text(error)}")
            leaf_text(value)
            return value
        return made.item() if is_a(made, np.ndarray) and made.ndim == 0 else made

    def _sequence(self, values: Any, items: Collection[Any], place: Place, around: tuple[int, ...]) -> Any:
        if self.plain.issuperset(map(type, items)):
            return values
        if id(values) in self._seen:
            return self._seen[id(values)][1]
        self._seen[id(values)] = values, values
        if is_a(values, deque):
            self._windows.add(place)
        replaced = []
        for index, item in enumerate(items):
            inner = place._replace(path=(*place.path, str(index))) if is_a(item, dict) else place
            replaced.append(self.walk(item, inner, around))
        if all(new is item for new, item in zip(replaced, items, strict=True)):
            return values
        kept_tuples = any(new is item and is_a(item, tuple) for new, item in zip(replaced, items, strict=True))
        all_placed = all(new is None or is_a(new, (str, tuple)) for new in replaced) and not kept_tuples
        if not all_placed and type(values) is list:  # in place, as in all other lists
            values[:] = replaced
            return values
        placed: Any = tuple(_flat(replaced)) if all_placed else replaced
        if is_a(values, np.ndarray) and not values.ndim:
            placed = placed[0]
        self._seen[id(values)] = values, placed
        return placed

    def _media(self, value: Any, place: Place) -> list[Medium] | None:
        if isinstance(value, Medium):
            return [value]
        layout = raw_layout(value)
        if layout is not None:
            clips = value if value.ndim == 5 else value[np.newaxis]
            ids = [self._ids.id_of(id_parts_of(clip), place) for clip in clips]
            return [RawVideo(clip, layout, self._raw_fps, *id) for clip, id in zip(clips, ids, strict=True)]
        pixels = raw_pixels(value)
        if pixels is not None:
            image = Image(pixels)
            self._ids.identify(image, place, may_repeat_in_training=True)
            return [image]
        instead = advice(value)
        if instead is not None:
            self._report(place, instead)
        elif value.nbytes > _LARGE_BYTES:
            self._report(
                place,
                f"an array of shape {value.shape} and {value.nbytes / 1e6:.0f} MB is left in the result, and every "
                "logger handles it; report a tune_media.Video, Image, Histogram or Artifact instead",
            )
        return None


def _flat(values: list[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, tuple):
            yield from _flat(list(value))
        else:
            yield value
