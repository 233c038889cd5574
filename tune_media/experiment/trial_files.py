"""The files of one trial, as everything reads them: index lines, hyperparameters, results, media."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import json
import math
import os
import posixpath
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs

from tune_media.experiment import params, results
from tune_media.experiment.loop_results import (
    COLUMNS,
    LoopEpisodes,
    episodes_of_run,
    reported_of_run,
    results_of_run,
)
from tune_media.experiment.media_columns import MediaColumns
from tune_media.experiment.results import Metric, numbers_of
from tune_media.experiment.state import ExperimentState, Snapshots, TrialState
from tune_media.experiment.status import TRIAL_FAILED, UNENDED, TrialStatus, error_of, text_of_errors, tracebacks
from tune_media.foreign.configs import params_of_name
from tune_media.foreign.reading import read_run
from tune_media.foreign.run import ForeignRun
from tune_media.foreign.run_files import RunFiles
from tune_media.storage.clip_names import is_clip_name, is_part
from tune_media.storage.entry import LOST, ONLY_TAPE, STORED, UNRENDERED, may_be_rendered
from tune_media.storage.episode_files import episode_table, parquet_name
from tune_media.storage.filesystem import file_info, is_inside, is_local, json_file, open_file
from tune_media.storage.location import filesystem_of_trial, path_of
from tune_media.storage.log import read_log
from tune_media.storage.passed_over import passed_over, warn_passed_over
from tune_media.storage.trial_folder import PARAMS, RESULTS, plain_config
from tune_media.storage.trial_media import TrialContents, read_trial
from tune_media.values.checks import name_some
from tune_media.values.clip_columns import Columns
from tune_media.values.episodes import EpisodeBatch
from tune_media.values.in_notebook import facts_html
from tune_media.values.metric_names import main_metrics
from tune_media.values.number import as_number, counted
from tune_media.values.safe_names import name_digest, safe_name
from tune_media.values.score import finite_numbers
from tune_media.values.secrets import error_text, without_secret
from tune_media.values.strict_json import parsed_bytes
from tune_media.values.video import Video

_MAX_PARSED = 64 * 1024 * 1024  # bytes of results that are parsed for one chart
_MEDIA_FOLDER = "media/"
_EPISODE_FOLDER = "episode_data/"
_NUMBER = re.compile(r"_(\d{5,})(?:-|$)")  # in an evaluation, a hash follows
_OF_ARROW = ("s3", "gcs")  # filesystems far away that run no Python
_OBJECTS = (" at 0x", "<locals>")  # in the texts of objects that do not tell one from another

Line = dict[str, Any]
Version = tuple[int, int]
NO_FILE: Version = (0, 0)


class TrialFiles:
    """The files of one trial: the only class that reads them for ``tune_media.load``, the viewer and the trackers.

    ``read`` reads its media, ``refresh`` does it again if the index or the log has changed, everything else is read
    when it is first asked for. Any thread may ask; one at a time may call ``read`` and what begins with ``refresh``.
    """

    def __init__(
        self,
        name: str,
        filesystem: pyarrow.fs.FileSystem,
        path: str,
        columns: Columns | None = None,
        files: RunFiles | None = None,
    ) -> None:
        self.name = name  # as shown; the viewer's is what TensorBoard calls the run
        self._columns = columns  # of tables of other tools
        self.filesystem, self.path = filesystem, path
        self.version: Version | None = None  # size and mtime of the index that was read; None before ``refresh``
        self.results_version: Version | None = None  # the same of the results
        self.files = files  # of a run of another tool, as they were found last
        self.run: ForeignRun | None = None  # of these
        self.is_loop = False  # a loop outside Tune recorded its episodes: results are made of them
        self.is_abandoned = False  # see ``mark_abandoned``
        self.media = MediaColumns.of_lines([])  # the lines of its stored media, without those of episode reports
        self.reports = self.media  # the lines of its episode reports, the files of ``episode_data``
        # the line of the newest clip under each section and key that is only a tape
        self.tapes: list[Line] = []
        self.missing: list[Line] = []  # the lines of all media without a file: lost, or not rendered
        # section and key of each clip that is not rendered nor rolled back, by its episode's id
        self.unrendered: dict[str, list[tuple[str, str]]] = {}
        self.contents = TrialContents(path)  # what is known of its folder, without the lines
        # Tune's ids of the trials that wrote here, by the index: one, unless a folder was used again
        self.trial_ids: frozenset[str] = frozenset()
        self.newest = 0.0  # when its last medium was recorded, Unix time in seconds; 0: not known
        self._lines = 0  # a hash of all lines
        self._logged = -1  # how many lines the log had
        self._rows: tuple[MediaColumns, dict[str, int], dict[str, str]] | None = None  # see _looked_up
        self.tune_view: TuneView | None = None  # Tune's snapshots, if the trial was loaded
        self._error: str | None = None
        self._is_cut = False  # the last line of its results, as they were read last
        self._config: dict[str, Any] | None = None
        self._has_params: bool | None = None  # see ``_is_told_to_have_none``
        self._metrics: dict[str, Metric] | None = None
        self._last_metrics: dict[str, float] | None = None
        self._loop_tables: dict[str, pa.Table] = {}  # by the path of the report, which never changes
        self._loop_episodes: LoopEpisodes | None = None  # of these tables
        self._run_results: list[Line] | None = None  # of ``run``

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {len(self.media)} media)"

    def _repr_html_(self) -> str:
        settings = {name: without_secret(name, value) for name, value in self.params.items()}
        numbers: dict[str, float] = {}
        with contextlib.suppress(OSError):
            numbers = {name: self.last_metrics[name] for name in main_metrics(self.last_metrics)}
        status = {"status": "abandoned" if self.is_abandoned else self.status.word, "error": self.status.error}
        return facts_html(self.name, {**status, **settings, **numbers, "media": len(self.media)})

    @property
    def id(self) -> str:
        """A short name for URLs, made from ``name``."""
        return hashlib.blake2s(self.name.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()

    @property
    def experiment(self) -> str:
        """The folder of its experiment, on its filesystem."""
        return posixpath.dirname(self.path.rstrip("/"))

    @property
    def trial_id(self) -> str:
        """The id of the trial that it has the results of, by these, the index or Tune; else its folder's name.

        Folders of other tools often have one name, such as 0 or version_0: theirs is followed by a hash of the path.
        """
        folder = posixpath.basename(self.path.rstrip("/"))
        if self.run is not None:
            return self.id_by_path
        first = {} if self.is_loop else next(self._each_result(), {})
        state = self._tune_state
        return str(first.get("trial_id") or min(self.trial_ids, default=state.trial_id if state else folder))

    @property
    def id_by_path(self) -> str:
        """An id that no trial of another folder has, whatever both are called."""
        folder = posixpath.basename(self.path.rstrip("/"))
        return f"{safe_name(folder, max_length=40)}-{name_digest(self.path)}"

    @property
    def number(self) -> int | None:
        """Its number in Tune's id, by the index or Tune; None if that has none."""
        state = self._tune_state
        found = _NUMBER.search(min(self.trial_ids, default=state.trial_id if state else ""))
        return int(found[1]) if found else None

    @property
    def has_copied(self) -> bool:
        """Whether it has copied another trial, by Tune's last snapshot."""
        state = self._tune_state
        return state is not None and state.has_copied

    def place_of(self, metric: str) -> tuple[str, str]:
        """Return the tag of a metric in its tool's file, and the unit of its steps; empty if Tune or we wrote it."""
        return self.run.place_of(metric) if self.run is not None else ("", "")

    @property
    def state(self) -> tuple[Any, ...]:
        """Another value whenever it has other media."""
        return self.version, self._lines, self.is_abandoned

    def read(self) -> TrialFiles:
        """Read the index and its lines in the log, or the run of another tool; return the trial. Raises OSError."""
        contents = self._read_contents()
        lines = contents.lines
        stored, others = _parted(lines, "status", STORED)
        reports, media = _parted(stored, "kind", EpisodeBatch.kind)
        self.media, self.reports = MediaColumns.of_lines(media), MediaColumns.of_lines(reports)
        self.is_loop = bool(reports) and all(line.get("training_iteration") is None for line in reports)
        tapes, _ = _parted(others, "status", ONLY_TAPE)
        self.tapes = list({(line["section"], line["key"]): line for line in tapes}.values())
        self.missing = [line for line in others if line.get("status") in (*LOST, *UNRENDERED)]
        self.unrendered = {}
        for line in filter(may_be_rendered, others):
            self.unrendered.setdefault(str(line.get("episode_id")), []).append((line["section"], line["key"]))
        ids = (line.get("trial_id") for line in lines)
        self.trial_ids = frozenset(id for id in ids if isinstance(id, str))
        times = (as_number(line.get("time")) for line in lines)
        self.newest = max((time for time in times if math.isfinite(time)), default=0.0)
        self._lines = hash((self.media.packed, self.reports.packed, *map(parsed_bytes, others)))
        self._rows = self._config = self._has_params = None
        self._run_results = None
        self.contents = dataclasses.replace(contents, lines=())
        return self

    def _read_contents(self) -> TrialContents:
        if self.files is None:
            self.run = None
            return read_trial(self.filesystem, self.path)
        self.run = read_run(self.files, self._columns)
        return TrialContents(self.files.folder, [line.fields() for line in self.run.lines])

    def _is_medium(self, path: str) -> bool:
        """Return whether a path in its folder is one of a medium: in ``media``, or a clip as a recorder names it."""
        folder = posixpath.dirname(path)
        is_placed = self.run is not None or not folder or is_part(folder)  # an index of ours names none elsewhere
        return path.startswith(_MEDIA_FOLDER) or (is_placed and is_clip_name(path))

    @property
    def lines(self) -> list[Line]:
        """The index lines of its media, ordered by step, section and key; parsed at each call."""
        return list(self.media.lines())

    @property
    def lost(self) -> list[Line]:
        """The index lines of media that failed or were dropped, in the order of recording; their ``note`` says why."""
        return [line for line in self.missing if line.get("status") in LOST]

    @property
    def report_lines(self) -> list[Line]:
        """The index lines of its episode reports; parsed at each call."""
        return list(self.reports.lines())

    @property
    def report_files(self) -> dict[str, bool]:
        """Whether a report's episodes were rolled back, by its file's path in the index; all of a file are at once."""
        return {line["path"]: bool(line.get("rolled_back")) for line in self.report_lines}

    @property
    def report_paths(self) -> list[str]:
        """The paths of its ``episode_data/data-<step>.json``, on the filesystem of its media."""
        return [posixpath.join(self.media_path, path) for path in self.report_files]

    @property
    def media_path(self) -> str:
        """The folder that the paths of the index are relative to, on ``media_filesystem``."""
        return path_of(self.contents.media_folder)

    @property
    def media_filesystem(self) -> pyarrow.fs.FileSystem:
        """The filesystem of its media: another one if the folder is the driver's, and the storage is far away."""
        return filesystem_of_trial(self.contents.media_folder, self.filesystem, self.trial_ids)

    @property
    def is_far(self) -> bool:
        """Whether its folder, or that of its media, is on another machine. No storage is asked."""
        is_uri = self.media_path != self.contents.media_folder
        return is_uri or not is_local(self.filesystem)

    @property
    def config(self) -> dict[str, Any]:
        """The scalars and short lists of its config; nested values as ``outer/inner``."""
        if self._config is None:  # functools.cached_property holds one lock for all trials before Python 3.12
            config = self.read_config()
            self._config = config if isinstance(config, params.UnknownConfig) else dict(params.flat_values(config))
        if isinstance(self._config, params.UnknownConfig) or not all(map(params.is_seed, self._config)):
            return self._config
        if self._is_told_to_have_none:
            return self._config
        return params.OnlyNamed(self._config, self.name, params.name_of_runs(self.name))

    @property
    def _is_told_to_have_none(self) -> bool:
        """Whether Tune, or who recorded it, has said that it has no hyperparameters but seeds."""
        if self._has_params is None:
            ids_of_tune = self.trial_ids - {posixpath.basename(self.path.rstrip("/"))}
            files = (file_info(self.filesystem, posixpath.join(self.path, name)) for name in (PARAMS, RESULTS))
            self._has_params = bool(ids_of_tune) or any(files)
        return self._has_params

    @property
    def params(self) -> dict[str, Any]:
        """The hyperparameters that Tune searched, a part of ``config``; all of it if the trial was not loaded."""
        return self.config if self.tune_view is None else self.tune_view.searched(self)

    @property
    def _tune_state(self) -> TrialState | None:
        """The trial in Tune's snapshots; None if none has it, or if it was not loaded."""
        return None if self.tune_view is None else self.tune_view.state(self)

    @property
    def status(self) -> TrialStatus:
        """Its status in the word of Tune's last snapshot, with the error if it failed."""
        state = self._tune_state
        word = state.status.lower() if state else ""
        if word == TRIAL_FAILED and self._error is None:
            with contextlib.suppress(OSError):
                self._error = error_of(self.filesystem, self.path)
        if self._is_cut and word and word not in UNENDED:  # else Tune may be writing it
            warn_passed_over(posixpath.join(self.path, RESULTS), "its last line is cut off, so its last result is lost")
        error = self._error or "" if word == TRIAL_FAILED else ""
        return TrialStatus(word, error, state.iterations if state else None)

    def read_config(self) -> dict[str, Any]:
        """Return its ``params.json``, with objects named by Tune's ids, or else what its run or its name tells."""
        config = json_file(self.filesystem, posixpath.join(self.path, PARAMS), damaged=params.UnknownConfig())
        if isinstance(config, params.UnknownConfig):
            return config
        config = config or dict(self.run.config if self.run else {})
        config = config or params_of_name(posixpath.basename(self.path.rstrip("/")))
        text = str(config)
        if self.tune_view is None or not any(part in text for part in _OBJECTS):
            return config
        named: dict[str, Any] = plain_config(config, self.tune_view.chosen(self))
        return named

    @property
    def metrics(self) -> dict[str, Metric]:
        """The last, largest and smallest value of each metric of its results that were not rolled back."""
        if self._metrics is None:
            of_loop = self._loop_results()
            if of_loop is None:
                self._metrics, self._is_cut = results.read_metrics(self.filesystem, self.path)
                _ = self.status  # which says that they are cut off
            else:
                self._metrics = results.metrics_of(of_loop)
        return self._metrics

    @property
    def last_metrics(self) -> dict[str, float]:
        """The numbers of its last result and of its last evaluation, see ``results.last_metrics``."""
        if self._last_metrics is None:
            self._last_metrics = self._read_last_metrics()
        return self._last_metrics

    def _read_last_metrics(self) -> dict[str, float]:
        of_loop = self._loop_results()
        if of_loop is None:
            numbers, self._is_cut = results.last_metrics(self.filesystem, self.path)
            return numbers
        return {name: value for result in of_loop for name, value in numbers_of(result).items()}

    def loop_episodes(self) -> LoopEpisodes | None:
        """Return the episodes of a loop outside Tune; None if it has none, or if Tune has its results."""
        if self.run is not None:
            return episodes_of_run(self.run)
        if not self.is_loop:
            return None
        before = len(self._loop_tables)
        for path in self.report_files.keys() - self._loop_tables.keys():
            try:
                self._loop_tables[path] = self.episodes(path, COLUMNS)
            except Exception as error:  # of one file: it is gone, or broken
                self.pass_over(parquet_name(path), error)
        if len(self._loop_tables) > before:
            self._loop_episodes = LoopEpisodes.of(list(self._loop_tables.values()))
        return self._loop_episodes

    def _loop_results(self) -> list[Line] | None:
        if self.run is not None and self.run.has_results:
            if self._run_results is None:
                self._run_results = results_of_run(self.run, self.loop_episodes())
            return self._run_results
        episodes = self.loop_episodes()
        return None if episodes is None else episodes.results

    @property
    def tracebacks(self) -> str:
        """The end of the tracebacks of its failures, without secrets; empty if none can be read."""
        return tracebacks(self.filesystem, self.path)

    @property
    def has_errors(self) -> bool:
        """Whether Tune wrote the traceback of a failure to its folder. It raises OSError."""
        return bool(text_of_errors(self.filesystem, self.path))

    def result_lines(self, driver: Path | None = None) -> list[bytes]:
        """Return its results that count, as ``results_of_trial``; those of other loops as Tune would have them."""
        if self.run is not None:
            return _as_lines(reported_of_run(self.run, self._loop_results() or ()))
        episodes = self.loop_episodes()
        if episodes is not None:
            return _as_lines(episodes.reported())
        _ = self.last_metrics, self.status  # which says that they are cut off
        return results.results_of_trial(self.filesystem, self.path, driver)

    @property
    def has_results(self) -> bool:
        """Whether it has a ``result.json``."""
        if self.results_version is None:
            self.results_version = version_of(self.filesystem.get_file_info(posixpath.join(self.path, RESULTS)))
        return self.results_version != NO_FILE

    def refresh(self, version: Version) -> bool:
        """Read media and hyperparameters if the index (size, mtime; zeros: none) or the log changed; return whether."""
        try:
            experiment, name = posixpath.split(self.media_path.rstrip("/"))
            logged = len(read_log(self.media_filesystem, experiment).lines.get(name, ()))
        except FileNotFoundError:  # the media are elsewhere, and there is no trial
            logged = -1
        if version == self.version and logged == self._logged and not self.contents.is_coming:
            return False
        self.read()
        _ = self.config
        self.version, self._logged = version, logged
        return True

    def line(self, path: str) -> Line | None:
        """Return the index line of a media file, or None if the index names no such file."""
        media, rows, _ = self._looked_up()
        row = rows.get(path)
        return None if row is None else next(media.lines([row]))

    def clip_of(self, episode_id: str) -> str | None:
        """Return the path of a clip of an episode, or None if the index names none."""
        return self._looked_up()[2].get(episode_id)

    def _looked_up(self) -> tuple[MediaColumns, dict[str, int], dict[str, str]]:
        """Return the media, the last line of each file, and the last clip of each episode by its id."""
        lookup = self._rows
        if lookup is None or lookup[0] is not self.media:  # another thread may have read the index again
            media = self.media
            rows: dict[str, int] = {}
            clips: dict[str, str] = {}
            for row, line in enumerate(media.lines()):
                rows[line["path"]] = row
                if line.get("kind") == Video.kind and isinstance(line.get("episode_id"), str):
                    clips[line["episode_id"]] = line["path"]
            lookup = self._rows = media, rows, clips
        return lookup

    def read_media(self, path: str) -> bytes:
        """Return the content of a file of ``media`` or ``episode_data``, by its path in the index. Raises OSError."""
        filesystem, folder = self.place
        full = posixpath.join(folder, path)
        is_ours = self._is_medium(path) or path.startswith(_EPISODE_FOLDER)
        if not is_ours or (is_local(filesystem) and not _is_inside(full, folder, path)):
            raise FileNotFoundError(f"the trial's folder {folder!r} has no media file {path!r}")
        with open_file(filesystem, full) as file:
            return bytes(file.read())

    def media_file(self, path: str) -> tuple[pyarrow.fs.FileSystem, str] | None:
        """Return the filesystem and the full path of a medium's file; None if the index does not name it."""
        if self.line(path) is None or not self._is_medium(path):
            return None
        filesystem, folder = self.place
        full = posixpath.join(folder, path)
        return (filesystem, full) if not is_local(filesystem) or _is_inside(full, folder, path) else None

    def episodes(self, report: str, columns: Sequence[str]) -> pa.Table:
        """Return columns of a report's Parquet file, see ``episode_table``."""
        with self.open_media(parquet_name(report)) as file:
            return episode_table(file, columns, ahead=self.media_filesystem.type_name in _OF_ARROW)

    def open_media(self, path: str) -> Any:
        """Open a file by its path relative to the folder of the media. Raises OSError."""
        filesystem, folder = self.place
        return open_file(filesystem, posixpath.join(folder, path))

    def pass_over(self, file: str, error: Exception) -> None:
        """Warn that the episodes in a file, by its path relative to the folder of the media, are left out."""
        warn_passed_over(posixpath.join(self.media_path, file), f"cannot read the episodes: {error_text(error)}")

    @property
    def place(self) -> tuple[pyarrow.fs.FileSystem, str]:
        """``media_filesystem`` and ``media_path``; it raises as the first of them."""
        return self.media_filesystem, self.media_path

    def refresh_metrics(self, version: Version) -> bool:
        """Read the last metrics if the results (size, mtime; zeros: none) are not those read last; return whether."""
        if self.is_loop or self.run is not None:
            version = self.version or NO_FILE
        if version == self.results_version:
            return False
        try:
            self._last_metrics = self._read_last_metrics()
        except OSError:  # the file is being replaced: the next look reads it
            self.keep_metrics()
            return False
        self.results_version, self._metrics = version, None
        return True

    def keep_metrics(self) -> None:
        """Keep the last metrics as they were read last, since the results cannot be read: the next look may."""
        self.results_version = self.results_version or NO_FILE
        self._last_metrics = self._last_metrics or {}

    def curves(self) -> dict[str, Any]:
        """Return each metric over training: ``{"step": [...], "metrics": {name: [...]}}``, null if it is not finite.

        Results that were rolled back, or have no step, are left out. An evaluation that RLlib repeats until the next
        one is one point. Beyond 64 MB, every second line is read, or every third, and so on.
        """
        rows: list[tuple[Any, int, dict[str, float]]] = []
        for result in self._each_result():
            step = results.result_step(result)
            if results.has_step(result) and math.isfinite(as_number(step)):
                rows.append((result.get("training_iteration"), step, finite_numbers(numbers_of(result))))
        counts = results.counting([iteration for iteration, _, _ in rows])
        counted = [row for row, does in zip(rows, counts, strict=True) if does]
        metrics = results.without_repeats([numbers for _, _, numbers in counted])
        names = dict.fromkeys(name for numbers in metrics for name in numbers)
        return {
            "step": [step for _, step, _ in counted],
            "metrics": {name: [numbers.get(name) for numbers in metrics] for name in names},
        }

    def _each_result(self) -> Iterator[Line]:
        of_loop, path = self._loop_results(), posixpath.join(self.path, RESULTS)
        if of_loop is not None:
            yield from of_loop
        elif (info := file_info(self.filesystem, path)) is not None:  # it asks what is there, too
            stride = math.ceil((info.size or 1) / _MAX_PARSED)
            with self.filesystem.open_input_stream(path) as stream:
                yield from results.parsed_results(path, itertools.islice(_lines_of(stream), 0, None, stride))


