"""Makes the tiled clip of a round of the files of its clips, when these are stored."""

from __future__ import annotations

import posixpath
import subprocess
from collections.abc import Sequence
from typing import Any

from tune_media.callbacks.outbox import STORAGE, Row
from tune_media.callbacks.services import Services
from tune_media.experiment.trial_files import TrialFiles
from tune_media.replay.render_pool import background_niceness
from tune_media.storage.entry import MediaEntry
from tune_media.storage.filesystem import read_if_there
from tune_media.values.child_process import ChildProcess
from tune_media.values.file_medium import FileMedium
from tune_media.values.plain import pack, unpack
from tune_media.values.tiled import TiledClips

_MOST_SECONDS = 300.0  # of one tiled clip
_BACKGROUND = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def tiled_content(clips: TiledClips, entries: Sequence[MediaEntry]) -> bytes:
    """Return the content of the row of a tiled clip: its note and its tiles, with the paths of a result's clips."""
    paths = {entry.medium.id: entry.path for entry in entries}
    tiles = [(tile.title, tile.caption, tile.clip and paths.get(tile.clip.id), tile.why) for tile in clips.tiles]
    return pack([clips.note, tiles])


class Tiler:
    """Makes the tiled clips of an experiment, each in a process of its own. The renderer's threads call all methods."""

    def __init__(self, services: Services) -> None:
        self._services, self._outbox = services, services.outbox
        self._stored_at: dict[int, int] = {}  # by the row of a tiled clip: the last row of its clips, or a later one
        self._process: ChildProcess | None = None
        self._is_over = False

    def may_make(self, row: Row) -> bool:
        """Return whether the clips of a tiled one are stored, now that none of them is to be rendered."""
        return self._outbox.position(STORAGE) >= self._stored_at.setdefault(row.seq, self._outbox.last)

    def made(self, row: Row, entry: MediaEntry) -> FileMedium:
        """Return the finished medium. Raises RuntimeError, OSError, or ContentLostError if its content is lost."""
        self._stored_at.pop(row.seq, None)
        note, tiles = unpack(row.content() or b"")
        whole = [(*tile[:2], *self._file_of(row.trial, *tile[2:])) for tile in tiles]
        return self._answer(pack([whole, entry.medium.id, note]))

    def _file_of(self, trial_id: str, path: str | None, why: str) -> tuple[bytes | None, str]:
        """Return the file of a clip, or None and why it is missing."""
        if path is None:
            return None, why
        start, filesystem = self._outbox.trial(trial_id), self._services.filesystem
        folder = posixpath.join(self._services.experiment, start.folder if start else trial_id)
        content = read_if_there(filesystem, posixpath.join(folder, path))
        if content is not None:
            return content, ""
        lines = TrialFiles(trial_id, filesystem, folder).read().missing
        return None, next((str(line.get("note")) for line in lines if line["path"] == path), "its file is gone")

    def _answer(self, request: bytes) -> FileMedium:
        self._process = process = ChildProcess(
            "tune_media.values.tiled",
            str(background_niceness()),
            variables=_BACKGROUND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            if self._is_over:  # since before there was a process that ``kill`` could see
                process.kill()
            answer: Any = process.popen.communicate(request, _MOST_SECONDS)[0]
        finally:
            process.kill()
            self._process = None
        made = unpack(answer) if answer else f"the process that tiles ended {process.last_words()}"
        if isinstance(made, FileMedium):
            return made
        raise RuntimeError(made)

    def kill(self) -> None:
        """End the process at once: ``made`` raises, now and from now on."""
        self._is_over, process = True, self._process
        if process is not None:
            process.kill()
