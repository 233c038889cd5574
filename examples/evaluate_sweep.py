"""A sweep without any recorder; afterwards its checkpoints are evaluated on the same seeds, and there are clips.

The evaluation is what the command line does: tune-media evaluate ~/ray_results/evaluate_sweep --seeds 0:10
"""

import argparse

import ray
from ray import tune
from ray.rllib.algorithms.ppo import PPOConfig

import tune_media as tm

parser = argparse.ArgumentParser()
parser.add_argument("--storage", default=None, help="folder or URI for results; default: ~/ray_results")
parser.add_argument("--iterations", type=int, default=3)
args = parser.parse_args()

ray.init(num_cpus=4, include_dashboard=False)
config = (
    PPOConfig()
    .environment("CartPole-v1")
    .env_runners(num_env_runners=0)
    .training(lr=tune.grid_search([1e-4, 2e-3]), train_batch_size=500)
)
results = tune.Tuner(
    "PPO",
    param_space=config,
    run_config=tune.RunConfig(
        name="evaluate_sweep",
        storage_path=args.storage,
        stop={"training_iteration": args.iterations},
        checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=True),
    ),
).fit()

found = tm.evaluate(results, seeds=10)
table = found.to_pandas()
print(table[["trial", "episodes", "return_mean", "return_low", "return_high"]].to_string())
print(f"The best is {found.best.trial}. Its clips: tune-media watch --open {found.path}")
