"""The trials in folders: found and read once (``load_trials``), or kept up to date while they run (``Trials``)."""

from __future__ import annotations

import contextlib
import logging
import posixpath
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow.fs

from tune_media.experiment import places
from tune_media.experiment.experiments import FoundTrial, FoundTrials, TrialFinder, experiment_at, one_experiment
from tune_media.experiment.places import Folder
from tune_media.experiment.policy_files import ResultFile, policies_of
from tune_media.experiment.state import Listings, Snapshots
from tune_media.experiment.status import TrialStatus
from tune_media.experiment.trial_files import (
    TrialFiles,
    TuneView,
    Version,
    mark_abandoned,
    version_of,
    warn_of_not_understood,
)
from tune_media.foreign.result_files import SUFFIXES
from tune_media.storage.filesystem import as_argument, is_local
from tune_media.storage.passed_over import passed_over
from tune_media.storage.trial_folder import RESULTS
from tune_media.storage.trial_media import warn_of_unrendered
from tune_media.values import checks
from tune_media.values.clip_columns import Columns, check_there, checked_columns
from tune_media.values.secrets import error_text
from tune_media.values.threads import start_thread

logger = logging.getLogger("tune_media")

_Found = TypeVar("_Found")

_THREADS = 16
_PENDING = "PENDING"
_PAUSE_LOCAL, _PAUSE_REMOTE = 1.0, 10.0  # seconds
_PATIENCE = 0.5  # seconds that ``known`` waits for all trials before some are enough


def load_trials(
    source: Any, filesystem: pyarrow.fs.FileSystem | None, columns: Mapping[str, str] | None
) -> tuple[list[Folder], list[TrialFiles]]:
    """Return the folders, and their trials by name; arguments and errors are those of ``tune_media.load``."""
    wanted = checked_columns(columns) if columns else {}
    files, sources = _result_files(source, filesystem, wanted)
    folders = [Folder(file.filesystem, posixpath.dirname(file.path)) for file in files]
    trials = policies_of(files) if files else []
    if sources or not files:  # nothing at all is an error
        of_folders, others = _read_trials(places.find_folders(sources, filesystem), wanted)
        folders, trials = [*of_folders, *folders], _once([*others, *trials])
    if wanted:
        check_there(wanted, [name for trial in trials for name in (trial.run.columns if trial.run else ())])
    snapshots = Snapshots()
    view = TuneView(trials, snapshots)
    for trial in trials:
        trial.tune_view = view
    experiments = [as_argument(trial.filesystem, trial.experiment) for trial in trials]
    warn_of_unrendered((name, trial.contents) for name, trial in zip(experiments, trials, strict=True))
    warn_of_not_understood(trials)
    in_parallel(_look_for_results, trials)
    with contextlib.suppress(OSError):  # without it, only abandoned trials are unknown
        mark_abandoned(trials, snapshots)
    return folders, sorted(trials, key=lambda trial: trial.name)


def _result_files(
    source: Any, filesystem: pyarrow.fs.FileSystem | None, columns: Columns
) -> tuple[list[ResultFile], Any]:
    """Return the files of results among the sources, and the others; None if there are none."""
    sources = source if isinstance(source, (list, tuple)) else [source]
    named = [one for one in sources if isinstance(one, (str, Path)) and str(one).lower().endswith(SUFFIXES)]
    found = {one: folder for one in named if (folder := places.folder_at(one, filesystem)).is_file}
    files = [ResultFile(folder.filesystem, folder.path, columns) for folder in found.values()]
    others = [one for one in sources if not (isinstance(one, (str, Path)) and one in found)]
    return files, source if not files else others


def in_parallel(read: Callable[[TrialFiles], _Found], trials: Sequence[TrialFiles]) -> list[_Found]:
    """Call ``read`` for each, several at a time if the files are far away: threads do not speed up a local disk."""
    if len(trials) < 2 or not any(trial.is_far for trial in trials):
        return [read(trial) for trial in trials]
    with ThreadPoolExecutor(min(places.allow_many_requests(), len(trials)), "tune_media-catalog") as pool:
        return list(pool.map(read, trials))


