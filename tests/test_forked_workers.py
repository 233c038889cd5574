"""The tests' own shortcut: Ray's workers are forked (`tests/support/fork_workers.py`)."""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import numpy as np
import pytest


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
