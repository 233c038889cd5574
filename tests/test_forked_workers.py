"""The tests' own shortcut: Ray's workers are forked (`tests/support/fork_workers.py`)."""

from __future__ import annotations

import os
import random
import signal
import sys
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from tests.support.faults import wait_until
from tune_media.replay.process import RenderProcess
from tune_media.replay.recipe import Recipe


class Looker:
    def look(self) -> tuple[bool, str | None, str | None, tuple[float | str, ...]]:
        """Return whether this worker was forked, two variables of its environment, and random numbers and ids."""
        import ray
        import torch

        parent = Path(f"/proc/{os.getppid()}/cmdline").read_text()
        worker = ray.get_runtime_context().get_worker_id()
        numbers = (random.random(), np.random.rand(), torch.rand(1).item(), worker, ray.WorkerID.from_random().hex())
        return "fork_workers.py" in parent, os.environ.get("OF_ONE_ACTOR"), os.environ.get("OMP_NUM_THREADS"), numbers


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks the workers")
def test_workers_are_forked_and_differ_as_new_processes_do(ray_session):
    looker = ray_session.remote(num_cpus=1)(Looker)
    environment = {"env_vars": {"OF_ONE_ACTOR": "1"}}
    lookers = [looker.remote(), looker.remote(), looker.options(runtime_env=environment).remote()]
    seen = ray_session.get([each.look.remote() for each in lookers])
    assert [each[:3] for each in seen] == [(True, None, "1"), (True, None, "1"), (True, "1", "1")]
    assert len({number for *_, numbers in seen for number in numbers}) == 15


def _who_am_i(config):
    Path(config["file"]).write_text(f"{os.getpid()} {os.getppid()} {np.random.rand()}")
    return gym.make("CartPole-v1", render_mode="rgb_array")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux forks the processes that render")
def test_a_process_that_renders_is_forked_and_ends_with_the_one_that_was_started(tmp_path):
    numbers = []
    for name in ("one", "two"):
        file = tmp_path / name
        with RenderProcess(Recipe.of(_who_am_i, {"file": str(file)}).content) as process:
            assert process.check() is None
            started = process._process
            forked, guard, number = file.read_text().split()
            assert "fork_workers.py" in Path(f"/proc/{guard}/cmdline").read_text()
            process.kill()
            assert started.wait() == -signal.SIGKILL
            wait_until(lambda forked=forked: not Path(f"/proc/{forked}").exists())
        numbers.append(number)
    assert len(set(numbers)) == 2
