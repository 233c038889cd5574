"""What the logger callbacks share: one session an experiment, in which results are read and media written once.

Whichever callback of the family sees a result first takes the media out of it; the others get the same entries. Slow
work (encoding, writing, making GIFs) is done in order by one background thread, so that Tune's loop never waits and
what is said of a clip is said after it is there.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import logging
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tune_media.compat import latest_checkpoint_metrics
from tune_media.episode_files import DATA_KEY, FOLDER
from tune_media.episodes import EpisodeBatch
from tune_media.legacy import RECORDER, Windows, new_episodes
from tune_media.reader import Found, replace_media
from tune_media.store import DROPPED, FAILED, STORED, Entry, Place, TrialStore
from tune_media.values import MediaOptions

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

logger = logging.getLogger("tune_media")

_SESSIONS: dict[str, MediaSession] = {}  # by the experiment's local folder
_LOCK = threading.Lock()
_SECRETS: set[str] = set()


class MediaLogging:
    """A callback's hold on the session of its experiment; picklable, since it holds nothing until a trial starts.

    Args:
        name: What the callback logs to, for warnings.
        options: The user's options; all callbacks of one experiment share the first that are given.
    """

    def __init__(self, name: str, options: MediaOptions | None) -> None:
        if options is not None and not isinstance(options, MediaOptions):
            raise TypeError(f"media= takes a tune_media.MediaOptions, got {options!r}.")
        self.name = name
        self.given_options = options
        self._session: MediaSession | None = None

    @property
    def options(self) -> MediaOptions:
        """The options in force."""
        return self._session.options if self._session else self.given_options or MediaOptions()

    def open(self, trial: Trial) -> None:
        """Join the session of the trial's experiment; whatever else is called comes after it."""
        key = str(trial.storage.experiment_driver_staging_path)
        if self._session is None or self._session.key != key:
            self._session = MediaSession.join(key, self)

    def take(self, trial: Trial, result: dict[str, Any]) -> list[Entry]:
        """Replace the media of a result by their paths, and return those that are new in it."""
        self.open(trial)
        assert self._session is not None
        with self.guard("reading media from a result"):
            return self._session.take(trial, result)
        return []

    def new_in_lists(self, trial: Trial) -> dict[tuple[str, ...], list[Any]]:
        """Return what is new in the lists of a trial's last result that repeat a window, by their place in it."""
        return self._session.new_in_lists(trial) if self._session else {}

    def take_from_checkpoint(self, trial: Trial) -> None:
        """Replace the media in the metrics that Tune keeps with the trial's latest checkpoint."""
        self.open(trial)
        assert self._session is not None
        with self.guard("reading media from a checkpoint's metrics"):
            metrics = latest_checkpoint_metrics(trial)
            if metrics is not None:
                self._session.replace(trial, metrics)

    def trial_is_over(self, trial: Trial) -> None:
        """Let go of what is only needed while a trial runs."""
        if self._session is not None:
            self._session.forget(trial)

    def later(self, what: str, work: Callable[[], None]) -> None:
        """Have the background thread do something, after all it was given before; needs an open session."""
        if self._session is not None:
            self._session.later(self.name, what, work)

    def guard(self, what: str) -> contextlib.AbstractContextManager[None]:
        """Turn an exception into one warning, or let it through where the options say ``strict``."""
        faults = self._session.faults if self._session else Faults(strict=self.options.strict)
        return faults.guard(self.name, what)

    def report(self, what: str, error: Exception, kind: str = "") -> None:
        """Count a fault and warn of the first of its kind."""
        if self._session is not None:
            self._session.faults.report(self.name, what, error, kind)

    def keep_secret(self, *secrets: str | None) -> None:
        """Keep keys and tokens out of every message."""
        _SECRETS.update(secret for secret in secrets if secret)

    def wait(self) -> None:
        """Wait until the background thread has done all it was given so far, within ``flush_seconds``."""
        if self._session is not None and not self._session.wait():
            late = TimeoutError(f"media are still being written after {self.options.flush_seconds:g} s")
            self.report("logging the last of them", late, kind="late")

    def finish(self) -> None:
        """Wait until everything this session was given is done; the last callback to finish says what there is."""
        session, self._session = self._session, None
        if session is not None:
            session.leave(self)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_session": None}


