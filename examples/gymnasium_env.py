"""A Gymnasium env without Ray: mp4 files of some episodes, and the statistics of all.

You see one mp4 for every third episode in the folder, and a line for each episode.
"""

import argparse

import gymnasium as gym

import tune_media as tm

parser = argparse.ArgumentParser()
parser.add_argument("--storage", default="gymnasium_env", help="folder for the clips")
args = parser.parse_args()

env = gym.make("CartPole-v1", render_mode="rgb_array")
env = tm.gym.RecordEpisodes(
    env,
    args.storage,
    name_prefix="cartpole",
    episode_trigger=tm.selection.every(3),
    keep="best",
    video=tm.VideoOptions(height=200),
    collect={"angle": lambda step: float(step.observation[2])},
)
for episode in range(6):
    observation, info = env.reset(seed=episode)
    over = False
    while not over:
        action = int(observation[2] > 0)  # push to the side to which the pole falls
        observation, reward, terminated, truncated, info = env.step(action)
        over = terminated or truncated
    print(f"episode {episode}: return {info['episode']['r']:.0f}, {info['episode']['l']} steps")
taken = env.take()
print(f"best return {taken['best'].episode.episode_return:.0f}, clip {taken['best']}")
print(f"largest angle of the pole: {taken['custom_metrics']['angle_max_max']:.3f}")
env.close()
