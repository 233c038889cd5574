"""The interface of a backend: the one class that connects a tracker or a file format to Tune's results.

``MediaLoggerCallback(MyBackend())`` is a complete Tune callback. Each callback of this package
has a backend of its own.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

from tune_media.ray_compat import callbacks_of_experiment
from tune_media.storage.entry import STORED, MediaEntry
from tune_media.storage.index_lines import Line
from tune_media.storage.location import TrialLocation
from tune_media.values.number import as_number
from tune_media.values.options import MediaOptions
from tune_media.values.score import clip_rank, does_count
from tune_media.values.secrets import error_text

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

    from tune_media.experiment.trial_files import TrialFiles

logger = logging.getLogger("tune_media")

_PATIENCE = 60.0  # seconds that a storage or tracker may be away
_PAUSES = (0.5, 1.0, 2.0, 5.0)  # seconds between two tries; the last one again and again

Status = Literal["finished", "failed", "interrupted"]
"""How a trial ended: all by itself, with an error, or because the sweep was stopped (Ctrl-C, SIGTERM)."""

STATUS_OF: Mapping[str, Status] = {"TERMINATED": "finished", "ERROR": "failed"}
"""The same, by Tune's word for a trial that has ended; all others were interrupted."""


@dataclass(frozen=True)
class TrialInfo:
    """A trial, as it was when Tune started it.

    Attributes:
        trial_id: Tune's id, for example ``49541_00000``.
        name: Tune's name, for example ``PPO_CartPole-v1_49541_00000``.
        experiment: The name of the Tune experiment.
        config: The hyperparameters. PBT may start the trial again with other ones.
        location: The trial's folders: on the storage, and the one on the driver that Tune copies there.
        ray: Ray's own object, which Tune changes as it goes; only methods that run in Tune's loop see it.
        searched: The hyperparameters that Tune chose for this trial, by their path: ``{"env_config/gravity": 9.8}``.
        time: When Tune started it, seconds since 1970.
        is_restored: Whether an earlier process began it.
    """

    trial_id: str
    name: str
    experiment: str
    config: Mapping[str, Any]
    location: TrialLocation
    ray: Trial | None = field(default=None, repr=False, compare=False)
    searched: Mapping[str, Any] = field(default_factory=dict)
    time: float = field(default_factory=time.time, compare=False)
    is_restored: bool = field(default=False, compare=False)


@dataclass(frozen=True, eq=False)
class Report:
    """One result of a trial, with each medium replaced by the path of its file.

    Attributes:
        step: The step at which TensorBoard shows the result: ``timesteps_total``, else the training iteration.
        training_iteration: Tune's count of the trial's results, from 1.
        time: When the driver got it, seconds since 1970.
        result: The live, nested dict. Only methods that run in Tune's loop see it; it is empty in other threads.
        new_in_lists: The new values of lists that repeat a window of episodes (old API stack), by place.
        changed: Whether the hyperparameters differ from those of the trial's last result.
        row: The number of its row in the outbox, which only grows in a trial, also over restores. After a kill, a row
            may be delivered again. In methods that Tune's loop calls, it is the number of the last row before it.
    """

    step: int
    training_iteration: int
    result: dict[str, Any] = field(default_factory=dict, repr=False)
    new_in_lists: Mapping[tuple[str, ...], list[Any]] = field(default_factory=dict, repr=False)
    time: float = field(default_factory=time.time)
    changed: Callable[[], bool] = field(default=lambda: False, repr=False)
    row: int = 0

    @functools.cached_property
    def flat(self) -> dict[str, Any]:
        """The values by their path (``env_runners/episode_return_mean``), without the hyperparameters."""
        from ray.tune.utils import flatten_dict

        values = {name: value for name, value in self.result.items() if name != "config"}
        return dict(flatten_dict(values, delimiter="/"))

    @functools.cached_property
    def config(self) -> Mapping[str, Any] | None:
        """The hyperparameters, if PBT has changed them since the trial's last result; else None."""
        config = self.result.get("config")
        return config if isinstance(config, Mapping) and self.changed() else None


