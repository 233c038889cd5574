"""The media of one experiment on the Tune driver, shared by all callbacks of the family.

Whichever callback sees a result first takes the media out of it; the others get the same entries. Two threads do the
slow work, each in order: one writes to the storage and tries again while it is away, the other shows (makes GIFs, hands
over to trackers). Neither waits for the other, and Tune's loop for none.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import logging
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tune_media.callbacks.faults import Faults
from tune_media.callbacks.keeping import Keeper
from tune_media.callbacks.outbox import Outbox, Work
from tune_media.compat import latest_checkpoint_metrics
from tune_media.entries import DROPPED, FAILED, STORED, Entry, NotMadeError, Package, Place
from tune_media.episode_files import DATA_KEY, FOLDER
from tune_media.episodes import EpisodeBatch
from tune_media.legacy import RECORDER, Windows, new_episodes
from tune_media.reader import Found, replace_media
from tune_media.store import TrialStore
from tune_media.values import MediaOptions

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

logger = logging.getLogger("tune_media")

_SESSIONS: dict[str, MediaSession] = {}  # by the experiment's local folder
_LOCK = threading.Lock()

_LOAD_SECONDS = 5.0  # how long a restored trial's first result waits for its index
_SETTLE_SECONDS = 1.0  # how long Tune's snapshot of an experiment waits for media that it counts as reported
_EXIT_SECONDS = 20.0  # how long a process that is told to end waits
_MOST_NAMES = 5


class Member(Protocol):
    """A callback's hold on its session."""

    name: str
    given_options: MediaOptions | None

    def end(self, trials: list[Trial]) -> None:
        """End the callback as the end of an experiment does."""


