"""An encoded clip."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy.typing as npt
from typing_extensions import override

from tune_media.values.checks import a_text, an_instance, as_shown, check_each, file_content
from tune_media.values.episode_record import EpisodeRecord
from tune_media.values.in_notebook import clip_html
from tune_media.values.medium import Medium, joined, new_id
from tune_media.values.number import counted
from tune_media.values.options import VideoOptions

if TYPE_CHECKING:
    from tune_media.encoding.encoder import EncodedVideo

_TAKES = {
    "options": an_instance("a tune_media.VideoOptions", VideoOptions),
    "episode": an_instance("a tune_media.EpisodeRecord", EpisodeRecord),
    "note": a_text("'cut short'", or_none=True),
}
_OF_A_CLIP = {name: _TAKES[name] for name in ("episode", "note")} | {"id": a_text("'5c1e'", or_none=True)}
_FACTS = ("data", "width", "height", "frames", "fps", "frame_stride", "compared", "recipe_hash")


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Video(Medium):
    """An encoded clip: H.264 in an mp4, held as bytes.

    The frames are encoded at once, one after the other, and not kept. They may come from a generator:

    >>> import numpy as np
    >>> clip = Video((np.full((48, 64, 3), 20 * t, np.uint8) for t in range(5)), fps=10)
    >>> clip.frames, clip.fps, clip.width, clip.height
    (5, 10.0, 64, 48)

    Use ``Video.from_file`` for a finished mp4.

    Args:
        frames: THWC uint8 RGB frames: an array, or any iterable of HWC frames.
        fps: Frames per second.
        layout: ``THWC`` (1, 3 or 4 channels), ``TCHW`` or ``THW`` (grey).
        value_range: 255 for uint8, or 1.0 for floats in 0..1.
        options: Size, quality, and ``every`` for a clip of every n-th frame.
        episode: The record of the episode that the clip shows.
        note: A remark for viewers.

    Raises:
        ValueError: The frames do not have this layout, or there are no frames.
        TypeError: An argument of the wrong type.
    """

    kind: ClassVar[str] = "video"
    suffix = ".mp4"

    data: bytes
    width: int
    height: int
    frames: int
    fps: float
    episode: EpisodeRecord | None
    note: str | None
    frame_stride: int | None
    id: str
    compared: str | None = None
    recipe_hash: str | None = None

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
        # loads PyAV, which code that only reads results does not need
        from tune_media.encoding.encoder import encode_video
        from tune_media.encoding.frames import frames_in_layout

        if isinstance(frames, (bytes, bytearray, memoryview, str, Path)):
            raise ValueError(f"Video takes frames, got {type(frames).__name__}; Video.from_file takes a finished mp4.")
        if not isinstance(frames, Iterable):
            raise TypeError(
                f"Video takes frames: a THWC uint8 array, or HWC arrays one by one; got {as_shown(frames)}."
            )
        shape = getattr(frames, "shape", ())
        if len(shape) == 3 and isinstance(layout, str) and layout == "THWC":
            raise ValueError(
                f"Video takes the frames of a clip, four axes (THWC), got shape {tuple(shape)}. For a single picture, "
                "use tune_media.Image; for grey frames (time, height, width), pass layout='THW'."
            )
        check_each("Video", {"options": options, "episode": episode, "note": note}, _TAKES)
        options = options or VideoOptions()
        encoded = encode_video(
            frames_in_layout(frames, layout, value_range),
            options.fps or fps,
            every=options.every,
            **options.encoder_keywords(),
        )
        self._fill(encoded, episode=episode, note=joined(note, encoded.note), id=new_id())

    @classmethod
    def from_encoded(
        cls,
        encoded: EncodedVideo,
        *,
        episode: EpisodeRecord | None = None,
        note: str | None = None,
        id: str | None = None,
    ) -> Video:
        """Wrap a clip that the streaming encoder finished. Raises TypeError."""
        if any(not hasattr(encoded, name) for name in _FACTS):
            told = "takes a clip of the streaming encoder; Video.from_file takes a finished mp4, got"
            raise TypeError(f"Video.from_encoded(encoded) {told} {as_shown(encoded)}.")
        if not (
            isinstance(episode, EpisodeRecord | None) and isinstance(note, str | None) and isinstance(id, str | None)
        ):
            check_each("Video.from_encoded", {"episode": episode, "note": note, "id": id}, _OF_A_CLIP)
        video = cls.__new__(cls)
        video._fill(encoded, episode=episode, note=note or encoded.note, id=id or new_id())
        return video

    @classmethod
    def from_file(cls, path: str | Path, *, episode: EpisodeRecord | None = None, note: str | None = None) -> Video:
        """Read a finished mp4; its bytes stay as they are.

        Raises:
            ValueError: The file is not an mp4 that FFmpeg can read, or it is incomplete.
            OSError: The file cannot be read.

        Example:
            ``tune.report({"simulation": tm.Video.from_file("simulation.mp4")})``
        """
        from tune_media.encoding.decode import probe_video

        data = file_content("Video.from_file(path)", path)
        if data[4:8] != b"ftyp":
            raise ValueError(f"{str(path)!r} is no mp4, or no video at all; read its frames and make a Video of them.")
        if not is_whole_mp4(data):
            raise ValueError(f"{str(path)!r} is an incomplete mp4 ({len(data)} bytes); copy or record it again.")
        return cls.from_encoded(probe_video(data, str(path)), episode=episode, note=note)

    def of_episode(self, episode: EpisodeRecord, note: str | None = None) -> Video:
        """Return the same clip, with the same id, another record of its episode, and another note before its own."""
        if not (isinstance(episode, EpisodeRecord | None) and isinstance(note, str | None)):
            check_each("Video.of_episode", {"episode": episode, "note": note, "id": None}, _OF_A_CLIP)
        video = Video.__new__(Video)
        video._fill(self, episode=episode, note=joined(note, self.note), id=self.id)
        return video

    @override
    def content(self) -> bytes:
        if not is_whole_mp4(self.data):
            raise ValueError(
                f"The {len(self.data)} bytes of this Video are not a complete mp4; make it with Video.from_file."
            )
        return self.data

    @override
    def facts(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"format": "mp4", "width": self.width, "height": self.height}
        fields |= {"frames": self.frames, "fps": self.fps}
        if self.compared is not None:
            fields |= {"compared": self.compared, "recipe": self.recipe_hash}
        if self.frame_stride is not None:
            fields["frame_stride"] = self.frame_stride
        return fields | (self.episode.facts() if self.episode else {})

    def _fill(self, encoded: EncodedVideo | Video, **others: Any) -> None:
        self._set(**{name: getattr(encoded, name) for name in _FACTS}, **others)

    def _repr_html_(self) -> str:
        summary = f"return {self.episode.episode_return:g}, " if self.episode else ""
        return clip_html(self.data, f"{summary}{counted(self.frames, 'frame')}{f', {self.note}' if self.note else ''}")

    def __repr__(self) -> str:
        size = f"{len(self.data) / 1000:.1f} kB"
        return f"Video({self.frames} frames, {self.width}x{self.height}, {self.fps:g} fps, {size})"


def is_whole_mp4(data: bytes) -> bool:
    """Return whether an mp4 is complete, judged by its boxes: its header and its pictures are there, in full."""
    start = 0
    kinds: set[bytes] = set()
    while start + 8 <= len(data) and not {b"moov", b"mdat"} <= kinds:
        size, kind, head = int.from_bytes(data[start : start + 4], "big"), data[start + 4 : start + 8], 8
        if size == 1:  # the real size follows the kind
            size, head = int.from_bytes(data[start + 8 : start + 16], "big"), 16
        elif size == 0:  # this box reaches to the end
            size = len(data) - start
        if size < head or start + size > len(data) or (start == 0 and kind != b"ftyp"):
            return False
        kinds.add(kind)
        start += size
    return {b"moov", b"mdat"} <= kinds