def _read_trials(folders: Sequence[Folder], columns: Columns) -> tuple[list[Folder], list[TrialFiles]]:
    """Return the folders, and the trials in each, at any depth.

    A folder with a single experiment of Tune's is replaced by it. The name of a trial is that of its folder, of a run
    of another tool its path below ``folders``; if there are several experiments, it begins with theirs.
    """
    roots: list[Folder] = []
    by_place: dict[str, list[TrialFiles]] = {}
    errors: dict[str, Exception] = {}
    for folder in folders:
        found = TrialFinder().find(folder)
        there = one_experiment(folder, found)
        places_of = [_place_of(folder, each) for each in there]
        trials = [
            TrialFiles(posixpath.relpath(each.path, place), folder.filesystem, each.path, columns, each.files)
            for each, place in zip(there, places_of, strict=True)
        ]
        reasons = in_parallel(_read, trials)
        errors |= found.refused
        for trial, reason, place in zip(trials, reasons, places_of, strict=True):
            errors |= {} if reason is None else {trial.path: reason}
            by_place.setdefault(place, []).extend([trial] if reason is None else [])
        inside = {place for place in places_of if place.startswith(f"{folder.path.rstrip('/')}/")}
        is_one = len({*places_of}) == len(inside) == 1
        roots.append(Folder(folder.filesystem, inside.pop()) if is_one else folder)
    for path, name in places.short_names(by_place).items() if len(by_place) > 1 else ():
        for trial in by_place[path]:
            trial.name = f"{name}/{trial.name}"
    read = [trial for own in by_place.values() for trial in own]
    _warn_of_errors(errors, read)
    return roots, read


def _place_of(folder: Folder, trial: FoundTrial) -> str:
    """Return the folder that a trial's name is relative to."""
    is_below = trial.files is not None and trial.path != folder.path.rstrip("/")
    return folder.path.rstrip("/") if is_below else posixpath.dirname(trial.path.rstrip("/"))


def _read(trial: TrialFiles) -> Exception | None:
    """Read a trial; return why that failed."""
    try:
        trial.read()
    except Exception as error:  # of one trial; the others are read
        return error
    return None


def _once(trials: Sequence[TrialFiles]) -> list[TrialFiles]:
    """Return each trial once, also if the user named an experiment and a trial of it."""
    kept: dict[str, list[TrialFiles]] = {}
    for trial in trials:
        same_path = kept.setdefault(trial.path.rstrip("/"), [])
        if trial.filesystem not in [other.filesystem for other in same_path]:
            same_path.append(trial)
    return [trial for same_path in kept.values() for trial in same_path]


def _look_for_results(trial: TrialFiles) -> None:
    with contextlib.suppress(OSError):
        _ = trial.has_results


def _warn_of_errors(errors: dict[str, Exception], trials: Sequence[TrialFiles]) -> None:
    """Name the trials that cannot be read; if there are no others, raise the first error."""
    if not errors:
        return
    first = next(iter(errors.values()))
    if not trials:
        raise first
    names = checks.name_some(map(posixpath.basename, errors))
    logger.warning("tune_media: %d trial(s) are left out (%s): %s", len(errors), names, error_text(first))


@dataclass(frozen=True)
class LogDirectory:
    """A folder in which trials are looked for.

    Attributes:
        prefix: What TensorBoard puts before the names of its runs (``--logdir_spec prefix:path``), or ``""``.
        columns: Of tables of other tools.
        needs_clips: Runs of other tools that have no clips are left out: TensorBoard shows the rest of them itself.
        file: A file of results in the folder, whose policies are the trials; None: those in the folder are.
    """

    folder: Folder
    prefix: str = ""
    columns: Columns | None = None
    needs_clips: bool = False
    file: ResultFile | None = None

    def find(self, finder: TrialFinder, known: Iterable[TrialFiles]) -> FoundTrials:
        """Return the trials inside; of ``known`` ones of ours, few files are asked for."""
        if self.file is None:
            return finder.find(self.folder, known)
        try:
            version, policies = self.file.version, [posixpath.join(self.file.path, name) for name in self.file.runs()]
        except (OSError, ValueError) as error:  # it is being written
            own = [trial.path for trial in known if trial.path.startswith(f"{self.file.path}/")]
            return FoundTrials(refused=dict.fromkeys(own or [self.file.path], OSError(error_text(error))))
        return FoundTrials([FoundTrial(path, version, None, "") for path in policies])

    def trial(self, path: str) -> TrialFiles:
        """Return the files of a trial inside."""
        if self.file is not None:
            return self.file.policy(path.removeprefix(f"{self.file.path}/"), self.prefix)
        name = posixpath.join(self.prefix, posixpath.relpath(path, self.folder.path))
        return TrialFiles(name, self.folder.filesystem, path, self.columns)

    @classmethod
    def of(cls, path: str, prefix: str = "") -> LogDirectory:
        """Return the folder at a local path or a URI such as ``s3://bucket/experiment``."""
        return cls(places.folder_at(path), prefix)

    @classmethod
    def of_spec(cls, spec: str) -> list[LogDirectory]:
        """Return the folders of TensorBoard's ``--logdir_spec``: ``name:path`` or ``path``, separated by commas."""
        folders = []
        for part in filter(None, spec.split(",")):
            named = re.match(r"(?![a-zA-Z]:\\)([^/:][^:]*):(?!//)(.+)$", part)
            folders.append(cls.of(named[2], named[1]) if named else cls.of(part))
        return folders


