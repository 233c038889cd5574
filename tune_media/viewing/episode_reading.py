"""Reads the episodes of all trials from their Parquet files, beside the requests for pages of them."""

from __future__ import annotations

import posixpath
import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tune_media.experiment.params import differing
from tune_media.experiment.trial_files import TrialFiles
from tune_media.storage import episode_files
from tune_media.storage.entry import LOST, why_missing
from tune_media.storage.passed_over import warn_passed_over
from tune_media.values import strict_json
from tune_media.values.episodes import UNKNOWN
from tune_media.values.medium import joined
from tune_media.values.secrets import error_text
from tune_media.values.threads import start_thread
from tune_media.viewing.conditions import Mask, Texts, as_numpy
from tune_media.viewing.episode_columns import entries_of_maps, numbers_of_maps
from tune_media.viewing.episode_table import EpisodeTable, trial_names
from tune_media.viewing.payload import ShownParams

_NUMBERS = (
    "step",
    "training_iteration",
    "episode_return",
    "episode_length",
    "terminated",
    *episode_files.SUCCESS,
    "seed",
)
_TEXTS = ("section", "task", "note")
_SHOWN = ("trial", "section", *_NUMBERS, "task", "note")
_READ = [*_TEXTS, *_NUMBERS, "episode_id", "metrics", "values", "clips", "tape_bytes"]
_LONGEST = 200  # characters of a text that is in the table
_THREADS = 16
_AT_ONCE = 32  # files whose episodes join the table together
_AT_FIRST = 4
_FIRST = 2.0  # seconds to wait for the first episodes, on a slow disk
_ROOM = 1024  # rows for which there is room at the start


class EpisodeFiles:
    """Reads the episode files of trials, each once, since none changes. Any thread may ask for the table."""

    def __init__(self) -> None:
        self._episodes = _Episodes()
        self._wanted: dict[str, TrialFiles] = {}
        self._done: dict[str, tuple[TrialFiles, Any]] = {}  # by its path, each trial and the state of it that was read
        self._files: dict[str, dict[str, int]] = {}  # of each trial: the number of each file
        self._made: tuple[Any, EpisodeTable] | None = None  # of the version that it was made of
        self._differing: tuple[list[Any], list[str]] | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Condition()

    def table(self, trials: Sequence[TrialFiles], patience: float | None = None) -> EpisodeTable:
        """Return the table of the episodes that the trials have not left behind.

        It waits until all files are read, or for ``patience`` seconds; then it has those that were read.
        """
        with self._lock:
            self._wanted = {trial.path: trial for trial in trials}
            self._episodes.know(self._wanted)
            if self._thread is None and self._stale():
                self._thread = start_thread("tune_media-episode-files", self._read_all)
            self._lock.wait_for(lambda: self._thread is None, patience)
            self._lock.wait_for(lambda: self._thread is None or len(self._episodes) > 0, _FIRST)
            read = 1 - len(self._stale()) / len(self._wanted) if self._wanted else 1.0
            version = self._episodes.version, tuple(self._wanted), read
            if self._made is None or self._made[0] != version:
                self._made = version, self._episodes.table(self._wanted, self._configs(), read)
            return self._made[1]

    def _configs(self) -> list[str]:
        """Return the names of the hyperparameters that differ between the trials."""
        params = [trial.config for trial in self._wanted.values()]
        if self._differing is None or [*map(id, params)] != [*map(id, self._differing[0])]:
            self._differing = params, differing(params)
        return self._differing[1]

    def _stale(self) -> list[TrialFiles]:
        return [trial for trial in self._wanted.values() if self._done.get(trial.path) != (trial, trial.state)]

    def _read_all(self) -> None:
        """Read the files of all trials that have changed; the thread ends when there are none."""
        try:
            with ThreadPoolExecutor(_THREADS) as pool:
                while True:
                    with self._lock:
                        todo = self._stale()
                        if not todo:
                            self._end()
                            return
                    for part in self._parts(todo):
                        new = [(trial, path) for trial, _, paths in part for path in paths]
                        tables = list(pool.map(lambda item: _read(*item), new))
                        with self._lock:
                            self._take(part, tables)
                            self._lock.notify_all()
        finally:  # after an error, no thread waits for ever
            with self._lock:
                if self._thread is threading.current_thread():
                    self._end()

    def _end(self) -> None:
        self._thread = None
        self._lock.notify_all()
        pa.default_memory_pool().release_unused()

    def _parts(self, trials: Sequence[TrialFiles]) -> Iterator[list[tuple[TrialFiles, Any, list[str]]]]:
        """Yield trials with some new files; with the last of a trial's comes the state that they make."""
        part: list[tuple[TrialFiles, Any, list[str]]] = []
        for trial in trials:
            state, is_left = trial.state, trial.report_files
            known = self._files.setdefault(trial.path, {})
            with self._lock:
                for path, number in known.items():
                    self._episodes.mark(number, left=is_left.get(path, True))
            new = [path for path, left in is_left.items() if path not in known and not left]
            while len(new) > (count := _AT_ONCE if len(self._episodes) else _AT_FIRST):
                yield [(trial, None, new[:count])]
                new = new[count:]
            part.append((trial, state, new))
            if sum(len(paths) for _, _, paths in part) >= _AT_ONCE:
                yield part
                part = []
        yield part

    def _take(self, part: list[tuple[TrialFiles, Any, list[str]]], tables: Sequence[pa.Table | None]) -> None:
        unread = iter(tables)
        taken = []
        for trial, state, paths in part:
            for path in paths:
                number = self._files[trial.path][path] = self._episodes.new_file(path)
                if (table := next(unread)) is not None:
                    taken.append((trial.path, number, table))
            if state is not None:
                self._done[trial.path] = trial, state
                self._episodes.version += 1  # other media may be missing
        try:
            self._episodes.add(taken)
        except Exception:  # of one file; the others are taken
            for one in taken:
                self._add(*one)

    def _add(self, path: str, number: int, table: pa.Table) -> None:
        """Add the episodes of one file; if they cannot be, they are left out, with a warning."""
        try:
            self._episodes.add([(path, number, table)])
        except Exception as error:
            file = posixpath.join(path, episode_files.parquet_name(self._episodes.reports[number]))
            warn_passed_over(file, f"its episodes are left out: {error_text(error)}")


