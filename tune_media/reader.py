"""Finds the media in a result, in every layout that Ray and its users make, and puts something else in their place.

Media are our own values at any depth, bare or in lists, and raw clips as people log them today: 5-D arrays
(N, T, C, H, W), bare, in lists, in lists of lists, ragged or not. RLlib may report one and the same clip bare in one
iteration and in a list in the next.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tune_media.values import CONTENT_DIGITS, Medium, Video

EVALUATION, TRAIN = "evaluation", "train"
EVALUATION_IS_NEW = "num_healthy_workers"

_NOT_READ = frozenset({"config"})  # large, and never media
_TRANSPARENT = frozenset({"env_runners", "sampler_results"})  # RLlib's own levels: no part of a medium's key
_COUNTERS = ("num_env_steps_sampled_lifetime", "num_episodes_lifetime")
_MAX_DEPTH = 32
_MIN_PIXELS = 4
_CHANNELS = (1, 3, 4)
_SCALARS = {int, float, bool, str, type(None), np.float32, np.float64, np.int32, np.int64}


@dataclass(frozen=True)
class Found:
    """A medium and where it stood.

    Attributes:
        section: ``train`` or ``evaluation``.
        key: Its place inside the section, joined by ``/``; media of one list share it.
        medium: The medium.
    """

    section: str
    key: str
    medium: Medium


class RawVideo(Medium):
    """A clip that came as an array; it is encoded when its content is asked for.

    Args:
        frames: THWC or TCHW, uint8 0..255 or floats 0..1.
        fps: Frames per second.
        id: What it is known by.
        may_repeat: Start of the ids of which it may be a repetition; None: it is new.
    """

    kind: ClassVar[str] = "video"

    def __init__(self, frames: npt.NDArray[Any], fps: float, id: str, may_repeat: str | None = None) -> None:
        self.id = id
        self.may_repeat = may_repeat
        self.frames = frames
        self._fps = fps
        self._video: Video | None = None

    @property
    def suffix(self) -> str:  # noqa: D102
        return ".mp4"

    @property
    def nbytes(self) -> int:
        """Size of the array."""
        return int(self.frames.nbytes)

    def content(self) -> bytes:  # noqa: D102
        return self._encoded().data

    def facts(self) -> dict[str, Any]:  # noqa: D102
        video = self._encoded()
        self.note = video.note
        return video.facts()

    def _encoded(self) -> Video:
        if self._video is None:
            layout = "THWC" if self.frames.shape[-1] in _CHANNELS and self.frames.shape[1] not in _CHANNELS else "TCHW"
            value_range = 255 if self.frames.dtype == np.uint8 else 1.0
            self._video = Video(self.frames, self._fps, layout=layout, value_range=value_range)
            del self.frames  # the array may be large, and the clip replaces it
        return self._video


def replace_media(result: dict[str, Any], place: Callable[[Found], Any], raw_fps: float = 30.0) -> None:
    """Replace each medium of a result, in place.

    A bare medium becomes what ``place`` returns for it, a list of media a tuple of that.

    Args:
        result: What a trainable reported; changed.
        place: Told a medium, returns what stands there from now on.
        raw_fps: Frames per second of raw arrays.
    """
    _Walk(result, place, raw_fps).run()


class _Walk:
    def __init__(self, result: dict[str, Any], place: Callable[[Found], Any], raw_fps: float) -> None:
        self._result, self._place, self._raw_fps = result, place, raw_fps
        self._seen: dict[int, Any] = {}  # each container met so far -> what stands in its place
        self._occurrences: dict[str, int] = {}

    def run(self) -> None:
        for key, value in list(self._result.items()):
            if key in _NOT_READ:
                continue
            if key == EVALUATION and isinstance(value, dict):
                self._dict(value, EVALUATION, ())
            else:
                self._entry(self._result, key, value, TRAIN, ())

    def _dict(self, mapping: dict[Any, Any], section: str, path: tuple[str, ...]) -> None:
        if id(mapping) in self._seen or len(path) > _MAX_DEPTH:
            return
        self._seen[id(mapping)] = mapping
        for key, value in list(mapping.items()):
            self._entry(mapping, key, value, section, path)

    def _entry(self, mapping: dict[Any, Any], key: Any, value: Any, section: str, path: tuple[str, ...]) -> None:
        inner = path if key in _TRANSPARENT and not path else (*path, str(key))
        if isinstance(value, dict):
            self._dict(value, section, inner)
        else:
            replaced = self._value(value, section, inner)
            if replaced is not value:
                mapping[key] = replaced

    def _value(self, value: Any, section: str, path: tuple[str, ...]) -> Any:
        """Return what stands in the place of a value that is no dict: itself where it holds no media."""
        if isinstance(value, (Medium, np.ndarray)):
            media = self._media(value, section, path)
            if media is None:
                return value
            placed = [self._place(Found(section, "/".join(path), medium)) for medium in media]
            return placed[0] if len(placed) == 1 else tuple(placed)
        if isinstance(value, (list, tuple)):
            return self._sequence(value, section, path)
        return value

    def _sequence(self, values: list[Any] | tuple[Any, ...], section: str, path: tuple[str, ...]) -> Any:
        if len(path) > _MAX_DEPTH or _SCALARS.issuperset(map(type, values)):
            return values
        if id(values) in self._seen:
            return self._seen[id(values)]
        self._seen[id(values)] = values
        replaced = []
        for index, item in enumerate(values):
            if isinstance(item, dict):
                self._dict(item, section, (*path, str(index)))
                replaced.append(item)
            else:
                replaced.append(self._value(item, section, path))
        if all(new is old for new, old in zip(replaced, values, strict=True)):
            return values
        placed = tuple(_flat(replaced)) if all(map(_is_placed, replaced)) else replaced
        self._seen[id(values)] = placed
        return placed

    def _media(self, value: Any, section: str, path: tuple[str, ...]) -> list[Medium] | None:
        if isinstance(value, Medium):
            return [value]
        if not is_raw_video(value):
            return None
        return [self._raw_video(clip, section, path) for clip in value]

    def _raw_video(self, clip: npt.NDArray[Any], section: str, path: tuple[str, ...]) -> RawVideo:
        """Identify a clip that brings no id: by what it shows, and by the round of its section that brought it.

        A later evaluation that happens to look the same is another round. Where the result does not say that its
        section is new, the clip may be a repetition. Two equal clips of one report differ in which of them it is.
        """
        digest = hashlib.blake2b(np.ascontiguousarray(clip).view(np.uint8).data, digest_size=16)
        digest.update(repr((section, path, clip.shape)).encode())
        nth = self._occurrences[digest.hexdigest()] = self._occurrences.get(digest.hexdigest(), 0) + 1
        digest.update(str(nth).encode())
        content_id = digest.hexdigest()[:CONTENT_DIGITS]
        token = section_round(self._result, section)
        round_id = hashlib.blake2b(repr(token).encode(), digest_size=4).hexdigest()
        return RawVideo(clip, self._raw_fps, content_id + round_id, may_repeat=None if token else content_id)


def is_raw_video(value: Any) -> bool:
    """Say whether an array is a batch of clips: (N, T, C, H, W) or (N, T, H, W, C), uint8 or floats in 0..1."""
    if not isinstance(value, np.ndarray) or value.ndim != 5 or 0 in value.shape:
        return False
    if value.dtype != np.uint8 and not np.issubdtype(value.dtype, np.floating):
        return False
    channels_first = value.shape[2] in _CHANNELS and min(value.shape[3:]) >= _MIN_PIXELS
    channels_last = value.shape[4] in _CHANNELS and min(value.shape[2:4]) >= _MIN_PIXELS
    if not (channels_first or channels_last):
        return False
    return value.dtype == np.uint8 or bool(value.min() >= 0 and value.max() <= 1)


def section_round(result: dict[str, Any], section: str) -> tuple[Any, ...] | None:
    """Return what tells this round of a section from all others, or None where it may repeat an earlier one.

    RLlib repeats its last evaluation in every iteration that runs none, without the health counts that it adds to a
    new one. Its lifetime counters are no help there: on Ray 2.60 a new evaluation counts from zero and only its
    repetition counts on. In the training section they rise with every sample.
    """
    if section == EVALUATION:
        evaluation = result.get(EVALUATION)
        if isinstance(evaluation, dict) and EVALUATION_IS_NEW in evaluation:
            return (result.get("training_iteration"),)
        return None
    counters = result.get("env_runners")
    if not isinstance(counters, dict):
        return None
    return tuple(float(counters[name]) for name in _COUNTERS if _is_number(counters.get(name))) or None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(value, bool)


def _is_placed(value: Any) -> bool:
    return value is None or isinstance(value, (str, tuple))


def _flat(values: list[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, tuple):
            yield from _flat(list(value))
        else:
            yield value