class MediaSession:
    """The media of one experiment.

    Args:
        key: The experiment's local folder.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        self.options = MediaOptions()
        self.faults = Faults(strict=False)
        self.keeper: Keeper | None = None
        self._options_are_given = False
        self._members: list[Member] = []
        self._trials: dict[str, Trial] = {}  # those that are not over
        self._stores: dict[str, TrialStore] = {}
        # One is enough: Tune shows a result to all callbacks, then the next one.
        self._last: tuple[dict[str, Any] | None, list[Entry]] = (None, [])
        self._windows: dict[str, Windows] = {}
        self._new_in_lists: dict[str, dict[tuple[str, ...], list[Any]]] = {}
        self._counts: Counter[str] = Counter()
        self._lost: list[str] = []
        self._with_media: set[str] = set()
        self._experiment_path = ""
        self._deadline: float | None = None
        self._is_settled = True
        self._patience = _LOAD_SECONDS
        self._storage = Outbox("storage", self._is_worth_another_try, self._report_storage, keeps_order=False)
        self._shows = Outbox("media", lambda error: False, lambda what, error, again: None)

    @classmethod
    def join(cls, key: str, member: Member) -> MediaSession:
        """Return the session of an experiment, opened by the first callback that asks."""
        with _LOCK:
            session = _SESSIONS.get(key)
            if session is None:
                session = _SESSIONS[key] = cls(key)
                atexit.register(session.end_now)
            session._members.append(member)
        session._adopt(member)
        return session

    def begin(self, trial: Trial) -> None:
        """A trial starts, for the first time or again: find out what it has, and whose clone it is."""
        self._trials[trial.trial_id] = trial
        with self.faults.guard("the store", "opening a trial's index"):
            store = self._store(trial)
            store.is_over = False
            self._look_for_donor(trial, store)

    def take(self, trial: Trial, result: dict[str, Any]) -> list[Entry]:
        """Replace the media of a result by their paths; return those that are new, the same for every callback."""
        self.faults.raise_first()
        last, entries = self._last
        if last is not result:
            self._is_settled = False
            with self.faults.guard("the store", "reading where a trial goes on"):
                self._goes_on(trial, result)
            entries = self.replace(trial, result, is_new=True)
            self._last = (result, entries)
        return entries

    def new_in_lists(self, trial: Trial) -> dict[tuple[str, ...], list[Any]]:
        """Return what is new in the lists of a trial's last result that repeat a window, by their place in it."""
        return self._new_in_lists.get(trial.trial_id, {})

    def replace(self, trial: Trial, result: dict[str, Any], *, is_new: bool = False) -> list[Entry]:
        """Replace the media of a result by their paths and have them written; return those that are new.

        Where a medium cannot be stored, text that says so stands in its place: no result keeps its bytes.

        Args:
            trial: The trial.
            result: What it reported; changed.
            is_new: Whether it is the next result of the trial, rather than a copy that Tune keeps.
        """
        entries: list[Entry] = []
        told: set[str] = set()  # sections whose recorder has what the old API stack repeats
        step, iteration = result_step(result), _whole(result.get("training_iteration"))
        report_path = functools.cache(lambda: self._store(trial).report_path(step))

        def place(found: Found) -> str:
            medium = found.medium
            if isinstance(medium, EpisodeBatch) and medium.holds_legacy:
                told.add(found.section)
            with self.faults.guard("the store", f"storing {found.section}/{found.key}"):
                own_path = report_path if isinstance(medium, EpisodeBatch) else None
                path, entry = self._store(trial).register(medium, found.section, found.key, step, iteration, own_path)
                if entry is not None:
                    entries.append(entry)
                return path
            return f"not stored: {medium.kind} {found.section}/{found.key}"

        try:
            replace_media(result, place, self.options.raw_fps, self._report_unread)
            if is_new:
                self._read_legacy(trial, result, place, told)
        finally:  # whatever comes after them, what is registered is written
            store = self._stores.get(trial.trial_id)
            if entries and store is not None:
                self._write_later(trial, store, entries)
            if store is not None and store.has_revived:
                self.on_storage("marking what is recorded again", store.mark_rolled_back)
        return entries

    def later(self, name: str, what: str, work: Callable[[], None], nbytes: int = 0) -> None:
        """Queue what is shown, for its thread; what it raises becomes one warning.

        Args:
            name: Of the callback.
            what: What it is.
            work: Does it.
            nbytes: How much memory it holds. Where too much waits, a clip is not shown, counted and named.
        """

        def guarded() -> None:
            with self.faults.guard(name, what, background=True):
                work()

        if not self._shows.put(Work(what, guarded, nbytes), self.options.max_pending_bytes):
            reason = RuntimeError(f"more than MediaOptions(max_pending_bytes={self.options.max_pending_bytes}) wait")
            self.faults.report(name, f"{what}; it is in the trial's folder", reason, kind=DROPPED)

    def on_storage(self, what: str, work: Callable[[], None], key: Any = None) -> None:
        """Queue what is written, for the storage's thread; while the storage is away it is tried again.

        Args:
            what: What it is.
            work: Does it.
            key: While work with this key waits, no more of it is queued.
        """
        self._storage.put(Work(what, work, key=key))

    def forget(self, trial: Trial) -> None:
        """A trial is over: nothing of it is held any longer, once it is written."""
        self._last = (None, [])
        for held in (self._windows, self._new_in_lists, self._trials):
            held.pop(trial.trial_id, None)
        store = self._stores.get(trial.trial_id)
        if store is None or store.is_over:
            return
        store.is_over = True

        def finish() -> None:
            store.finish()
            if store.is_over and not store.index_is_held:  # else it has begun again, or a sync may undo the copy
                self._stores.pop(store.place.trial_id, None)

        self.on_storage("copying an index", finish)

    def settle(self) -> None:
        """Wait a moment until what was reported is stored: Tune is about to note down that it was.

        All callbacks ask, one after the other; what the first has waited for in vain is not worth the wait again.
        """
        if self._is_settled:
            return
        self._is_settled = True
        self._storage.wait(_SETTLE_SECONDS, patiently=False)

    def wait(self) -> bool:
        """Wait until everything is shown that was to be, as long as the end may take."""
        return self._shows.wait(self.time_left())

    def wait_for_storage(self) -> bool:
        """Wait until everything is stored that was to be, as long as the end may take."""
        return self._storage.wait(self.time_left())

    def time_left(self) -> float:
        """Return how long the end of the experiment, which has begun now at the latest, may still take; seconds."""
        if self._deadline is None:
            self._deadline = time.monotonic() + self.options.flush_seconds
        return max(0.0, self._deadline - time.monotonic())

    @property
    def is_ending_now(self) -> bool:
        """Whether the process has been told to end."""
        return self._is_ending_now

    _is_ending_now = False

    def end_now(self) -> None:
        """End the callbacks of an experiment that Tune has not ended: the process was told to end, by SIGTERM say."""
        self._is_ending_now = True
        if threading.current_thread() is threading.main_thread():
            signal.alarm(0)  # on SIGTERM Ray has the process aborted after three seconds
        self._deadline = time.monotonic() + min(self.options.flush_seconds, _EXIT_SECONDS)
        for member in list(self._members):
            with contextlib.suppress(Exception):
                member.end(list(self._trials.values()))
            if member in self._members:  # it serves another experiment by now
                self.leave(member)

    def leave(self, member: Member) -> None:
        """A callback is done; the last one waits for what is outstanding, and says what was recorded and where."""
        self._members = [other for other in self._members if other is not member]
        if self._members:
            return
        with _LOCK:
            _SESSIONS.pop(self.key, None)
        atexit.unregister(self.end_now)
        self._shows.wait(self.time_left())
        for store in list(self._stores.values()):
            self.on_storage("copying an index", store.finish)
        unwritten, unshown = self._storage.close(self.time_left()), self._shows.close(0)
        late = TimeoutError(f"not done within {self.options.flush_seconds:g} s")
        for work in unwritten:
            work.give_up(late)
        for store in self._stores.values():
            store.go_on_without(late)
        if unwritten or unshown:
            logger.warning(
                "tune_media: the storage did not take %d piece(s) of work (the first: %s), and %d were not shown, "
                "within %g s (MediaOptions(flush_seconds=...)). What could be kept is in %s, at the places that the "
                "storage lacks.",
                len(unwritten),
                unwritten[0].what if unwritten else "none",
                len(unshown),
                self.options.flush_seconds,
                self.key,
            )
        print(self.summary(), flush=True)
        self.faults.raise_first()

    def summary(self) -> str:
        """Say in a line what was recorded and where it lies."""
        if not self._experiment_path:
            told = f" {self.faults.count} fault(s) were met; the first of each kind is in the log."
            return "tune_media: no result held media." + (told if self.faults.count else "")
        stored, lost = self._counts[STORED], self._counts[FAILED] + self._counts[DROPPED]
        size = self._counts["bytes"] / 1e6
        line = (
            f"tune_media: stored {stored} media of {len(self._with_media)} trial(s), {size:.2g} MB, in "
            f"{self._experiment_path}/<trial>/media, listed in its index.jsonl."
        )
        if self._counts["episodes"]:
            line += f" What is known of {self._counts['episodes']} episodes is in <trial>/{FOLDER}."
        if lost:
            names = ", ".join(self._lost) + (", ..." if lost > len(self._lost) else "")
            line += f" {lost} could not be stored ({names}): see the lines of the index whose status is not 'stored'."
        if self.faults.count:
            line += f" {self.faults.count} fault(s) were met on the way; the first of each kind is in the log."
        return line

    def _adopt(self, member: Member) -> None:
        """Take over a member's options, where it has been given any and is the first."""
        given = member.given_options
        if given is None:
            return
        if not self._options_are_given:
            self.options, self.faults.strict, self._options_are_given = given, given.strict, True
            self.keeper = Keeper(given.retention) if given.retention else None
            for store in self._stores.values():  # of the trial that is just starting
                store.retention = given.retention
                self.on_storage("reading an index again", store.know_files)
        elif given != self.options:
            logger.warning(
                "%s has other MediaOptions than a callback before it; those of the first are used for all. "
                "Pass media= to one, or the same to each.",
                member.name,
            )

    def _store(self, trial: Trial) -> TrialStore:
        """Return the trial's store; what earlier runs listed is read by the storage's thread, before all else."""
        store = self._stores.get(trial.trial_id)
        if store is None:
            report = functools.partial(self.faults.report, "the index", "reading or writing a trial's index")
            store = TrialStore(trial_place(trial), self.options.retention, report)
            self._stores[trial.trial_id] = store
            self._storage.put(
                Work("reading an index", store.load, give_up=store.go_on_without, is_vital=True), first=True
            )
        return store

    def _goes_on(self, trial: Trial, result: dict[str, Any]) -> None:
        """Find out whether a trial's next result goes back behind earlier ones, and whether it is the best."""
        store = self._store(trial)
        if trial.last_result and not self._storage.is_away:
            self._wait_for_index(trial, store)
        iteration = _whole(result.get("training_iteration"))
        if store.goes_on(iteration, result_step(result)):
            self.on_storage("marking what was rolled back", store.mark_rolled_back)
        if self.keeper is not None:
            former = self.keeper.saw(trial.trial_id, result)
            if former is not None:
                self.on_storage("deleting media", functools.partial(self.keeper.tidy_former_best, former))
        if store.index_is_late:
            self.on_storage("copying an index", store.finish, key=("index", trial.trial_id))

    def _wait_for_index(self, trial: Trial, store: TrialStore) -> None:
        """Wait until what earlier runs of a trial listed is read; for all trials together not long, if none ever is."""
        started = time.monotonic()
        if store.wait_until_loaded(self._patience):
            self._patience = _LOAD_SECONDS
            return
        self._patience = max(0.0, self._patience - (time.monotonic() - started))
        logger.info("tune_media: the index of trial %s is not read yet; its storage is slow", trial.trial_id)

    def _look_for_donor(self, trial: Trial, store: TrialStore) -> None:
        """See whether a trial starts from the checkpoint of another one, as population-based training has it do.

        Only a start tells: Tune gives a trial its donor's checkpoint before it shows us the trial's own last result.
        """
        metrics = latest_checkpoint_metrics(trial) or {}
        donor, iteration = metrics.get("trial_id"), metrics.get("training_iteration")
        if not isinstance(donor, str) or donor == trial.trial_id:
            return
        link = f"{donor}@{iteration}"
        if store.lineage[:1] != (link,):
            others = self._stores[donor].lineage if donor in self._stores else ()
            store.descends_from((link, *others))

    def _read_legacy(self, trial: Trial, result: dict[str, Any], place: Callable[[Found], str], told: set[str]) -> None:
        """Take what is new of what the old API stack reports of single episodes."""
        windows = self._windows.setdefault(trial.trial_id, Windows())
        new_in_lists = self._new_in_lists[trial.trial_id] = {}
        for new in new_episodes(result, windows, self._report_unstored):
            is_known = False
            path = None
            if new.batch.episodes and new.section not in told:
                before = self._store(trial).knows(new.batch)
                path = place(Found(new.section, f"{RECORDER}{DATA_KEY}", new.batch))
                is_known = before
            new.put(path)
            new_in_lists.update({where: [] if is_known else values for where, values in new.lists.items()})

    def _report_unstored(self, what: str) -> None:
        self.faults.report("episode data", "storing a value", TypeError(what), kind=what)

    def _report_unread(self, key: str, reason: str) -> None:
        self.faults.report("the reader", f"reading {key!r}", ValueError(reason), kind=key)

    def _report_storage(self, what: str, error: Exception, again: bool) -> None:
        if isinstance(error, NotMadeError) and isinstance(error.__cause__, Exception):
            error = error.__cause__
        what, kind = (f"{what} (it is tried again)", "away") if again else (what, "")
        self.faults.report("the store", what, error, kind)

    def _is_worth_another_try(self, error: Exception) -> bool:
        """Say whether the storage may take it later: a disk that is full, a network that is down."""
        return not isinstance(error, NotMadeError) and not self.faults.strict

    def _write_later(self, trial: Trial, store: TrialStore, entries: Sequence[Entry]) -> None:
        self._experiment_path = trial.storage.experiment_fs_path
        packages = [Package(trial.trial_id, [entry]) for entry in entries if not entry.is_episodes]
        episodes = [entry for entry in entries if entry.is_episodes]
        packages += [Package(trial.trial_id, episodes)] if episodes else []
        for package in packages:
            work = Work(
                f"writing {package.path}",
                functools.partial(self._write, store, package),
                sum(entry.medium.nbytes for entry in package.entries),
                functools.partial(self._rescue, store, package),
            )
            if not self._storage.put(work, self.options.max_pending_bytes):
                self._overflow(store, package)

    def _overflow(self, store: TrialStore, package: Package) -> None:
        """Too much waits: a clip is dropped; what is known of episodes waits in the driver's folder."""
        reason = f"more than MediaOptions(max_pending_bytes={self.options.max_pending_bytes}) wait to be written"
        self.faults.report("the store", f"keeping {package.path}", RuntimeError(reason), kind=DROPPED)
        if package.entries[0].is_episodes:
            self.later("the store", f"keeping {package.path}", functools.partial(self._put_aside, store, package))
            return
        (entry,) = package.entries
        self._count_lost(package, DROPPED)
        store.give_up(entry, DROPPED, reason)  # at once: what waits to be listed would hold the clip

    def _write(self, store: TrialStore, package: Package) -> None:
        """Write a package; called again while the storage is away."""
        self._counts["bytes"] += store.write(package)
        self._with_media.add(store.place.trial_id)
        if package.entries[0].is_episodes:
            self._counts["episodes"] += sum(entry.medium.facts()["episodes"] for entry in package.entries)
            if package.problems:
                self.faults.report("the store", f"writing {package.path}", ValueError(package.problems))
            return
        self._counts[STORED] += 1
        if self.keeper is not None:
            self.on_storage("deleting media", functools.partial(self.keeper.tidy, store))

    def _put_aside(self, store: TrialStore, package: Package) -> None:
        """Keep files in the driver's folder until the storage takes them; in memory is no room for them."""
        try:
            store.keep_here(package, "too much waits to be written")
        except Exception:
            self._count_lost(package, FAILED)
            raise
        path, files, episodes = package.path, list(package.files()), 0
        for entry in package.entries:
            entry.status = STORED  # for those who show it: it is there
            episodes += entry.medium.facts()["episodes"]

        def bring() -> None:
            self._counts["bytes"] += store.bring(path, files)
            self._counts["episodes"] += episodes
            self._with_media.add(store.place.trial_id)

        def give_up(error: Exception) -> None:
            self._counts[FAILED] += 1
            self._name_lost(path)

        self._storage.put(Work(f"writing {path}", bring, give_up=give_up))

    def _rescue(self, store: TrialStore, package: Package, error: Exception) -> None:
        """Keep in the driver's folder what the storage does not take."""
        self._count_lost(package, FAILED)
        if isinstance(error, NotMadeError):
            return
        with self.faults.guard("the store", f"keeping {package.path} in the driver's folder", background=True):
            store.keep_here(package, f"{type(error).__name__}: {error}")

    def _count_lost(self, package: Package, status: str) -> None:
        self._counts[status] += len(package.entries)
        self._name_lost(package.path)

    def _name_lost(self, path: str) -> None:
        if len(self._lost) < _MOST_NAMES:
            self._lost.append(path)


def trial_place(trial: Trial) -> Place:
    """Return where a trial's files are."""
    storage = trial.storage
    return Place(storage.storage_filesystem, storage.trial_fs_path, Path(trial.local_path or ""), trial.trial_id)


def result_step(result: dict[str, Any]) -> int:
    """Return the step at which Ray's TensorBoard logger shows a result."""
    return _whole(result.get("timesteps_total")) or _whole(result.get("training_iteration"))


def _whole(number: Any) -> int:
    """Return a count as a whole number; 0 where it is none."""
    try:
        return int(number)
    except (TypeError, ValueError, OverflowError):
        return 0
