"""Where Ms. Pac-Man has been: a heatmap of each iteration's best episode, made in a callback of your own.

Any hook may put values into an episode with ``tm.rllib.values_of``: numbers, text, pictures. They are logged as the
recorder's own are: the heatmap is an image at ``train/episodes/heatmap/best`` in TensorBoard and a PNG in the trial's
folder. Needs ale-py (``pip install ale-py``), which has the game.
"""

import argparse

import ale_py
import gymnasium as gym
import numpy as np
from ray import tune
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.callbacks.callbacks import RLlibCallback

import tune_media as tm

parser = argparse.ArgumentParser()
parser.add_argument("--storage", default=None, help="folder or URI for results; default: ~/ray_results")
parser.add_argument("--iterations", type=int, default=2)
args = parser.parse_args()

PLAYER_X, PLAYER_Y = 10, 16  # places in the Atari's memory


def make_env(config):
    gym.register_envs(ale_py)
    env = gym.make("ALE/MsPacman-v5", obs_type="ram", render_mode="rgb_array", frameskip=8, max_episode_steps=150)
    memory = gym.spaces.Box(0, 1, (128,), np.float32)
    return gym.wrappers.TransformObservation(env, lambda observation: observation / np.float32(255), memory)


class Heatmap(RLlibCallback):
    """Counts in which places the player has been."""

    def on_episode_start(self, *, episode, **kwargs):
        episode.custom_data["visits"] = np.zeros((64, 64), int)

    def on_episode_step(self, *, episode, **kwargs):
        memory = 255 * episode.get_observations(-1)
        episode.custom_data["visits"][int(memory[PLAYER_Y]) // 4, int(memory[PLAYER_X]) // 4] += 1

    def on_episode_end(self, *, episode, **kwargs):
        visits = episode.custom_data["visits"]
        tm.rllib.values_of(episode)["heatmap"] = tm.Image.heatmap(np.log1p(visits), scale=5)
        tm.rllib.values_of(episode)["places_seen"] = np.count_nonzero(visits)


tune.register_env("pacman", make_env)
config = (
    PPOConfig()
    .environment("pacman")
    .env_runners(num_env_runners=0)
    .training(train_batch_size=400, minibatch_size=100, num_epochs=2)
    .callbacks([Heatmap, tm.rllib.record_episodes(sections="train", keep="best", video=tm.VideoOptions(fps=15))])
)
results = tune.Tuner(
    "PPO",
    param_space=config,
    run_config=tune.RunConfig(
        name="pacman_heatmap",
        storage_path=args.storage,
        stop={"training_iteration": args.iterations},
        callbacks=[tm.JsonMediaLoggerCallback(), tm.TBXMediaLoggerCallback()],
    ),
).fit()

for row in tm.load(results.experiment_path):
    print(row["kind"], row["file"], row.get("episode_return", ""))
