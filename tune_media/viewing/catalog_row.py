"""One recorded medium, as ``tune_media.load`` returns it."""

from __future__ import annotations

import html
import posixpath
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.fs

from tune_media.storage.filesystem import open_file
from tune_media.values import checks, in_notebook
from tune_media.values.image import Image
from tune_media.values.number import whole_number
from tune_media.values.secrets import error_text
from tune_media.viewing.data_frames import MEDIA_COLUMNS
from tune_media.viewing.front_end import SHOWN
from tune_media.viewing.saved_clip import save_medium


class CatalogRow(dict[str, Any]):
    """One recorded medium: a dict of its index line, with its trial, its hyperparameters and its file added.

    The fields of the index line are listed in ``docs/files.md``. Added are ``trial`` (the name of the trial's folder),
    ``params`` (the hyperparameters that Tune searched) and ``file`` (the path of the medium on its filesystem).
    ``abandoned`` is true, and there at all, if a killed driver left the trial and Tune started it again under another
    id. A field that the medium has not is None. A row prints in one line; ``dict(row)`` shows all of it.

    Example:
        ``catalog.best()["file"]``
    """

    def __init__(
        self,
        fields: dict[str, Any],
        open_filesystem: Callable[[], pyarrow.fs.FileSystem],
        config: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(fields)
        self._config = config or {}  # its trial's, which all of its rows share
        self._open_filesystem = open_filesystem

    @property
    def config(self) -> dict[str, Any]:
        """The whole config of the trial, nested values as ``outer/inner``."""
        return dict(self._config)

    def __missing__(self, name: str) -> None:
        """Return None for a field of the index that this medium has not; raise KeyError for any other name."""
        if name not in MEDIA_COLUMNS:
            raise KeyError(f"{name!r}; " + checks.did_you_mean(name, [*self, *MEDIA_COLUMNS], "the fields are"))

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self.get(name) for name in ("file", "section", "key", "step", "id")))

    def __repr__(self) -> str:
        place = f"{self.get('section')}/{self.get('key')} at step {self.get('step')}"
        shown_return = f", return {self['episode_return']:g}" if checks.is_number(self.get("episode_return")) else ""
        return f"{type(self).__name__}({self.get('trial')}: {self.get('kind')} {place}{shown_return})"

    def _repr_html_(self) -> str:
        kind, told = SHOWN.get(posixpath.splitext(str(self.get("file")))[1].lower()), repr(self)
        if kind is None:  # no clip and no picture
            return f"<p>{html.escape(told)}</p>"
        try:
            content = self.read_bytes() if whole_number(self.get("bytes")) <= in_notebook.MOST_BYTES else b""
        except OSError as error:
            return f"<p>{html.escape(f'{told}: {error_text(error)}')}</p>"
        return in_notebook.clip_html(content, told, kind) if content else f"<p>{html.escape(told)}</p>"

    def read_bytes(self) -> bytes:
        """Return the content of the medium's file, for a clip an mp4.

        Raises:
            FileNotFoundError: The file has been deleted since the index was read. Or the trial's folder on the driver
                names a folder on an object store that is not this trial's.
        """
        with open_file(self._open_filesystem(), self["file"]) as file:
            return bytes(file.read())

    def save(self, path: str | Path, *, width: int | None = None, fps: float | None = None) -> Path:
        """Write the medium to a file: as it is stored, or a clip as a GIF, for a slide.

        Args:
            path: The file to write. Its ending decides the format: for a clip ``.mp4`` or ``.gif``. Its folder is made
                if it is missing.
            width: The largest width of a GIF, pixels. None: that of the clip.
            fps: The most frames per second of a GIF, 1 to 50. None: those of the clip, at most 50, which is all that
                GIF can do.

        Returns:
            The path of the file.

        Raises:
            ValueError: The medium cannot be saved in this format, width or frame rate.
            TypeError: ``path`` is no path, or a number is none.
            OSError: The file cannot be read or written.

        Example:
            ``catalog.best().save("best.gif")``
        """
        return save_medium(self.read_bytes(), self["file"], path, width=width, fps=fps)

    def frames(self) -> Iterator[npt.NDArray[np.uint8]]:
        """Yield the frames of a clip, HWC uint8 RGB.

        Raises:
            ValueError: The medium is not a clip, or a broken one.
        """
        if self.get("kind") != "video":
            raise ValueError(f"{self['file']!r} is a medium of kind {self.get('kind')!r}; only clips have frames.")
        from tune_media.encoding.decode import decode_video

        yield from decode_video(self.read_bytes(), self["file"])

    def filmstrip(self, frames: int = 8, width: int = 1600) -> Image:
        """Return frames of a clip in a row, evenly spread, with the env step of each: a picture for a paper.

        Args:
            frames: The number of frames.
            width: Width of the picture, pixels.

        Raises:
            ValueError: The medium is not a clip.
            ImportError: Pillow is not installed.

        Example:
            ``pathlib.Path("best.png").write_bytes(catalog.best().filmstrip().data)``
        """
        from tune_media.viewing.filmstrip import Strip, filmstrip  # it loads PyAV

        if self.get("kind") != "video":
            raise ValueError(f"{self['file']!r} is a medium of kind {self.get('kind')!r}; only clips have frames.")
        return filmstrip([Strip(self.read_bytes(), self, name=self["file"])], frames=frames, width=width)
