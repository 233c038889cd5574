"""One experiment on the Tune driver, shared by all callbacks of the family.

The callback that sees a result first takes the media out of it and appends it to the outbox. The storage has a reader,
and each backend that is not called in Tune's loop has one. None of them waits for another, and Tune's loop waits for
none.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import signal
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tune_media.callbacks.backend import STATUS_OF, Backend, Report, Status, TrialInfo
from tune_media.callbacks.faults import Faults
from tune_media.callbacks.hyperparameters import hyperparameters
from tune_media.callbacks.intake import Intake
from tune_media.callbacks.maker import Maker
from tune_media.callbacks.outbox import DATA_KINDS, STORAGE, TAPE, NewRow, Outbox, Row, outbox_root, remove_expired
from tune_media.callbacks.readers import BackendReader
from tune_media.callbacks.retention_check import RetentionCheck
from tune_media.callbacks.storage_writer import StorageWriter
from tune_media.callbacks.summary import Summary
from tune_media.ray_compat import donor_of, experiment_timestamp, mark_as_logged
from tune_media.storage.entry import DROPPED, MediaEntry
from tune_media.storage.filesystem import as_argument, for_small_files, place_name
from tune_media.storage.known_media import KnownMedia
from tune_media.values.options import MediaOptions
from tune_media.values.plain import pack, unpack
from tune_media.values.recording_problems import RecordingProblem

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

    from tune_media.callbacks.callback import MediaLoggerCallback
    from tune_media.callbacks.tape_renderer import TapeRenderer

logger = logging.getLogger("tune_media")

_SESSIONS: dict[str, MediaSession] = {}  # by the experiment's local folder
_LOCK = threading.Lock()

_SETTLE_SECONDS = 1.0  # how long Tune's snapshot of an experiment waits for media that it counts as reported
_EXIT_SECONDS = 20.0  # how long a process that is told to end waits
_LOAD_SECONDS = 5.0  # how long a restored trial's first result waits for its lines


class MediaSession:
    """The media of one experiment, and the life of the callbacks that log them.

    Tune's loop calls all methods; atexit calls ``end_now`` if the process is told to end.

    Attributes:
        key: The experiment's folder on the driver.
        outbox: What is still to be delivered.
        options: The user's options.

    Args:
        key: The experiment's folder on the driver.
        trial: Any trial of the experiment.
        state: What ``settle`` returned before the experiment was restored; {} if it was not.
    """

    def __init__(self, key: str, trial: Trial, state: dict[str, Any]) -> None:
        self.key = key
        self.options = MediaOptions()
        self.faults = Faults(strict=False)
        self.summary = Summary(self.faults)
        self.is_ending_now = False
        self.wants_results = False
        self.running: dict[str, Trial] = {}
        self.outbox = _opened_outbox(trial)
        self._first = self.outbox.last
        filesystem, experiment = for_small_files(trial.storage.storage_filesystem), trial.storage.experiment_fs_path
        self._experiment_name = trial.experiment_dir_name
        known = state.get("outbox") or {}
        self.outbox.raise_to(int(known.get("last", 0)))
        reached = {} if self.outbox.is_adopted else dict(known.get("media") or {})
        self.summary.experiment = as_argument(filesystem, experiment)
        self.summary.had_media = bool(known.get("has_media"))
        self.storage = StorageWriter(self.outbox, self.faults, self.summary, filesystem, experiment, Path(key), reached)
        self._maker = Maker(self.outbox, self.faults)
        self._renderer: TapeRenderer | None = None  # from the first clip on that came as a tape
        self._intake = Intake(self)
        self._known: dict[str, KnownMedia] = {}
        self._readers: dict[str, BackendReader] = {}
        self._restored: dict[str, bool] = {}  # whether an earlier process began a trial
        self._folders: dict[str, str] = {}  # the trials' ids, by their folders
        self._ended: set[str] = set()  # the trials that have ended in this process
        self._begun: dict[str, set[int]] = {}  # the callbacks that were told that a trial starts, by trial
        self._last_media: dict[str, int] = dict(known.get("media") or {})  # the last row of each trial
        self._retention_check: RetentionCheck | None = None
        self._options_are_given = False
        self._members: list[MediaLoggerCallback] = []
        self._load_patience = _LOAD_SECONDS
        self._waited = 0.0  # for the storage, at the end
        self._exit_by: float | None = None
        self._is_settled = True
        self._has_results = self._has_ended = False
        if any(row.seq > self.outbox.position(STORAGE) for row in self.outbox.read_kinds(0, ("media",))):
            self.summary.begins(self.storage.experiment)
        self._maker.adopt(self.options.max_spilled_bytes)
        self._render(self.outbox.read_kinds(0, (TAPE,)))

    @classmethod
    def join(cls, trial: Trial, member: MediaLoggerCallback, state: dict[str, Any]) -> MediaSession:
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
        """Return a reader for a backend, which goes on where one of the same name was when its process was killed."""
        name, number = backend.name or type(backend).__name__, 1
        key = name
        while key in self._readers:
            number += 1
            key = f"{name} {number}"
        reader = self._readers[key] = BackendReader(backend, self, key, self._first)
        if reader.reads:
            self.wants_results |= "metrics" not in backend.in_loop
            if self.outbox.position(key) < self.outbox.last or self._renderer is not None:
                reader.begin()
        return reader

    # -- a trial's life -----------------------------------------------------------------------------------------------

    def begin(self, trial: Trial, member: MediaLoggerCallback) -> None:
        """A trial starts, for the first time or again: one row, whichever callback is told first."""
        begun = self._begun.setdefault(trial.trial_id, set())
        if begun and id(member) not in begun:
            begun.add(id(member))
            return
        self._begun[trial.trial_id] = {id(member)}
        self._ended.discard(trial.trial_id)
        self.running[trial.trial_id] = trial
        self.summary.has_recorder |= _has_recorder(trial.config)
        if _has_recorder(trial.config.get("evaluation_config")) and not _has_recorder(trial.config):
            self.summary.problems([RecordingProblem(_ONLY_IN_EVALUATION)])
        with self.faults.guard("the recorders", "telling them that a logger callback runs"):
            mark_as_logged(trial)
        with self.faults.guard("the outbox", "beginning a trial"):
            facts = self._facts_of(trial)
            self.outbox.remember(trial.trial_id, facts)
            self.append([NewRow(trial.trial_id, "start", pack(facts))], is_bounded=False)
            self._look_for_donor(trial, self.known_of(trial))

    def _facts_of(self, trial: Trial) -> dict[str, Any]:
        """Return a trial as plain data."""
        trial_id = trial.trial_id
        if trial_id not in self._restored:
            has_reported = bool((trial.last_result or {}).get("training_iteration"))  # Tune puts other things there
            self._restored[trial_id] = has_reported or self.outbox.trial(trial_id) is not None
        config, searched = hyperparameters(trial, trial.config)
        return {
            "name": str(trial),
            "folder": str(trial.storage.trial_dir_name),
            "config": config,
            "searched": searched,
            "time": time.time(),
            "restored": self._restored[trial_id],
            "process": self.outbox.began,
        }

    def known_of(self, trial: Trial) -> KnownMedia:
        """Return what is known of a trial's media; the storage's reader reads the lines of earlier runs."""
        known = self._known.get(trial.trial_id)
        if known is None:
            known = self._known[trial.trial_id] = KnownMedia(trial.trial_id)
            if self.outbox.trial(trial.trial_id) is None:
                self.outbox.remember(trial.trial_id, self._facts_of(trial))
            self.storage.know(known)
        return known

    def wait_for_known(self, trial: Trial, known: KnownMedia) -> None:
        """Wait until the index of a trial's earlier runs is read; for all trials together not long, if none ever is."""
        may_be_known = trial.last_result or self._restored.get(trial.trial_id)  # it may begin again at its first result
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
        self.faults.raise_first()
        if not self._has_results:  # by now all callbacks were told that the trial starts
            self._has_results = True
            self._retire_readers()
        self._is_settled = False
        self.summary.reported(trial.trial_id)
        return self._intake.read(trial, result)

    def extract_media(self, trial: Trial, result: dict[str, Any]) -> None:
        """Replace the media in a copy of a result by their paths."""
        self._intake.extract_media(trial, result, at=time.time())

    def checkpoint(self, trial: Trial, path: str) -> None:
        """Append a checkpoint, a folder on this machine."""
        with self.faults.guard("the outbox", "appending a checkpoint"):
            self.append([NewRow(trial.trial_id, "checkpoint", pack({"path": path}))])

    def end_trial(self, trial_id: str, status: Status) -> None:
        """A trial is over: one row, whichever callback is told first; hold nothing of it any longer."""
        if self.running.pop(trial_id, None) is not None:
            self._append_end(trial_id, status)

    def _append_end(self, trial_id: str, status: Status) -> None:
        self._ended.add(trial_id)
        self._begun.pop(trial_id, None)
        self._known.pop(trial_id, None)
        self._last_media.pop(trial_id, None)
        self._restored.pop(trial_id, None)
        self._intake.forget(trial_id)
        with self.faults.guard("the outbox", "ending a trial"):
            if self._renderer is None or not self._renderer.end_trial(trial_id, status):
                self._begin_readers()
                self.outbox.end(trial_id, status)

    # -- rows ---------------------------------------------------------------------------------------------------------

    def append(self, rows: Sequence[NewRow], *, is_bounded: bool = True) -> int:
        """Append rows to the outbox, and have the readers look.

        Args:
            rows: The rows.
            is_bounded: Whether there must be room for them. False: they only name what there was no room for.

        Raises:
            OutboxFullError: There is no room.
            OSError: The disk takes nothing.
            sqlite3.Error: The disk takes nothing.
        """
        last = self.outbox.append(rows, self.options.max_spilled_bytes if is_bounded else None)
        for row in rows:
            if row.kind in ("media", TAPE, "episodes"):
                self._last_media[row.trial] = last
                self.summary.begins(self.storage.experiment)
        self._begin_readers()
        if any(row.kind == TAPE for row in rows):
            self._render([row for row in self.outbox.read(last - len(rows), len(rows)) if row.kind == TAPE])
        return last

    def _begin_readers(self) -> None:
        self.storage.begin()
        for reader in self._readers.values():
            if reader.reads:
                reader.begin()

    def _render(self, rows: Sequence[Row]) -> None:
        """Have tapes rendered."""
        if not rows:
            return
        if self._renderer is None:
            from tune_media.callbacks.tape_renderer import TapeRenderer  # loads the encoder

            self._renderer = TapeRenderer(self.outbox, self.faults, self.summary)
            self._renderer.options = self.options
        self.summary.begins(self.storage.experiment)
        self._renderer.add(rows)

    def goes_back(self, trial_id: str, iteration: int) -> None:
        """Render nothing that a trial leaves behind: its next result has an iteration again."""
        if self._renderer is not None:
            self._renderer.goes_back(trial_id, iteration)

    def may_make_in_memory(self, nbytes: int) -> bool:
        """Say whether a raw array may wait in memory until it is encoded."""
        return self._maker.has_room(nbytes, self.options.max_pending_bytes)

    def make_later(self, row: int, entry: MediaEntry | None) -> None:
        """Have the content of a row made: of a medium, or of the raw array that the row holds."""
        if entry is not None and not self.may_make_in_memory(entry.medium.nbytes):
            reason = (
                f"more than MediaOptions(max_pending_bytes={self.options.max_pending_bytes}) wait in memory for "
                "their files to be made"
            )
            self.faults.report("the store", f"keeping {entry.path}", RuntimeError(reason), kind=DROPPED)
            self._maker.lose(row, DROPPED, reason)
            return
        self._maker.make(row, entry, self.options.max_spilled_bytes)

    def delivered(self) -> int:
        """Return the number of a row that all readers have passed."""
        return min((self.outbox.position(key) for key in self._readers), default=self.outbox.last)

    def live_values(self, row: int, names: Sequence[str]) -> dict[str, Any]:
        """Return the values of a result that are no plain data; they are lost with the process that got them."""
        values = self._intake.live_values(row)
        missing = [name for name in names if name not in map(str, values)]
        if missing:
            error = RuntimeError(f"{', '.join(missing[:5])}: not kept over a restart; report plain numbers or media")
            self.faults.report("the outbox", "reading values of a result", error, kind="live")
        return values

    # -- what readers ask ---------------------------------------------------------------------------------------------

    def trial_info(self, trial_id: str, facts: dict[str, Any]) -> TrialInfo:
        """Return a trial as a backend gets it."""
        place = self.storage.location(trial_id, facts["folder"])
        name, config, searched, time = (facts[name] for name in ("name", "config", "searched", "time"))
        is_restored = facts["restored"] or facts["process"] != self.outbox.began
        return TrialInfo(trial_id, name, self._experiment_name, config, place, None, searched, time, is_restored)

    def live_info(self, trial: Trial) -> TrialInfo:
        """Return a trial as Tune's loop hands it to a backend."""
        return replace(self.trial_info(trial.trial_id, self._facts_of(trial)), ray=trial)

    def on_storage(self, what: str, work: Callable[[], None], key: Any = None) -> None:
        """Queue work for the storage's thread; while the storage is away it is tried again."""
        self.storage.begin()
        self.storage.put_chore(what, work, key)

    # -- retention ----------------------------------------------------------------------------------------------------

    def check_retention(self, entries: Sequence[MediaEntry]) -> None:
        """Say if the policy compares by something that no clip has."""
        if self._retention_check is not None:
            self.summary.problems(self._retention_check.look(entries))

    # -- state and end ------------------------------------------------------------------------------------------------

    def settle(self) -> dict[str, Any]:
        """Wait a moment for what has been reported, so that no snapshot of Tune's is ahead of what is stored.

        All callbacks ask, one after the other; what the first has waited for in vain is not worth the wait again.

        Returns:
            The state that a restored experiment must know.
        """
        if not self._is_settled:
            self._is_settled = True
            if not self.storage.is_away:
                self.storage.wait(_SETTLE_SECONDS)
        media = dict(self._last_media)
        return {"outbox": {"last": self.outbox.last, "media": media, "has_media": self.summary.has_media}}

    def wait_for_storage(self, seconds: float) -> bool:
        """Wait until everything is stored that was to be, at most so long, and as long as the end may take."""
        begun = time.monotonic()
        is_done = self.storage.wait(min(seconds, self.time_left()))
        if self._has_ended:
            self._waited += time.monotonic() - begun
        return is_done

    def patience(self, seconds: float) -> float:
        """Return how long a part of the end may take: less if the process was told to end."""
        return min(seconds, self.time_left()) if self.is_ending_now else seconds

    def time_left(self) -> float:
        """Return how long the end of the experiment may still wait for the storage; seconds.

        The time that a tracker takes does not count, unless the process was told to end.
        """
        left = self.options.flush_seconds - self._waited
        if self.faults.strict and self.faults.count:  # the first fault ends it all
            left = min(left, 1.0)
        return max(0.0, left if self._exit_by is None else min(left, self._exit_by - time.monotonic()))

    def end_now(self) -> None:
        """End the callbacks of an experiment that Tune has not ended: the process was told to end, by SIGTERM say."""
        self.is_ending_now = True
        if threading.current_thread() is threading.main_thread():
            signal.alarm(0)  # on SIGTERM Ray has the process aborted after three seconds
        self._exit_by = time.monotonic() + _EXIT_SECONDS
        for member in list(self._members):
            with contextlib.suppress(Exception):
                member.on_experiment_end(list(self.running.values()))
            if member in self._members:  # it serves another experiment by now
                self.leave(member)

    def end_all_trials(self, trials: Sequence[Trial]) -> None:
        """The experiment is over: end the trials that run, and those that a killed driver had not ended."""
        if self._has_ended:
            return
        self._has_ended = True
        self._maker.close(self.patience(self.options.flush_seconds))
        statuses: dict[str, Status] = {trial.trial_id: _status_of(trial) for trial in trials}
        is_interrupted = self.is_ending_now or any(_status_of(one) == "interrupted" for one in self.running.values())
        for trial_id in list(self.running):
            self.end_trial(trial_id, "interrupted")
        for trial_id in set(self.outbox.trials_without_end()) - self._ended:
            self._append_end(trial_id, statuses.get(trial_id, "interrupted"))
        if self._renderer is not None:
            self._begin_readers()
            with self.faults.guard("the outbox", "ending the rendering"):
                self._renderer.finish(None if is_interrupted else self.time_left())
        if (self._renderer is not None or self.storage.may_have_suspects) and not self.storage.is_away:
            with self.faults.guard("the store", "marking suspect clips"):
                begun = time.monotonic()
                self.storage.look_for_suspects(self.time_left())
                self._waited += time.monotonic() - begun
        with self.faults.guard("the outbox", "letting go of readers"):
            self._retire_readers()

    def _retire_readers(self) -> None:
        """Let go of what waits for callbacks that an earlier process had, and the restored experiment has not."""
        retired = self.outbox.remove_readers_but([STORAGE, *self._readers])
        for name, rows in retired.items():
            if rows:
                logger.warning(
                    "tune_media: %d rows waited for %s when the driver was killed, and the restored experiment has no "
                    "such callback; `tune-media export` logs the experiment to it.",
                    rows,
                    name,
                )

    def leave(self, member: MediaLoggerCallback) -> None:
        """A callback is done; the last one waits for what is outstanding, and says what was recorded and where."""
        self._members = [other for other in self._members if other is not member]
        if self._members:
            return
        with _LOCK:
            _SESSIONS.pop(self.key, None)
        atexit.unregister(self.end_now)
        self.end_all_trials([])
        self.storage.begin()
        begun, left = time.monotonic(), self.time_left()
        is_stored = self.storage.close(left)
        if not is_stored:
            self.storage.count_unwritten()
        self._waited += time.monotonic() - begun
        is_all_delivered = is_stored and all(reader.is_done for reader in self._readers.values())
        is_all_delivered &= (self._renderer is None or self._renderer.is_empty) and not self.outbox.has_parked
        for row in self.outbox.held():  # the driver's disk is full to the end
            if row.kind in DATA_KINDS and row.kind != "result":
                self.summary.lost(unpack(row.data)["path"])
        with contextlib.suppress(OSError, ValueError):  # nobody reads the standard output, or it is closed
            print(self.summary.line(), flush=True)
        self.outbox.close(remove=is_all_delivered)
        self.faults.raise_first()

    def _adopt_options(self, member: MediaLoggerCallback) -> None:
        """Take over a member's options, if it was given any and is the first."""
        given = member.given_options
        if given is None:
            return
        if not self._options_are_given:
            self.options, self.faults.strict, self._options_are_given = given, given.strict, True
            if self._renderer is not None:
                self._renderer.options = given
            self.storage.set_retention(given.retention)
            self._retention_check = RetentionCheck(given.retention) if given.retention else None
        elif given != self.options:
            logger.warning(
                "%s has other MediaOptions than a callback before it; those of the first are used for all. "
                "Pass media= to one, or the same to each.",
                member.name,
            )

    def _look_for_donor(self, trial: Trial, known: KnownMedia) -> None:
        """See whether a trial starts from the checkpoint of another one, as population-based training has it do.

        Only a start tells: Tune gives a trial its donor's checkpoint before it shows us the trial's own last result.
        """
        found = donor_of(trial)
        if found is None:
            return
        folder, iteration = found
        donor = self._id_of(folder)
        link = f"{donor}@{iteration}"
        if known.lineage[:1] != (link,):
            others = self._known[donor].lineage if donor in self._known else ()
            known.descends_from((link, *others))

    def _id_of(self, folder: str) -> str:
        """Return the id of the trial that a folder belongs to, by its name."""
        if folder not in self._folders:
            self._folders |= {facts["folder"]: id for id, facts in self.outbox.all_trials().items()}
        return self._folders.get(folder, folder)


