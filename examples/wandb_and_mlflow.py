"""The same clips in W&B (offline) and in MLflow (on a database), without a server.

You see one run per trial in each tracker, with its clips. Sort MLflow's runs by ``best_return``. The commands that show
them are printed at the end.
"""

import argparse
from pathlib import Path

import numpy as np
from ray import tune

import tune_media as tm


def train(config):
    """Report three results, each with a clip of a ball that falls at the trial's speed."""
    for step in range(1, 4):
        frames = np.zeros((20, 64, 96, 3), np.uint8)
        for t in range(20):
            y = min(56, int(config["speed"] * step * t))
            frames[t, y : y + 8, 44:52] = (250, 180, 40)
        score = config["speed"] * step
        episode = tm.EpisodeRecord(f"{config['speed']}-{step}", episode_return=score, episode_length=19)
        tune.report({"score": score, "ball": tm.Video(frames, fps=10, episode=episode)})


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--storage", default="~/ray_results", help="folder for results")
    args = parser.parse_args()
    storage = Path(args.storage).expanduser().resolve()
    storage.mkdir(parents=True, exist_ok=True)
    database = f"sqlite:///{storage / 'mlflow.db'}"
    results = tune.Tuner(
        train,
        param_space={"speed": tune.grid_search([0.5, 1.0])},
        run_config=tune.RunConfig(
            name="wandb_and_mlflow",
            storage_path=str(storage),
            callbacks=[
                tm.WandbMediaLoggerCallback(project="tune_media", mode="offline"),
                tm.MLflowMediaLoggerCallback(
                    tracking_uri=database, artifact_location=(storage / "mlartifacts").as_uri()
                ),
            ],
        ),
    ).fit()
    print(f"MLflow:              mlflow server --backend-store-uri {database}")
    print(f"W&B, after a login:  wandb sync {results.experiment_path}/*/wandb/offline-run-*")
