"""Ray's hooks, written once: a Tune callback made of a backend."""

from __future__ import annotations

import functools
import inspect
import logging
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import ray
from ray import cloudpickle
from ray.tune.logger import JsonLoggerCallback, LoggerCallback
from typing_extensions import override

from tune_media.callbacks import waiting_trial
from tune_media.callbacks.backend import Backend, Report, Status
from tune_media.callbacks.faults import Faults
from tune_media.callbacks.outbox import check_outboxes
from tune_media.callbacks.readers import BackendReader
from tune_media.callbacks.session import MediaSession
from tune_media.experiment.results import result_step
from tune_media.ray_compat import callbacks_of_experiment, latest_checkpoint_metrics
from tune_media.replay.verdicts import note_renderer
from tune_media.values.checks import an_instance, as_shown, suggests_names
from tune_media.values.number import whole_number
from tune_media.values.options import MediaOptions
from tune_media.values.secrets import redacted_values

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

logger = logging.getLogger("tune_media")

_Init = TypeVar("_Init", bound=Callable[..., None])
_NO_LOGGERS = "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"  # of Tune: it adds no logger by itself


def _keeps_arguments(init: _Init) -> _Init:
    """Have a callback keep the arguments that it was made with: they are all that is pickled of it."""

    @functools.wraps(init)
    def keeping(self: Any, *args: Any, **kwargs: Any) -> None:
        self.__dict__.setdefault("_arguments", (args, kwargs))  # the subclass's come first
        init(self, *args, **kwargs)

    return keeping  # type: ignore[return-value]