def _status_of(trial: Trial) -> Status:
    return STATUS_OF.get(str(trial.status), "interrupted")


_ONLY_IN_EVALUATION = (
    "record_episodes is only in evaluation_config (callbacks or callbacks_class), so no code of it runs in the "
    "Algorithm, and nothing that it records gets into a result. Pass it to config.callbacks(...); sections= says what "
    "it records"
)


def _has_recorder(config: Any) -> bool:
    """Say whether an RLlib config has a recorder among its callbacks."""
    if not isinstance(config, dict):
        return False
    found = (config.get(name) for name in ("callbacks", "callbacks_class"))
    each = (one for value in found for one in (value if isinstance(value, (list, tuple)) else [value]))
    return any(getattr(type(one), "records_episodes", False) for one in each)


def _opened_outbox(trial: Trial) -> Outbox:
    """Return the outbox of a trial's experiment: that of a killed process, or a new one.

    Raises:
        OSError: The driver's disk takes none.
    """
    root, storage = outbox_root(), trial.storage
    place = place_name(storage.storage_filesystem, storage.experiment_fs_path)
    outbox = Outbox.open(root, place, experiment_timestamp(trial))
    remove_expired(root)  # not before: this one may have waited longer
    outbox.add_reader(STORAGE)
    return outbox
