"""Offline RL: behaviour cloning of a rule that balances the pole, with the clips of its evaluations.

The rule's steps are the data. You see an mp4 for each evaluation, the worst of four episodes: at first, the pole falls.
"""

import argparse
from pathlib import Path

import gymnasium as gym
import pandas as pd
import ray
from ray.rllib.algorithms.bc import BCConfig

import tune_media as tm


def play(episodes):
    """Return the steps of a rule that pushes the cart to the side to which the pole falls, in RLlib's columns."""
    env, steps = gym.make("CartPole-v1"), []
    for episode in range(episodes):
        (observation, _), over = env.reset(seed=episode), False
        while not over:
            action = int(observation[2] + observation[3] > 0)
            after, reward, terminated, truncated, _ = env.step(action)
            steps.append([str(episode), observation, action, reward, after, terminated, truncated])
            observation, over = after, terminated or truncated
    return pd.DataFrame(steps, columns=["eps_id", "obs", "actions", "rewards", "new_obs", "terminateds", "truncateds"])


parser = argparse.ArgumentParser()
parser.add_argument("--storage", default="clips", help="folder for the data and the clips")
args = parser.parse_args()
folder = Path(args.storage).absolute()
(folder / "data").mkdir(parents=True, exist_ok=True)
play(20).to_parquet(folder / "data" / "rule.parquet")

ray.init(num_cpus=4)  # logical CPUs: Ray reads the data in tasks of its own
config = (
    BCConfig()
    .environment("CartPole-v1", env_config={"render_mode": "rgb_array"})
    .offline_data(input_=[str(folder / "data")], dataset_num_iters_per_learner=20)
    .training(train_batch_size_per_learner=256, lr=1e-3)
    .evaluation(evaluation_interval=1, evaluation_duration=4)
    .callbacks(tm.rllib.record_episodes(keep="worst"))
)
algo = config.build_algo()
for iteration in range(1, 6):
    clip = algo.train()["evaluation"]["env_runners"]["episodes"]["worst"]
    path = folder / f"bc-step-{iteration}-return_{clip.episode.episode_return:g}.mp4"
    path.write_bytes(clip.content())
    print(path, clip.frames)
algo.stop()
