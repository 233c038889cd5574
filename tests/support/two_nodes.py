"""A cluster of two nodes for ``test_two_nodes``: the driver and the Algorithms on one, the env runners on the other.

A tape of the other node whose env can be made there alone is rendered there, by a task; one is killed once.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.cluster_utils import Cluster
from ray.rllib.algorithms.ppo import PPOConfig

import tune_media as tm
from tests.support.driven_sweep import Sweep
from tests.support.envs import CountingEnv
from tests.support.json_lines import read_lines, write_line
from tests.support.taped import Gated, taped_clip
from tune_media.replay.taped_clip import TapedClip


def where(step):
    return {"node": ray.get_runtime_context().get_node_id()}


class Tells(Gated):
    """Is made by the driver, and by workers of Ray and what they start.

    It tells in which process it is rendered, which one has started that, and for which raylet that one works.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        if os.getpid() != config["driver"] and "RAY_RAYLET_PID" not in os.environ:
            raise ImportError("this env is not installed here")

    def render(self) -> Any:
        write_line(Path(self.config["told"]), [os.getpid(), os.getppid(), int(os.environ["RAY_RAYLET_PID"])])
        return super().render()


def main(folder: str) -> None:
    head = {"num_cpus": 2, "include_dashboard": False, "object_store_memory": 10**8}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    ray.init(address=cluster.address, log_to_driver=False)  # of two nodes with one address, Ray would take either
    other = cluster.add_node(num_cpus=0, resources={"there": 4}, object_store_memory=10**8)  # no CPU: no Algorithm
    cluster.wait_for_nodes()
    nodes = {"driver": ray.get_runtime_context().get_node_id()}
    (nodes["runners"],) = (node["NodeID"] for node in ray.nodes() if node["Resources"].get("there"))
    (Path(folder) / "nodes.json").write_text(json.dumps(nodes))
    raylet = other.all_processes["raylet"][0].process.pid
    render(Path(folder) / "node", nodes["runners"], raylet)
    render(Path(folder) / "resources", "", raylet, {"there": 0.5})
    train(folder)
    ray.shutdown()
    cluster.shutdown()


def render(place: Path, node: str, raylet: int, resources: dict[str, float] | None = None) -> None:
    """Render a tape on the node that it names, or on one that has these resources."""
    place.mkdir()
    told = place / "told"
    sweep = Sweep(place / "sweep", renderer_resources=resources)
    clip = taped_clip(2, creator=Tells, gate=str(place / "gate"), told=str(told), driver=os.getpid())
    sweep.report(1, best=TapedClip(clip.tape, clip.recipe, clip.episode, node))
    while not read_lines(told):
        time.sleep(0.05)
    if node:
        os.kill(read_lines(told)[0][1], signal.SIGKILL)  # the process that renders
    while node and len({process for process, *_ in read_lines(told)}) < 2:
        time.sleep(0.05)
    (place / "gate").touch()
    sweep.end()
    (place / "result.json").write_text(json.dumps({"raylet": raylet, "lines": sweep.lines()}))


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
