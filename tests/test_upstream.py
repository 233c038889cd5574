"""The patches that are offered to Ray: the example that each mends fails without it, and works with it."""

import importlib.util
import json
import subprocess
import sys
import unittest
from pathlib import Path

import pytest
import ray
from ray import tune
from ray.rllib.examples import envs

from tests.support.experiment import fit

UPSTREAM = Path(__file__).parents[1] / "docs" / "upstream"
EXAMPLE = "rllib/examples/envs/env_rendering_and_recording.py"
TEST = "rllib/callbacks/tests/test_env_render_callback.py"
PAGE = "doc/source/tune/tutorials/tune-output.md"


def put(folder, name, text):
    (folder / name).parent.mkdir(parents=True)
    (folder / name).write_text(text)


def apply(patch, folder, *options):
    subprocess.run(["git", "apply", *options, str(UPSTREAM / patch)], cwd=folder, check=True)


def loaded(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(not ray.__version__.startswith("2.60"), reason="the patch is for one release of Ray")
def test_the_test_in_the_patch_fails_on_rays_example_and_passes_on_the_patched_one(tmp_path, monkeypatch):
    installed = Path(ray.__file__).parent / EXAMPLE
    put(tmp_path, EXAMPLE, installed.read_text())
    apply("ray-render-example.patch", tmp_path, "--exclude=rllib/BUILD.bazel")  # which Ray's wheel has not

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


def test_the_logger_on_tunes_page_ends_a_sweep_and_the_patched_one_logs_its_results(ray_session, tmp_path):
    patch = (UPSTREAM / "ray-custom-logger.patch").read_text()
    hunk = patch[: patch.index("\n-- \n")].partition("\n@@ ")[2].splitlines()[1:]  # the whole block of the page
    put(tmp_path, PAGE, "\n".join(line[1:] for line in hunk if line[0] != "+") + "\n")

    def sweep(name):
        names = {}
        exec((tmp_path / PAGE).read_text(), names)
        callback = names["CustomLoggerCallback"]("log_test.txt")
        return fit(lambda config: tune.report({"loss": 0.5}), tmp_path, [callback], name=name)

    with pytest.raises(DeprecationWarning, match="Use `local_path` instead of `logdir`"):
        sweep("as_it_is")
    apply("ray-custom-logger.patch", tmp_path)
    (result,) = sweep("patched")
    assert json.loads(Path(result.path, "log_test.txt").read_text())["loss"] == 0.5
