import json
import os
import random
import re
import sys
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import ray
from click.testing import CliRunner

from tests.support.commands import command
from tests.support.envs import CountingEnv
from tune_media.cli import main
from tune_media.values.installing import pip_install
from tune_media.viewing.doctor import examine, examine_apart, make_env, missing


class Picture(CountingEnv):
    def __init__(self, picture):
        super().__init__()
        self.picture = picture

    def render(self):
        if isinstance(self.picture, Exception):
            raise self.picture
        return self.picture


def test_a_good_env_is_described():
    report = examine(lambda: make_env("gymnasium:CartPole-v1", {"render_mode": "rgb_array"}))
    assert report.problems == []
    assert [report.facts[name] for name in ("render_mode", "width", "height", "fps")] == ["rgb_array", 600, 400, 50]
    assert {"render_ms", "encode_ms", "codec", "bytes_per_frame", "environment"} <= set(report.facts)
    assert "600x400, uint8, at 50 fps" in report.text()
    assert "can be recorded" in report.text() and "first frame" not in report.text()


@pytest.mark.parametrize(
    ("name", "config", "words"),
    [
        ("CartPole-v1", {}, "render_mode='rgb_array'"),
        ("tests.viewing.test_doctor:Buggy", {}, "a bug of its own"),
    ],
)
def test_an_env_that_cannot_be_made_or_rendered_is_named_with_its_remedy(name, config, words):
    (problem,) = examine(lambda: make_env(name, config)).problems
    assert words in problem


class LateWindow(gym.Wrapper):
    """Its window is white until a step is taken."""

    def reset(self, **arguments):
        self.has_drawn = False
        return super().reset(**arguments)

    def step(self, action):
        self.has_drawn = True
        return super().step(action)

    def render(self):
        frame = super().render() // 2
        return frame if self.has_drawn else np.full_like(frame, 255)


def test_a_window_that_draws_only_after_the_reset_is_told():
    late = examine(lambda: LateWindow(make_env("CartPole-v1", {"render_mode": "rgb_array"})))
    assert late.problems == [] and "nothing of the frames after it" in late.text()


@pytest.mark.parametrize(
    ("picture", "words"),
    [
        (np.zeros((32, 32, 3), np.uint8), "every frame is black"),
        (np.random.default_rng(0).integers(0, 255, (32, 32, 3), np.uint8), "are the same"),
        ([np.zeros((32, 32, 3), np.uint8)] * 2, "not 'rgb_array_list'|one frame"),
        (RuntimeError("gladLoadGL error"), "MUJOCO_GL"),
    ],
)
def test_frames_that_would_make_no_clip(picture, words):
    (problem,) = examine(lambda: Picture(picture)).problems
    assert re.search(words, problem)


def test_a_process_that_dies_is_told(ray_session):
    (problem,) = examine_apart("tests.viewing.test_doctor:Dies", {}).problems
    assert "SDL_VIDEODRIVER" in problem


def test_an_env_without_gymnasium_needs_none_and_an_id_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)  # as if it were not installed
    assert examine(lambda: make_env("tests.viewing.test_doctor:OwnKind", {})).problems == []
    (problem,) = examine(lambda: make_env("CartPole-v1", {})).problems
    assert problem.endswith(f". Install it: {pip_install('gym')}")


class OwnKind:
    """An env that has no base class, and no close()."""

    render_mode = "rgb_array"
    action_space = SimpleNamespace(sample=lambda: 0)

    def __init__(self, config):
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        self.steps += 1
        return self.steps, 0.0, False, False, {}

    def render(self):
        picture = np.zeros((32, 48, 3), np.uint8)
        picture[:, : self.steps + 1] = 255
        return picture


class Dies(gym.Env):
    """Takes its process with it, as a GL library without a display does."""

    def __init__(self, config=None):
        import os

        os._exit(1)