class TuneView:
    """Tune's snapshots of trials that are looked at together; those of an experiment are read when needed."""

    def __init__(self, trials: Sequence[TrialFiles], snapshots: Snapshots) -> None:
        self.trials = list(trials)
        self._snapshots, self._lock = snapshots, threading.Lock()
        self._states: dict[tuple[int, str], ExperimentState] = {}
        self._differing: list[str] | None = None

    def searched(self, trial: TrialFiles) -> dict[str, Any]:
        """Return the hyperparameters that Tune searched, nested ones as ``outer/inner``, as the trial had them last.

        Without a snapshot of the trial, they are those that differ between the trials.
        """
        chosen = self.chosen(trial)
        if chosen:
            return dict(params.flat_values(params.searched_params(trial.read_config(), chosen)))
        if self._differing is None:
            self._differing = params.differing([trial.config for trial in self.trials])
        found = params.settings_of(trial.config, self._differing)
        name, of_runs = params.names_of(trial.config)
        return params.OnlyNamed(found, name, of_runs) if name else found

    def chosen(self, trial: TrialFiles) -> dict[str, Any]:
        """Return the hyperparameters that Tune chose for a trial, see ``nested_choice``; empty without a snapshot."""
        state = self.state(trial)
        return dict(state.searched) if state else {}

    def state(self, trial: TrialFiles) -> TrialState | None:
        """Return a trial as Tune's snapshots have it, or None if none has it or they cannot be read."""
        place = id(trial.filesystem), trial.experiment
        with self._lock:
            if place not in self._states:
                self._states[place] = self._snapshots.known(trial.filesystem, trial.experiment)
        return self._states[place].find(trial.trial_ids, trial.path)


