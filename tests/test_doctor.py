import gymnasium as gym
import numpy as np
import pytest
from click.testing import CliRunner

from tests.envs import CountingEnv
from tune_media.cli import main
from tune_media.doctor import examine, examine_in_actor


class Picture(CountingEnv):
    """Shows whatever it is given."""

    def __init__(self, picture):
        super().__init__()
        self.picture = picture

    def render(self):
        if isinstance(self.picture, Exception):
            raise self.picture
        return self.picture


@pytest.mark.parametrize("name", ["CartPole-v1", "gymnasium:CartPole-v1"])
def test_a_good_env_is_described(ray_session, name):
    report = examine_in_actor(name, {"render_mode": "rgb_array"})
    assert report.problems == []
    assert report.facts["frame"] == "600x400, uint8, at 50 fps"
    assert {"render_mode", "render", "encode", "clip", "environment"} <= set(report.facts)
    assert "can be recorded" in report.text()


@pytest.mark.parametrize(
    ("name", "config", "words"),
    [
        ("CartPole-v1", {}, "render_mode='rgb_array'"),
        ("NoSuchEnv-v0", {}, "cannot be made"),
        ("no.such.module:Env", {}, "No module named"),
    ],
)
def test_what_is_wrong_is_named_with_its_remedy(ray_session, name, config, words):
    (problem,) = examine_in_actor(name, config).problems
    assert words in problem


@pytest.mark.parametrize(
    ("picture", "words"),
    [
        (np.zeros((32, 32, 3), np.uint8), "every frame is black"),
        (np.full((32, 32, 3), 7, np.uint8), "of one colour"),
        (np.random.default_rng(0).integers(0, 255, (32, 32, 3), np.uint8), "are the same"),
        (np.zeros((32, 32, 3)), "uint8"),
        ([np.zeros((32, 32, 3), np.uint8)], "not 'rgb_array_list'|one frame"),
        (RuntimeError("gladLoadGL error"), "MUJOCO_GL"),
        (ModuleNotFoundError("No module named 'pygame'", name="pygame"), "classic-control"),
    ],
)
def test_frames_that_would_make_no_clip(picture, words):
    (problem,) = examine(lambda: Picture(picture)).problems
    assert __import__("re").search(words, problem)


def test_a_process_that_dies_is_told(ray_session):
    (problem,) = examine_in_actor("tests.test_doctor:Dies", {}).problems
    assert "SDL_VIDEODRIVER" in problem


class Dies(gym.Env):
    """Takes its process with it, as a GL library without a display does."""

    def __init__(self, config=None):
        import os

        os._exit(1)


def test_multi_agent_envs_and_functions_that_make_envs(ray_session):
    report = examine_in_actor("tests.envs.multi_agent:MultiAgentCountingEnv", {})
    assert report.problems == []
    assert examine_in_actor("tests.test_doctor:make_by_keyword", {"length": 7}).problems == []


def make_by_keyword(*, length):
    return CountingEnv({"length": length})


def test_an_envs_own_error_is_told_as_it_is(ray_session):
    (problem,) = examine_in_actor("tests.test_doctor:Buggy", {}).problems
    assert "a bug of its own" in problem


class Buggy(gym.Env):
    def __init__(self, config):
        raise TypeError("a bug of its own")


def test_on_the_command_line(ray_session):
    runner = CliRunner()
    good = runner.invoke(main, ["doctor", "tests.envs:CountingEnv", "--config", "{}"])
    assert good.exit_code == 0, good.output
    assert "192x32" in good.output
    assert runner.invoke(main, ["doctor", "CartPole-v1", "--config", "{}"]).exit_code == 1
    assert "a JSON object" in runner.invoke(main, ["doctor", "CartPole-v1", "--config", "[1]"]).output
    assert "no JSON" in runner.invoke(main, ["doctor", "CartPole-v1", "--config", "{"]).output