@suggests_names
class MediaLoggerCallback(LoggerCallback):
    """Logs the metrics and media of a sweep with a backend of your own.

    It does what the other callbacks of this package do: the media of a result are stored once, next to the trial's
    results, and listed in ``<trial>/media/index.jsonl``; the result keeps their paths; the backend gets both. Tune's
    loop calls all methods of this class.

    Args:
        backend: Where metrics and media go. Each callback needs a backend of its own.
        media: Options, shared by all callbacks of this family in one experiment.

    Raises:
        TypeError: ``backend`` is no ``Backend``, or ``media`` no ``MediaOptions``.

    Example:
        >>> import tune_media as tm
        >>> class Printer(tm.Backend):
        ...     def metrics(self, trial, report):
        ...         print(trial.name, report.step, report.flat)
        >>> callback = tm.MediaLoggerCallback(Printer())
    """

    _arguments: tuple[tuple[Any, ...], dict[str, Any]]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "__init__" in cls.__dict__:
            cls.__init__ = _keeps_arguments(cls.__init__)  # type: ignore[method-assign]

    @_keeps_arguments
    def __init__(self, backend: Backend, media: MediaOptions | None = None) -> None:
        if not isinstance(backend, Backend):
            got = as_shown(backend)
            raise TypeError(f"MediaLoggerCallback takes an instance of a tune_media.Backend, got {got}.")
        an_instance("tune_media.MediaOptions(raw_fps=..., ...)", MediaOptions).check("media=", media)
        self.backend = backend
        self.given_options = media
        self._session: MediaSession | None = None
        self._reader: BackendReader | None = None
        self._others: dict[str, tuple[MediaSession, BackendReader]] = {}  # of other experiments that have not ended
        self._family: list[MediaLoggerCallback] = [self]  # the callbacks of this kind that share an experiment
        self._state: dict[str, Any] = {}
        self._waits_since: float | None = None  # for the first trial

    def __getattr__(self, name: str) -> Any:
        if name.startswith("on_"):  # a hook of RLlib's, which looks for it in what config.callbacks() was given
            raise AttributeError(
                f"{type(self).__name__} is a callback of Tune, not of RLlib: pass it to "
                "tune.RunConfig(callbacks=[...]), and pass tune_media.rllib.record_episodes() to config.callbacks(...)."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}, for tune.RunConfig(callbacks=[...])>"  # RLlib's config.callbacks() shows it

    @property
    def name(self) -> str:
        """The backend's name, for warnings."""
        return self.backend.name or type(self.backend).__name__

    @override
    def setup(self: Any = None, *args: Any, **info: Any) -> None:
        if self is None:  # Tune calls the method of a class
            raise TypeError(
                "tune.RunConfig(callbacks=[...]) holds the class of a tune_media callback; make an instance of it, for "
                "example callbacks=[tune_media.JsonMediaLoggerCallback()]."
            )
        everyone = callbacks_of_experiment()
        together = [other for other in everyone if isinstance(other, MediaLoggerCallback)]
        self._family = together if self in together else [self]
        if self._family[0] is self:
            check_outboxes()
            self._waits_since = time.monotonic()
        has_json = not everyone or any(isinstance(other, JsonLoggerCallback) for other in everyone)
        if self._family[0] is self and not has_json and os.environ.get(_NO_LOGGERS) == "1":
            logger.warning(
                "tune_media: with %s=1 and without a JSON logger, trials have no params.json and no result.json, so "
                "the viewer and tune_media.load will have no hyperparameters and no results. Add "
                "tune_media.JsonMediaLoggerCallback() to callbacks=[...].",
                _NO_LOGGERS,
            )
        note_renderer()
        self._leave_files_to_others()
        self.backend.setup(**info)

    @override
    def on_step_begin(self, iteration: int, trials: list[Trial], **info: Any) -> None:
        """Say once why no trial has begun; Tune's loop calls this in each turn."""
        if self._waits_since is None or time.monotonic() - self._waits_since < waiting_trial.PATIENCE:
            return
        first = next((trial for trial in trials if trial.status == trial.PENDING), None)
        if first is not None:
            self._waits_since = None
            asked = first.placement_group_factory.required_resources
            why = waiting_trial.why(str(first), first.config, asked, ray.cluster_resources())
            logger.warning("tune_media: no trial has begun for %g s: %s.", waiting_trial.PATIENCE, why)

    @override
    def log_trial_start(self, trial: Trial) -> None:
        self._waits_since = None
        session, reader = self._open(trial)
        session.begin(trial, self)
        reader.call_in_loop("start", trial)

    @override
    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        session, reader = self._open(trial)
        report = None
        with session.services.faults.guard(self.name, "reading media from a result"):
            report = session.read(trial, result)
        if report is None:
            report = Report(result_step(result), whole_number(result.get("training_iteration")), result)
        reader.call_in_loop("result", trial, report)

    @override
    def log_trial_save(self, trial: Trial) -> None:
        session, _ = self._open(trial)
        with session.services.faults.guard(self.name, "reading media from a checkpoint's metrics"):
            metrics = latest_checkpoint_metrics(trial)
            if metrics is not None:
                session.read_copy(trial, metrics)

    def hand_over_checkpoint(self, trial: Trial, path: str) -> None:
        """Log a checkpoint in the backend, a folder on this machine, after all that was reported before it."""
        self._open(trial)[0].checkpoint(trial, path)

    @override
    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:
        session, reader = self._open(trial)
        status: Status = "failed" if failed else "finished"
        if failed and not (trial.last_result or {}).get("training_iteration"):  # Tune may never have started it
            session.services.summary.failed_early(trial.trial_id, str(trial))
        session.end_trial(trial.trial_id, status)
        reader.call_in_loop("end", trial, status)

    @override
    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        if trials:
            self._switch_to(_experiment_of(trials[0]))
            if self._session is None:  # restored, and no trial was left to run: what a killed driver left is delivered
                for callback in self._family:  # all join before the first one leaves, or their rows would be dropped
                    callback._open(trials[0])
        session, reader = self._session, self._reader
        self._session = self._reader = None
        if session is None or reader is None:
            return
        session.end_all_trials(trials)
        reader.finish()
        session.leave(self)

    @override
    def get_state(self) -> dict[str, Any] | None:
        if self._session is None:  # restored, and no trial has started yet
            return self._state or None
        state = dict(self._session.settle() or {})
        with self._session.services.faults.guard(self.name, "saving its state"):
            of_backend = self.backend.get_state()
            cloudpickle.dumps(of_backend)  # Tune would raise
            state["backend"] = of_backend
        return {name: value for name, value in state.items() if value} or None

    @override
    def set_state(self, state: dict[str, Any]) -> None:
        self._state = dict(state)
        strict = self.given_options is not None and self.given_options.strict
        with Faults(strict=strict).guard(self.name, "taking over its state"):
            self.backend.set_state(self._state.get("backend") or {})

    def _leave_files_to_others(self) -> None:
        """Let one callback write a file, if several would: the first of ours, or Ray's own."""
        kind, self.backend.yields_to = self.backend.same_files_as, None
        callbacks = callbacks_of_experiment()
        if kind is None or self not in callbacks:
            return
        others = [other for other in callbacks if isinstance(other, kind) and other is not self]
        rays = [other for other in others if not isinstance(other, MediaLoggerCallback)]
        before = callbacks[: callbacks.index(self)]
        self.backend.yields_to = next((other for other in others if other in before or other in rays), None)
        if self.backend.yields_to is not None:
            mine, other = type(self).__name__, type(self.backend.yields_to).__name__
            logger.warning(
                "tune_media: %s and %s would both write a trial's %s; %s. Pass only %s to callbacks=[...].",
                mine,
                f"another {other}" if mine == other else other,
                self.backend.files,
                f"{other} writes them" if rays else "the first one writes them",
                mine,
            )

    def _open(self, trial: Trial) -> tuple[MediaSession, BackendReader]:
        session, reader = self._session, self._reader
        if session is not None and reader is not None and session.running.get(trial.trial_id) is trial:
            return session, reader  # Ray makes the experiment's path anew each time
        key = _experiment_of(trial)
        self._switch_to(key)
        if self._session is None or self._reader is None:
            if self._others:
                logger.warning(
                    "tune_media: %s is passed to an experiment in %s before another one has ended, in %s. If both run "
                    "at once, give each Tuner callbacks of its own.",
                    type(self).__name__,
                    key,
                    next(iter(self._others)),
                )
            self._session = MediaSession.join(trial, self, self._state)
            self._state = {}  # it is of this experiment
            self._reader = self._session.reader(self.backend)
        return self._session, self._reader

    def _switch_to(self, key: str) -> None:
        """Go on with an experiment, if it is known, and lay the one before aside, if it is another one."""
        if self._session is not None and self._session.key == key:
            return
        if self._session is not None and self._reader is not None:
            self._others[self._session.key] = self._session, self._reader
        self._session, self._reader = self._others.pop(key, (None, None))
        if self._reader is not None:
            self.backend.context = self._reader

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that a pickle has, by their names; subclasses leave out secrets."""
        return {**dict(zip(self._names(), self._arguments[0], strict=False)), **self._arguments[1]}

    def _names(self) -> list[str]:
        """Return the names of the positional arguments; none if some have no name (``*args`` of a subclass)."""
        parameters = inspect.signature(type(self)).parameters.values()
        has_nameless = any(one.kind in (one.POSITIONAL_ONLY, one.VAR_POSITIONAL) for one in parameters)
        return [] if has_nameless else [one.name for one in parameters]

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the arguments alone, so that another version of this package can make the callback again."""
        nameless = () if self._names() else map(redacted_values, self._arguments[0])
        return functools.partial(type(self), *nameless, **self.arguments()), ()


def _experiment_of(trial: Trial) -> str:
    return str(trial.storage.experiment_driver_staging_path)
