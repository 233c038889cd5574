"""A hand-written training loop in one file, as in CleanRL. It runs as a Tune trial and reports clips.

The agent is REINFORCE with a linear policy, in NumPy, on a vector env. Look at the lines with ``tm``: the wrapper
records, ``take()`` returns the best episode since the last report, and the callbacks store it.
"""

import argparse

import gymnasium as gym
import numpy as np
from ray import tune

import tune_media as tm


def train(config):
    rng = np.random.default_rng(config["seed"])
    envs = gym.make_vec("CartPole-v1", num_envs=4, vectorization_mode="sync", render_mode="rgb_array")
    small = tm.VideoOptions(height=100)
    envs = tm.gym.RecordVectorEpisodes(envs, keep="best", episode_trigger=tm.selection.every(5), video=small)
    weights = np.zeros((4, 2))
    observations, _ = envs.reset(seed=config["seed"])
    grads, gains = [[] for _ in range(4)], []
    for update in range(1, config["updates"] + 1):
        for _ in range(250):
            scores = np.exp(observations @ weights)
            chances = scores / scores.sum(axis=1, keepdims=True)
            actions = (rng.random(4) < chances[:, 1]).astype(int)
            for i in range(4):
                grads[i].append(np.outer(observations[i], np.eye(2)[actions[i]] - chances[i]))
            observations, _, terminations, truncations, _ = envs.step(actions)
            for i in np.flatnonzero(terminations | truncations):
                gains.append(len(grads[i]))
                advantage = len(grads[i]) - np.mean(gains[-50:])
                weights += config["lr"] * advantage * np.mean(grads[i], axis=0)
                grads[i] = []
        tune.report({"episode_return_mean": float(np.mean(envs.return_queue)), "update": update, **envs.take()})
    envs.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--storage", default=None, help="folder or URI for results; default: ~/ray_results")
    args = parser.parse_args()
    results = tune.Tuner(
        train,
        param_space={"lr": tune.grid_search([0.01, 0.1]), "seed": 0, "updates": 4},
        run_config=tune.RunConfig(
            name="handwritten_loop",
            storage_path=args.storage,
            callbacks=[tm.JsonMediaLoggerCallback(), tm.TBXMediaLoggerCallback()],
        ),
    ).fit()
    for row in tm.load(results.experiment_path):
        print(row["trial"], row["step"], row["key"], row["episode_return"], row["path"])