class Context:
    """The services that a backend may use, from any thread. ``Backend.context`` is one from the first ``start`` on.

    This one does all work at once, for a backend that logs a finished experiment; a reader of the outbox has its own.

    Args:
        options: The user's options.
        problems: Gets a sentence for each fault.
        trials: The files of the trials of the experiment.
    """

    def __init__(self, options: MediaOptions, problems: list[str], trials: Iterable[TrialFiles] = ()) -> None:
        self._options, self._problems = options, problems
        self._files = {trial.path: trial for trial in trials}

    @property
    def options(self) -> MediaOptions:
        """The user's options."""
        return self._options

    @contextlib.contextmanager
    def _guarded(self, action: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self.fault(action, error)

    def guard(self, action: str) -> contextlib.AbstractContextManager[None]:
        """Turn an exception into one warning and a count, or let it through if ``MediaOptions(strict=True)``."""
        return self._guarded(action)

    def fault(self, action: str, error: Exception, kind: str = "") -> None:
        """Count a fault, and warn of it if it is the first of its type and ``kind``."""
        if self.options.strict:
            raise error
        self._problems.append(f"{action}: {error_text(error)}")

    def later(self, action: str, work: Callable[[], None], key: Any = None) -> None:
        """Run work in the backend's thread, after everything that it was given before.

        Args:
            action: A name for warnings, for example ``"writing events"``.
            work: The work.
            key: While work with this key waits, no more of it is queued.
        """
        with self.guard(action):
            work()

    def on_storage(self, action: str, work: Callable[[], None], key: Any = None) -> None:
        """Run work in the storage's thread, and again while the storage is away; ``key`` as for ``later``."""
        with self.guard(action):
            until_it_works(work, lambda error: isinstance(error, OSError))

    def wait_for_storage(self) -> None:
        """Wait until everything is stored, as long as the end may take; raises ``StorageAwayError`` if it is not."""

    def lines(self, trial: TrialInfo) -> list[Line]:
        """Return a trial's own index lines when it has ended; raises ``OSError`` if the storage does not have them."""
        files = self._files[trial.location.path]
        return own_lines(files.lines, files.trial_id)

    def content(self, trial: TrialInfo, path: str) -> bytes | None:
        """Return a file of a trial by its path in an index line; None if it is gone. Raises ``OSError``."""
        with contextlib.suppress(FileNotFoundError):
            return self._files[trial.location.path].read_media(path)
        return None

    def scratch(self) -> Path:
        """Return a new folder on this machine's disk. The files of a killed process in it go with its outbox."""
        return Path(tempfile.mkdtemp(prefix="tune_media-"))

    def seconds_left(self) -> float:
        """Return how long the end of the experiment may still take, seconds; infinite before it has begun."""
        return float("inf")


def until_it_works(
    call: Callable[[], None], will_pass: Callable[[Exception], bool], patience: float = _PATIENCE
) -> None:
    """Make a call, and again for ``patience`` seconds while its error is one that will pass; raises the last error."""
    started, pauses = time.monotonic(), iter(_PAUSES)
    while True:
        try:
            return call()
        except Exception as error:
            if time.monotonic() - started >= patience or not will_pass(error):
                raise
            logger.info("tune_media: trying again after %s", error_text(error))
            time.sleep(next(pauses, _PAUSES[-1]))


class StorageAwayError(OSError):
    """The storage has not taken all that was reported before; it is worth trying again."""


def own_lines(lines: Iterable[Line], trial_id: str) -> list[Line]:
    """Return the index lines of a trial, of those in its folder: it may have copied another one."""
    return [line for line in lines if line.get("trial_id", trial_id) == trial_id]


def clips_best_first(trial: TrialInfo, context: Context) -> list[Line]:
    """Return the index lines of a trial's clips that count and have a return, as ``clip_rank`` has them.

    They include those of earlier processes. Raises OSError if the storage does not have all that was reported before.
    """
    stored = (line for line in context.lines(trial) if line.get("status") == STORED and does_count(line))
    clips = (line for line in stored if math.isfinite(as_number(line.get("episode_return"))))
    return sorted(clips, key=clip_rank, reverse=True)


class Backend:
    """Sends a sweep's metrics and media somewhere: override the methods that you need.

    All of them are called by one thread of the backend's own, in order, and may take their time: Tune's loop never
    waits, and data that is still to be delivered is in the outbox on the driver's disk. If the driver is killed, the
    restored experiment goes on with it, and the call that was under way is made again, with the same ``report.row`` or
    ``entry.row``. If a method raises, that is one warning and a count, and the next row is delivered,
    unless ``is_away`` says that the error will pass: then it is tried again, in order. If ``start`` fails for good,
    nothing more of that trial is delivered, and the warning at the end names the trial.

    The callback is pickled before the experiment starts: open files and connections in ``start``, not in ``__init__``,
    and close them in ``finish``.

    Example:
        >>> import tune_media as tm
        >>> class Lines(tm.Backend):
        ...     name = "lines"
        ...
        ...     def metrics(self, trial, report):
        ...         print(trial.name, report.step, report.flat["score"])
        ...
        ...     def media(self, trial, entry):
        ...         print(trial.name, entry.step, f"{entry.section}/{entry.key}", entry.medium.kind)
        >>> callback = tm.MediaLoggerCallback(Lines())
    """

    name: str = ""
    """A name for warnings; the class's own if it is empty."""

    in_loop: ClassVar[frozenset[str]] = frozenset()
    """The methods that Tune's loop calls itself, at once: they must be quick."""

    same_files_as: ClassVar[type | None] = None
    """A class of Tune callbacks that write the same files; only one callback of an experiment may write them."""

    files: str = ""
    """The names of those files, for the warning: ``"result.json"``."""

    yields_to: Any = None
    """The other callback, if this backend must leave ``same_files_as``'s files to it."""

    niceness: ClassVar[int] = 0
    """How far its thread stands back if the processor is busy, as for ``os.nice``; it has an effect on Linux only.

    A thread that gets next to no time may hold up Tune's loop, which waits for Python's lock: 5 is a good number. Above
    0, ``media`` takes turns with the rendering of clips while trials run, so that both never take a core each."""

    patience: float | None = None
    """How long the end waits for this backend, seconds. None: ``MediaOptions(flush_seconds=...)``."""

    context: Context

    def setup(self, **info: Any) -> None:
        """Check what can be checked before anything starts. Called by Tune's loop, with Tune's own arguments.

        Raises:
            Exception: Any error ends ``Tuner.fit()`` at once: a bad URI, a missing key.
        """
        if self in callbacks_of_experiment():
            name = type(self).__name__
            raise TypeError(
                f"{name} is a backend, not a callback: pass tune.RunConfig(callbacks="
                f"[tune_media.MediaLoggerCallback({name}(...))])."
            )

    def prepare_export(self) -> None:
        """Get ready to log a finished experiment, instead of ``setup``: no Ray runs, and nobody waits.

        Raises:
            Exception: As for ``setup``; or the backend cannot log a finished experiment.
        """
        self.setup()

    def start(self, trial: TrialInfo) -> None:
        """Begin a trial, or go on with it: after a pause, a retry or a PBT exploit it is called again before ``end``.

        After ``Tuner.restore`` it is called for trials that an earlier process began.
        """

    def metrics(self, trial: TrialInfo, report: Report) -> None:
        """Log the numbers of one result: ``report.flat``, at ``report.step``."""

    def media(self, trial: TrialInfo, entry: MediaEntry) -> None:
        """Log one clip, image, histogram, artifact or batch of episodes of the result that ``metrics`` got before.

        ``entry.medium`` is the value, ``entry.content()`` its file (an mp4, png, json, ...), and ``entry.path`` the
        place of that file in the trial's folder. ``entry.medium.kind`` is ``"video"``, ``"image"``, ``"histogram"``,
        ``"artifact"``, ``"episode"``, ``"tiled"`` (clips side by side, an mp4) or ``"episodes"`` (whose
        ``histograms()`` are made once for all backends).
        """

    def media_again(self, trial: TrialInfo, id: str, row: int) -> None:
        """Take note that a trial that went back has recorded a medium again, which ``media`` had before.

        Only a backend that forgets what a trial leaves behind has anything to do.
        """

    def checkpoint(self, trial: TrialInfo, path: str) -> None:
        """Log a checkpoint, a folder on this machine, if the callback hands over checkpoints."""

    def end(self, trial: TrialInfo, status: Status) -> None:
        """End a trial, after its last clip."""

    def finish(self) -> None:
        """Flush and close everything; nothing comes after it until another experiment starts."""

    def is_away(self, error: Exception) -> bool:
        """Return whether it is worth trying again: a server that does not answer, for example."""
        return False

    def get_state(self) -> dict[str, Any]:
        """Return the state that a restored experiment needs. Tune's loop asks for it every few seconds: be quick."""
        return {}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take over the state that ``get_state`` returned before the restore; called before ``start``."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "context"}


class RowKind(NamedTuple):
    """How rows of one kind reach a backend."""

    method: str  # of the backend
    doing: str  # a name for the call, for warnings
    noun: str = ""  # what a tracker lacks without the row; empty if that is nothing worth a warning

    def call(self, backend: Backend, trial: TrialInfo, *arguments: Any) -> None:
        """Call the backend's method with a trial and more arguments."""
        getattr(backend, self.method)(trial, *arguments)


ROW_KINDS: Mapping[str, RowKind] = {
    "start": RowKind("start", "starting a trial", "start(s)"),
    "result": RowKind("metrics", "logging metrics", "result(s)"),
    "media": RowKind("media", "logging media", "media"),
    "episodes": RowKind("media", "logging episodes", "media"),
    "again": RowKind("media_again", "logging a medium again"),
    "checkpoint": RowKind("checkpoint", "logging a checkpoint"),
    "end": RowKind("end", "ending a trial", "end(s)"),
}
"""All kinds of rows of the outbox that a backend gets, by their names there."""
