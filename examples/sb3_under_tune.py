"""Stable-Baselines3 under Tune: each env of its vector env is wrapped, and a callback reports the clips.

You see the best episode of each rollout, for two learning rates.
"""

import argparse

import gymnasium as gym
from ray import tune
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv

import tune_media as tm


def make_env():
    env = gym.make("CartPole-v1", render_mode="rgb_array")
    return tm.gym.RecordEpisodes(env, keep="best", episode_trigger=tm.selection.every(4))


class Report(BaseCallback):
    """Reports the mean return, and the best episode of all envs, after each rollout."""

    def _on_step(self):
        return True

    def _on_rollout_end(self):
        clips = [taken["best"] for taken in self.training_env.env_method("take") if "best" in taken]
        returns = [value for queue in self.training_env.get_attr("return_queue") for value in queue]
        metrics = {"episode_return_mean": sum(returns) / max(1, len(returns)), "env_steps": self.num_timesteps}
        if clips:
            metrics["best"] = max(clips, key=lambda clip: clip.episode.episode_return)
        tune.report(metrics)


def train(config):
    envs = DummyVecEnv([make_env] * 2)
    model = PPO("MlpPolicy", envs, learning_rate=config["lr"], n_steps=128, batch_size=64, n_epochs=2, device="cpu")
    model.learn(total_timesteps=config["env_steps"], callback=Report())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--storage", default=None, help="folder or URI for results; default: ~/ray_results")
    args = parser.parse_args()
    results = tune.Tuner(
        train,
        param_space={"lr": tune.grid_search([3e-4, 3e-3]), "env_steps": 1024},
        run_config=tune.RunConfig(
            name="sb3_under_tune",
            storage_path=args.storage,
            callbacks=[tm.JsonMediaLoggerCallback(), tm.TBXMediaLoggerCallback()],
        ),
    ).fit()
    for row in tm.load(results.experiment_path):
        print(row["trial"], row["step"], row["key"], row["episode_return"], row["path"])
