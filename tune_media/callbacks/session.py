"""One experiment on the Tune driver, shared by all callbacks of the family.

The callback that sees a result first takes the media out of it and appends it to the outbox. The storage has a reader,
and so has each backend; a backend's reader has a thread and a cursor if the backend has a method that Tune's loop does
not call itself. None of them waits for another, and Tune's loop waits for none.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import signal
import sqlite3
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tune_media.callbacks.backend import STATUS_OF, Backend, Report, Status
from tune_media.callbacks.intake import ResultIntake, TrialIntake, take_media, without_content
from tune_media.callbacks.maker import Maker
from tune_media.callbacks.outbox import (
    STORAGE,
    TAPE,
    NewRow,
    Outbox,
    OutboxFullError,
    Row,
    no_room,
    outbox_root,
    remove_expired,
)
from tune_media.callbacks.readers import BackendReader
from tune_media.callbacks.rows import CheckpointRow
from tune_media.callbacks.services import CONTENT_SHARE, DEFAULT_OPTIONS, TRACKER_SHARE, Services
from tune_media.callbacks.storage_writer import StorageWriter
from tune_media.ray_compat import donor_of, experiment_timestamp, mark_as_logged
from tune_media.storage.entry import DROPPED
from tune_media.storage.filesystem import for_small_files, place_name
from tune_media.storage.known_media import KnownMedia
from tune_media.storage.log import delivered_to, note_delivered
from tune_media.values.checks import first_names
from tune_media.values.number import counted
from tune_media.values.options import MediaOptions
from tune_media.values.problems import Problem

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

    from tune_media.callbacks.tape_renderer import TapeRenderer

logger = logging.getLogger("tune_media")

_SESSIONS: dict[str, MediaSession] = {}  # by the experiment's local folder
_LOCK = threading.Lock()

_SETTLE_SECONDS = 1.0  # how long Tune's snapshot of an experiment waits for media that it counts as reported
_EXIT_SECONDS = 20.0  # how long a process waits on SIGTERM
_LOAD_SECONDS = 5.0  # how long a restored trial's first result waits for its lines
_MAX_UNPACKABLE = 1000  # results whose values that are no plain data are held in memory


class Member(Protocol):
    """A callback of an experiment, as its session knows it."""

    given_options: MediaOptions | None

    @property
    def name(self) -> str:
        """Its name, for warnings."""
        ...

    def on_experiment_end(self, trials: list[Trial]) -> None:
        """End the experiment for this callback; it leaves the session."""


class MediaSession:
    """The media of one experiment, and the life of the callbacks that log them.

    Tune's loop calls all methods; atexit calls ``end_now`` if the process ends before Tune has ended the experiment.
    ``key`` is the experiment's folder on the driver, ``state`` what ``settle`` returned before a restore, else {}.
    """

    def __init__(self, key: str, trial: Trial, state: dict[str, Any]) -> None:
        self.key = key
        before, storage, root = state.get("outbox") or {}, trial.storage, outbox_root()
        last, experiment = int(before.get("last", 0)), storage.experiment_fs_path
        place = place_name(storage.storage_filesystem, experiment)
        outbox = Outbox.open(root, place, experiment_timestamp(trial), last)
        remove_expired(root)  # not before: this one may have waited longer
        outbox.add_reader(STORAGE)
        filesystem = for_small_files(storage.storage_filesystem)
        self.services = Services(outbox, filesystem, experiment, Path(key), trial.experiment_dir_name)
        self._outbox, self._summary = outbox, self.services.summary
        self.running: dict[str, Trial] = {}
        outbox.raise_to(last)
        self._last_media: dict[str, int] = dict(before.get("media") or {})  # the last row of each trial
        self._summary.had_media = bool(before.get("has_media"))
        if not outbox.is_adopted:
            self._name_gaps(before.get("behind") or {}, last)
        self.storage = StorageWriter(self.services, {} if outbox.is_adopted else self._last_media)
        self._maker = Maker(self.services)
        self._renderer: TapeRenderer | None = None  # from the first clip on that came as a tape
        self._intakes: dict[str, TrialIntake] = {}  # of each trial
        self._readers: dict[str, BackendReader] = {}
        self._rows_of_unpackable: dict[str, int] = {}
        self._members: list[Member] = []
        self._load_patience = _LOAD_SECONDS
        self._is_settled = True
        self._was_behind = False  # when a snapshot was taken
        self._last: Report | None = None  # Tune shows a result to all callbacks, then the next one
        self._last_copy: dict[str, Any] | None = None
        if any(row.seq > outbox.position(STORAGE) for row in outbox.read(0, None, ("media",))):
            self._summary.has_new = True
        self._maker.adopt()
        self._render(outbox.read(0, None, (TAPE,)))

    @classmethod
    def join(cls, trial: Trial, member: Member, state: dict[str, Any]) -> MediaSession:
        """Return the session of a trial's experiment, opened by the first callback that asks."""
        key = str(trial.storage.experiment_driver_staging_path)
        with _LOCK:
            session = _SESSIONS.get(key)
            if session is None:
                session = _SESSIONS[key] = cls(key, trial, state)
                atexit.register(session.end_now)
            session._members.append(member)
        session._adopt_options(member)
        return session

    def reader(self, backend: Backend) -> BackendReader:
        """Return a reader for a backend; it continues at the cursor that a killed process left under its name."""
        name, number = backend.name or type(backend).__name__, 1
        key = name
        while key in self._readers:
            number += 1
            key = f"{name} {number}"
        reader = self._readers[key] = BackendReader(backend, self.services, self.storage, key)
        if reader.reads and (self._outbox.position(key) < self._outbox.last or self._renderer is not None):
            reader.begin()
        return reader

    # -- a trial's life -----------------------------------------------------------------------------------------------

    def begin(self, trial: Trial, member: Member) -> None:
        """Append one row for the start of a trial, at the first callback that reports it."""
        started = self._intakes[trial.trial_id].members if trial.trial_id in self._intakes else set()
        if started and id(member) not in started:
            started.add(id(member))
            return
        self.running[trial.trial_id] = trial
        self._summary.has_recorder |= _has_recorder(trial.config)
        if _has_recorder(trial.config.get("evaluation_config")) and not _has_recorder(trial.config):
            self.services.faults.problems.add(Problem(_ONLY_IN_EVALUATION))
        with self.services.faults.guard("the recorders", "telling them that a logger callback runs"):
            mark_as_logged(trial)
        with self.services.faults.guard("the outbox", "beginning a trial"):
            intake = self._intake_of(trial)
            intake.members = {id(member)}
            start = self.services.start_row(trial)
            self._outbox.remember(trial.trial_id, start)
            self.append([NewRow(trial.trial_id, "start", start.packed())], is_bounded=False)
            self._look_for_donor(trial, intake.known)

    def _intake_of(self, trial: Trial) -> TrialIntake:
        """Return the state of a trial; the storage's reader reads the lines of its earlier runs."""
        intake = self._intakes.get(trial.trial_id)
        if intake is None:
            intake = self._intakes[trial.trial_id] = TrialIntake(trial, KnownMedia(trial.trial_id))
            if self._outbox.trial(trial.trial_id) is None:
                self._outbox.remember(trial.trial_id, self.services.start_row(trial))
            self.storage.know(intake.known)
        intake.trial = trial
        return intake

    def _wait_for_known(self, trial: Trial, known: KnownMedia) -> None:
        """Wait until a trial's earlier index is read: at most ``_LOAD_SECONDS`` in total while none is read."""
        # it may begin again at its first result
        may_be_known = trial.last_result or self.services.restored.get(trial.trial_id)
        if not may_be_known or self.storage.is_away:
            return
        started = time.monotonic()
        if known.wait_until_complete(self._load_patience):
            self._load_patience = _LOAD_SECONDS
            return
        self._load_patience = max(0.0, self._load_patience - (time.monotonic() - started))
        logger.info("tune_media: the index of trial %s is not read yet; its storage is slow", trial.trial_id)

    def read(self, trial: Trial, result: dict[str, Any]) -> Report:
        """Replace the media of a result by their paths, and append it to the outbox; once for all callbacks."""
        self.services.faults.raise_first()
        if not self._summary.has_results:  # by now all callbacks were told that the trial starts
            self._retire_readers()
        self._is_settled = False
        self._summary.reported(trial.trial_id)
        if self._last is not None and self._last.result is result:
            return self._last
        intake = self._intake_of(trial)
        with self.services.faults.guard("the store", "reading where a trial goes on"):
            self._wait_for_known(trial, intake.known)
        has_row = any(reader.reads and "metrics" not in reader.backend.in_loop for reader in self._readers.values())
        taken = self._take(result, intake, after=self._outbox.last, has_row=has_row)
        self._last = taken.report
        if taken.went_back and self._renderer is not None:  # before its row: what is rendered later is not behind it
            self._renderer.goes_back(trial.trial_id, taken.report.training_iteration)
        self._summary.pending(trial.trial_id, taken.pending)
        self._keep(intake, taken)
        return taken.report

    def read_copy(self, trial: Trial, result: dict[str, Any]) -> None:
        """Replace the media in a copy of a result, which Tune keeps, by their paths; once for all callbacks."""
        if self._last_copy is result:
            return
        self._last_copy = result
        intake = self._intake_of(trial)
        self._keep(intake, self._take(result, intake, is_copy=True))

    def _take(self, result: dict[str, Any], intake: TrialIntake, **options: Any) -> ResultIntake:
        services = self.services
        return take_media(
            result, intake, services.faults, raw_fps=services.options.raw_fps, room=self._maker.room, **options
        )

    def _keep(self, intake: TrialIntake, taken: ResultIntake) -> None:
        """Append the rows of a result, all at once, and have contents made."""
        rows, faults = taken.rows, self.services.faults
        self._hold_unpackable(taken)  # a reader may be faster than this thread
        try:
            try:
                last = self.append(rows) if rows else 0
            except OutboxFullError as error:
                faults.report("the outbox", "keeping media", error, kind=DROPPED)
                rows = [without_content(row, no_room(error)) for row in rows]
                last = self._append_names(rows)
        except (OSError, sqlite3.Error) as error:  # the driver's disk does not even take the names of media
            faults.report("the outbox", "writing to the driver's disk", error, kind=DROPPED)
            for entry in taken.entries:
                intake.known.forget(entry.medium.id, entry.section, entry.key)
                self._summary.lost(entry.path)
            rows, last = [], 0
        for seq, row in enumerate(rows, last - len(rows) + 1):
            if not row.ready:
                self._maker.make(seq, row.entry)
            elif row.kind == "result" and taken.held_as in self.services.unpackable:
                self._rows_of_unpackable[taken.held_as] = seq
        faults.raise_first()

    def _append_names(self, rows: list[NewRow]) -> int:
        """Append rows that only name what there is no room for, and without the result's values if need be."""
        try:
            return self.append(rows)
        except OutboxFullError:
            rows = [NewRow(row.trial, row.kind) if row.kind == "result" else row for row in rows]
            return self.append(rows, is_bounded=False)

    def _hold_unpackable(self, taken: ResultIntake) -> None:
        """Hold the values of a result that are no plain data until all readers have passed its row."""
        if not taken.unpackable:
            return
        passed = min((self._outbox.position(key) for key in self._readers), default=0)
        rows = {name: row for name, row in self._rows_of_unpackable.items() if row > passed}
        held = {name: values for name, values in self.services.unpackable.items() if name in rows}
        if len(held) < _MAX_UNPACKABLE:
            held[taken.held_as] = taken.unpackable
        self.services.unpackable, self._rows_of_unpackable = held, rows

    def checkpoint(self, trial: Trial, path: str) -> None:
        """Append a checkpoint, a folder on this machine."""
        with self.services.faults.guard("the outbox", "appending a checkpoint"):
            self.append([NewRow(trial.trial_id, "checkpoint", CheckpointRow(path).packed())])

    def end_trial(self, trial_id: str, status: Status) -> None:
        """Append one row for the end of a trial, and forget its state."""
        if self.running.pop(trial_id, None) is not None:
            self._append_end(trial_id, status)

    def _append_end(self, trial_id: str, status: Status) -> None:
        self._intakes.pop(trial_id, None)
        self._last_media.pop(trial_id, None)
        self.services.restored.pop(trial_id, None)
        self._last = None
        with self.services.faults.guard("the outbox", "ending a trial"):
            if self._renderer is None or not self._renderer.end_trial(trial_id, status):
                self._begin_readers()
                self._outbox.end(trial_id, status)

    # -- rows ---------------------------------------------------------------------------------------------------------

    def append(self, rows: Sequence[NewRow], *, is_bounded: bool = True) -> int:
        """Append rows to the outbox, and wake the readers; rows that are not ``is_bounded`` only name lost media.

        Raises OutboxFullError if there is no room, and OSError or sqlite3.Error if the disk takes nothing.
        """
        self._begin_readers()  # before: rows that no thread reads would be taken for delivered
        last = self._outbox.append(rows, self.services.options.max_spilled_bytes if is_bounded else None)
        for row in rows:
            if row.kind in ("media", TAPE, "episodes"):
                self._last_media[row.trial] = last
                self._summary.has_new = True
        if any(row.kind == TAPE for row in rows):
            self._render([row for row in self._outbox.read(last - len(rows), len(rows)) if row.kind == TAPE])
        return last

    def _begin_readers(self) -> None:
        self.storage.begin()
        for reader in self._readers.values():
            if reader.reads:
                reader.begin()

    def _render(self, rows: Sequence[Row]) -> None:
        if not rows:
            return
        if self._renderer is None:
            from tune_media.callbacks.tape_renderer import TapeRenderer  # loads the encoder

            self._renderer = TapeRenderer(self.services)
        self._summary.has_new = True
        self._renderer.add(rows)

    # -- state and end ------------------------------------------------------------------------------------------------

    def settle(self) -> dict[str, Any]:
        """Wait a moment for what has been reported, so that no snapshot of Tune's is ahead of what is stored.

        All callbacks ask, one after the other; only the first one waits. Returns the state for a restored experiment.
        """
        if not self._is_settled:
            self._is_settled = True
            if not self.storage.is_away:
                self.storage.wait(_SETTLE_SECONDS)
        behind: dict[str, list[str]] = {}
        last = 0  # not known
        with self.services.faults.guard("the outbox", "reading what waits"):
            last = self._outbox.written
            behind = {key: reader.behind for key, reader in self._readers.items()}
            running = set(self._outbox.trials_without_end())  # a restore looks for the media of these
            late = self._outbox.trials_behind(STORAGE, ("media", "episodes"))
            behind[STORAGE] = [trial for trial in late if trial not in running]
        behind = {key: trials for key, trials in behind.items() if trials}
        self._was_behind |= bool(behind)
        state = {"last": last, "media": dict(self._last_media), "has_media": self._summary.has_media}
        return {"outbox": {**state, "behind": behind}}

    def _name_gaps(self, behind: dict[str, list[str]], last: int) -> None:
        """Warn of what waited for a reader when Tune took its snapshot at row ``last``, in an outbox that is lost."""
        services = self.services
        if behind and delivered_to(services.filesystem, services.experiment) >= last:
            return  # it was delivered after the snapshot, and the outbox was removed
        for reader, trials in behind.items():
            text = (
                f"the {reader} may lack the last data of {counted(len(trials), 'trial')} from before the restore "
                f"({first_names(trials)}): it waited in the outbox of the driver before, which is not on this machine, "
                "or is of another version"
            )
            if reader != STORAGE:
                text = text.removeprefix("the ")
                text += f". `tune-media export {self._summary.argument} --to ...` logs what the storage has anew"
            self.services.faults.problems.add(Problem(text))

    def end_now(self) -> None:
        """End the callbacks of an experiment that Tune has not ended: by SIGTERM, or by an error out of ``fit``."""
        if threading.current_thread() is threading.main_thread():
            signal.alarm(0)  # on SIGTERM Ray has the process aborted after three seconds
        self.services.exit_by = time.monotonic() + _EXIT_SECONDS
        for member in list(self._members):
            with contextlib.suppress(Exception):
                member.on_experiment_end(list(self.running.values()))
            if member in self._members:  # it serves another experiment by now
                self.leave(member)

    def end_all_trials(self, trials: Sequence[Trial]) -> None:
        """The experiment is over: end the trials that run, and those that a killed driver had not ended."""
        services = self.services
        if services.ended_at is not None:
            return
        services.ended_at = time.monotonic()
        self._maker.close(services.time_left(CONTENT_SHARE))
        statuses: dict[str, Status] = {trial.trial_id: _status_of(trial) for trial in trials}
        is_interrupted = services.exit_by is not None or "interrupted" in map(_status_of, self.running.values())
        for trial_id, trial in list(self.running.items()):
            self.end_trial(trial_id, "interrupted")
            for reader in self._readers.values():
                reader.call_in_loop("end", trial, "interrupted")
        ending = self._renderer.ending if self._renderer is not None else set()
        for trial_id in set(self._outbox.trials_without_end()) - ending:
            self._append_end(trial_id, statuses.get(trial_id, "interrupted"))
        if self._renderer is not None:
            self._begin_readers()
            with self.services.faults.guard("the outbox", "ending the rendering"):
                self._renderer.finish(None if is_interrupted else services.time_left(CONTENT_SHARE))
        with self.services.faults.guard("the outbox", "letting go of readers"):
            self._retire_readers()
        for reader in self._readers.values():
            reader.expect_end()

    def _retire_readers(self) -> None:
        """Drop the rows that wait for callbacks that an earlier process had, and the restored experiment has not."""
        for name, rows in self._outbox.remove_readers_but([STORAGE, *self._readers]).items():
            if rows:
                logger.warning(
                    "tune_media: %d rows waited for %s when the driver was killed, and the restored experiment has no "
                    "such callback; `tune-media export` logs the experiment to it.",
                    rows,
                    name,
                )

    def leave(self, member: Member) -> None:
        """A callback is done; the last one waits for what is outstanding, and says what was recorded and where."""
        self._members = [other for other in self._members if other is not member]
        if self._members:
            return
        with _LOCK:
            _SESSIONS.pop(self.key, None)
        atexit.unregister(self.end_now)
        self.end_all_trials([])
        are_readers_done = all(reader.is_done for reader in self._readers.values())
        are_readers_done &= self._renderer is None or self._renderer.is_empty
        with self.services.faults.guard("the store", "beginning to write", later=True):
            if are_readers_done and self._was_behind:
                self.storage.put_chore("noting that all is delivered", self._note_delivered)
            self.storage.begin()
        seconds = self.services.time_left()
        if self.services.exit_by is None:  # a tracker with a time of its own may have used it up
            seconds = max(seconds, (1 - TRACKER_SHARE) * self.services.options.flush_seconds)
        is_stored = self.storage.close(seconds)
        if not is_stored:
            self.storage.count_unwritten()
        is_all_delivered = is_stored and are_readers_done and not self._outbox.has_parked
        for reader in self._readers.values():
            reader.name_lacks()
        with contextlib.suppress(OSError, ValueError):  # the standard output is closed
            print(self._summary.line(), flush=True)
        self._outbox.close(remove=is_all_delivered)
        self.services.faults.raise_first()

    def _note_delivered(self) -> None:
        if not self._outbox.has_parked:
            note_delivered(self.services.filesystem, self.services.experiment, self._outbox.last)

    def _adopt_options(self, member: Member) -> None:
        """Take over a member's options, if it was given any and is the first."""
        options = member.given_options
        if options is None:
            return
        if self.services.options is DEFAULT_OPTIONS:
            self.services.options, self.services.faults.strict = options, options.strict
        elif options != self.services.options:
            logger.warning(
                "%s has other MediaOptions than a callback before it; those of the first are used for all. "
                "Pass media= to one, or the same to each.",
                member.name,
            )

    def _look_for_donor(self, trial: Trial, known: KnownMedia) -> None:
        """See whether a trial starts from the checkpoint of another one, as population-based training has it do.

        Only a start tells: Tune gives a trial its donor's checkpoint before it shows us the trial's own last result.
        """
        donation = donor_of(trial)
        if donation is None:
            return
        folder, iteration = donation
        ids = {start.folder: id for id, start in self._outbox.all_trials().items()}
        donor = ids.get(folder, folder)
        link = f"{donor}@{iteration}"
        if known.lineage[:1] != (link,):
            others = self._intakes[donor].known.lineage if donor in self._intakes else ()
            known.descends_from((link, *others))


def _status_of(trial: Trial) -> Status:
    return STATUS_OF.get(str(trial.status), "interrupted")


_ONLY_IN_EVALUATION = (
    "record_episodes is only in evaluation_config (callbacks or callbacks_class), so no code of it runs in the "
    "Algorithm, and nothing that it records gets into a result. Pass it to config.callbacks(...); sections= says what "
    "it records"
)


def _has_recorder(config: Any) -> bool:
    """Return whether an RLlib config has a recorder among its callbacks."""
    if not isinstance(config, dict):
        return False
    values = (config.get(name) for name in ("callbacks", "callbacks_class"))
    callbacks = (item for value in values for item in (value if isinstance(value, (list, tuple)) else [value]))
    return any(getattr(type(callback), "records_episodes", False) for callback in callbacks)