class MediaSession:
    """The media of one experiment, on the Tune driver."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.options = MediaOptions()
        self.faults = Faults(strict=False)
        self._options_are_given = False
        self._members: list[MediaLogging] = []
        self._stores: dict[str, TrialStore] = {}
        self._last: dict[str, tuple[dict[str, Any], list[Entry]]] = {}
        self._windows: dict[str, Windows] = {}
        self._new_in_lists: dict[str, dict[tuple[str, ...], list[Any]]] = {}
        self._counts: Counter[str] = Counter()
        self._trials: set[str] = set()
        self._pending_bytes = 0
        self._pending_lock = threading.Lock()
        self._worker = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="tune_media")
        self._experiment_path = ""

    @classmethod
    def join(cls, key: str, member: MediaLogging) -> MediaSession:
        """Return the session of an experiment, opened by the first callback that asks."""
        with _LOCK:
            session = _SESSIONS.get(key)
            if session is None:
                session = _SESSIONS[key] = cls(key)
            session._members.append(member)
        session._adopt(member)
        return session

    def take(self, trial: Trial, result: dict[str, Any]) -> list[Entry]:
        """Replace the media of a result by their paths; return those that are new, the same for every callback."""
        self.faults.raise_first()
        last, entries = self._last.get(trial.trial_id, (None, []))
        if last is not result:
            entries = self.replace(trial, result, is_new=True)
            self._last[trial.trial_id] = (result, entries)
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

        replace_media(result, place, self.options.raw_fps, self._report_unread)
        if is_new:
            self._read_legacy(trial, result, place, told)
        self._write_later(trial, entries)
        store = self._stores.get(trial.trial_id)
        if store is not None and store.index_is_late:
            self.later("the index", "bringing the storage's copy up to date", store.finish)
        return entries

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

    def forget(self, trial: Trial) -> None:
        """A trial is over: its last result is not held any longer."""
        for held in (self._last, self._windows, self._new_in_lists):
            held.pop(trial.trial_id, None)

    def later(self, name: str, what: str, work: Callable[[], None]) -> None:
        """Queue work for the background thread; what it raises becomes one warning."""

        def guarded() -> None:
            with self.faults.guard(name, what, background=True):
                work()

        self._worker.submit(guarded)

    def leave(self, member: MediaLogging) -> None:
        """A callback is done; the last one waits for what is outstanding, and says what was recorded and where."""
        self._members = [other for other in self._members if other is not member]
        if self._members:
            return
        for store in self._stores.values():
            self.later("the index", "bringing the storage's copy up to date", store.finish)
        with _LOCK:
            _SESSIONS.pop(self.key, None)
        if not self.wait():
            logger.warning(
                "tune_media: media are still being written after %g s (MediaOptions(flush_seconds=...)); the process "
                "ends when they are.",
                self.options.flush_seconds,
            )
        self._worker.shutdown(wait=False)
        print(self.summary(), flush=True)
        self.faults.raise_first()

    def wait(self) -> bool:
        """Wait for the background thread, within ``flush_seconds``; return whether it has done all it was given."""
        try:
            self._worker.submit(lambda: None).result(timeout=self.options.flush_seconds)
        except concurrent.futures.TimeoutError:
            return False
        return True

    def summary(self) -> str:
        """Say in a line what was recorded and where it lies."""
        if not self._experiment_path:
            told = f" {self.faults.count} fault(s) were met; the first of each kind is in the log."
            return "tune_media: no result held media." + (told if self.faults.count else "")
        stored, lost = self._counts[STORED], self._counts[FAILED] + self._counts[DROPPED]
        size = self._counts["bytes"] / 1e6
        line = (
            f"tune_media: stored {stored} media of {len(self._trials)} trial(s), {size:.2g} MB, in "
            f"{self._experiment_path}/<trial>/media, listed in its index.jsonl."
        )
        if self._counts["episodes"]:
            line += f" What is known of {self._counts['episodes']} episodes is in <trial>/{FOLDER}."
        if lost:
            line += f" {lost} could not be stored: see the lines of the index whose status is not 'stored'."
        if self.faults.count:
            line += f" {self.faults.count} fault(s) were met on the way; the first of each kind is in the log."
        return line

    def _adopt(self, member: MediaLogging) -> None:
        """Take over a member's options, where it has been given any and is the first."""
        given = member.given_options
        if given is None:
            return
        if not self._options_are_given:
            self.options, self.faults.strict, self._options_are_given = given, given.strict, True
        elif given != self.options:
            logger.warning(
                "%s has other MediaOptions than a callback before it; those of the first are used for all. "
                "Pass media= to one, or the same to each.",
                member.name,
            )

    def _store(self, trial: Trial) -> TrialStore:
        """Return the trial's store, opened (and its earlier index read) when first asked for."""
        if trial.trial_id not in self._stores:
            self._experiment_path = trial.storage.experiment_fs_path
            self._stores[trial.trial_id] = TrialStore(trial_place(trial))
        return self._stores[trial.trial_id]

    def _report_unread(self, key: str, reason: str) -> None:
        self.faults.report("the reader", f"reading {key!r}", ValueError(reason), kind=key)

    def _write_later(self, trial: Trial, entries: Sequence[Entry]) -> None:
        store = self._store(trial) if entries else None
        if store is None:
            return
        for entry in entries:
            if not entry.is_episodes:
                self._write_one_later(store, entry)
        episodes = [entry for entry in entries if entry.is_episodes]
        if episodes:  # records and numbers are never dropped
            work = functools.partial(self._write_episodes, store, episodes)
            self.later("the store", f"writing {episodes[0].path}", work)

    def _write_one_later(self, store: TrialStore, entry: Entry) -> None:
        size = entry.medium.nbytes
        with self._pending_lock:
            fits = self._pending_bytes + size <= self.options.max_pending_bytes
            self._pending_bytes += size if fits else 0
        if fits:
            self.later("the store", f"writing {entry.path}", functools.partial(self._write, store, entry, size))
            return
        reason = f"more than MediaOptions(max_pending_bytes={self.options.max_pending_bytes}) wait to be written"
        self.faults.report("the store", f"keeping {entry.path}", RuntimeError(reason), kind=DROPPED)
        entry.status = DROPPED
        self._counts[DROPPED] += 1
        self.later("the index", "listing a dropped clip", functools.partial(store.give_up, entry, DROPPED, reason))

    def _write(self, store: TrialStore, entry: Entry, size: int) -> None:
        try:
            self._counts["bytes"] += store.write(entry)
            self._trials.add(store.place.trial_id)
        finally:
            with self._pending_lock:
                self._pending_bytes -= size
            self._counts[entry.status or FAILED] += 1

    def _write_episodes(self, store: TrialStore, entries: Sequence[Entry]) -> None:
        try:
            self._counts["bytes"] += store.write_episodes(entries)
            self._counts["episodes"] += sum(entry.medium.facts()["episodes"] for entry in entries)
            self._trials.add(store.place.trial_id)
        except Exception:
            self._counts[FAILED] += len(entries)
            raise


