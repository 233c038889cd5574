"""The demo: a real sweep of four PPO trials on CartPole, from nothing to clips of them side by side."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import time
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ray import tune
from tqdm import tqdm

from tune_media.callbacks.json import JsonMediaLoggerCallback
from tune_media.callbacks.tensorboard import TBXMediaLoggerCallback
from tune_media.catalog import Catalog, load

TRIALS = 4
_MLFLOW = "mlflow.db"
_PROCESSES_A_TRIAL = 3  # the Algorithm and two evaluation env runners


class ProgressBar(tune.Callback):
    """One bar over the iterations of all trials."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._bar: tqdm[Any] | None = None

    def setup(self, *args: Any, **info: Any) -> None:
        """Draw the empty bar."""
        self._bar = tqdm(total=self._total, unit="iteration", desc="4 PPO trials on CartPole-v1", file=sys.stdout)

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **_: Any) -> None:
        """Move it on."""
        if self._bar is not None:
            mean = result.get("env_runners", {}).get("episode_return_mean", float("nan"))
            self._bar.set_postfix_str(f"trial {trials.index(trial)}: mean return {mean:.0f}", refresh=False)
            self._bar.update()

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        """Leave it as it is."""
        if self._bar is not None:
            self._bar.close()


def run_demo(storage: str, iterations: int = 10) -> Catalog:
    """Run the sweep and return what it recorded.

    Args:
        storage: Folder for results.
        iterations: Training iterations of each trial; every second one is followed by an evaluation.
    """
    import ray
    from ray.rllib.algorithms.ppo import PPOConfig

    from tune_media.rllib import record_episodes

    # Logical CPUs: the four trials run at once, however few cores there are.
    os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")  # Ray's own tables, beside our bar
    warnings.filterwarnings("ignore", module="gymnasium")
    ray.init(num_cpus=TRIALS * _PROCESSES_A_TRIAL, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    logging.getLogger("ray").setLevel(logging.ERROR)
    config = (
        PPOConfig()
        .environment("CartPole-v1", env_config={"render_mode": "rgb_array"})
        .env_runners(num_env_runners=0, num_envs_per_env_runner=4)
        .training(
            lr=tune.grid_search([1e-4, 2e-3]),
            gamma=tune.grid_search([0.8, 0.98]),
            train_batch_size_per_learner=1000,
            minibatch_size=250,
            num_epochs=6,
        )
        .evaluation(evaluation_interval=2, evaluation_num_env_runners=2, evaluation_duration=4)
        .callbacks(record_episodes(sections="evaluation", keep=("best", "worst")))
    )
    folder = Path(storage).expanduser().resolve()
    name = time.strftime("tune_media_demo_%Y-%m-%d_%H-%M-%S")
    results = tune.Tuner(
        "PPO",
        param_space=config,
        tune_config=tune.TuneConfig(trial_dirname_creator=_trial_folder),
        run_config=tune.RunConfig(
            name=name,
            storage_path=str(folder),
            stop={"training_iteration": iterations},
            verbose=0,
            callbacks=[
                ProgressBar(TRIALS * iterations),
                JsonMediaLoggerCallback(),
                TBXMediaLoggerCallback(),
                *_trackers(folder / name),
            ],
        ),
    ).fit()
    ray.shutdown()
    if results.errors:
        raise RuntimeError(f"{len(results.errors)} of the demo's trials failed; the first: {results.errors[0]}")
    return load(results.experiment_path)


def _trackers(experiment: Path) -> list[tune.Callback]:
    """Return the callbacks of the trackers that are installed: MLflow on a database of its own, W&B offline."""
    callbacks: list[tune.Callback] = []
    if find_spec("mlflow"):
        from tune_media.callbacks.mlflow import MLflowMediaLoggerCallback

        logging.getLogger("alembic").setLevel(logging.WARNING)
        experiment.mkdir(parents=True, exist_ok=True)
        uri, artifacts = f"sqlite:///{experiment / _MLFLOW}", (experiment / "mlartifacts").as_uri()
        callbacks.append(MLflowMediaLoggerCallback(uri, nested=True, artifact_location=artifacts))
    if find_spec("wandb"):
        from tune_media.callbacks.wandb import WandbMediaLoggerCallback

        callbacks.append(WandbMediaLoggerCallback(project="tune_media_demo", mode="offline"))
    return callbacks


def where_to_look(path: str) -> list[tuple[str, str]]:
    """Return how to look at an experiment of the demo: what it shows, and the command."""
    commands = [("TensorBoard, the clips in its Images tab", tensorboard_command(path))]
    if (Path(path) / _MLFLOW).exists():
        program = _beside("mlflow")
        shown = f"{program} server --backend-store-uri sqlite:///{Path(path) / _MLFLOW}"
        commands.append(("MLflow, on port 5000", shown))
    if list(Path(path).glob("*/wandb/offline-run-*")):
        commands.append(("W&B, once you are logged in", f"{_beside('wandb')} sync {path}/*/wandb/offline-run-*"))
    return commands


def _trial_folder(trial: Any) -> str:
    """Name a trial's folder, and so its run in TensorBoard, after what was varied in it."""
    return "_".join(f"{name}={value}" for name, value in sorted(trial.evaluated_params.items()))


def tensorboard_command(path: str) -> str:
    """Return the command that shows an experiment's clips, all of them."""
    return f"{_beside('tensorboard')} --logdir {path} --samples_per_plugin images=1000"


def _beside(program: str) -> str:
    """Return how to call a program that is installed with us: by its name where the shell finds it."""
    beside = Path(sys.executable).with_name(program)
    return str(beside) if beside.exists() and shutil.which(program) != str(beside) else program
