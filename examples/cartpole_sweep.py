"""A PPO sweep on CartPole in which every evaluation leaves its best and its worst episode as a clip.

Copy this, put in your env and your hyperparameters, and look at the clips of all trials side by side with

    tensorboard --logdir ~/ray_results/cartpole_sweep --samples_per_plugin images=1000
"""

import argparse

import ray
from ray import tune
from ray.rllib.algorithms.ppo import PPOConfig

import tune_media as tm

parser = argparse.ArgumentParser()
parser.add_argument("--storage", default=None, help="folder or URI for results; default: ~/ray_results")
parser.add_argument("--iterations", type=int, default=10)
args = parser.parse_args()

ray.init(num_cpus=8, include_dashboard=False)  # logical CPUs: 4 trials of 2 processes run at once
config = (
    PPOConfig()
    .environment("CartPole-v1", env_config={"render_mode": "rgb_array"})
    .env_runners(num_env_runners=0, num_envs_per_env_runner=4)
    .training(lr=tune.grid_search([1e-4, 2e-3]), gamma=tune.grid_search([0.8, 0.98]), train_batch_size=1000)
    .evaluation(evaluation_interval=2, evaluation_num_env_runners=1, evaluation_duration=4)
    .callbacks(tm.rllib.record_episodes(sections="evaluation", keep=("best", "worst")))
)
results = tune.Tuner(
    "PPO",
    param_space=config,
    run_config=tune.RunConfig(
        name="cartpole_sweep",
        storage_path=args.storage,
        stop={"training_iteration": args.iterations},
        callbacks=[tm.JsonMediaLoggerCallback(), tm.TBXMediaLoggerCallback()],
    ),
).fit()

table = tm.load(results.experiment_path).to_pandas()
print(table[["trial", "config/lr", "config/gamma", "step", "key", "episode_return", "frames", "path"]].to_string())
