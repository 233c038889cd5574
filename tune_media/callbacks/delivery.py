"""The way from Tune's hooks to one backend: in order, in a thread of its own, bounded, and never raising into Tune."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tune_media.callbacks.backend import Backend, Report, Status, TrialInfo
from tune_media.callbacks.mailbox import Mailbox
from tune_media.callbacks.spool import UnreadableError
from tune_media.callbacks.work_queue import WorkQueue
from tune_media.storage.entry import DROPPED, MediaEntry
from tune_media.values.options import MediaOptions

if TYPE_CHECKING:
    from tune_media.callbacks.session import MediaSession

logger = logging.getLogger("tune_media")

_MAX_NAMES = 5
_MESSAGE_BYTES = 500  # of a message itself


@dataclass(frozen=True)
class _Message:
    """A call of one of a backend's methods, or other work for its thread.

    Attributes:
        method: ``start``, ``metrics``, ``media``, ``end``, ``finish``, or ``work``.
        trial_id: The trial; empty for ``finish`` and ``work``.
        argument: The method's other argument.
        name: A name for warnings.
    """

    method: str
    trial_id: str
    argument: Any
    name: str


class LateError(TimeoutError):
    """The end of the experiment could not wait for it any longer."""


class _Missing:
    """Counts what a backend does not have of each trial. Any thread calls any method."""

    def __init__(self) -> None:
        self._lacks: dict[str, Counter[str]] = {}
        self._lock = threading.Lock()

    def add(self, trial_id: str, noun: str) -> None:
        """Count something that the backend does not have of a trial."""
        with self._lock:
            self._lacks.setdefault(trial_id, Counter())[noun] += 1

    def say(self, name: str, waited: float, allowed: float) -> None:
        """Warn of everything that was added, once; of nothing if there is nothing."""
        with self._lock:
            lacks, self._lacks = self._lacks, {}
        if not lacks:
            return
        total = sum(lacks.values(), Counter[str]())
        names = ", ".join(sorted(lacks)[:_MAX_NAMES]) + (", ..." if len(lacks) > _MAX_NAMES else "")
        logger.warning(
            "tune_media: %s lacks %s of %d trial(s): %s. Everything is in the trials' folders. The warnings above say "
            "why. The end of the experiment waited %.1f s for it, and may wait %g s.",
            name,
            ", ".join(f"{count} {noun}" for noun, count in sorted(total.items())),
            len(lacks),
            names,
            waited,
            allowed,
        )


class Delivery:
    """Delivers what Tune reports to one backend; it is the backend's ``Context``, too.

    Tune's loop calls ``start``, ``metrics``, ``media``, ``end`` and ``finish``. The backend's own thread, made when it
    is first needed, calls the backend, except for the methods that its ``in_loop`` names.

    Args:
        backend: The backend.
        session: The session of the experiment.
    """

    def __init__(self, backend: Backend, session: MediaSession) -> None:
        self._backend, self._session = backend, session
        self.name = backend.name or type(backend).__name__
        self._trials: dict[str, TrialInfo] = {}  # that the backend has started
        self._given: set[str] = set()  # trials that Tune has started and not ended
        self._missing = _Missing()
        self._keys: set[Any] = set()  # of work that waits
        self._lock = threading.Lock()
        self._queue: WorkQueue | None = None
        self._mailbox: Mailbox[_Message] | None = None
        self._deadline: float | None = None
        backend.context = self

    @property
    def options(self) -> MediaOptions:
        """The user's options."""
        return self._session.options

    def has(self, trial_id: str) -> bool:
        """Return whether a trial has been started, and not ended."""
        return trial_id in self._given

    def start(self, trial: TrialInfo) -> None:
        """Start a trial, or go on with it."""
        self._send(_Message("start", trial.trial_id, trial, "starting a trial"), _MESSAGE_BYTES)
        if "start" not in self._backend.in_loop or trial.trial_id in self._trials:
            self._given.add(trial.trial_id)

    def metrics(self, trial_id: str, report: Report) -> None:
        """Hand over a result."""
        nbytes = 0
        if "metrics" not in self._backend.in_loop:
            with self.guard("reading a result"):
                report.settle()
                nbytes = report.nbytes
        self._send(_Message("metrics", trial_id, report, "logging metrics"), nbytes)

    def media(self, trial_id: str, entry: MediaEntry) -> None:
        """Hand over a medium."""
        self._send(_Message("media", trial_id, entry, f"logging {entry.path}"), entry.medium.nbytes)

    def end(self, trial_id: str, status: Status) -> None:
        """End a trial, unless it never started."""
        if trial_id in self._given:
            self._given.discard(trial_id)
            self._send(_Message("end", trial_id, status, "ending a trial"), _MESSAGE_BYTES)

    def finish(self) -> None:
        """End what is left, wait for the backend as long as the end may take, and say what it lacks."""
        for trial_id in sorted(self._given):
            self.end(trial_id, "interrupted")
        patience = self._backend.patience
        allowed = self.options.flush_seconds if patience is None else patience
        begun = time.monotonic()
        self._deadline = begun + self._session.patience(allowed)
        self._send(_Message("finish", "", None, "finishing"), 0)
        if self._queue is not None and self._mailbox is not None:
            late = LateError("not done in time")
            for task in self._queue.close(self.seconds_left()):
                task.give_up(late)
            for message in self._mailbox.take_rest(named=True):
                self._give_up(message, late)
        self._missing.say(self.name, time.monotonic() - begun, allowed)

    def guard(self, what: str) -> contextlib.AbstractContextManager[None]:
        """Turn an exception into one warning and a count, or let it through if strict."""
        return self._session.faults.guard(self.name, what)

    def fault(self, what: str, error: Exception, kind: str = "") -> None:
        """Count a fault, and warn of it if it is the first of its kind."""
        self._session.faults.report(self.name, what, error, kind)

    def lacks(self, trial_id: str, what: str) -> None:
        """Name something in the warning at the end that the backend does not have of a trial."""
        self._missing.add(trial_id, what)

    def later(self, what: str, work: Callable[[], None], key: Any = None) -> None:
        """Run work in the backend's thread, after everything that it was given before."""
        with self._lock:
            if key is not None and key in self._keys:
                return
            self._keys.add(key)
        self._send(_Message("work", "", (work, key), what), 0)

    def on_storage(self, what: str, work: Callable[[], None], key: Any = None) -> None:
        """Run work in the storage's thread, and again while the storage is away."""
        self._session.on_storage(what, work, key)

    def wait_for_storage(self) -> bool:
        """Wait until everything is stored, as long as the end may take; return whether it is."""
        return self._session.wait_for_storage()

    def seconds_left(self) -> float:
        """Return how long the end may still take; infinite before it has begun."""
        if self._deadline is None:
            return float("inf")
        return max(0.0, self._deadline - time.monotonic())

    def _open(self) -> tuple[WorkQueue, Mailbox[_Message]]:
        if self._queue is None or self._mailbox is None:
            self._queue = WorkQueue(self.name, self._is_away, self._report_work, niceness=self._backend.niceness)
            self._mailbox = Mailbox(
                self._queue,
                self._call,
                self._give_up,
                lambda message: message.name,
                lambda: self.options.max_pending_bytes,
                self._say_that_it_spills,
                self._lose,
                Path(self._session.key).parent,
                lambda: self.options.max_spilled_bytes,
                without_content=lambda message: dataclasses.replace(message, argument=None),
            )
        return self._queue, self._mailbox

    def _send(self, message: _Message, nbytes: int) -> None:
        if message.method in self._backend.in_loop:
            with self.guard(message.name):
                self._call(message)
            return
        self._open()[1].put(message, nbytes, in_memory=message.method not in ("metrics", "media"))

    def _lose(self, message: _Message, error: OSError) -> None:
        """Take note of a message that neither memory nor the driver's disk takes, or that the disk does not return."""
        waited = isinstance(error, UnreadableError)
        where = "which waited on the driver's disk" if waited else "which cannot wait on the driver's disk either"
        self.fault(f"{message.name}, {where},", error, kind=DROPPED)
        self._give_up(message, error)

    def _call(self, message: _Message) -> None:
        """Call the backend; its own thread does, or Tune's loop."""
        if message.method == "work":
            work, key = message.argument
            with self._lock:
                self._keys.discard(key)
            work()
        elif message.method == "finish":
            self._backend.finish()
        elif message.method == "start":
            self._backend.start(message.argument)
            self._trials[message.trial_id] = message.argument
        elif message.trial_id not in self._trials:  # its start failed, which has been reported
            self.lacks(message.trial_id, _NOUNS[message.method])
        else:
            self._call_for(self._trials[message.trial_id], message)

    def _call_for(self, trial: TrialInfo, message: _Message) -> None:
        """Call a method of the backend that is about a trial which has been started."""
        if message.method == "metrics":
            self._backend.metrics(trial, message.argument)
        elif message.method == "end":
            self._backend.end(trial, message.argument)
            self._trials.pop(trial.trial_id, None)
        elif not message.argument.is_lost:
            self._backend.media(trial, message.argument)

    def _give_up(self, message: _Message, error: Exception) -> None:
        """Take note of a message that the backend did not take."""
        if message.method in _NOUNS:
            self.lacks(message.trial_id, _NOUNS[message.method])
        if message.method == "end":
            self._trials.pop(message.trial_id, None)
        if message.method == "finish" and isinstance(error, LateError):
            own = self._backend.patience is not None
            logger.warning(
                "tune_media: %s had not finished when the experiment ended, so its last data may be missing. To wait "
                "longer, increase %s.",
                self.name,
                "its own time limit" if own else f"MediaOptions(flush_seconds={self.options.flush_seconds:g})",
            )

    def _is_away(self, error: Exception) -> bool:
        if not self._session.faults.strict:
            with self.guard("asking whether an error will pass"):
                return self._backend.is_away(error)
        return False

    def _report_work(self, what: str, error: Exception, again: bool) -> None:
        what, kind = (f"{what} (it is tried again)", "away") if again else (what, "")
        self.fault(what, error, kind)

    def _say_that_it_spills(self) -> None:
        logger.warning(
            "tune_media: %s hangs, or is slower than the results arrive: more than "
            "MediaOptions(max_pending_bytes=%d) wait for it. The rest waits on the driver's disk, in %s.",
            self.name,
            self.options.max_pending_bytes,
            Path(self._session.key).parent,
        )


_NOUNS = {"start": "start(s)", "metrics": "result(s)", "media": "media", "end": "end(s)"}
