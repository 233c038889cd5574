"""The patch that is offered to Ray: its own test fails on Ray's example, and passes on the patched one."""

import importlib.util
import subprocess
import sys
import unittest
from pathlib import Path

import pytest
import ray
from ray.rllib.examples import envs

PATCH = Path(__file__).parents[2] / "docs" / "upstream" / "ray-render-example.patch"
EXAMPLE = "rllib/examples/envs/env_rendering_and_recording.py"
TEST = "rllib/callbacks/tests/test_env_render_callback.py"


def loaded(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(not ray.__version__.startswith("2.60"), reason="the patch is for one release of Ray")
def test_the_test_in_the_patch_fails_on_rays_example_and_passes_on_the_patched_one(tmp_path, monkeypatch):
    installed = Path(ray.__file__).parent / EXAMPLE
    (tmp_path / EXAMPLE).parent.mkdir(parents=True)
    (tmp_path / EXAMPLE).write_text(installed.read_text())
    # Ray's wheel has no BUILD.bazel
    subprocess.run(["git", "apply", "--exclude=rllib/BUILD.bazel", str(PATCH)], cwd=tmp_path, check=True)

    def failures(example):
        name = f"{envs.__name__}.{installed.stem}"
        module = loaded(name, example)
        monkeypatch.setitem(sys.modules, name, module)
        monkeypatch.setattr(envs, installed.stem, module, raising=False)
        result = unittest.TestResult()
        unittest.defaultTestLoader.loadTestsFromModule(loaded("patchs_test", tmp_path / TEST)).run(result)
        assert (result.testsRun, result.errors) == (2, [])
        return len(result.failures)

    assert failures(installed) == 2
    assert failures(tmp_path / EXAMPLE) == 0