class Faults:
    """Counts what went wrong and says each kind of it once.

    Args:
        strict: Let exceptions through; those of the background are raised at the next chance.
    """

    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.count = 0
        self._told: set[tuple[str, ...]] = set()
        self._first: Exception | None = None

    @contextlib.contextmanager
    def guard(self, name: str, what: str, *, background: bool = False) -> Iterator[None]:
        """Turn an exception into one warning, or let it through where strict."""
        try:
            yield
        except Exception as error:
            if self.strict and not background:
                raise
            self.report(name, what, error)

    def report(self, name: str, what: str, error: Exception, kind: str = "") -> None:
        """Count a fault and warn of the first of its kind: of its place and type, and of what else ``kind`` says."""
        self.count += 1
        self._first = self._first or error
        seen = (name, type(error).__name__, kind)
        if seen in self._told:
            return
        self._told.add(seen)
        logger.warning(
            "tune_media: %s: %s failed (%s: %s). Training goes on; further faults of this kind are counted only. "
            "To stop at the first, pass media=MediaOptions(strict=True).",
            name,
            what,
            type(error).__name__,
            redacted(str(error)),
            exc_info=logger.isEnabledFor(logging.DEBUG) and not _SECRETS,
        )

    def raise_first(self) -> None:
        """Raise what the background met, where strict."""
        if self.strict and self._first is not None:
            error, self._first = self._first, None
            raise error


def without_address(text: str) -> str:
    """Return a text without the places in memory that objects show, which differ from result to result."""
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def redacted(text: str) -> str:
    """Return a message without the keys and passwords that it may repeat."""
    for secret in _SECRETS:
        text = text.replace(secret, "***")
    return re.sub(r"(\w+://)[^/@\s]+@", r"\1***@", text)


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
