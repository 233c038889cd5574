"""Folders of W&B 0.31.0, MLflow 3.17.2 and Trackio 0.43.0: ``python -m tests.support.foreign.make_trackers FOLDER``.

Offline runs of W&B have their config and numbers in ``run-*.wandb`` alone. Online runs have ``config.yaml`` and
``wandb-summary.json``, too: here, a server that answers as W&B's is beside them.
"""

import contextlib
import os
import shutil
import sqlite3
import sys
from pathlib import Path

from tests.support.foreign.tidy import tidy
from tests.support.foreign.toy_env import ENV_ID, clip, gains, make, play
from tests.support.foreign.wandb_server import serve

RUNS = ((1, 0.1), (2, 0.1), (1, 0.5))  # seeds and learning rates


def returns(seed, learning_rate, folder):
    """Yield the step, the return, and the path of a clip, of each evaluation."""
    env = make()
    for number, gain in enumerate(gains(seed, 3, learning_rate), 1):
        episode_return, frames = play(env, gain, seed)
        path = folder / f"eval_{number}.mp4"
        clip(frames, path)
        yield 8 * number, episode_return, path


def wandb_runs(folder, scratch):
    os.environ |= {
        "WANDB_SILENT": "true",
        "WANDB_DISABLE_GIT": "true",
        "WANDB_DISABLE_CODE": "true",
    }
    import wandb

    folder.mkdir(parents=True)
    for seed, learning_rate in RUNS:
        config = {"seed": seed, "lr": learning_rate, "env_id": ENV_ID, "net": {"hidden": [8, 8]}}
        settings = wandb.Settings(console="off")
        run = wandb.init(
            project="toy", name=f"toy-{learning_rate}-{seed}", dir=str(folder), config=config, settings=settings
        )
        for step, episode_return, path in returns(seed, learning_rate, scratch):
            media = {"eval/video": wandb.Video(str(path), format="mp4")}
            run.log({"eval/episode_return": episode_return, "global_step": step, **media}, step=step)
        run.finish()
    wandb.teardown()  # it has read the variables once


def wandb_offline_runs(folder, scratch):
    os.environ["WANDB_MODE"] = "offline"
    wandb_runs(folder, scratch)


def wandb_online_runs(folder, scratch):
    os.environ |= {"WANDB_BASE_URL": serve(), "WANDB_API_KEY": "a" * 40, "WANDB_MODE": "online"}
    wandb_runs(folder, scratch)


def mlflow_runs(folder, scratch):
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    import mlflow

    folder.mkdir(parents=True)
    mlflow.set_tracking_uri((folder / "mlruns").as_uri())
    mlflow.set_experiment("toy")
    for seed, learning_rate in RUNS:
        with mlflow.start_run(run_name=f"toy-{learning_rate}-{seed}"):
            mlflow.log_params({"seed": seed, "lr": learning_rate, "env_id": ENV_ID})
            for step, episode_return, path in returns(seed, learning_rate, scratch):
                mlflow.log_metric("eval/episode_return", episode_return, step=step)
                mlflow.log_artifact(str(path), f"videos/step_{step}")


def trackio_runs(folder, scratch):
    os.environ["TRACKIO_DIR"] = str(folder)
    import trackio

    for seed, learning_rate in RUNS:
        config = {"seed": seed, "lr": learning_rate, "env_id": ENV_ID}
        trackio.init(project="toy", name=f"toy-{learning_rate}-{seed}", config=config)
        for step, episode_return, path in returns(seed, learning_rate, scratch):
            trackio.log(
                {"eval/episode_return": episode_return, "video": trackio.Video(str(path), format="mp4")}, step=step
            )
        trackio.finish()
    with contextlib.closing(sqlite3.connect(folder / "toy.db")) as database:
        database.execute("pragma journal_mode=delete")
        database.execute("pragma page_size=512")
        database.execute("vacuum")


MAKERS = {
    "wandb_offline": wandb_offline_runs,
    "wandb_online": wandb_online_runs,
    "mlflow_files": mlflow_runs,
    "trackio": trackio_runs,
}


def main(folder):
    for tool, maker in MAKERS.items():
        maker(folder / tool, folder / "scratch")
    shutil.rmtree(folder / "scratch")
    tidy(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
