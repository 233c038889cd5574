"""The demo: a real sweep of six PPO trials on CartPole, from nothing to a verdict and clips of them side by side."""

from __future__ import annotations

import logging
import math
import os
import shlex
import shutil
import sys
import time
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ray import tune

from tune_media.callbacks.json import JsonMediaLoggerCallback
from tune_media.callbacks.tensorboard.callback import TBXMediaLoggerCallback
from tune_media.steps import StepFacts
from tune_media.values.installing import pip_install
from tune_media.viewing.catalog import Catalog, load
from tune_media.viewing.status_line import StatusLine

_LEARNING_RATES = (1e-5, 3e-3)
"""One hardly learns in the demo's time, and one does: which is the better one is clear with three seeds each."""
_TRAINING_SEEDS = (1, 2, 3)
_EVALUATION_SEEDS = 6
_STEPS = 200  # of the longest episode
_TRIALS = len(_LEARNING_RATES) * len(_TRAINING_SEEDS)
_BAR = 20  # characters


class DemoProgress(tune.Callback):
    """Shows the iterations of all trials as one bar, and says when the first clip can be looked at."""

    def __init__(self, line: StatusLine, total: int, folder: Path) -> None:
        self._line, self._total, self._folder = line, total, folder
        self._done, self._has_clip = 0, False

    def setup(self, *args: Any, **info: Any) -> None:
        """Show that the trials start."""
        self._line.stage("Starting trials: each is a process that imports RLlib and torch")

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **_: Any) -> None:
        """Advance the bar by one iteration."""
        self._done += 1
        mean = result.get("env_runners", {}).get("episode_return_mean", float("nan"))
        filled = _BAR * self._done // self._total
        bar = f"[{'#' * filled}{'-' * (_BAR - filled)}] {self._done}/{self._total} iterations"
        text = f"Training {bar}, trial {trials.index(trial)}: mean return {mean:.0f}"
        (self._line.stage if self._done == 1 else self._line.progress)(text)
        if not self._has_clip and any(self._folder.glob("*/media/**/*.mp4")):
            self._has_clip = True
            self._line.tell(f"The first clip is there. To watch while they train:  {watch_command(str(self._folder))}")

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        """Show that the clips are being written."""
        self._line.stage(f"Trained {self._done} of {self._total} iterations; writing the last clips")

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_line": None}  # Tune pickles its callbacks


def run_demo(storage: str, iterations: int, line: StatusLine) -> Catalog:
    """Run the sweep and return its catalog; every second training iteration is followed by an evaluation."""
    line.stage("Importing RLlib")
    import ray
    from ray.rllib.algorithms.ppo import PPOConfig

    from tune_media.rllib.record import record_episodes

    # Each trial is a single process, which also plays the evaluation: starting processes takes most of the demo's time.
    # No more start at once than there are cores, so that the first clip is there before all have imported torch.
    os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")  # Ray's own tables, beside our bar
    warnings.filterwarnings("ignore", module="gymnasium")
    line.stage("Starting Ray")
    cores = min(_TRIALS, os.cpu_count() or 1)
    ray.init(num_cpus=cores, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    for name in ("ray", "ray.rllib"):  # RLlib sets its own level
        logging.getLogger(name).setLevel(logging.ERROR)
    config = (
        PPOConfig()
        .environment("CartPole-v1", env_config={"render_mode": "rgb_array", "max_episode_steps": _STEPS})
        .env_runners(num_env_runners=0, num_envs_per_env_runner=4)
        .training(
            lr=tune.grid_search(list(_LEARNING_RATES)),
            gamma=0.98,
            train_batch_size_per_learner=1000,
            minibatch_size=250,
            num_epochs=6,
        )
        .debugging(seed=tune.grid_search(list(_TRAINING_SEEDS)))
        .evaluation(
            evaluation_interval=2,
            evaluation_num_env_runners=0,
            evaluation_duration=_EVALUATION_SEEDS,
            evaluation_config=PPOConfig.overrides(num_envs_per_env_runner=1),  # the first episode has the first seed
        )
        .callbacks(
            record_episodes(
                sections="evaluation",
                seeds=_EVALUATION_SEEDS,
                keep=("best", "worst", "first"),
                collect=pole_and_cart,
                trajectories=True,
            )
        )
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
                DemoProgress(line, _TRIALS * iterations, folder / name),
                JsonMediaLoggerCallback(),
                TBXMediaLoggerCallback(),
            ],
        ),
    ).fit()
    line.stage("Stopping Ray")
    ray.shutdown()
    if results.errors:
        raise RuntimeError(f"{len(results.errors)} of the demo's trials failed; the first: {results.errors[0]}")
    return load(results.experiment_path)


def pole_and_cart(step: StepFacts) -> dict[str, float]:
    """Take the reward, the pole's angle in degrees and the cart's position from a step of CartPole."""
    position, _, angle, _ = step.observation
    return {"reward": step.reward, "pole angle": math.degrees(angle), "cart position": float(position)}


def where_to_look(path: str) -> list[tuple[str, str]]:
    """Return how to look at an experiment of the demo: what it shows, and the command."""
    command = f"{_beside('tensorboard')} --logdir {shlex.quote(path)} --samples_per_plugin images=1000"  # all clips
    told = "TensorBoard: the Episodes tab, and GIFs in the Images tab"
    return [(told, command)] if find_spec("tensorboard") else []


def watch_command(path: str) -> str:
    """Return the command that shows an experiment in the browser."""
    install = "" if find_spec("werkzeug") else f"{pip_install('viewer')} && "
    return f"{install}{_beside('tune-media')} watch --open {shlex.quote(path)}"


def _trial_folder(trial: Any) -> str:
    """Name a trial's folder, and so its run in TensorBoard, after what was varied in it."""
    return "_".join(f"{name}={value}" for name, value in sorted(trial.evaluated_params.items()))


def _beside(program: str) -> str:
    """Return how to call a program that is installed with us: by its name where the shell finds it."""
    beside = Path(sys.executable).with_name(program)
    return shlex.quote(str(beside)) if beside.exists() and shutil.which(program) != str(beside) else program
