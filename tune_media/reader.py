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
from tune_media.values import CONTENT_DIGITS, Medium, Video

EVALUATION, TRAIN = "evaluation", "train"
EVALUATION_IS_NEW = "num_healthy_workers"

_NOT_READ = frozenset({"config"})  # large, and never media
_TRANSPARENT = frozenset({"env_runners", "sampler_results"})  # RLlib's own levels: no part of a medium's key
_COUNTERS = ("num_env_steps_sampled_lifetime", "num_episodes_lifetime")
_MAX_DEPTH = 32
_LARGE_BYTES = 4_000_000  # an array of this size, left in a result, slows down every logger
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

    def _value(self, value: Any, section: str, path: tuple[str, ...], depth: int = 0) -> Any:
        """Return what stands in the place of a value that is no dict: itself where it holds no media."""
        if isinstance(value, np.ndarray) and value.dtype == object:
            items = value.tolist()
            replaced = self._value(items, section, path, depth + 1)
            return value if replaced is items else replaced
        if type(value) in _SCALARS:
            return value
        is_foreign = not isinstance(value, (Medium, np.ndarray, list, tuple))
        if is_foreign:
            value = self._converted(value, path)
        if isinstance(value, (Medium, np.ndarray)):
            if is_foreign and isinstance(value, Medium):
                self._identify(value, section, path)
            media = self._media(value, section, path)
            if media is None:
                return value
            placed = [self._place(Found(section, "/".join(path), medium)) for medium in media]
            return placed[0] if len(placed) == 1 else tuple(placed)
        if isinstance(value, (list, tuple)) and depth + len(path) <= _MAX_DEPTH:
            return self._sequence(value, section, path, depth + 1)
        return value

    def _converted(self, value: Any, path: tuple[str, ...]) -> Any:
        """Return a value of another library as one of ours; a tensor of one number as that number."""
        try:
            found = converted(value)
        except Exception as error:
            self._unread("/".join(path), f"{type(value).__name__} could not be read: {type(error).__name__}: {error}")
            return value
        return found.item() if isinstance(found, np.ndarray) and found.ndim == 0 else found

    def _identify(self, medium: Medium, section: str, path: tuple[str, ...]) -> None:
        """Give a medium that came as a value of another library an id that its repetition has, too."""
        digest = hashlib.blake2b(medium.content(), digest_size=16)
        id, may_repeat = self._id_of(digest, section, path)
        object.__setattr__(medium, "id", id)
        object.__setattr__(medium, "may_repeat", may_repeat)

    def _sequence(self, values: list[Any] | tuple[Any, ...], section: str, path: tuple[str, ...], depth: int) -> Any:
        if _SCALARS.issuperset(map(type, values)):
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
                replaced.append(self._value(item, section, path, depth))
        if all(new is old for new, old in zip(replaced, values, strict=True)):
            return values
        placed = tuple(_flat(replaced)) if all(map(_is_placed, replaced)) else replaced
        self._seen[id(values)] = placed
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
        round_id = hashlib.blake2b(repr(token).encode(), digest_size=4).hexdigest()
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
