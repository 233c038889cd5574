"""What a result may hold besides numbers: clips, pictures, histograms, episodes, files.

Each value is frozen, small to print, safe to pickle, and carries an ``id`` made where it was recorded, so that it is
stored and logged once however often a result repeats it. Each can turn itself into one file (``content``) and into
the facts that its line of the index states (``facts``).
"""

from __future__ import annotations

import json
import math
import mimetypes
import struct
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from tune_media.retention import Retention


def new_id() -> str:
    """Make the id of something recorded just now: 32 hexadecimal digits, unique everywhere."""
    return uuid.uuid4().hex


@dataclass(frozen=True)
class VideoOptions:
    """How episodes are turned into clips.

    Attributes:
        fps: Frames per second. None: the env's own ``metadata["render_fps"]``, or 30 where it has none.
        height: Height to scale to, pixels. None: as rendered, or in proportion to ``width``.
        width: Width to scale to, pixels. None: as rendered, or in proportion to ``height``.
        crf: x264's constant rate factor, 0 (lossless) to 51 (worst).
        preset: x264's speed preset.
        max_frames: Frames after which a clip is cut, and says so in its note. None: never.
        overlay: What is drawn into the frames of recorded episodes, one thing or several: any of ``"step"``,
            ``"reward"``, ``"return"``, ``"action"``, ``"curve"`` (of the return), and functions of an
            ``steps.StepFacts`` that return text.

    Raises:
        ValueError: A value that no clip can have.
    """

    fps: float | None = None
    height: int | None = None
    width: int | None = None
    crf: int = 23
    preset: str = "veryfast"
    max_frames: int | None = None
    overlay: Any = ()

    def __post_init__(self) -> None:
        single = isinstance(self.overlay, str) or callable(self.overlay)
        object.__setattr__(self, "overlay", (self.overlay,) if single else tuple(self.overlay))
        for name in ("fps", "height", "width", "max_frames"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"VideoOptions({name}=...) must be positive or None, got {value!r}.")
        for name in ("height", "width", "max_frames"):
            value = getattr(self, name)
            if value is not None and value != int(value):
                raise ValueError(f"VideoOptions({name}=...) must be a whole number, got {value!r}.")
        if not 0 <= self.crf <= 51:
            raise ValueError(f"VideoOptions(crf=...) must be in 0..51, got {self.crf!r}.")
        presets = ["ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow"]
        if self.preset not in presets:
            raise ValueError(f"VideoOptions(preset=...) must be one of {', '.join(presets)}, got {self.preset!r}.")

    def encoder_keywords(self) -> dict[str, Any]:
        """Return the options as keywords of ``encoding.VideoEncoder``, without ``fps``."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("fps", "overlay")}


@dataclass(frozen=True)
class MediaOptions:
    """How the logger callbacks of one experiment handle media; the same for all of them.

    Attributes:
        raw_fps: Frames per second of raw arrays, which carry none.
        gif_width: Width above which TensorBoard's GIFs are scaled down, pixels.
        gif_fps: Most frames a second in TensorBoard's GIFs; the speed stays the clip's own.
        max_pending_bytes: How much may wait to be written before further clips are dropped, counted and named.
        flush_seconds: How long the end of an experiment waits for outstanding writes.
        strict: Raise at the first fault instead of warning, for tests.
        retention: Which media are kept; None: all.
    """

    raw_fps: float = 30.0
    gif_width: int = 320
    gif_fps: float = 15.0
    max_pending_bytes: int = 512 * 2**20
    flush_seconds: float = 120.0
    strict: bool = False
    retention: Retention | None = None

    def __post_init__(self) -> None:
        if self.retention is not None and not isinstance(self.retention, Retention):
            raise TypeError(f"MediaOptions(retention=...) takes a tune_media.Retention, got {self.retention!r}.")
        for name in ("raw_fps", "gif_width", "gif_fps", "max_pending_bytes", "flush_seconds"):
            if not getattr(self, name) > 0:
                raise ValueError(f"MediaOptions({name}=...) must be positive, got {getattr(self, name)!r}.")


_PNG = b"\x89PNG\r\n\x1a\n"
_MOST_JSON_LEVELS = 64
_MOST_JSON_BITS = 1000  # Python itself refuses to write, or to read, much larger numbers
_HEAT = ((0, 0, 60), (90, 20, 130), (190, 50, 90), (245, 130, 30), (255, 250, 170))  # from least to largest

CONTENT_DIGITS = 24
"""Of an id made of a medium's content, so many digits are of the content alone; the rest tells who brought it."""


