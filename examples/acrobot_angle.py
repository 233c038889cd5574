"""Acrobot's joint angles: their mean over each episode as a curve, all their values as a histogram, a table at the end.

RLlib's documentation does this with callbacks that write into the episode; here it is one argument. Curves are at
``custom_metrics/theta1_avg_mean``, histograms at ``train/episodes/theta1`` in TensorBoard.
"""

import argparse
import math

from ray import tune
from ray.rllib.algorithms.ppo import PPOConfig

import tune_media as tm

parser = argparse.ArgumentParser()
parser.add_argument("--storage", default=None, help="folder or URI for results; default: ~/ray_results")
parser.add_argument("--iterations", type=int, default=3)
args = parser.parse_args()


def angles(step: tm.steps.StepFacts) -> dict:
    theta1, theta2 = step.env.unwrapped.state[:2]
    return {"theta1": math.degrees(theta1), "height": tm.steps.running(-math.cos(theta1 + theta2), statistics="max")}


config = (
    PPOConfig()
    .environment("Acrobot-v1", env_config={"render_mode": "rgb_array", "max_episode_steps": 200})
    .env_runners(num_env_runners=0, num_envs_per_env_runner=2)
    .training(lr=tune.grid_search([1e-4, 1e-3]), train_batch_size=1000, minibatch_size=250, num_epochs=2)
    .callbacks(
        tm.rllib.record_episodes(
            sections="train",
            keep=tm.selection.best(by="height_max"),  # the episode that swung highest
            collect=angles,
            window=50,  # a mean over the last 50 episodes, too
            video=tm.VideoOptions(height=160, overlay=("step", "action")),
        )
    )
)
results = tune.Tuner(
    "PPO",
    param_space=config,
    run_config=tune.RunConfig(
        name="acrobot_angle",
        storage_path=args.storage,
        stop={"training_iteration": args.iterations},
        callbacks=[tm.JsonMediaLoggerCallback(), tm.TBXMediaLoggerCallback()],
    ),
).fit()

episodes = tm.load(results.experiment_path).episodes()
print(episodes.groupby(["config/lr", "training_iteration"])[["metrics/theta1_avg", "metrics/height_max"]].mean())
