"""Makes the files of media whose content is not bytes yet: raw arrays, and media of the user's own classes."""

from __future__ import annotations

import dataclasses
import queue
import threading
from collections.abc import Callable

from tune_media.callbacks.faults import Faults
from tune_media.callbacks.outbox import Outbox
from tune_media.results.raw_clips import RawVideo
from tune_media.storage.entry import FAILED, MediaEntry, entries_of, packed_medium, packed_name
from tune_media.values.file_medium import FileMedium
from tune_media.values.medium import Medium
from tune_media.values.plain import MEDIA
from tune_media.values.secrets import error_text
from tune_media.values.strict_json import json_bytes, parse_json


class Maker:
    """One thread that makes contents, and gives them to the rows that wait for them.

    Tune's loop calls ``has_room``, ``make`` and ``close``.

    Args:
        outbox: The outbox.
        faults: Counts faults.
    """

    def __init__(self, outbox: Outbox, faults: Faults) -> None:
        self._outbox, self._faults = outbox, faults
        self._work: queue.SimpleQueue[tuple[int, MediaEntry | None] | None] = queue.SimpleQueue()
        self._nbytes = 0
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def has_room(self, nbytes: int, most_bytes: float) -> bool:
        """Say whether so many bytes more may wait."""
        return self._nbytes + nbytes <= most_bytes

    def make(self, seq: int, entry: MediaEntry | None) -> None:
        """Have the content of a row made: of a medium in memory, or of the raw array that the row holds."""
        if entry is not None:
            with self._lock:
                self._nbytes += entry.medium.nbytes
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="tune_media maker", daemon=True)
            self._thread.start()
        self._work.put((seq, entry))

    def close(self, seconds: float) -> None:
        """Wait until all is made, at most so long."""
        if self._thread is not None:
            self._work.put(None)
            self._thread.join(seconds)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            seq, entry = work
            nbytes = entry.medium.nbytes if entry is not None else 0
            try:
                self._complete(seq, entry if entry is not None else self._of_row(seq))
            except BaseException as error:
                name = entry.path if entry is not None else f"a raw array (row {seq})"
                reason = RuntimeError(error_text(error))
                self._faults.report("the store", f"keeping {name}", reason)
            with self._lock:
                self._nbytes -= nbytes
            del work, entry  # the next one may be long in coming

    def _of_row(self, seq: int) -> MediaEntry:
        (row,) = self._outbox.read(seq - 1, 1)
        facts = row.facts()
        (named,) = entries_of({name: facts[name] for name in facts if name not in ("lost", "note")}, None, seq)
        return dataclasses.replace(named, medium=RawVideo.unpacked(row.content() or b""))

    def _complete(self, seq: int, entry: MediaEntry) -> None:
        try:
            packed = packed_medium(dataclasses.replace(entry, medium=made_medium(entry.medium)))
        except Exception as error:
            reason = error_text(error)
            self._faults.report("the store", f"writing {entry.path}", error)
            self._outbox.complete(seq, packed_name(entry, lost=FAILED, note=reason), None)
            return
        self._outbox.complete(seq, *packed)


def made_medium(medium: Medium) -> Medium:
    """Return a medium as plain data: as it is, or as the finished file that it becomes.

    Raises:
        Exception: Its file cannot be made.
    """
    if type(medium) in MEDIA:
        return medium
    made: Callable[[], Medium] | None = getattr(medium, "made", None)
    if made is not None:
        return made()
    content = medium.content()
    facts = parse_json(json_bytes(medium.facts()))  # as the index has them
    return FileMedium(medium.kind, medium.id, medium.suffix, content, facts, medium.note)
