"""What the threads of one experiment share: its outbox, its places, its options, and what went wrong."""

from __future__ import annotations

import contextlib
import posixpath
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow.fs

from tune_media.callbacks.backend import TrialInfo
from tune_media.callbacks.faults import Faults
from tune_media.callbacks.outbox import Outbox
from tune_media.callbacks.rows import StartRow
from tune_media.callbacks.summary import Summary
from tune_media.experiment.params import nested_choice, searched_params
from tune_media.ray_compat import unresolved_config
from tune_media.storage.filesystem import as_argument
from tune_media.storage.location import TrialLocation
from tune_media.storage.trial_folder import plain_config
from tune_media.values.options import MediaOptions

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

DEFAULT_OPTIONS = MediaOptions()
_LEAST_SECONDS = 1.0  # whatever the parts before took
_LOOK_SECONDS = 0.2  # how soon who waits for a turn sees that the end has begun
CONTENT_SHARE, TRACKER_SHARE = 0.7, 0.9
"""The first parts of the time at the end in which contents are made, and in which trackers get the rows."""


class Storage(Protocol):
    """The storage's reader, as the readers of backends use it."""

    def put_chore(self, action: str, work: Callable[[], None], key: Any = None) -> None:
        """Do some work in the storage's thread, and again while the storage is away."""

    def wait(self, seconds: float) -> bool:
        """Wait until all rows that are there now are stored, at most so long; return whether they are."""


@dataclass(eq=False)
class Services:
    """What the threads of one experiment share."""

    outbox: Outbox
    filesystem: pyarrow.fs.FileSystem
    experiment: str
    staging: Path | None  # the experiment's folder on the driver, if it is known
    name: str
    options: MediaOptions = DEFAULT_OPTIONS  # those of the first callback that was given any
    faults: Faults = field(default_factory=lambda: Faults(strict=False))
    summary: Summary = field(init=False)
    # Values of results that only this process has, such as W&B's own classes, by the name in their rows.
    unpackable: dict[str, dict[str, Any]] = field(default_factory=dict)
    restored: dict[str, bool] = field(default_factory=dict)  # whether an earlier process began a trial, by its id
    ended_at: float | None = None  # when the end began, by the monotonic clock
    exit_by: float | None = None  # when the process must be gone, by the monotonic clock, on SIGTERM
    _turn: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __post_init__(self) -> None:
        self.summary = Summary(self.faults, self.experiment, as_argument(self.filesystem, self.experiment))

    def location(self, trial_id: str, folder: str) -> TrialLocation:
        """Return where a trial's files are, by the name of its folder."""
        return TrialLocation(
            self.filesystem, posixpath.join(self.experiment, folder), (self.staging or Path()) / folder, trial_id
        )

    def start_row(self, trial: Trial) -> StartRow:
        """Return a trial as plain data."""
        trial_id = trial.trial_id
        if trial_id not in self.restored:
            has_reported = bool((trial.last_result or {}).get("training_iteration"))  # Tune puts other things there
            self.restored[trial_id] = has_reported or self.outbox.trial(trial_id) is not None
        config, searched = hyperparameters(trial, trial.config)
        return StartRow(
            name=str(trial),
            folder=str(trial.storage.trial_dir_name),
            config=config,
            searched=searched,
            time=time.time(),
            restored=self.restored[trial_id],
            process=self.outbox.began,
        )

    def trial_info(self, trial_id: str, start: StartRow) -> TrialInfo:
        """Return a trial as a backend gets it."""
        return TrialInfo(
            trial_id,
            start.name,
            self.name,
            start.config,
            self.location(trial_id, start.folder),
            searched=start.searched,
            time=start.time,
            is_restored=start.restored or start.process != self.outbox.began,
        )

    def live_info(self, trial: Trial) -> TrialInfo:
        """Return a trial as Tune's loop hands it to a backend."""
        return replace(self.trial_info(trial.trial_id, self.start_row(trial)), ray=trial)

    def unpackable_values(self, held_as: str, names: Sequence[str]) -> dict[str, Any]:
        """Return the values of a result that are no plain data; they are lost with the process that got them."""
        values = self.unpackable.get(held_as, {})
        missing = [name for name in names if name not in map(str, values)]
        if missing:
            error = RuntimeError(f"{', '.join(missing[:5])}: not kept over a restart; report plain numbers or media")
            self.faults.report("the outbox", "reading values of a result", error, kind="live")
        return values

    @contextlib.contextmanager
    def in_turn(self) -> Iterator[None]:
        """Let rendering and other long work take turns while trials run: each core that it takes may be a trial's."""
        has_turn = False
        while self.ended_at is None and not has_turn:
            has_turn = self._turn.acquire(timeout=_LOOK_SECONDS)
        try:
            yield
        finally:
            if has_turn:
                self._turn.release()

    def time_left(self, share: float = 1.0) -> float:
        """Return how long the end may still wait, seconds, or its first part; all waits of the end are within it."""
        now = time.monotonic()
        began = now if self.ended_at is None else self.ended_at
        span = min(self.options.flush_seconds, float("inf") if self.exit_by is None else self.exit_by - began)
        left = max(_LEAST_SECONDS if self.exit_by is None else 0.0, share * span - (now - began))
        return min(left, 1.0) if self.faults.strict and self.faults.count else left  # the first fault ends it all


def hyperparameters(trial: Trial, config: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return hyperparameters, a trial's or a result's, as plain data, and those of them that Tune chose, by path.

    Tune's own ``evaluated_params`` hold stand-ins for objects, and no value that a function samples.
    """
    chosen = nested_choice(trial.evaluated_params, unresolved_config(trial))
    values = {name: value for name, value in dict(config or {}).items() if name != "callbacks"}
    plain: dict[str, Any] = plain_config(values, chosen)
    return plain, searched_params(plain, chosen)
