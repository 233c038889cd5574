"""The media of one experiment on the Tune driver, shared by all callbacks of the family.

The callback that sees a result first takes the media out of it; the others get the same entries. The storage has a
thread, and each backend has one. None of them waits for another, and Tune's loop waits for none.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from tune_media.callbacks.backend import Report
from tune_media.callbacks.faults import Faults
from tune_media.callbacks.intake import Intake
from tune_media.callbacks.summary import Summary
from tune_media.callbacks.trials import Trials
from tune_media.callbacks.writing import Writer
from tune_media.ray_compat import mark_as_logged
from tune_media.storage.entry import MediaEntry
from tune_media.values.options import MediaOptions

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

logger = logging.getLogger("tune_media")

_SESSIONS: dict[str, MediaSession] = {}  # by the experiment's local folder
_LOCK = threading.Lock()

_SETTLE_SECONDS = 1.0  # how long Tune's snapshot of an experiment waits for media that it counts as reported
_EXIT_SECONDS = 20.0  # how long a process that is told to end waits


class Member(Protocol):
    """A callback of the session."""

    @property
    def name(self) -> str:
        """Its name, for warnings."""

    given_options: MediaOptions | None

    def end(self, trials: list[Trial]) -> None:
        """End the callback as the end of an experiment does."""


class MediaSession:
    """The media of one experiment, and the life of the callbacks that log them.

    Tune's loop calls all methods; atexit calls ``end_now`` if the process is told to end.

    Args:
        key: The experiment's folder on the driver.
    """

    def __init__(self, key: str) -> None:
        self.key = key
        self.options = MediaOptions()
        self.faults = Faults(strict=False)
        self.is_ending_now = False
        self.summary = Summary(self.faults)
        self.trials = Trials(self.faults, lambda: self.writer)
        self.writer = Writer(self.faults, self.summary, lambda: self.options, Path(key).parent, self.trials)
        self._intake = Intake(self.trials, self.writer, self.faults, self.summary, lambda: self.options)
        self._options_are_given = False
        self._members: list[Member] = []
        self._waited = 0.0  # for the storage, at the end
        self._exit_by: float | None = None
        self._is_settled = True

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
        """A trial starts, for the first time or again."""
        with self.faults.guard("the recorders", "telling them that a logger callback runs"):
            mark_as_logged(trial)
        self.trials.begin(trial)

    def read(self, trial: Trial, result: dict[str, Any]) -> tuple[Report, list[MediaEntry]]:
        """Replace the media of a result by their paths; return it, and the new media, the same for every callback."""
        self.faults.raise_first()
        self._is_settled = False
        return self._intake.read(trial, result)

    def replace(self, trial: Trial, result: dict[str, Any]) -> None:
        """Replace the media in a copy of a result by their paths."""
        self._intake.replace(trial, result)

    def on_storage(self, what: str, work: Callable[[], None], key: Any = None) -> None:
        """Queue work for the storage's thread; while the storage is away it is tried again."""
        self.writer.later(what, work, key)

    def forget(self, trial: Trial) -> None:
        """A trial is over: nothing of it is held any longer, once it is written."""
        self._intake.forget(trial)
        self.trials.forget(trial)

    def settle(self) -> dict[str, Any] | None:
        """Wait a moment until what was reported is stored: Tune is about to note down that it was.

        All callbacks ask, one after the other; what the first has waited for in vain is not worth the wait again.

        Returns:
            The state that a restored experiment must know.
        """
        if not self._is_settled:
            self._is_settled = True
            self.writer.queue.wait(_SETTLE_SECONDS, patiently=False)
        keeper = self.trials.keeper
        return {"best": keeper.best} if keeper and keeper.best else None

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what ``settle`` returned before the experiment was restored."""
        if self.trials.keeper is not None and state.get("best"):
            self.trials.keeper.best = state["best"]

    def wait_for_storage(self) -> bool:
        """Wait until everything is stored that was to be, as long as the end may take."""
        begun = time.monotonic()
        is_done = self.writer.queue.wait(self.time_left())
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
        return max(0.0, left if self._exit_by is None else min(left, self._exit_by - time.monotonic()))

    def end_now(self) -> None:
        """End the callbacks of an experiment that Tune has not ended: the process was told to end, by SIGTERM say."""
        self.is_ending_now = True
        if threading.current_thread() is threading.main_thread() and hasattr(signal, "alarm"):  # Windows has none
            signal.alarm(0)  # on SIGTERM Ray has the process aborted after three seconds
        self._exit_by = time.monotonic() + _EXIT_SECONDS
        for member in list(self._members):
            with contextlib.suppress(Exception):
                member.end(list(self.trials.running.values()))
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
        self.trials.finish()
        unwritten = self.writer.close(self.time_left())
        self.trials.give_up(TimeoutError(f"not done within {self.options.flush_seconds:g} s"))
        if unwritten:
            logger.warning(
                "tune_media: the storage did not accept %d write(s) (the first: %s) within %g s "
                "(MediaOptions(flush_seconds=...)). The files that could be saved are in %s, under the same paths.",
                len(unwritten),
                unwritten[0],
                self.options.flush_seconds,
                self.key,
            )
        with contextlib.suppress(OSError, ValueError):  # nobody reads the standard output, or it is closed
            print(self.summary.line(), flush=True)
        self.faults.raise_first()

    def _adopt(self, member: Member) -> None:
        """Take over a member's options, if it was given any and is the first."""
        given = member.given_options
        if given is None:
            return
        if not self._options_are_given:
            self.options, self.faults.strict, self._options_are_given = given, given.strict, True
            self.trials.set_retention(given.retention)
        elif given != self.options:
            logger.warning(
                "%s has other MediaOptions than a callback before it; those of the first are used for all. "
                "Pass media= to one, or the same to each.",
                member.name,
            )
