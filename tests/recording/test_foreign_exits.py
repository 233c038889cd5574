"""Functions and envs of the user's that leave the process cost their clip, and no more."""

import os
import signal
import sys

import gymnasium as gym
import numpy as np
import pytest

import tune_media as tm
from tune_media.callbacks.faults import Faults
from tune_media.gym import RecordEpisodes


class Leaves(gym.Env):
    observation_space = action_space = gym.spaces.Discrete(2)
    render_mode = "rgb_array"

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return 0, {}

    def step(self, action):
        self.steps += 1
        return 0, 1.0, self.steps >= 5, False, {}

    def render(self):
        if self.steps == 2:
            raise SystemExit(3)
        return np.full((16, 24, 3), 40 * self.steps, np.uint8)


class Quits:
    def __array__(self, *args, **kwargs):
        raise SystemExit(3)


def test_an_env_that_leaves_in_render_costs_its_clip_alone(caplog):
    """SystemExit ended the user's loop."""
    env = RecordEpisodes(Leaves())
    env.reset()
    assert [env.step(0)[2] for _ in range(5)] == 4 * [False] + [True]
    env.take()
    assert "render() raised SystemExit: 3" in caplog.text


def test_a_value_that_leaves_costs_itself(tmp_path, capsys):
    from tests.support.fake_trial import FakeTrial, run

    run([tm.JsonMediaLoggerCallback()], FakeTrial(tmp_path), [{"odd": Quits(), "weights": tm.Artifact(b"1", name="w")}])
    assert "stored 1 media file" in capsys.readouterr().out


@pytest.fixture
def at_sigterm():
    """A handler as Ray's drivers and workers have it."""
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(number))
    yield
    signal.signal(signal.SIGTERM, before)


def test_a_process_that_is_told_to_end_ends(at_sigterm):
    """SIGTERM in the middle of a render() was a lost clip, and the loop ran to its end."""

    class Killed(Leaves):
        def render(self):
            if self.steps == 2:
                os.kill(os.getpid(), signal.SIGTERM)
            return super().render()

    env = RecordEpisodes(Killed())
    env.reset()
    with pytest.raises(SystemExit):
        for _ in range(5):
            env.step(0)


def test_a_strict_guard_keeps_the_cause_of_an_error():
    with pytest.raises(ValueError, match="outer") as raised, Faults(strict=True).guard("it", "doing"):
        raise ValueError("outer") from ZeroDivisionError("inner")
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
