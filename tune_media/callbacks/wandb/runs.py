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

    def call(self, method: str, trial_id: str, *arguments: Any) -> Any:
        """Call a method of a trial's ``WandbRun``, and return its answer; ``end`` is the last one."""
        run = self._runs.pop(trial_id) if method == "end" else self._runs[trial_id]
        return getattr(run, method)(*arguments)

    def close(self) -> None:
        """End W&B's own process, after all runs: if it dies first, this one prints a long traceback at its exit."""
        import wandb

        wandb.teardown()
