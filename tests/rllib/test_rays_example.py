"""The patch that is offered to Ray: its example then shows the sub-env that played, from the reset on."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
import ray

from tests.support.envs import CountingEnv, read_frame
from tests.support.rllib_configs import env_runner_of, for_env_runner

PATCH = Path(__file__).parents[2] / "docs" / "upstream" / "ray-render-example.patch"
(EXAMPLE,) = re.findall(r"^--- a/(\S+)", PATCH.read_text(), re.MULTILINE)


def shown_by(folder, monkeypatch):
    """Return what the example shows of the first episode of each of two sub-envs: the env, and the steps."""
    monkeypatch.setattr(sys, "argv", ["example"])
    spec = importlib.util.spec_from_file_location("rays_example", folder / EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.resize = lambda frame, height, width: frame.copy()  # Ray's own needs OpenCV
    found = {}

    class Kept(example.EnvRenderCallback):
        def on_episode_end(self, *, episode, env_index, **kwargs):
            frames = [read_frame(image.transpose(1, 2, 0)) for image in episode.custom_data["render_images"]]
            found.setdefault(env_index, ({frame.env for frame in frames}, [frame.step for frame in frames]))
            super().on_episode_end(episode=episode, env_index=env_index, **kwargs)

    env_runner = env_runner_of(for_env_runner(CountingEnv, {"length": 4}, Kept, sub_envs=2))
    env_runner.sample(num_episodes=2, random_actions=True)
    return found


@pytest.mark.skipif(not ray.__version__.startswith("2.60"), reason="the patch is for one release of Ray")
def test_rays_example_with_our_patch_shows_the_episode_that_was_played(tmp_path, monkeypatch):
    folder = Path(ray.__file__).parent
    file = tmp_path / EXAMPLE
    file.parent.mkdir(parents=True)
    file.write_text((folder / EXAMPLE.removeprefix("ray/")).read_text())
    before = shown_by(tmp_path, monkeypatch)
    assert before[0] == before[1] and before[0][1] == [1, 2, 3, 4]  # the first env twice, and no reset
    subprocess.run(["patch", "-p1", "-i", str(PATCH)], cwd=tmp_path, check=True)
    after = shown_by(tmp_path, monkeypatch)
    assert after[0][0] != after[1][0]
    assert [steps for _, steps in after.values()] == [[0, 1, 2, 3, 4]] * 2
