"""A cluster of two nodes for ``test_two_nodes``: the driver and the Algorithms on one, the env runners on the other."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import ray
from ray import tune
from ray.cluster_utils import Cluster
from ray.rllib.algorithms.ppo import PPOConfig

import tune_media as tm
from tests.support.envs import CountingEnv
from tests.support.quiet_ray import no_onlookers


def where(step):
    return {"node": ray.get_runtime_context().get_node_id()}


def main(folder: str) -> None:
    head = {"num_cpus": 2, "include_dashboard": False, "object_store_memory": 10**8}
    with no_onlookers():
        cluster = Cluster(initialize_head=True, head_node_args=head)
    ray.init(address=cluster.address, log_to_driver=False)  # of two nodes with one address, Ray would take either
    cluster.add_node(num_cpus=0, resources={"there": 4}, object_store_memory=10**8)  # no CPU: no Algorithm
    cluster.wait_for_nodes()
    nodes = {"driver": ray.get_runtime_context().get_node_id()}
    (nodes["runners"],) = (node["NodeID"] for node in ray.nodes() if node["Resources"].get("there"))
    (Path(folder) / "nodes.json").write_text(json.dumps(nodes))
    train(folder)
    ray.shutdown()
    cluster.shutdown()


def train(folder: str) -> None:
    """Run a sweep whose env runners have no place on the driver's node."""
    config = (
        PPOConfig()
        .environment(CountingEnv, env_config={"log_dir": folder + "/played"})
        .env_runners(num_env_runners=1, num_cpus_per_env_runner=0, custom_resources_per_env_runner={"there": 1})
        .training(train_batch_size=64, minibatch_size=64, num_epochs=1)
        .rl_module(model_config={"fcnet_hiddens": [8]})
        .evaluation(evaluation_interval=1, evaluation_num_env_runners=1, evaluation_duration=3)
        .callbacks(tm.rllib.record_episodes(sections=("train", "evaluation"), keep=("best", "last"), collect=where))
    )
    strict = tm.MediaOptions(strict=True)
    results = tune.Tuner(
        "PPO",
        param_space=config,
        run_config=tune.RunConfig(
            name="two_nodes",
            storage_path=folder,
            stop={"training_iteration": 2},
            verbose=0,
            callbacks=[tm.JsonMediaLoggerCallback(strict), tm.TBXMediaLoggerCallback(strict)],
        ),
    ).fit()
    assert not results.errors


if __name__ == "__main__":
    main(*sys.argv[1:])
