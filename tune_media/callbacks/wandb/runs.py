"""W&B's helper process: the only one that talks to W&B, for all trials of an experiment."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tune_media.callbacks.wandb.run import WandbRun


class WandbRuns:
    """The runs of all trials. A Ray actor, which the backend's thread on the driver calls.

    Args:
        folder: Where W&B keeps its files, in a folder for each trial.
        environment: The environment variables that W&B reads, as the driver has them. None: this is the driver.
    """

    def __init__(self, folder: str, environment: Mapping[str, str] | None = None) -> None:
        if environment is not None:
            os.environ.update(environment)
            os.environ.pop("WANDB_SERVICE", None)  # else the runs were the driver's own W&B process's, and outlive us
        self._folder = Path(folder)
        self._runs: dict[str, WandbRun] = {}

    def begin(self, trial_id: str, settings: dict[str, Any]) -> None:
        """Begin a trial's run; go on with the one that it has, or leave nothing of it if this one is ``"anew"``."""
        if settings.get("anew"):
            if trial_id in self._runs:
                self._runs.pop(trial_id).discard()
            shutil.rmtree(self._folder / trial_id, ignore_errors=True)
        if trial_id not in self._runs:
            self._runs[trial_id] = WandbRun(self._folder / trial_id, settings)

    def log(
        self,
        trial_id: str,
        row: dict[str, Any],
        step: int,
        config: dict[str, Any] | None = None,
        time: float = 0.0,
    ) -> str | None:
        """Log the numbers of a result; return the problem of a value that is left out."""
        return self._runs[trial_id].log(row, step, config, time)

    def show(self, trial_id: str, item: dict[str, Any]) -> None:
        """Log a medium."""
        self._runs[trial_id].show(item)

    def suspect(self, trial_id: str, key: str, media_step: int, note: str) -> None:
        """Say that a clip may not show its episode."""
        self._runs[trial_id].suspect(key, media_step, note)

    def checkpoint(self, trial_id: str, path: str) -> None:
        """Log a checkpoint."""
        self._runs[trial_id].checkpoint(path)

    def end(self, trial_id: str, exit_code: int, best: dict[str, Any] | None = None) -> None:
        """End a trial's run."""
        run = self._runs.pop(trial_id, None)
        if run is not None:
            run.end(exit_code, best)

    def close(self) -> None:
        """End W&B's own process, after all runs: if it dies first, this one prints a long traceback at its exit."""
        import wandb

        wandb.teardown()
