"""What the logger callbacks share: their hold on the session of their experiment."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tune_media.callbacks.faults import Faults, keep_secret, redacted, without_address
from tune_media.callbacks.session import MediaSession, result_step, trial_place
from tune_media.compat import latest_checkpoint_metrics
from tune_media.entries import Entry
from tune_media.values import MediaOptions

if TYPE_CHECKING:
    from ray.tune import Callback
    from ray.tune.experiment import Trial

__all__ = ["FamilyMember", "MediaLogging", "redacted", "result_step", "trial_place", "without_address"]


class MediaLogging:
    """A callback's hold on the session of its experiment; picklable, since it holds nothing until a trial starts.

    Args:
        callback: The callback.
        name: What it logs to, for warnings.
        options: The user's options; all callbacks of one experiment share the first that are given.
    """

    def __init__(self, callback: Callback | None, name: str, options: MediaOptions | None) -> None:
        if options is not None and not isinstance(options, MediaOptions):
            raise TypeError(f"media= takes a tune_media.MediaOptions, got {options!r}.")
        self.name = name
        self.given_options = options
        self._callback = callback
        self._session: MediaSession | None = None
        self._state: dict[str, Any] = {}

    @property
    def options(self) -> MediaOptions:
        """The options in force."""
        return self._session.options if self._session else self.given_options or MediaOptions()

    def open(self, trial: Trial) -> None:
        """Join the session of the trial's experiment; whatever else is called comes after it."""
        key = str(trial.storage.experiment_driver_staging_path)
        if self._session is None or self._session.key != key:
            self._session = MediaSession.join(key, self)
            if self._session.keeper is not None and self._state.get("best"):
                self._session.keeper.best = self._state["best"]
            self._state = {}  # it is of this experiment

    def begin(self, trial: Trial) -> None:
        """A trial starts, for the first time or again."""
        self.open(trial)
        assert self._session is not None
        self._session.begin(trial)

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

    def later(self, what: str, work: Callable[[], None], nbytes: int = 0) -> None:
        """Have the thread that shows do something, after all it was given before; needs an open session."""
        if self._session is not None:
            self._session.later(self.name, what, work, nbytes)

    def on_storage(self, what: str, work: Callable[[], None]) -> None:
        """Have something written by the storage's thread, and again while the storage is away."""
        if self._session is not None:
            self._session.on_storage(what, work)

    def on_storage_later(self, what: str, work: Callable[[], None], key: Any = None) -> None:
        """Have something written after all that was to be shown before."""
        session = self._session  # this callback may have left it when it is time
        if session is not None:
            session.later(self.name, what, lambda: session.on_storage(what, work, key))

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
        keep_secret(*secrets)

    def wait(self) -> None:
        """Wait until all is shown that was to be, as long as the end of an experiment may take."""
        if self._session is not None and not self._session.wait():
            late = TimeoutError(f"media are still being shown after {self.options.flush_seconds:g} s")
            self.report("logging the last of them", late, kind="late")

    def wait_for_storage(self) -> bool:
        """Wait until all is stored that was to be, as long as the end of an experiment may take."""
        return self._session is None or self._session.wait_for_storage()

    def patience(self, seconds: float) -> float:
        """Return how long something at the end may take: less, where the process has been told to end."""
        session = self._session
        return min(seconds, session.time_left()) if session and session.is_ending_now else seconds

    def settle(self) -> dict[str, Any] | None:
        """Bring what was reported to the storage; return what a restored experiment has to know of it."""
        session = self._session
        if session is None:
            return None
        session.settle()
        return {"best": session.keeper.best} if session.keeper and session.keeper.best else None

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what ``settle`` returned before the experiment was restored."""
        self._state = dict(state)

    def end(self, trials: list[Trial]) -> None:
        """End the callback as the end of an experiment does."""
        if self._callback is not None:
            self._callback.on_experiment_end(trials)

    def finish(self) -> None:
        """Wait until everything this session was given is done; the last callback to finish says what there is."""
        session, self._session = self._session, None
        if session is not None:
            session.leave(self)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_session": None}


class FamilyMember:
    """What each callback of the family does when Tune takes a snapshot of the experiment, and when it is restored."""

    _media: MediaLogging

    def get_state(self) -> dict[str, Any] | None:
        """Let what was reported reach the storage, before Tune notes down that it was."""
        return self._media.settle()

    def set_state(self, state: dict[str, Any]) -> None:
        """Go on from what ``get_state`` returned."""
        self._media.restore(state)