def test_multi_agent_envs_and_functions_that_make_envs():
    report = examine(lambda: make_env("tests.support.envs.multi_agent:MultiAgentCountingEnv", {}))
    assert report.problems == []
    assert make_env("tests.viewing.test_doctor:make_by_keyword", {"length": 7}).counter.config == {"length": 7}


def make_by_keyword(*, length):
    return CountingEnv({"length": length})


class Buggy(gym.Env):
    def __init__(self, config):
        raise TypeError("a bug of its own")


def test_on_the_command_line(ray_session):
    runner = CliRunner()
    good = runner.invoke(main, ["doctor", "tests.support.envs:CountingEnv", "--config", "{}"])
    assert good.exit_code == 0, good.output
    assert "192x32" in good.output
    assert f"ray {ray.__version__}" in good.output
    assert (
        "Rendering tests.support.envs:CountingEnv in another process" in good.stderr
    )  # a sign of life, out of the JSON
    bad = runner.invoke(main, ["doctor", "CartPole-v1", "--config", "{}", "--json"])
    assert bad.exit_code == 1
    told = json.loads(bad.stdout)
    assert told["env"] == "CartPole-v1"
    assert told["facts"]["render_mode"] is None
    assert "render_mode='rgb_array'" in told["problems"][0]
    assert "a JSON object" in runner.invoke(main, ["doctor", "CartPole-v1", "--config", "[1]"]).output
    assert "no JSON" in runner.invoke(main, ["doctor", "CartPole-v1", "--config", "{"]).output


class Shaded(CountingEnv):
    shade = 0

    def render(self):
        picture = np.full((32, 48, 3), self.shade + self.counter.step_count, np.uint8)
        picture[:8] = 255
        return picture


class Forgets(Shaded):
    """Draws its rewards from a generator that no seed reaches."""

    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, random.SystemRandom().random(), *rest


class ShowsItself(Shaded):
    """In each process, an env of its kind draws in another shade."""

    def __init__(self, config=None):
        super().__init__(config)
        self.shade = os.getpid() % 200


class Writes(Shaded):
    """Notes each reset in a file, and how many there were in this process."""

    resets = 0

    def __init__(self, path):
        super().__init__()
        self.path = path

    def reset(self, **options):
        Writes.resets += 1
        with self.path.open("a") as file:
            file.write("reset\n")
        return super().reset(**options)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: gym.make("FrozenLake-v1", render_mode="rgb_array"), "yes: another process repeats "),
        (Forgets, "no: at step 1, the replay has another observation, reward or end; "),
        (ShowsItself, "no: the replay shows other pictures than the episode, from step 0 "),
    ],
)
def test_a_replay_is_tried(make, words):
    report = examine(make)
    assert report.facts["replay"].startswith(words)
    draws_from_the_system = make is Forgets
    expected = "renders directly: without a seed, at step 1" if draws_from_the_system else "makes clips of tapes"
    assert report.facts["auto"].startswith(f"render='auto' {expected}")
    assert report.facts["auto"] in report.text()
    assert report.problems == []


def test_a_replay_that_would_write_is_refused(tmp_path):
    path = tmp_path / "resets.txt"
    report = examine(lambda: Writes(path))
    refused = f"env 'Writes' opens {path} for writing, and a replay would do so, too"
    assert report.facts["replay"] == f"no: {refused}; use render='direct'"
    assert report.facts["auto"].endswith(refused)
    assert path.read_text().count("reset") == Writes.resets > 0


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nowhere", "there is no env 'nowhere' in Gymnasium: pass an id such as CartPole-v1"),
        ("NoSuchEnv-v0", "there is no env 'NoSuchEnv-v0' in Gymnasium ("),
        ("no.such.module:Env", "there is no module 'no' here"),
    ],
)
def test_an_env_that_is_nowhere_is_told_without_starting_ray(name, told, monkeypatch):
    monkeypatch.setattr("ray.init", None)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert told in command("doctor", name, code=1)
    assert missing("CartPole-v1") is missing("gymnasium:CartPole-v1") is missing("tests.viewing.no:Env") is None