def unread_of(trials: Iterable[TrialFiles]) -> list[tuple[str, str]]:
    """Return the media files of trials that this process has passed over, or parts of, each with the reason."""
    return passed_over(trial.media_path for trial in trials)


def warn_of_not_understood(trials: Iterable[TrialFiles]) -> None:
    """Say what was seen in runs of other tools and not understood, once for all runs that have the same."""
    by_sentence: dict[str, list[str]] = {}
    for trial in trials:
        for sentence in trial.run.not_understood if trial.run is not None else ():
            by_sentence.setdefault(sentence, []).append(trial.path)
    for sentence, paths in by_sentence.items():
        more = f" (and in {counted(len(paths) - 1, 'other run')})" if len(paths) > 1 else ""
        warn_passed_over(posixpath.join(paths[0], ""), f"{sentence.rstrip('.')}{more}")


def trials_named(name: str, trials: Sequence[TrialFiles]) -> list[TrialFiles]:
    """Return the trials with a name, or else the only one that has it as a part of its name. Raises ValueError."""
    exact = [trial for trial in trials if trial.name == name]
    matches = exact or [trial for trial in trials if name and name in trial.name]
    if not matches:
        there = name_some(trial.name for trial in trials) or "none"
        raise ValueError(f"There is no trial {name!r}; the trials are {there}.")
    if len(matches) > 1 and not exact:
        names = name_some(trial.name for trial in matches)
        raise ValueError(f"{len(matches)} trials have {name!r} in their name: {names}.")
    return matches