class Medium:
    """What all values share: an id, a kind, and one file.

    Attributes:
        id: What it is known by, everywhere and for ever.
        note: What a viewer should be told, or None.
        may_repeat: The first ``CONTENT_DIGITS`` of its id where it may repeat a medium that is stored already.
    """

    kind: ClassVar[str] = ""
    id: str
    note: str | None = None
    may_repeat: str | None = None

    @property
    def suffix(self) -> str:
        """File name ending, with its dot."""
        raise NotImplementedError

    @property
    def nbytes(self) -> int:
        """About how much memory it takes until it is written."""
        return len(getattr(self, "data", b"")) or 1000

    def content(self) -> bytes:
        """Return the file."""
        raise NotImplementedError

    def facts(self) -> dict[str, Any]:
        """Return what the index says of it beyond id, kind, place and time; only what applies."""
        return {}


@dataclass(frozen=True)
class EpisodeRecord(Medium):
    """What is known of one finished episode.

    Attributes:
        episode_id: The id the env runner gave it.
        episode_return: Sum of its rewards, over all agents.
        episode_length: Its length in env steps.
        seed: The seed its env was reset with, where known.
        env_runner: Index of the env runner that played it; 0 is the local one.
        env_index: Index of the sub-env inside the env runner's vector env.
        agent: The agent, where a clip shows the frames of one agent.
        view: The name of the view, where an episode has several.
        section: ``train`` or ``evaluation``.
        training_iteration: The Algorithm's iteration when it was collected.
        env_steps: The Algorithm's lifetime env steps then.
        terminated: Whether the env ended it; False: it was truncated. None: not known.
        explored: Whether the policy explored.
        weights_version: RLlib's sequence number of the weights that played its last step.
        task: What the env's ``get_task()`` said at its start, where it has one.
        finished_at: Unix time of its end, seconds.
        metrics: Further numbers of the episode, by name: what ``collect=`` took from its steps.
    """

    kind: ClassVar[str] = "episode"

    episode_id: str
    episode_return: float
    episode_length: int
    seed: int | None = None
    env_runner: int | None = None
    env_index: int | None = None
    agent: str | None = None
    view: str | None = None
    section: str | None = None
    training_iteration: int | None = None
    env_steps: int | None = None
    terminated: bool | None = None
    explored: bool | None = None
    weights_version: int | None = None
    task: Any = None
    finished_at: float = 0.0
    metrics: Mapping[str, float] = field(default_factory=dict)
    id: str = field(default_factory=new_id)
    note: str | None = None

    @property
    def suffix(self) -> str:  # noqa: D102
        return ".json"

    def content(self) -> bytes:  # noqa: D102
        return json_bytes(self.facts())

    def facts(self) -> dict[str, Any]:  # noqa: D102
        names = ("episode_id", "episode_return", "episode_length", "seed", "env_runner", "env_index", "agent", "view")
        more = ("env_steps", "terminated", "explored", "weights_version", "task")
        facts = {name: getattr(self, name) for name in (*names, *more)}
        known = {name: value for name, value in facts.items() if value is not None}
        return known | ({"metrics": dict(self.metrics)} if self.metrics else {})


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Video(Medium):
    """An encoded clip.

    Made from frames, which are encoded at once, one after the other, and not kept:

        >>> clip = Video((np.full((48, 64, 3), 20 * t, np.uint8) for t in range(5)), fps=10)
        >>> clip.frames, clip.fps, clip.width, clip.height
        (5, 10.0, 64, 48)

    or from a file by ``Video.from_file``.

    Args:
        frames: THWC uint8 RGB frames: an array, or any iterable of HWC frames.
        fps: Frames per second.
        layout: ``THWC`` (1, 3 or 4 channels), ``TCHW`` or ``THW`` (grey).
        value_range: 255 for uint8, or 1.0 for floats in 0..1.
        options: Size and quality.
        episode: What is known of the episode it shows.
        note: What a viewer should be told.

    Raises:
        ValueError: The frames are not of that layout, or there is none.
    """

    kind: ClassVar[str] = "video"

    data: bytes
    width: int
    height: int
    frames: int
    fps: float
    episode: EpisodeRecord | None
    note: str | None
    id: str

    def __init__(
        self,
        frames: Iterable[npt.ArrayLike],
        fps: float = 30.0,
        *,
        layout: str = "THWC",
        value_range: float = 255,
        options: VideoOptions | None = None,
        episode: EpisodeRecord | None = None,
        note: str | None = None,
    ) -> None:
        from tune_media import encoding  # PyAV is loaded where a clip is made, not where results are read

        if isinstance(frames, (bytes, bytearray, memoryview, str)):
            raise ValueError(f"Video takes frames, got {type(frames).__name__}; Video.from_file takes a finished mp4.")
        options = options or VideoOptions()
        encoded = encoding.encode_video(
            encoding.frames_in_layout(frames, layout, value_range), options.fps or fps, **options.encoder_keywords()
        )
        note = "; ".join(text for text in (note, encoded.note) if text) or None
        self._fill(encoded, episode=episode, note=note, id=new_id())

    @classmethod
    def from_encoded(
        cls, encoded: Any, *, episode: EpisodeRecord | None = None, note: str | None = None, id: str | None = None
    ) -> Video:
        """Wrap what the streaming encoder finished (an ``encoding.EncodedVideo``)."""
        video = cls.__new__(cls)
        video._fill(encoded, episode=episode, note=note or encoded.note, id=id or new_id())
        return video

    @classmethod
    def from_file(cls, path: str | Path, *, episode: EpisodeRecord | None = None, note: str | None = None) -> Video:
        """Take a finished mp4 as it is.

        Raises:
            ValueError: The file is no mp4 that FFmpeg reads.
            OSError: It cannot be read.
        """
        from tune_media import encoding

        data = Path(path).read_bytes()
        if data[4:8] != b"ftyp":
            raise ValueError(f"{str(path)!r} is no mp4, or no video at all; read its frames and make a Video of them.")
        if not is_whole_mp4(data):
            raise ValueError(f"{str(path)!r} is an mp4 that is not whole ({len(data)} bytes); copy or record it again.")
        encoded = encoding.probe_video(data)
        return cls.from_encoded(encoded, episode=episode, note=note)

    def of_episode(self, episode: EpisodeRecord) -> Video:
        """Return the same clip (same id) with another record of its episode."""
        video = Video.__new__(Video)
        video._fill(self, episode=episode, note=self.note, id=self.id)
        return video

    @property
    def suffix(self) -> str:  # noqa: D102
        return ".mp4"

    def content(self) -> bytes:  # noqa: D102
        if not is_whole_mp4(self.data):
            raise ValueError(f"The {len(self.data)} bytes of this Video are no whole mp4; make it by Video.from_file.")
        return self.data

    def facts(self) -> dict[str, Any]:  # noqa: D102
        own = {"format": "mp4", "width": self.width, "height": self.height, "frames": self.frames, "fps": self.fps}
        return own | (self.episode.facts() if self.episode else {})

    def _fill(self, encoded: Any, **others: Any) -> None:
        for name in ("data", "width", "height", "frames", "fps"):
            object.__setattr__(self, name, getattr(encoded, name))
        for name, value in others.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        size = f"{len(self.data) / 1000:.1f} kB"
        return f"Video({self.frames} frames, {self.width}x{self.height}, {self.fps:g} fps, {size})"


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Image(Medium):
    """A picture, stored as PNG.

    Args:
        pixels: HWC uint8 (1, 3 or 4 channels) or HW uint8 (grey).
        caption: A line of text that goes with it.

    Raises:
        ValueError: The array is no picture of this kind.
    """

    kind: ClassVar[str] = "image"

    data: bytes
    width: int
    height: int
    caption: str | None
    id: str

    def __init__(self, pixels: npt.ArrayLike, *, caption: str | None = None) -> None:
        from tune_media import encoding

        height, width = np.shape(pixels)[:2]
        self._fill(encoding.png_from_frame(pixels), width, height, caption)

    @classmethod
    def from_png(cls, data: bytes, *, caption: str | None = None) -> Image:
        """Take a finished PNG as it is.

        Raises:
            ValueError: It is none.
        """
        if data[:8] != _PNG or len(data) < 24:
            raise ValueError(f"Image.from_png takes the bytes of a PNG file, got {data[:8]!r}...")
        image = cls.__new__(cls)
        width, height = struct.unpack(">II", data[16:24])
        image._fill(data, width, height, caption)
        return image

    @classmethod
    def heatmap(cls, values: npt.ArrayLike, *, scale: int = 1, caption: str | None = None) -> Image:
        """Draw a table of numbers, from dark (the least) to bright (the largest); what is not finite stays black.

        Args:
            values: Numbers, two axes: rows from the top, columns from the left.
            scale: Pixels for each, in both directions.
            caption: A line of text that goes with it.

        Raises:
            ValueError: They are no table.
        """
        table = np.asarray(values, np.float64)
        if table.ndim != 2 or not table.size:
            raise ValueError(f"Image.heatmap takes a table of numbers (two axes), got shape {table.shape}.")
        finite = np.isfinite(table)
        low, high = (table[finite].min(), table[finite].max()) if finite.any() else (0.0, 0.0)
        share = np.where(finite, (table - low) / ((high - low) or 1.0), 0.0)
        stops = np.linspace(0, 1, len(_HEAT))
        channels = [np.interp(share, stops, [colour[i] for colour in _HEAT]) for i in range(3)]
        pixels = np.where(finite[..., None], np.stack(channels, axis=-1), 0).astype(np.uint8)
        return cls(pixels.repeat(scale, axis=0).repeat(scale, axis=1), caption=caption)

    def _fill(self, data: bytes, width: int, height: int, caption: str | None) -> None:
        values = {"data": data, "width": width, "height": height, "caption": caption, "id": new_id()}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def suffix(self) -> str:  # noqa: D102
        return ".png"

    def content(self) -> bytes:  # noqa: D102
        return self.data

    def facts(self) -> dict[str, Any]:  # noqa: D102
        facts = {"format": "png", "width": self.width, "height": self.height, "caption": self.caption}
        return {name: value for name, value in facts.items() if value is not None}

    def __repr__(self) -> str:
        return f"Image({self.width}x{self.height})"


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Histogram(Medium):
    """How often values fall between edges.

    Made from the values themselves, or with ``from_counts`` from what was counted elsewhere. Values that are not
    finite are counted apart; no values and all-equal values are fine.

    Args:
        values: Numbers, any shape.
        bins: Number of bins, or their edges in rising order.
        weights: How many values each of them stands for. None: one.

    Attributes:
        edges: Edges of the bins, rising, one more than there are bins.
        counts: Number of values in each bin.
        count: Number of finite values.
        nonfinite: Number of NaN and infinite values.
        minimum: Smallest finite value, NaN where there is none.
        maximum: Largest finite value, likewise.
        total: Sum of the finite values.
        squares: Sum of their squares.
    """

    kind: ClassVar[str] = "histogram"

    edges: tuple[float, ...]
    counts: tuple[float, ...]
    count: int
    nonfinite: int
    minimum: float
    maximum: float
    total: float
    squares: float
    id: str

    def __init__(
        self, values: npt.ArrayLike, bins: int | Sequence[float] = 64, weights: npt.ArrayLike | None = None
    ) -> None:
        array = np.asarray(values, dtype=np.float64).ravel()
        each = np.ones(array.size) if weights is None else np.asarray(weights, dtype=np.float64).ravel()
        is_finite = np.isfinite(array)
        finite, each_finite = array[is_finite], each[is_finite]
        counts, edges = _count(finite, bins, each_finite)
        self._fill(
            edges=tuple(edges.tolist()),
            counts=tuple(counts.tolist()),
            count=round(each_finite.sum()),
            nonfinite=round(each.sum() - each_finite.sum()),
            minimum=float(finite.min()) if finite.size else math.nan,
            maximum=float(finite.max()) if finite.size else math.nan,
            total=_finite((finite * each_finite).sum()),
            squares=_finite((np.square(np.clip(finite, -1e153, 1e153)) * each_finite).sum()),
            id=new_id(),
        )

    @classmethod
    def from_counts(cls, edges: Sequence[float], counts: Sequence[float]) -> Histogram:
        """Make one from what was counted: ``len(edges) == len(counts) + 1``, edges rising.

        Raises:
            ValueError: They do not fit together.
        """
        if len(edges) != len(counts) + 1 or not np.all(np.diff(edges) > 0):
            raise ValueError(
                f"Histogram.from_counts needs rising edges, one more than counts; got {len(edges)} edges and "
                f"{len(counts)} counts."
            )
        middles = (np.asarray(edges[:-1], float) + np.asarray(edges[1:], float)) / 2
        weights = np.asarray(counts, float)
        filled = np.flatnonzero(weights)
        histogram = cls.__new__(cls)
        histogram._fill(
            edges=tuple(float(edge) for edge in edges),
            counts=tuple(float(count) for count in counts),
            count=int(weights.sum()),
            nonfinite=0,
            minimum=float(edges[filled[0]]) if filled.size else math.nan,
            maximum=float(edges[filled[-1] + 1]) if filled.size else math.nan,
            total=float((middles * weights).sum()),
            squares=float((middles**2 * weights).sum()),
            id=new_id(),
        )
        return histogram

    @property
    def suffix(self) -> str:  # noqa: D102
        return ".json"

    def content(self) -> bytes:  # noqa: D102
        names = [f.name for f in fields(self) if f.name not in ("id", "note")]
        return json_bytes({name: getattr(self, name) for name in names})

    def facts(self) -> dict[str, Any]:  # noqa: D102
        return {"format": "json", "count": self.count}

    def quantile(self, share: float) -> float:
        """Return below which value this share of the values lies, as far as the bins tell; NaN where there is none."""
        if not self.count:
            return math.nan
        heights = np.concatenate([[0.0], np.cumsum(self.counts)])
        found = float(np.interp(share * heights[-1], heights, self.edges))
        return min(max(found, self.minimum), self.maximum)

    def _fill(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        return f"Histogram({self.count} values in {len(self.counts)} bins)"


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Artifact(Medium):
    """Any file, stored under the trial as it is.

    Args:
        source: The bytes, or the path of a file, which is read now.
        name: File name; its ending is kept. None: that of the path.

    Raises:
        ValueError: Bytes came without a name.
        OSError: The file cannot be read.
    """

    kind: ClassVar[str] = "artifact"

    data: bytes
    name: str
    id: str

    def __init__(self, source: bytes | str | Path, name: str | None = None) -> None:
        if isinstance(source, bytes):
            if not name:
                raise ValueError("Artifact(bytes) needs a name, for example Artifact(data, name='buffer.msgpack').")
            data = source
        else:
            data, name = Path(source).read_bytes(), name or Path(source).name
        if not isinstance(name, str):
            raise ValueError(f"Artifact(name=...) must be text, got a {type(name).__name__}.")
        for field_name, value in {"data": data, "name": name, "id": new_id()}.items():
            object.__setattr__(self, field_name, value)

    @property
    def suffix(self) -> str:  # noqa: D102
        return Path(self.name).suffix or ".bin"

    def content(self) -> bytes:  # noqa: D102
        return self.data

    def facts(self) -> dict[str, Any]:  # noqa: D102
        guessed = mimetypes.guess_type(Path(self.name).name)[0]  # of a whole path, which may look like a broken URL
        return {"name": self.name, "format": guessed or self.suffix.lstrip(".")}

    def __repr__(self) -> str:
        return f"Artifact({self.name!r}, {len(self.data)} bytes)"


def _count(
    values: npt.NDArray[np.float64], bins: int | Sequence[float], weights: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Count finite values in bins: none, all equal, too close together or too far apart for so many bins, or any."""
    if np.ndim(bins):
        return np.histogram(values, bins=bins, weights=weights)
    if not values.size:
        return np.zeros(1), np.array([0.0, 1.0])
    low, high = float(values.min()), float(values.max())
    try:
        with np.errstate(over="raise"):
            return np.histogram(values, bins=bins, weights=weights)
    except (ValueError, FloatingPointError):  # numbers are not dense enough there, or the range is not finite
        return np.array([weights.sum()]), np.array([low, max(high, float(np.nextafter(low, np.inf)))])


def _finite(value: Any) -> float:
    """Return a sum, or the largest number where it is larger than that."""
    return float(np.clip(value, -np.finfo(np.float64).max, np.finfo(np.float64).max))


def is_whole_mp4(data: bytes) -> bool:
    """Say whether bytes are an mp4 whose description and pictures are all there, as far as its boxes tell."""
    at = 0
    found: set[bytes] = set()
    while at + 8 <= len(data) and not {b"moov", b"mdat"} <= found:
        size, kind, head = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8], 8
        if size == 1:  # the size proper comes after the kind
            size, head = int.from_bytes(data[at + 8 : at + 16], "big"), 16
        elif size == 0:  # it reaches to the end
            size = len(data) - at
        if size < head or at + size > len(data) or (at == 0 and kind != b"ftyp"):
            return False
        found.add(kind)
        at += size
    return {b"moov", b"mdat"} <= found


def json_bytes(value: Any) -> bytes:
    """Write JSON that every parser reads, in one line: numpy becomes numbers and lists, what is not finite null.

    Text that holds what cannot be seen (ends of lines, marks that turn the direction of writing, halves of characters)
    is escaped. What refers to itself or is nested too deep becomes null, too.
    """
    plain = _plain(value, ())
    text = json.dumps(plain, allow_nan=False, ensure_ascii=False)
    return (text if text.isprintable() else json.dumps(plain, allow_nan=False)).encode()


def shown(value: Any, text: Callable[[Any], str] = repr) -> str:
    """Return a value as text, or its type's name where it has none: what people report may raise when asked."""
    try:
        return text(value)
    except Exception:
        return f"<{type(value).__name__}>"


def is_a(value: Any, kinds: type | tuple[type, ...]) -> bool:
    """Say what a value is, whatever it says itself: ``isinstance`` asks its ``__class__``, which may lie or raise."""
    return issubclass(type(value), kinds)


def _plain(value: Any, around: tuple[int, ...]) -> Any:
    if type(value) is float:  # most are
        return value if math.isfinite(value) else None
    if is_a(value, (Mapping, list, tuple, set, frozenset)):
        if id(value) in around or len(around) > _MOST_JSON_LEVELS:
            return None
        inside = (*around, id(value))
        try:
            if is_a(value, Mapping):
                return {shown(key, str): _plain(item, inside) for key, item in value.items()}
            return [_plain(item, inside) for item in value]
        except Exception:  # what raises when it is looked into
            return shown(value, str)
    if is_a(value, np.ndarray):
        if id(value) in around:
            return None
        return _plain(value.tolist(), (*around, id(value)))
    if is_a(value, np.generic):
        value = value.item()
    if is_a(value, float) and not math.isfinite(value):
        return None
    if value is None or is_a(value, (bool, float, str)) or (is_a(value, int) and value.bit_length() <= _MOST_JSON_BITS):
        return value
    return shown(value, str)
