"""Stores what drivers that have ended left in their outboxes: ``tune-media deliver``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow.fs

from tune_media.callbacks.maker import Maker
from tune_media.callbacks.outbox import Outbox, outboxes_of
from tune_media.callbacks.services import Services
from tune_media.callbacks.storage_writer import StorageWriter
from tune_media.storage.filesystem import for_small_files, place_name
from tune_media.values.secrets import error_text


@dataclass(frozen=True)
class Delivery:
    """The outcome of delivering an outbox."""

    folder: Path
    line: str = ""  # what was stored, and what was not, or why it cannot be opened; empty if another process has it
    is_whole: bool = False  # whether the storage has everything that waited for it
    is_gone: bool = False  # whether nothing is left in it


def deliver(filesystem: pyarrow.fs.FileSystem, experiment: str, seconds: float) -> list[Delivery]:
    """Store what waits on this machine for the storage of an experiment; each outbox may take so many seconds.

    What waits for trackers stays, and so do tapes: ``Tuner.restore`` continues with both. Raises OSError if the folder
    of all outboxes cannot be read.
    """
    deliveries = []
    for folder in outboxes_of(place_name(filesystem, experiment)):
        try:
            outbox, line = Outbox.adopt(folder), ""
        except OSError as error:
            outbox, line = None, error_text(error)
        if outbox is None:
            deliveries.append(Delivery(folder, line))
            continue
        services = Services(outbox, for_small_files(filesystem), experiment, staging=None, name="")
        services.summary.has_new = True
        maker, writer = Maker(services), StorageWriter(services, {})
        maker.adopt()
        writer.begin()
        maker.close(seconds)
        is_whole = writer.close(seconds)
        if not is_whole:
            writer.count_unwritten()
        while outbox.tidy():
            pass
        is_whole, is_gone = is_whole and not outbox.has_parked, not outbox.read(0, 1)
        outbox.close(remove=is_gone)
        deliveries.append(Delivery(folder, services.summary.line(), is_whole, is_gone))
    return deliveries