class _Episodes:
    """The columns of all episodes that were read; they grow, so that a new report costs no look at the others."""

    def __init__(self) -> None:
        self.version = self._count = self._room = 0
        self._columns: dict[str, npt.NDArray[Any]] = {}  # longer than the number of rows
        self._texts: dict[str, dict[str, int]] = {name: {} for name in ("path", *_TEXTS)}
        self._ids: list[pa.StringArray] = []
        self._clips: dict[int, str] = {}
        self._is_left: list[bool] = []  # of each file
        self.reports: list[str] = []  # the path of each file in its trial's index

    def __len__(self) -> int:
        return self._count

    def know(self, paths: Iterable[str]) -> None:
        """Take note of trials, whether they have episodes or not."""
        for path in paths:
            self._text("path", path)

    def new_file(self, report: str) -> int:
        """Return the number of a file, by its path in its trial's index."""
        self._is_left.append(False)
        self.reports.append(report)
        return len(self._is_left) - 1

    def mark(self, file: int, *, left: bool) -> None:
        """Note whether the trial has left behind the episodes of a file."""
        if self._is_left[file] != left:
            self._is_left[file] = left
            self.version += 1

    def add(self, tables: Sequence[tuple[str, int, pa.Table]]) -> None:
        """Add the episodes of some files; of each, the path of its trial and its number."""
        if not tables:
            return
        self.version += 1
        counts = [len(table) for _, _, table in tables]
        joined = pa.concat_tables([table for _, _, table in tables], promote_options="default")
        is_known = pc.not_equal(joined["episode_id"], UNKNOWN)
        joined, keep = joined.filter(is_known), as_numpy(is_known).astype(bool)
        new = slice(self._count, self._count + len(joined))
        if new.stop > self._room:
            self._grow(_ROOM + new.stop * 5 // 4)
        paths = [self._text("path", path) for path, _, _ in tables]
        self._put("path", new, np.repeat(np.array(paths, np.int32), counts)[keep])
        files = np.repeat(np.array([file for _, file, _ in tables], np.int32), counts)[keep]
        self._put("file", new, files)
        self._put("tape", new, np.where(as_numpy(joined["tape_bytes"].is_valid()), files, np.int32(-1)))
        for name in _NUMBERS:
            self._put(name, new, as_numpy(joined[name]))
        for name in _TEXTS:
            self._put(name, new, self._numbers(name, joined[name]))
        for name, values in numbers_of_maps(joined["metrics"], len(joined)):
            self._put(f"metrics/{name}", new, values)
        for name, rows, own in _texts_of(joined["values"], len(joined)):
            numbers = np.full(len(joined), -1, np.int32)
            numbers[rows] = [self._text(f"values/{name}", text) for text in own]
            self._put(f"values/{name}", new, numbers)
        clips = _clips_of(joined["clips"]) if len(joined) else ()
        self._clips |= {new.start + row: path for row, path in clips}
        self._ids += joined["episode_id"].chunks
        self._count = new.stop

    def table(self, trials: dict[str, TrialFiles], configs: Sequence[str], read: float) -> EpisodeTable:
        """Return the table of the episodes of some trials, by path, with some of their hyperparameters."""
        if not self._count:
            return EpisodeTable({}, read=read)
        own = {name: values[: self._count] for name, values in self._columns.items()}
        path, file, tapes = own.pop("path"), own.pop("file"), own.pop("tape")
        self._ids = [pa.concat_arrays(self._ids)]
        known = [trials.get(text) for text in self._texts["path"]]
        own["note"] = self._with_reasons(own["note"], path, known)
        columns: dict[str, Any] = {
            name: Texts(values, pa.array(list(self._texts[name]), pa.string())) if name in self._texts else values
            for name, values in own.items()
        }
        names = [
            posixpath.basename(text) if trial is None else trial.name
            for text, trial in zip(self._texts["path"], known, strict=True)
        ]
        columns["trial"] = trial_names(path, names)
        ordered = {name: columns.pop(name) for name in _SHOWN} | columns
        if np.isnan(own["success"]).all():  # episodes do not say whether they succeed
            del ordered["success"]
        if not (own["success_once"] > own["success_at_end"]).any():  # no episode was a success before its end alone
            del ordered["success_once"], ordered["success_at_end"]
        if (own["note"] < 0).all():
            del ordered["note"]
        ordered["episode_id"] = Texts(np.arange(self._count, dtype=np.int32), self._ids[0])
        counting: Mask | None = None
        if any(self._is_left) or None in known:
            gone = np.array([trial is None for trial in known])
            counting = ~np.array(self._is_left)[file] & ~gone[path]
        shown = ShownParams()
        params = [{} if trial is None else shown.all(trial.config) for trial in known]
        return EpisodeTable(ordered, self._clips, params, configs, counting, read, tapes, self.reports)

    def _with_reasons(
        self, notes: npt.NDArray[np.int32], path: npt.NDArray[np.int32], trials: Sequence[TrialFiles | None]
    ) -> npt.NDArray[np.int32]:
        """Return the notes of the episodes, with the reason why a clip that was chosen has no file."""
        missing = {
            (number, line["path"]): line for number, trial in enumerate(trials) if trial for line in trial.missing
        }
        if not missing:
            return notes
        notes, texts = notes.copy(), [*self._texts["note"], None]  # -1: no note
        for row, clip in self._clips.items():
            if line := missing.get((int(path[row]), clip)):
                why = f"{'its clip was lost: ' if line['status'] in LOST else ''}{why_missing(line)}"
                notes[row] = self._text("note", joined(texts[notes[row]], why))
        return notes

    def _text(self, name: str, text: str | None) -> int:
        known = self._texts.setdefault(name, {})
        return -1 if text is None else known.setdefault(text, len(known))

    def _numbers(self, name: str, texts: pa.ChunkedArray) -> npt.NDArray[np.int32]:
        """Return the number of each text of a column; -1 of none."""
        coded = texts.combine_chunks().dictionary_encode()
        own = [self._text(name, text) for text in coded.dictionary.to_pylist()]
        numbers: npt.NDArray[np.int32] = np.array([*own, -1], np.int32)[np.from_dlpack(coded.indices.fill_null(-1))]
        return numbers

    def _put(self, name: str, rows: slice, values: npt.NDArray[Any]) -> None:
        if name not in self._columns:
            self._columns[name] = _empty(self._room, values.dtype)
        self._columns[name][rows] = values

    def _grow(self, room: int) -> None:
        for name, values in self._columns.items():
            self._columns[name] = _empty(room, values.dtype)
            self._columns[name][: self._count] = values[: self._count]
        self._room = room


def _empty(count: int, dtype: Any) -> npt.NDArray[Any]:
    return np.full(count, np.nan if np.issubdtype(dtype, np.floating) else -1, dtype)


def _texts_of(maps: pa.ChunkedArray, count: int) -> Iterable[tuple[str, npt.NDArray[np.int64], list[str]]]:
    """Yield each name of a column of maps of JSON that has short texts: the rows that have one, and the texts."""
    if not count:
        return
    row, keys, values = entries_of_maps(maps, count)
    is_short = pc.less_equal(pc.binary_length(values), _LONGEST)
    is_text = pc.fill_null(pc.and_(pc.starts_with(values, '"'), is_short), False)
    names, texts = keys.filter(is_text), values.filter(is_text)
    rows = row[as_numpy(is_text).astype(bool)]
    for name in names.unique().to_pylist():
        own = pc.equal(names, name)
        found = [strict_json.parse_json(text.encode()) for text in texts.filter(own).to_pylist()]
        yield name, rows[as_numpy(own).astype(bool)], found


def _clips_of(maps: pa.ChunkedArray) -> Iterator[tuple[int, str]]:
    """Yield the row and the path of the first clip of each episode that has one."""
    rows, paths, _ = entries_of_maps(maps, len(maps))
    first = np.unique(rows, return_index=True)[1]
    return zip(rows[first].tolist(), paths.take(pa.array(first)).to_pylist(), strict=True)


def _read(trial: TrialFiles, report: str) -> pa.Table | None:
    try:
        return trial.episodes(report, _READ)
    except Exception as error:  # of one file: it is gone, or broken
        trial.pass_over(episode_files.parquet_name(report), error)
        return None
