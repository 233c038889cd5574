"""A sweep that goes on where it was when its job starts again, as on SLURM and Kubernetes.

End it at any time and start it anew: the second run goes on from the last checkpoints, and stores the clips that the
first one had not stored.
"""

import argparse
import os
from pathlib import Path

import ray
from ray import tune
from ray.rllib.algorithms.ppo import PPOConfig

import tune_media as tm

parser = argparse.ArgumentParser()
parser.add_argument("--storage", default=str(Path.home() / "ray_results"), help="folder or URI for results")
parser.add_argument("--iterations", type=int, default=5)
args = parser.parse_args()

cpus = os.environ.get("SLURM_CPUS_PER_TASK")  # of the job; Ray would count those of the whole node
ray.init(num_cpus=int(cpus) if cpus else None)
path = f"{args.storage}/restarted_sweep"
if tune.Tuner.can_restore(path):
    tuner = tune.Tuner.restore(path, trainable="PPO", resume_errored=True)
else:
    config = (
        PPOConfig()
        .environment("CartPole-v1", env_config={"render_mode": "rgb_array"})
        .env_runners(num_env_runners=0)
        .training(lr=tune.grid_search([1e-4, 1e-3]), train_batch_size=400, minibatch_size=100, num_epochs=2)
        .evaluation(evaluation_interval=1, evaluation_duration=2)
        .callbacks(tm.rllib.record_episodes())
    )
    run_config = tune.RunConfig(
        name="restarted_sweep",
        storage_path=args.storage,
        stop={"training_iteration": args.iterations},
        checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=1, num_to_keep=2),
        callbacks=[tm.JsonMediaLoggerCallback()],
    )
    tuner = tune.Tuner("PPO", param_space=config, run_config=run_config)
results = tuner.fit()
print(tm.load(results.experiment_path).verdict.sentence)