def log_directories(sources: Sequence[str], columns: Columns | None = None) -> list[LogDirectory]:
    """Return where the trials of several sources are: folders of one experiment each, or files of results.

    Names begin with those of the folders, if there are several, or of the files, if two have a policy of one name.
    Raises OSError, or ValueError if a folder holds no experiment, or several, or a file no policy.
    """
    files, others = _result_files(list(sources), None, columns or {})
    folders = [experiment_at(path) for path in others]
    names = places.short_names(
        [folder.path for folder in folders] + [posixpath.splitext(file.path)[0] for file in files]
    )
    policies = [name for file in files for name in file.runs()]
    is_unique, has_several = len({*policies}) == len(policies), len(folders) > 1 or (files and folders)
    return [
        *(LogDirectory(folder, names[folder.path] if has_several else "", columns) for folder in folders),
        *(
            LogDirectory(
                Folder(file.filesystem, posixpath.dirname(file.path)),
                "" if is_unique else names[posixpath.splitext(file.path)[0]],
                columns,
                file=file,
            )
            for file in files
        ),
    ]


class _FirstRead:
    """The first read of all trials: other threads see those that are read so far, and may wait for some."""

    def __init__(self) -> None:
        self.trials: list[TrialFiles] = []
        self.is_over = False
        self._changed = threading.Condition()  # guards all of these
        self._begun_at: float | None = None
        self._expected = 0

    def begin(self) -> bool:
        """Note that a thread reads the trials; return whether it is the first one."""
        with self._changed:
            is_first, self._begun_at = self._begun_at is None, self._begun_at or time.monotonic()
            return is_first

    def expect(self, count: int) -> None:
        """Add trials that were found and are not read yet."""
        with self._changed:
            self._expected += count

    def add(self, trial: TrialFiles) -> None:
        """Add a trial that was read."""
        with self._changed:
            self.trials.append(trial)
            self._changed.notify_all()

    def end(self) -> None:
        """All trials are read, or the read failed."""
        with self._changed:
            self.is_over, self.trials = True, []
            self._changed.notify_all()

    def wait(self) -> None:
        """Wait for all trials, or after ``_PATIENCE`` for any."""
        with self._changed:
            while not (self.is_over or (self.trials and time.monotonic() - (self._begun_at or 0.0) > _PATIENCE)):
                self._changed.wait(_PATIENCE / 10)

    @property
    def progress(self) -> tuple[int, int] | None:
        """How many trials are read, and how many there are; None before and after."""
        with self._changed:
            return None if self.is_over or self._begun_at is None else (len(self.trials), self._expected)


