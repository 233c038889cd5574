"""What the logger callbacks share: one session an experiment, in which results are read and media written once.

Whichever callback of the family sees a result first takes the media out of it; the others get the same entries. Slow
work (encoding, writing, making GIFs) is done in order by one background thread, so that Tune's loop never waits and
what is said of a clip is said after it is there.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tune_media.compat import checkpoint_metrics
from tune_media.reader import Found, RawVideo, replace_media
from tune_media.store import DROPPED, FAILED, STORED, Entry, Place, TrialStore
from tune_media.values import MediaOptions, Medium

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

logger = logging.getLogger("tune_media")

_SESSIONS: dict[str, MediaSession] = {}  # by the experiment's local folder
_LOCK = threading.Lock()


class MediaLogging:
    """A callback's hold on the session of its experiment; picklable, since it holds nothing until a trial starts.

    Args:
        name: What the callback logs to, for warnings.
        options: The user's options; all callbacks of one experiment share those of the first.
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

    def take(self, trial: Trial, result: dict[str, Any]) -> list[Entry]:
        """Replace the media of a result by their paths, and return those that are new in it."""
        session = self._join(trial)
        with self.guard("reading media from a result"):
            return session.take(trial, result)
        return []

    def take_from_checkpoints(self, trial: Trial) -> None:
        """Replace the media in the metrics that Tune keeps with the trial's checkpoints."""
        session = self._join(trial)
        with self.guard("reading media from a checkpoint's metrics"):
            for metrics in checkpoint_metrics(trial):
                session.take(trial, metrics)

    def later(self, trial: Trial, what: str, work: Callable[[], None]) -> Future[None]:
        """Have the background thread do something, after all it was given before."""
        return self._join(trial).later(self.name, what, work)

    def guard(self, what: str) -> contextlib.AbstractContextManager[None]:
        """Turn an exception into one warning, or let it through where the options say ``strict``."""
        faults = self._session.faults if self._session else Faults(strict=self.options.strict)
        return faults.guard(self.name, what)

    def place(self, trial: Trial) -> Place:
        """Where the trial's files are."""
        return self._join(trial).store(trial).place

    def finish(self) -> None:
        """Wait until everything this session was given is done; the last callback to finish says what there is."""
        session, self._session = self._session, None
        if session is not None:
            session.leave(self)

    def flush(self) -> None:
        """Wait until everything that was given so far is done."""
        if self._session is not None:
            self._session.flush()

    def _join(self, trial: Trial) -> MediaSession:
        if self._session is None:
            self._session = MediaSession.join(trial, self)
        return self._session

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_session": None}


