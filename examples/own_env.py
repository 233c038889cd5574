"""Clips of your own env in TensorBoard, without RLlib. It needs no torch: pip install 'tune-media[gym,tensorboard]'.

A trial is a function that steps a Gymnasium env. Look at the lines with ``tm``: the wrapper records, ``take()`` returns
the best episode since the last report, and the callbacks store it and show it in TensorBoard's Images tab.
"""

import argparse

import gymnasium as gym
import numpy as np
from ray import tune

import tune_media as tm


class Corridor(gym.Env):
    """A walk along ten places, to the last one."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 - as Gymnasium's own envs
    observation_space = gym.spaces.Discrete(10)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, render_mode=None):
        self.render_mode, self.at = render_mode, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return self.at, {}

    def step(self, action):
        self.at = max(0, self.at + (1 if action else -1))
        return self.at, -0.1 + (self.at == 9), self.at == 9, False, {}

    def render(self):
        frame = np.full((48, 160, 3), 255, np.uint8)
        frame[16:32, 16 * self.at : 16 * self.at + 16] = (200, 30, 30)
        return frame


def train(config):
    rng = np.random.default_rng(0)
    env = gym.wrappers.TimeLimit(Corridor(render_mode="rgb_array"), max_episode_steps=50)
    env = tm.gym.RecordEpisodes(env, keep="best")
    for _ in range(3):
        for _ in range(3):
            env.reset()
            over = False
            while not over:
                _, _, terminated, truncated, _ = env.step(rng.random() < config["right"])
                over = terminated or truncated
        tune.report({"mean_return": float(np.mean(env.return_queue)), "clips": env.take()})
    env.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--storage", default=None, help="folder or URI for results; default: ~/ray_results")
    args = parser.parse_args()
    results = tune.Tuner(
        train,
        param_space={"right": tune.grid_search([0.6, 0.9])},
        run_config=tune.RunConfig(
            name="own_env",
            storage_path=args.storage,
            callbacks=[tm.JsonMediaLoggerCallback(), tm.TBXMediaLoggerCallback()],
        ),
    ).fit()
    print("The best clip:", tm.load(results.experiment_path).best()["file"])
    print(f"tensorboard --logdir {results.experiment_path}")