class Trials:
    """All trials below some folders. Any thread may ask; one at a time reads."""

    def __init__(self, roots: Iterable[LogDirectory]) -> None:
        self.roots = list(roots)
        self._trials: dict[str, TrialFiles] = {}
        self._ids: dict[str, TrialFiles] = {}
        self._finder = TrialFinder()
        self._lock = threading.Lock()
        self._unreadable: dict[str, str] = {}  # why, by path
        self._listings = Listings()
        self._snapshots = Snapshots(self._listings)
        self._known_statuses: list[TrialStatus] = []
        self._read_at = self._metrics_at = float("-inf")
        self._first_read = _FirstRead()
        self._pause = _PAUSE_LOCAL if all(is_local(root.folder.filesystem) for root in self.roots) else _PAUSE_REMOTE

    @property
    def has_any(self) -> bool:
        """Whether the last read has seen a trial; asks no filesystem."""
        return bool(self._trials or self._first_read.trials)

    def all(self, max_age: float | None = None) -> list[TrialFiles]:
        """Return the trials by name; files are read again after ``max_age`` seconds (1 on local disks, else 10)."""
        with self._lock:
            pause = max(self._pause, self._finder.rest) if max_age is None else max_age
            if time.monotonic() - self._read_at > pause:
                self._first_read.begin()
                is_first = not self._first_read.is_over
                try:
                    self._refresh()
                    if is_first:  # the metrics were read with the trials: all that a verdict needs but the episodes
                        self._mark_abandoned(list(self._trials.values()))
                        self._known_statuses = self._statuses_of([self._trials[name] for name in sorted(self._trials)])
                        self._metrics_at = time.monotonic()
                finally:
                    self._first_read.end()
                self._read_at = time.monotonic()
            return [self._trials[name] for name in sorted(self._trials)]

    def known(self) -> list[TrialFiles]:
        """Return the trials of the last read, without asking a filesystem; if there was none, read them now.

        During the first read, return the newest of those that are read so far, see ``reading``.
        """
        if not self._first_read.is_over:
            if self._first_read.begin():
                start_thread("tune_media-trials", self._read_first)
            self._first_read.wait()
        trials = self._trials or {trial.name: trial for trial in list(self._first_read.trials)}
        return [trials[name] for name in sorted(trials)] if trials else self.all()

    @property
    def reading(self) -> tuple[int, int] | None:
        """How many trials are read, and how many there are, during the first read; otherwise None."""
        return self._first_read.progress

    def _read_first(self) -> None:
        with contextlib.suppress(Exception):  # the next caller gets the error
            self.all()

    def metrics_of(self, trials: Sequence[TrialFiles]) -> list[dict[str, float]]:
        """Return the last metrics of trials that ``all`` returned, read again only if their results have changed."""
        with self._lock:
            if time.monotonic() - self._metrics_at > self._pause or any(t.results_version is None for t in trials):
                self._read_metrics(trials)
                self._metrics_at = time.monotonic()
            return [trial.last_metrics for trial in trials]

    def statuses_of(self, trials: Sequence[TrialFiles]) -> list[TrialStatus]:
        """Return the statuses of some trials in Tune's last snapshot."""
        with self._lock:
            self._known_statuses = self._statuses_of(trials)
            return self._known_statuses

    def _statuses_of(self, trials: Sequence[TrialFiles]) -> list[TrialStatus]:
        return in_parallel(lambda trial: trial.status, trials)  # of those that failed, the error is read

    def pending(self) -> int:
        """Return how many trials Tune's last snapshots name that have no folder yet."""
        with self._lock:
            experiments = {(id(t.filesystem), t.experiment): t.filesystem for t in self._trials.values()}
            states = [self._snapshots.known(filesystem, folder) for (_, folder), filesystem in experiments.items()]
            folders = {posixpath.basename(trial.path) for trial in self._trials.values()}
        return sum(
            trial.status == _PENDING and trial.folder not in folders
            for state in states
            for trial in state.trials.values()
        )

    @property
    def unreadable(self) -> list[tuple[str, str]]:
        """The paths of trials that could not be read at the last look, and of broken files, each with the reason."""
        return [*self._unreadable.items(), *passed_over(root.folder.path for root in self.roots)]

    def known_statuses(self) -> list[TrialStatus]:
        """Return the statuses of the trials of ``known``, as they were last read; empty if they never were."""
        statuses = self._known_statuses
        is_complete = len(statuses) == len(self._trials) and any(status.word for status in statuses)
        return statuses if is_complete else []

    def read_ahead(self) -> None:
        """Read all trials and their metrics before the first page asks for them; a failure is only logged."""
        try:
            trials = self.all()
            self.metrics_of(trials)
            self.statuses_of(trials)
        except Exception as error:
            logger.warning("tune_media: the viewer cannot read the trials: %s", error_text(error))

    def _read_metrics(self, trials: Sequence[TrialFiles]) -> None:
        with ThreadPoolExecutor(_THREADS) as pool:
            for filesystem in {id(trial.filesystem): trial.filesystem for trial in trials}.values():
                there = [trial for trial in trials if trial.filesystem is filesystem]
                list(pool.map(partial(_read_metrics, filesystem), places.in_parts(there, filesystem)))
        self._mark_abandoned(trials)

    def _mark_abandoned(self, trials: Sequence[TrialFiles]) -> None:
        with contextlib.suppress(OSError):  # the marks stay until the next look
            mark_abandoned(trials, self._snapshots)

    def by_id(self, id: str) -> TrialFiles | None:
        """Return the trial with this ``TrialFiles.id``, or None."""
        if not self._ids:
            self.all()
        return self._ids.get(id)

    def _refresh(self) -> None:
        errors: dict[str, Exception] = {}
        self._listings.forget()
        with ThreadPoolExecutor(_THREADS) as pool:
            trials = [trial for root in self.roots for trial in self._refreshed(root, errors, pool)]
        self._trials = {trial.name: trial for trial in trials}
        self._ids = {trial.id: trial for trial in self._trials.values()}
        warn_of_not_understood(trials)
        self._warn(errors)

    def _refreshed(
        self, root: LogDirectory, errors: dict[str, Exception], pool: ThreadPoolExecutor
    ) -> list[TrialFiles]:
        """Return the trials of a log directory; one that cannot be read stays as it was, and its error is added."""
        known = {trial.path: trial for trial in self._trials.values() if trial.filesystem is root.folder.filesystem}
        found = root.find(self._finder, known.values())
        wanted = (t for t in found.of(root.folder.experiment) if t.shows_clips or not root.needs_clips)
        there = {trial.path: trial for trial in wanted}
        trials = {path: known[path] for path in known.keys() & found.refused.keys()}
        trials |= {path: known.get(path) or root.trial(path) for path in there}
        view = TuneView(list(trials.values()), self._snapshots)  # looks at Tune's snapshots again, if a trial asks
        for trial in trials.values():
            trial.tune_view = view
        for path, each in there.items():
            trials[path].files = each.files
        fresh = [(trials[path], each.version) for path, each in there.items()]
        errors |= found.refused
        errors |= self._read(fresh, pool if not is_local(root.folder.filesystem) else None)
        return list(trials.values())

    def _read(self, trials: list[tuple[TrialFiles, Version]], pool: ThreadPoolExecutor | None) -> dict[str, Exception]:
        """Read trials that have new versions; return the errors of those that cannot be read, by path.

        Without ``pool``, one by one: threads do not speed up a local disk, and slow down the answers.
        """
        trials.sort(key=lambda item: -item[1][1])  # the newest first, the first page waits for them
        self._first_read.expect(len(trials))
        read = (map if pool is None else pool.map)(lambda item: self._error_of_reading(*item), trials)
        return {trial.path: error for (trial, _), error in zip(trials, read, strict=True) if error is not None}

    def _error_of_reading(self, trial: TrialFiles, version: Version) -> Exception | None:
        """Read a trial, with its metrics if the page waits for it; return why that failed."""
        try:
            trial.refresh(version)
            if not self._first_read.is_over:
                _read_metrics(trial.filesystem, [trial])
                self._ids[trial.id] = trial
                self._first_read.add(trial)
        except Exception as error:  # of one trial; the others are shown
            return error
        return None

    def _warn(self, errors: dict[str, Exception]) -> None:
        """Name the trials that cannot be read, once."""
        new = sorted(errors.keys() - self._unreadable.keys())
        self._unreadable = {path: error_text(error) for path, error in sorted(errors.items())}
        if new:
            told = "tune_media: the viewer cannot read %d trial(s) (%s): %s. They are shown as they were read last."
            logger.warning(told, len(new), checks.name_some(new), self._unreadable[new[0]])


def _read_metrics(filesystem: pyarrow.fs.FileSystem, trials: Sequence[TrialFiles]) -> None:
    """Read the metrics of the trials whose results have changed."""
    infos = places.file_infos(filesystem, [posixpath.join(trial.path, RESULTS) for trial in trials])
    for trial, info in zip(trials, infos, strict=True):
        if isinstance(info, OSError):
            trial.keep_metrics()
        else:
            trial.refresh_metrics(version_of(info))
