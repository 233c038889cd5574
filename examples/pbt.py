"""Population based training: a clip of each report, and whose policy it shows. No torch: CartPole and random search.

A trial that does badly copies the checkpoint of a better one. Look at ``lineage`` in the printed table: it names the
trial and the iteration that a clip's policy was copied from. ``PBT`` also changes the hyperparameter ``noise``.
"""

import argparse
import tempfile
from pathlib import Path

import gymnasium as gym
import numpy as np
from ray import tune
from ray.tune.schedulers import PopulationBasedTraining

import tune_media as tm


def play(env, weights):
    observation, _ = env.reset(seed=0)
    over, length = False, 0
    while not over:
        observation, _, terminated, truncated, _ = env.step(int(observation @ weights > 0))
        over, length = terminated or truncated, length + 1
    return length


def train(config):
    rng, weights = np.random.default_rng(), np.zeros(4)
    checkpoint = tune.get_checkpoint()
    if checkpoint is not None:  # the trial's own, or after an exploit that of a better trial
        with checkpoint.as_directory() as folder:
            weights = np.load(Path(folder, "weights.npy"))
    env = gym.make("CartPole-v1", render_mode="rgb_array", max_episode_steps=100)
    env = tm.gym.RecordEpisodes(env, keep="best", video=tm.VideoOptions(height=100))
    while True:  # Tune ends it
        tried = [weights, *(weights + config["noise"] * rng.normal(size=(3, 4)))]
        lengths = [play(env, one) for one in tried]
        weights = tried[int(np.argmax(lengths))]
        with tempfile.TemporaryDirectory() as folder:
            np.save(Path(folder, "weights.npy"), weights)
            tune.report({"length": max(lengths), **env.take()}, checkpoint=tune.Checkpoint.from_directory(folder))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--storage", default=None, help="folder or URI for results; default: ~/ray_results")
    args = parser.parse_args()
    scheduler = PopulationBasedTraining(
        time_attr="training_iteration",
        metric="length",
        mode="max",
        perturbation_interval=2,
        quantile_fraction=0.5,
        hyperparam_mutations={"noise": [0.01, 0.1, 1.0]},
        synch=True,
    )
    results = tune.Tuner(
        train,
        param_space={"noise": tune.grid_search([0.0, 1.0])},
        tune_config=tune.TuneConfig(scheduler=scheduler),
        run_config=tune.RunConfig(
            name="pbt",
            storage_path=args.storage,
            stop={"training_iteration": 4},
            checkpoint_config=tune.CheckpointConfig(num_to_keep=2),
            callbacks=[tm.JsonMediaLoggerCallback()],
        ),
    ).fit()
    for row in tm.load(results.experiment_path):
        print(row["trial"], row["training_iteration"], row["episode_return"], row.get("lineage", "its own"))
