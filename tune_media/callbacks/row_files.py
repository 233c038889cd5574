"""The files and lines of the outbox's rows, and how the files get to the storage."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from tune_media.callbacks.experiment_log import TrialLines
from tune_media.callbacks.outbox import Row
from tune_media.callbacks.rows import AgainRow, BackRow, EpisodesRow, MediumRow
from tune_media.callbacks.services import Services
from tune_media.storage.entry import FAILED, ONLY_TAPE, WAITING, FileSet, file_set, line_of
from tune_media.storage.filesystem import link_once, write_atomically, write_once
from tune_media.storage.index_lines import AgainEvent, BackEvent, LogLine
from tune_media.values.secrets import error_text


@dataclass(eq=False)
class StorageRow:
    """A row on its way to the storage: lines for the log, and files, which may be refused a few times."""

    row: Row
    trial: TrialLines
    lines: list[LogLine] = field(default_factory=list)
    files: FileSet | None = None
    is_new: bool = True  # whether its file is not on the storage yet
    failures: int = 0
    is_done: bool = False  # whether all its files are


class RowFiles:
    """Makes the lines and files of rows, and writes the files."""

    def __init__(self, services: Services) -> None:
        self._services, self._summary = services, services.summary
        self._recipes: set[str] = set()  # that are there: they come with each tape

    def of(self, row: Row, trial: TrialLines, *, has_lines: bool) -> StorageRow:
        """Return the lines and files of a row; ``has_lines``: whether the trial has any before this row."""
        made = StorageRow(row, trial)
        about = trial.folder, row.trial, row.seq
        if row.kind in ("start", "end"):
            trial.is_over = row.kind == "end"
        elif row.kind == "back":
            made.lines = [BackEvent(*about, row.read(BackRow).training_iteration)] if has_lines else []
        elif row.kind == "again":
            made.lines = [AgainEvent(*about, row.read(AgainRow).id)]
        else:
            media = row.media()
            if row.kind == "tape":
                self._list(made, media, WAITING, "")
            elif media.lost:  # before it got here
                self._list(made, media, media.lost, media.note)
            else:
                self._make_files(made, media)
        return made

    def _make_files(self, made: StorageRow, media: MediumRow | EpisodesRow) -> None:
        row, trial, faults = made.row, made.trial, self._services.faults
        number = media.result_row(row.seq)
        try:
            files = file_set(media.entries(row.content(), row.seq), row.trial, number)
        except Exception as error:
            faults.report("the store", f"writing {media.path}", error)
            self._list(made, media, FAILED, error_text(error))
            return
        if files.problems:
            faults.report("the store", f"writing {files.path}", ValueError(files.problems))
        for name in [name for name in files.files if trial.location.on_storage(name) in self._recipes]:
            del files.files[name]
        rows = [trial.rows.get(line.place) for line in files.lines]
        if None not in rows:  # it was stored before, or it came again before the lines of earlier runs were read
            if any(before < number for before in rows if before is not None):
                ids = dict.fromkeys(line.id for line in files.lines)
                made.lines = [AgainEvent(trial.folder, row.trial, row.seq, id) for id in ids]
            return
        files.lines = [
            replace(line, trial=trial.folder, tries=trial.tries.get(line.place, -1) + 1) for line in files.lines
        ]  # one try more for a medium that was listed without a file
        made.lines, made.files, made.is_new = [*files.lines], files, files.path not in trial.paths
        trial.paths.add(files.path)

    def _list(self, made: StorageRow, media: MediumRow | EpisodesRow, status: str, note: str) -> None:
        """Make the lines of media that have no file, or none yet, and why."""
        entries = media.names(made.row.seq)
        if status not in (WAITING, ONLY_TAPE):
            self._summary.lost(entries[0].path, len(entries))
        for entry in entries:
            is_clip = status == WAITING or media.tape is not None  # one that is, or was, to be rendered
            facts = {**(entry.medium.facts() if is_clip else {}), "note": note[:500] or None}
            line = line_of(entry, made.row.trial, media.result_row(made.row.seq), status, facts)
            made.lines.append(replace(line, trial=made.trial.folder))

    def write(self, made: StorageRow) -> None:
        """Write the files of a row, unless they are there, and count them; several threads call this."""
        if made.files is None:
            return
        row, filesystem = made.row, self._services.filesystem
        is_link = str(filesystem.type_name) == "local" and row.kind == "media"
        source = row.file if is_link else None
        for name, content in made.files.files.items():
            target = made.trial.location.on_storage(name)
            if name.startswith("../"):  # a recipe, whose name is the hash of its content
                write_once(filesystem, target, content)
                self._recipes.add(target)
            elif source is None or not link_once(source, Path(target)):
                write_atomically(filesystem, target, content)
        if row.kind == "episodes":
            self._summary.episodes(row.trial, made.files.episodes, made.files.nbytes)
        elif made.is_new:
            self._summary.stored(row.trial, made.files.nbytes)
