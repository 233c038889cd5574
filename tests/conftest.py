"""One Ray for the whole test run: starting it is the slowest thing that tests do."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from tests.support import as_on_macos
from tests.support.fork_workers import forked_workers, make_connectors_fast

# Where this is set, each of the tests' many processes would compile Ray and torch: half of the tests' time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# One thread for torch, as Ray gives its workers: in several processes on few cores, PPO takes half the CPU time so.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Before Ray is imported: quiet, local, and workers that find the tests' own modules.
os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
os.environ.setdefault("TUNE_MEDIA_RENDER_NICENESS", "0")  # tests wait for what is rendered, on a busy machine
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
# Ray starts a worker for each core with its first job: idle, each of them takes a hundredth of a core.
os.environ.setdefault("RAY_prestart_worker_first_driver", "0")
# Scripts of libraries that the tests' environment does not have; their docstrings are not looked at.
collect_ignore = [f"support/{name}_run.py" for name in ("mjlab", "rsl_rl") if not importlib.util.find_spec(name)]
collect_ignore_glob = ["support/foreign/make_*.py"]
ROOT = str(Path(__file__).parents[1])
AT_START = str(Path(__file__).parent / "support" / "at_start")
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [ROOT, AT_START, os.environ.get("PYTHONPATH")]))


if as_on_macos.is_simulated() and hasattr(os, "sched_setaffinity"):  # not a worker of xdist, which has had it
    as_on_macos.remove_what_macos_lacks()


def pytest_configure(config):
    """Fork Ray's workers, for all processes of pytest; folders for outboxes and what they share go with them."""
    make_connectors_fast()
    if not hasattr(config, "workerinput"):
        forks = contextlib.ExitStack()
        for folder in ("TUNE_MEDIA_OUTBOX", "TUNE_MEDIA_TESTS_SHARE"):
            os.environ[folder] = forks.enter_context(tempfile.TemporaryDirectory(prefix="tune_media-"))
        forks.enter_context(forked_workers())
        config.add_cleanup(forks.close)


def pytest_collection_modifyitems(items):
    """Mark the tests that start Ray, which `make test-fast` leaves out; their files come first: they take longest."""
    for item in items:
        if "e2e" in item.path.parts or "ray_session" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.ray)
    with_ray, slow = ({item.path for item in items if item.get_closest_marker(name)} for name in ("ray", "slow"))
    items.sort(key=lambda item: (item.path not in with_ray, item.path not in slow))


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Keep the garbage collection from looking at what the tests import: it stays."""
    gc.disable()
    result = yield
    gc.enable()
    gc.collect()
    gc.freeze()
    return result


@pytest.fixture(scope="session")
def ray_session():
    """Ray with more logical CPUs than there are cores, so that trials run side by side."""
    import ray

    from tests.support import quiet_ray

    quiet_ray.init(num_cpus=24)
    yield ray
    ray.shutdown()


@pytest.fixture(scope="module")
def s3():
    """Return the filesystem of a moto server whose bucket ``results`` any code of the test reaches by its URI."""
    import pyarrow.fs

    moto = pytest.importorskip("moto.server")
    from moto.moto_api._internal.models import moto_api_backend

    moto_api_backend.reset()  # all moto servers of a process share their buckets
    server = moto.ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        environment.setenv("AWS_ACCESS_KEY_ID", "a")
        environment.setenv("AWS_SECRET_ACCESS_KEY", "s")
        environment.setenv("AWS_DEFAULT_REGION", "us-east-1")
        filesystem, _ = pyarrow.fs.FileSystem.from_uri("s3://results?allow_bucket_creation=true")
        filesystem.create_dir("results")
        yield filesystem
    server.stop()


@pytest.fixture(scope="module")
def browser():
    """Chromium for all tests of a file; none of them may start another one."""
    from tests.support.browser import chromium

    with chromium() as browser:
        yield browser


@pytest.fixture
def small_batches(monkeypatch):
    """PPO learns once from at most 500 steps; by default 30 times from 4,000."""
    from ray.rllib.algorithms.ppo import PPOConfig

    init, training = PPOConfig.__init__, PPOConfig.training

    def small(config):
        config.num_epochs, config.train_batch_size = 1, min(config.train_batch_size, 500)
        return config

    def small_from_the_start(config, *arguments, **options):
        init(config, *arguments, **options)
        small(config)

    monkeypatch.setattr(PPOConfig, "__init__", small_from_the_start)
    monkeypatch.setattr(PPOConfig, "training", lambda *arguments, **options: small(training(*arguments, **options)))


@pytest.fixture
def frames():
    """Return a maker of clips in which every frame differs."""

    def make(count: int = 6, height: int = 32, width: int = 48) -> list[np.ndarray]:
        clip = []
        for index in range(count):
            frame = np.full((height, width, 3), 30, np.uint8)
            frame[:, : (index + 1) * width // (count + 1)] = [200, 40, 40]
            clip.append(frame)
        return clip

    return make


@pytest.fixture(autouse=True)
def _doctest_names(doctest_namespace):
    doctest_namespace["np"] = np
    from tune_media import Video, VideoOptions
    from tune_media.encoding.encoder import VideoEncoder

    doctest_namespace.update(Video=Video, VideoOptions=VideoOptions, VideoEncoder=VideoEncoder)
