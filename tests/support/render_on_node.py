"""A cluster of two nodes; a tape from the other one is rendered there, by an actor that is killed once."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import ray
from ray.cluster_utils import Cluster

from tests.support.driven_sweep import Sweep
from tests.support.taped import Gated, taped_clip
from tune_media.replay.taped_clip import TapedClip


class Tells(Gated):
    """Tells in which processes it is rendered, the innermost first."""

    def render(self) -> Any:
        line = [os.getpid()]
        while line[-1] > 1:
            stat = Path(f"/proc/{line[-1]}/stat").read_text()
            line.append(int(stat.rpartition(")")[2].split()[1]))  # its parent
        with Path(self.config["told"]).open("a") as file:
            file.write(json.dumps(line) + "\n")
        return super().render()


def told(folder: Path) -> list[list[int]]:
    """Return the processes that each frame was rendered in."""
    file = folder / "told"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def main(folder: str) -> None:
    head = {"num_cpus": 1, "include_dashboard": False, "object_store_memory": 10**8}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    ray.init(address=cluster.address, log_to_driver=False)  # of two nodes with one address, Ray would take either
    other = cluster.add_node(num_cpus=0, resources={"there": 1}, object_store_memory=10**8)
    ray.get(ray.remote(num_cpus=0, resources={"there": 0.1})(lambda: None).remote())  # the node is known
    (node,) = (one["NodeID"] for one in ray.nodes() if one["Resources"].get("there"))
    raylet = other.all_processes["raylet"][0].process.pid
    render(Path(folder) / "node", node, raylet)
    render(Path(folder) / "resources", "", raylet, {"there": 0.5})
    ray.shutdown()
    cluster.shutdown()


def render(place: Path, node: str, raylet: int, resources: dict[str, float] | None = None) -> None:
    """Have a tape rendered on the node that it names, or on one that has these resources."""
    place.mkdir()
    sweep = Sweep(place / "sweep", renderer_resources=resources)
    clip = taped_clip(2, creator=Tells, gate=str(place / "gate"), told=str(place / "told"))
    sweep.report(1, best=TapedClip(clip.tape, clip.recipe, clip.episode, node))
    while not told(place):
        time.sleep(0.05)
    os.kill(told(place)[0][1], signal.SIGKILL)  # the actor that holds the process
    while len({process for process, *_ in told(place)}) < 2:
        time.sleep(0.05)
    (place / "gate").touch()
    sweep.end()
    (place / "result.json").write_text(json.dumps({"raylet": raylet, "lines": sweep.lines()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
