"""RLlib without Tune: the clips are in the dict that ``algo.train()`` returns.

You see one mp4 for each iteration, the best of three episodes, with the step and the return drawn into the frames.
"""

import argparse
from pathlib import Path

from ray.rllib.algorithms.ppo import PPOConfig

import tune_media as tm

parser = argparse.ArgumentParser()
parser.add_argument("--storage", default="clips", help="folder for the clips")
args = parser.parse_args()
folder = Path(args.storage)
folder.mkdir(parents=True, exist_ok=True)

config = (
    PPOConfig()
    .environment("CartPole-v1", env_config={"render_mode": "rgb_array"})
    .env_runners(num_env_runners=0)
    .training(train_batch_size=400, minibatch_size=100, num_epochs=2)
    .evaluation(evaluation_interval=1, evaluation_duration=3)
    .callbacks(tm.rllib.record_episodes(keep="best", video=tm.VideoOptions(overlay=("step", "return"))))
)
algo = config.build_algo()
for iteration in range(1, 4):
    result = algo.train()
    clip = result["evaluation"]["env_runners"]["episodes"]["best"]
    path = folder / f"iteration_{iteration}.mp4"
    path.write_bytes(clip.content())
    print(path, clip.episode.episode_return, clip.frames)
algo.stop()
