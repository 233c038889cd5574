"""Finds the media in a result, in every layout that Ray and its users make, and puts something else in their place.

Media are our own values at any depth, bare or in lists, and raw clips as people log them today: 5-D arrays
(N, T, C, H, W), bare, in lists, in lists of lists, ragged or not. RLlib may report one and the same clip bare in one
iteration and in a list in the next.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from tune_media.conversions import converted
from tune_media.values import CONTENT_DIGITS, Medium, Video, is_a, shown

EVALUATION, TRAIN = "evaluation", "train"
EVALUATION_IS_NEW = "num_healthy_workers"

_NOT_READ = frozenset({"config"})  # large, and never media
_TRANSPARENT = frozenset({"env_runners", "sampler_results"})  # RLlib's own levels: no part of a medium's key
_COUNTERS = ("num_env_steps_sampled_lifetime", "num_episodes_lifetime")
_MAX_DEPTH = 32
_MAX_TOLD_PARTS = 8
_LARGE_BYTES = 4_000_000  # an array of this size, left in a result, slows down every logger
_MIN_PIXELS = 4
_CHANNELS = (1, 3, 4)
_SCALARS = frozenset({int, float, bool, complex, str, bytes, type(None), *np.sctypeDict.values()})  # hold no media
_SEQUENCES = (list, tuple, set, frozenset)


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


class RawLayout(NamedTuple):
    """How a raw clip lies in its array.

    Attributes:
        axes: ``TCHW`` or ``THWC``.
        value_range: What stands for full brightness: 255 or 1.
    """

    axes: str
    value_range: float


class RawVideo(Medium):
    """A clip that came as an array; it is encoded when its content is asked for.

    Args:
        frames: Four axes.
        layout: What they are.
        fps: Frames per second.
        id: What it is known by.
        may_repeat: Start of the ids of which it may be a repetition; None: it is new.
    """

    kind: ClassVar[str] = "video"

    def __init__(
        self, frames: npt.NDArray[Any], layout: RawLayout, fps: float, id: str, may_repeat: str | None = None
    ) -> None:
        self.id = id
        self.may_repeat = may_repeat
        self.layout = layout
        self.frames = frames
        self._nbytes = int(frames.nbytes)
        self._fps = fps
        self._video: Video | None = None
        self._lock = threading.Lock()

    @property
    def suffix(self) -> str:  # noqa: D102
        return ".mp4"

    @property
    def nbytes(self) -> int:  # noqa: D102
        return self._nbytes

    @property
    def note(self) -> str | None:  # type: ignore[override]  # noqa: D102
        return self._encoded().note

    def content(self) -> bytes:  # noqa: D102
        return self._encoded().data

    def facts(self) -> dict[str, Any]:  # noqa: D102
        return self._encoded().facts()

    def _encoded(self) -> Video:
        with self._lock:  # it is stored by one thread and shown by another
            if self._video is None:
                frames: Any = self.frames
                if self.layout.value_range == 255 and frames.dtype != np.uint8:
                    frames = (frame.astype(np.uint8) for frame in frames)
                self._video = Video(frames, self._fps, layout=self.layout.axes, value_range=self.layout.value_range)
                del self.frames  # the array may be large, and the clip replaces it
            return self._video


def replace_media(
    result: dict[str, Any],
    place: Callable[[Found], Any],
    raw_fps: float = 30.0,
    unread: Callable[[str, str], None] = lambda key, reason: None,
) -> None:
    """Replace each medium of a result, in place.

    A bare medium becomes what ``place`` returns for it, a list of media a tuple of that.

    Args:
        result: What a trainable reported; changed.
        place: Told a medium, returns what stands there from now on.
        raw_fps: Frames per second of raw arrays.
        unread: Told the key of what could not be read, and what to do about it.
    """
    _Walk(result, place, raw_fps, unread).run()


class _Walk:
    def __init__(
        self,
        result: dict[str, Any],
        place: Callable[[Found], Any],
        raw_fps: float,
        unread: Callable[[str, str], None],
    ) -> None:
        self._result, self._place, self._raw_fps, self._unread = result, place, raw_fps, unread
        # Each container met so far, held so that its id is not given to another, and what stands in its place.
        self._seen: dict[int, tuple[Any, Any]] = {}
        self._occurrences: dict[str, int] = {}
        self._of_place: Exception | None = None  # what placing raised, which is not ours to catch

    def run(self) -> None:
        self._seen[id(self._result)] = self._result, self._result
        for key, value in list(self._result.items()):
            if type(key) is str and key in _NOT_READ:
                continue
            if type(key) is str and key == EVALUATION and is_a(value, dict):
                self._dict(value, EVALUATION, ())
            else:
                self._entry(self._result, key, value, TRAIN, ())

    def _dict(self, mapping: dict[Any, Any], section: str, path: tuple[str, ...], depth: int = 0) -> None:
        if id(mapping) in self._seen or self._is_too_deep(path, depth):
            return
        self._seen[id(mapping)] = mapping, mapping
        for key, value in list(dict.items(mapping)):  # not what a subclass makes of it
            self._entry(mapping, key, value, section, path, depth)

    def _entry(
        self, mapping: dict[Any, Any], key: Any, value: Any, section: str, path: tuple[str, ...], depth: int = 0
    ) -> None:
        if type(value) in _SCALARS:
            return
        name = key if type(key) is str else shown(key, str)
        inner = path if not path and name in _TRANSPARENT else (*path, name)
        try:
            if is_a(value, dict):
                self._dict(value, section, inner, depth)
                return
            replaced = self._value(value, section, inner, depth)
            if replaced is not value:
                mapping[key] = replaced
        except Exception as error:  # it keeps none of the others from being read
            self._cannot_read(value, inner, error)

    def _value(self, value: Any, section: str, path: tuple[str, ...], depth: int = 0) -> Any:
        """Return what stands in the place of a value that is no dict: itself where it holds no media."""
        if type(value) in _SCALARS:
            return value
        if is_a(value, np.ndarray) and value.dtype.hasobject and value.dtype.names is None:
            return self._objects(value, section, path, depth)
        is_foreign = not is_a(value, (Medium, np.ndarray, *_SEQUENCES))
        if is_foreign:
            value = self._converted(value, path)
        if is_a(value, (Medium, np.ndarray)):
            if is_foreign and isinstance(value, Medium):
                self._identify(value, section, path)
            media = self._media(value, section, path)
            if media is None:
                return value
            placed = [self._put(Found(section, "/".join(path), medium)) for medium in media]
            return placed[0] if len(placed) == 1 else tuple(placed)
        if is_a(value, _SEQUENCES) and not self._is_too_deep(path, depth):
            return self._sequence(value, section, path, depth + 1)
        return value

    def _objects(self, array: npt.NDArray[Any], section: str, path: tuple[str, ...], depth: int) -> Any:
        """Return what stands in the place of an array of objects."""
        if id(array) not in self._seen:
            self._seen[id(array)] = array, array
            items = tuple(array.ravel().tolist())
            replaced = self._value(items, section, path, depth + 1)
            if replaced is not items:
                self._seen[id(array)] = array, replaced if array.ndim else replaced[0]
        return self._seen[id(array)][1]

    def _put(self, found: Found) -> Any:
        try:
            return self._place(found)
        except Exception as error:
            self._of_place = error
            raise

    def _cannot_read(self, value: Any, path: tuple[str, ...], error: Exception) -> None:
        if error is self._of_place:
            raise error
        reason = f"{type(value).__name__} could not be read: {type(error).__name__}: {shown(error, str)}"
        self._unread("/".join(path), reason)

    def _is_too_deep(self, path: tuple[str, ...], depth: int) -> bool:
        if depth + len(path) <= _MAX_DEPTH:
            return False
        key = "/".join(path[:_MAX_TOLD_PARTS])
        self._unread(key, f"media more than {_MAX_DEPTH} levels down are not looked for; report them further up")
        return True

    def _converted(self, value: Any, path: tuple[str, ...]) -> Any:
        """Return a value of another library as one of ours; a tensor of one number as that number."""
        try:
            found = converted(value)
        except Exception as error:
            self._cannot_read(value, path, error)
            return value
        return found.item() if is_a(found, np.ndarray) and found.ndim == 0 else found

    def _identify(self, medium: Medium, section: str, path: tuple[str, ...]) -> None:
        """Give a medium that came as a value of another library an id that its repetition has, too."""
        digest = hashlib.blake2b(medium.content(), digest_size=16)
        id, may_repeat = self._id_of(digest, section, path)
        object.__setattr__(medium, "id", id)
        object.__setattr__(medium, "may_repeat", may_repeat)

    def _sequence(self, values: Any, section: str, path: tuple[str, ...], depth: int) -> Any:
        if _SCALARS.issuperset(map(type, values)):
            return values
        if id(values) in self._seen:
            return self._seen[id(values)][1]
        self._seen[id(values)] = values, values
        replaced = []
        is_changed, all_placed = False, True
        for index, item in enumerate(values):
            new = item
            try:
                if is_a(item, dict):
                    self._dict(item, section, (*path, str(index)), depth)
                else:
                    new = self._value(item, section, path, depth)
            except Exception as error:
                self._cannot_read(item, path, error)
            is_changed = is_changed or new is not item
            all_placed = all_placed and _is_placed(new) and not (new is item and is_a(item, tuple))
            replaced.append(new)
        if not is_changed:
            return values
        if not all_placed and type(values) is list:  # in place: it may hold itself
            values[:] = replaced
            return values
        placed = tuple(_flat(replaced)) if all_placed else replaced
        self._seen[id(values)] = values, placed
        return placed

    def _media(self, value: Any, section: str, path: tuple[str, ...]) -> list[Medium] | None:
        if isinstance(value, Medium):
            return [value]
        layout = raw_layout(value)
        if layout is not None:
            return [self._raw_video(clip, layout, section, path) for clip in value]
        if value.nbytes > _LARGE_BYTES:
            self._unread(
                "/".join(path),
                f"an array of shape {value.shape} and {value.nbytes / 1e6:.0f} MB is left in the result, and every "
                "logger handles it; report a tune_media.Video, Image, Histogram or Artifact instead",
            )
        return None

    def _raw_video(self, clip: npt.NDArray[Any], layout: RawLayout, section: str, path: tuple[str, ...]) -> RawVideo:
        """Identify a clip that brings no id: by what it shows, and by the round of its section that brought it.

        A later evaluation that happens to look the same is another round. Where the result does not say that its
        section is new, the clip may be a repetition. Two equal clips of one report differ in which of them it is.
        """
        digest = hashlib.blake2b(np.ascontiguousarray(clip).view(np.uint8).data, digest_size=16)
        digest.update(repr(clip.shape).encode())
        return RawVideo(clip, layout, self._raw_fps, *self._id_of(digest, section, path))

    def _id_of(self, digest: Any, section: str, path: tuple[str, ...]) -> tuple[str, str | None]:
        """Return the id of what has this content here, and the start of the ids of which it may be a repetition."""
        digest.update(repr((section, path)).encode())
        nth = self._occurrences[digest.hexdigest()] = self._occurrences.get(digest.hexdigest(), 0) + 1
        digest.update(str(nth).encode())
        content_id = digest.hexdigest()[:CONTENT_DIGITS]
        token = section_round(self._result, section)
        round_id = hashlib.blake2b(shown(token).encode("utf-8", "replace"), digest_size=4).hexdigest()
        return content_id + round_id, None if token else content_id


def raw_layout(value: Any) -> RawLayout | None:
    """Say how clips lie in an array (N, T, C, H, W) or (N, T, H, W, C) of light; None where it is something else.

    Light is uint8, whole numbers in 0..255, or floats in 0..1 or 0..255. What has negative numbers is none.
    """
    if not isinstance(value, np.ndarray) or value.ndim != 5 or 0 in value.shape or value.dtype.kind not in "uif":
        return None
    if value.shape[2] in _CHANNELS and min(value.shape[3:]) >= _MIN_PIXELS:
        axes = "TCHW"
    elif value.shape[4] in _CHANNELS and min(value.shape[2:4]) >= _MIN_PIXELS:
        axes = "THWC"
    else:
        return None
    if value.dtype == np.uint8:
        return RawLayout(axes, 255)
    low, high = float(value.min()), float(value.max())
    if not (low >= 0 and high <= 255):
        return None
    return RawLayout(axes, 1 if value.dtype.kind == "f" and high <= 1 else 255)


def section_round(result: dict[str, Any], section: str) -> tuple[Any, ...] | None:
    """Return what tells this round of a section from all others, or None where it may repeat an earlier one.

    RLlib repeats its last evaluation in every iteration that runs none, without the health counts that it adds to a
    new one. Its lifetime counters are no help there: on Ray 2.60 a new evaluation counts from zero and only its
    repetition counts on. In the training section they rise with every sample.
    """
    if section == EVALUATION:
        evaluation: Any = result.get(EVALUATION)
        if is_a(evaluation, dict) and EVALUATION_IS_NEW in evaluation:
            return (result.get("training_iteration"),)
        return None
    counters: Any = result.get("env_runners")
    if not is_a(counters, dict):
        return None
    counts = (_count(counters.get(name)) for name in _COUNTERS)
    return tuple(count for count in counts if count is not None) or None


def _count(value: Any) -> float | None:
    if not is_a(value, (int, float, np.number)) or is_a(value, (bool, np.complexfloating)):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _is_placed(value: Any) -> bool:
    return value is None or is_a(value, (str, tuple))


def _flat(values: list[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, tuple):
            yield from _flat(list(value))
        else:
            yield value
