"""As much of a Tune trial as callbacks ask for; a real one needs a running experiment."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.fs


class FakeTrial:
    """A trial with a folder on a storage (None: this machine) and one on the driver, both in ``folder``."""

    def __init__(
        self, folder: Path, trial_id: str = "t1", *, filesystem: pyarrow.fs.FileSystem | None = None, **config: Any
    ) -> None:
        self.trial_id, self.config, self.evaluated_params = trial_id, config, config
        self.experiment_dir_name, self.last_result, self.checkpoint = "experiment", {}, None
        self.status = "TERMINATED"
        self.storage = SimpleNamespace(
            storage_filesystem=filesystem or pyarrow.fs.LocalFileSystem(),
            experiment_fs_path=str(folder / "storage"),
            trial_fs_path=str(folder / "storage" / trial_id),
            experiment_dir_name=self.experiment_dir_name,
            trial_dir_name=trial_id,
            experiment_driver_staging_path=str(folder / "driver" / "staging"),
            syncer=None,
            _timestamp="2026-01-01_00-00-00",
        )
        self.run_metadata = SimpleNamespace(checkpoint_manager=SimpleNamespace(latest_checkpoint_result=None))
        self.local_path = str(folder / "driver" / "staging" / trial_id)
        self.init_local_path()

    def init_local_path(self) -> None:
        Path(self.local_path).mkdir(parents=True, exist_ok=True)

    def __str__(self) -> str:
        return f"train_{self.trial_id}"


def run(callbacks: list[Any], trial: FakeTrial, results: list[dict[str, Any]]) -> None:
    """Show callbacks a whole experiment of one trial, as Tune shows it to them."""
    from ray.tune.callback import CallbackList

    every = CallbackList(callbacks)
    every.setup(stop=None, num_samples=1, total_num_samples=1)
    every.on_trial_start(iteration=0, trials=[trial], trial=trial)
    for iteration, result in enumerate(results, 1):
        result.setdefault("training_iteration", iteration)
        every.on_trial_result(iteration=iteration, trials=[trial], trial=trial, result=result)
    every.on_trial_complete(iteration=len(results), trials=[trial], trial=trial)
    every.on_experiment_end(trials=[trial])