class MediaSession:
    """The media of one experiment, on the Tune driver."""

    def __init__(self, key: str, options: MediaOptions) -> None:
        self.options = options
        self.faults = Faults(strict=options.strict)
        self._key = key
        self._members: set[int] = set()
        self._stores: dict[str, TrialStore] = {}
        self._last: dict[str, tuple[dict[str, Any], list[Entry]]] = {}
        self._counts: Counter[str] = Counter()
        self._trials: set[str] = set()
        self._pending_bytes = 0
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="tune_media")
        self._experiment_path = ""

    @classmethod
    def join(cls, trial: Trial, member: MediaLogging) -> MediaSession:
        """Return the session of a trial's experiment, opened by the first callback that asks."""
        key = str(Path(trial.local_path or "").parent)
        with _LOCK:
            session = _SESSIONS.get(key)
            if session is None:
                session = _SESSIONS[key] = cls(key, member.given_options or MediaOptions())
            elif member.given_options not in (None, session.options):
                logger.warning(
                    "%s has other MediaOptions than the callback before it; those of the first are used for all. "
                    "Pass the same media= to each.",
                    member.name,
                )
            session._members.add(id(member))
        return session

    def store(self, trial: Trial) -> TrialStore:
        """Return the trial's store, opened (and its earlier index read) when first asked for."""
        if trial.trial_id not in self._stores:
            self._experiment_path = trial.storage.experiment_fs_path
            place = Place(
                trial.storage.storage_filesystem, trial.storage.trial_fs_path, Path(trial.local_path), trial.trial_id
            )
            self._stores[trial.trial_id] = TrialStore(place)
        return self._stores[trial.trial_id]

    def take(self, trial: Trial, result: dict[str, Any]) -> list[Entry]:
        """Replace the media of a result by their paths; return those that are new, the same for every callback."""
        self.faults.raise_first()
        last, entries = self._last.get(trial.trial_id, (None, []))
        if last is result:
            return entries
        entries = []
        store, step = self.store(trial), result_step(result)
        iteration = int(result.get("training_iteration") or 0)

        def place(found: Found) -> str:
            path, entry = store.register(found.medium, found.section, found.key, step, iteration)
            if entry is not None:
                entries.append(entry)
                self._write_later(store, entry)
            return path

        replace_media(result, place, self.options.raw_fps)
        self._last[trial.trial_id] = (result, entries)
        return entries

    def later(self, name: str, what: str, work: Callable[[], None]) -> Future[None]:
        """Queue work for the background thread; what it raises becomes one warning."""

        def guarded() -> None:
            with self.faults.guard(name, what, background=True):
                work()

        return self._worker.submit(guarded)

    def flush(self) -> None:
        """Wait, at most ``flush_seconds``, until the background thread has done what it was given so far."""
        try:
            self._worker.submit(lambda: None).result(timeout=self.options.flush_seconds)
        except TimeoutError:
            logger.warning("tune_media: some media are still being written after %g s.", self.options.flush_seconds)

    def leave(self, member: MediaLogging) -> None:
        """A callback is done; the last one closes the session and says what was recorded and where it lies."""
        self._members.discard(id(member))
        if self._members:
            return
        for store in self._stores.values():
            self.later("the index", "bringing the storage's copy up to date", store.finish)
        self.flush()
        self._worker.shutdown(wait=False)
        with _LOCK:
            _SESSIONS.pop(self._key, None)
        print(self.summary(), flush=True)
        self.faults.raise_first()

    def summary(self) -> str:
        """Say in a line what was recorded and where it lies."""
        stored, lost = self._counts[STORED], self._counts[FAILED] + self._counts[DROPPED]
        size = self._counts["bytes"] / 1e6
        line = (
            f"tune_media: {stored} media of {len(self._trials)} trials ({size:.1f} MB) in {self._experiment_path}"
            "/<trial>/media, listed in its index.jsonl."
        )
        if lost:
            line += f" {lost} could not be stored: see the lines of the index whose status is not 'stored'."
        if self.faults.count:
            line += f" {self.faults.count} faults were met on the way; the first of each kind is in the log."
        return line

    def _write_later(self, store: TrialStore, entry: Entry) -> None:
        size = _size(entry.medium)
        if self._pending_bytes + size > self.options.max_pending_bytes:
            reason = (
                f"{self._pending_bytes} bytes are waiting to be written, more than "
                f"MediaOptions(max_pending_bytes={self.options.max_pending_bytes})"
            )
            self._counts[DROPPED] += 1
            self.faults.report("the store", f"a clip was dropped: {reason}", RuntimeError(reason))
            store.give_up(entry, DROPPED, reason)
            return
        self._pending_bytes += size
        self.later("the store", f"writing {entry.path}", functools.partial(self._write, store, entry, size))

    def _write(self, store: TrialStore, entry: Entry, size: int) -> None:
        try:
            store.write(entry)
            self._trials.add(store.place.trial_id)
            self._counts["bytes"] += _size(entry.medium)
        finally:
            self._pending_bytes -= size
            self._counts[entry.status or FAILED] += 1


class Faults:
    """Counts what went wrong and says each kind of it once.

    Args:
        strict: Let exceptions through; those of the background are raised at the next chance.
    """

    def __init__(self, strict: bool = False) -> None:
        self.strict = strict
        self.count = 0
        self._told: set[tuple[str, str, str]] = set()
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

    def report(self, name: str, what: str, error: Exception) -> None:
        """Count a fault and warn of the first of its kind."""
        self.count += 1
        self._first = self._first or error
        kind = (name, type(error).__name__, str(error)[:40])
        if kind in self._told:
            return
        self._told.add(kind)
        logger.warning(
            "tune_media: %s: %s failed (%s: %s). Training goes on; further faults of this kind are counted only. "
            "To stop at the first, pass media=MediaOptions(strict=True).",
            name,
            what,
            type(error).__name__,
            error,
            exc_info=logger.isEnabledFor(logging.DEBUG),
        )

    def raise_first(self) -> None:
        """Raise what the background met, where strict."""
        if self.strict and self._first is not None:
            error, self._first = self._first, None
            raise error


def result_step(result: dict[str, Any]) -> int:
    """Return the step at which Ray's TensorBoard logger shows a result."""
    return int(result.get("timesteps_total") or result.get("training_iteration") or 0)


def wait(future: Future[None] | None, seconds: float) -> None:
    """Wait for background work for a bounded time; whether it failed has been said elsewhere."""
    if future is None:
        return
    deadline = time.monotonic() + seconds
    with contextlib.suppress(Exception):
        future.result(timeout=max(0.0, deadline - time.monotonic()))


def _size(medium: Medium) -> int:
    if isinstance(medium, RawVideo) and hasattr(medium, "frames"):
        return medium.nbytes
    return len(getattr(medium, "data", b""))