def mark_abandoned(trials: Sequence[TrialFiles], snapshots: Snapshots) -> None:
    """Mark the trials that a killed driver left and that Tune does not know, in their ``is_abandoned``. Raises OSError.

    If the driver is killed before Tune's first snapshot of a trial, the trial starts again under another id, in another
    folder. The old folder has media, no results, and an id that no snapshot has. A snapshot tells only of trials that
    recorded before it was written, so a trial that has just begun is not marked. Snapshots are read only if a trial has
    media and no results.
    """
    for trial in trials:
        may_be_abandoned = bool(len(trial.media) or len(trial.reports)) and not trial.has_results
        state = snapshots.of(trial.filesystem, trial.experiment) if may_be_abandoned else ExperimentState()
        trial.is_abandoned = 0.0 < trial.newest < state.written_at and state.find(trial.trial_ids, trial.path) is None


def version_of(info: pyarrow.fs.FileInfo) -> Version:
    """Return size and modification time of a file, or zeros if there is none."""
    return (info.size or 0, info.mtime_ns or 0) if info.is_file else NO_FILE


def _parted(lines: Iterable[Line], name: str, value: str) -> tuple[list[Line], list[Line]]:
    """Return the lines that have a value in a field, and the others."""
    parts: tuple[list[Line], list[Line]] = [], []
    for line in lines:
        parts[line.get(name) != value].append(line)
    return parts


def _as_lines(reported: Iterable[Line]) -> list[bytes]:
    return [json.dumps(result).encode() for result in reported]


def _lines_of(stream: Any) -> Iterator[bytes]:
    rest = b""
    while chunk := bytes(stream.read(1 << 20)):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines
    yield rest


def _is_inside(full: str, folder: str, path: str) -> bool:
    """Return whether a local file is where its path in a trial's folder says, with symbolic links followed."""
    inner = path.partition("/")[0] if "/" in path else ""  # the folder in the trial's, which must not be a link
    return is_inside(os.path.realpath(full), posixpath.normpath(posixpath.join(os.path.realpath(folder), inner)))
