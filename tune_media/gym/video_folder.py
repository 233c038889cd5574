"""The folder that clips are written to, and their file names."""

from __future__ import annotations

from pathlib import Path

from tune_media.values.names import safe_name
from tune_media.values.video import Video


class VideoFolder:
    """Writes clips as ``<prefix>-<name>.mp4``, or ``<prefix>-env-<i>-<name>.mp4`` if there are several sub-envs.

    A file that exists is never overwritten: the name of the new one ends with the clip's id.

    Args:
        folder: The folder. It is created if it is missing.
        prefix: The beginning of each file name.
        count: Number of sub-envs.

    Raises:
        OSError: The folder cannot be created.

    Example:
        >>> import tempfile
        >>> from tune_media import Video
        >>> folder = VideoFolder(Path(tempfile.mkdtemp()), "eval", count=4)
        >>> folder.write(2, "episode-7", Video(np.zeros((5, 48, 64, 3), np.uint8)), view="cam/left").name
        'eval-env-2-episode-7-cam_left.mp4'
    """

    def __init__(self, folder: Path, prefix: str, count: int) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            reason = "it is a file" if folder.is_file() else error.strerror
            raise type(error)(
                f"RecordEpisodes(video_folder={str(folder)!r}) cannot be made: {reason}. Pass a folder that you may "
                "write to; it need not exist."
            ) from error
        self._folder, self._prefix, self._count = folder, prefix, count

    def write(self, index: int, name: str, video: Video, *, view: str = "", whole: bool = True) -> Path:
        """Write a clip.

        Args:
            index: Its sub-env.
            name: Its episode or first step.
            video: The clip.
            view: The name of its view, if there are several.
            whole: Whether it ended as planned. If not, its name says ``unfinished``.

        Returns:
            The path of the file.

        Raises:
            OSError: The file cannot be written.
        """
        parts = [self._prefix, *([f"env-{index}"] if self._count > 1 else []), name]
        if view:
            parts.append(safe_name(view))
        if not whole:
            parts.append("unfinished")
        path = self._folder / f"{'-'.join(parts)}.mp4"
        try:
            file = path.open("xb")
        except FileExistsError:
            path = path.with_name(f"{path.stem}-{video.id[:12]}.mp4")
            file = path.open("xb")
        with file:
            file.write(video.data)
        return path
