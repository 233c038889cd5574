"""MuJoCo's states on tapes: a replay with other arithmetic is shown, marked, as long as it stays near the episode."""

import numpy as np
import pytest

from tune_media.encoding import decode_video
from tune_media.replay.process import RenderError, RenderProcess
from tune_media.replay.recipe import Recipe
from tune_media.replay.simulator import States
from tune_media.replay.tape import Tape
from tune_media.replay.tape_recorder import TapeRecorder

STEPS = 250


class Drifts:
    """A HalfCheetah whose joints are moved a little after each step, as by other arithmetic."""

    def __new__(cls, config):
        import gymnasium as gym

        env = gym.make("HalfCheetah-v5", render_mode="rgb_array", width=64, height=48)
        core, drift = env.unwrapped, config.get("drift", 0.0)
        step = core.do_simulation

        def moved(*arguments):
            step(*arguments)
            core.data.qvel[3] += drift

        core.do_simulation = moved
        return env


@pytest.fixture(scope="module")
def taped():
    """The tape of an episode, and its frames."""
    pytest.importorskip("mujoco")
    env = Drifts({})
    recorder, actions = TapeRecorder(env), np.random.default_rng(3)
    env.reset(seed=7)
    frames = [env.render()]
    for _ in range(STEPS):
        env.step(actions.uniform(-0.3, 0.3, 6).astype(np.float32))
        frames.append(env.render())
    return recorder.tape.packed(), np.array(frames)


def played(tape, drift, **options):
    with RenderProcess(Recipe.of(Drifts, {"drift": drift}).content) as process:
        return process.render(tape, **options)[""]


def test_a_small_drift_is_set_right_and_marked(taped):
    tape, frames = taped
    assert Tape.unpacked(tape).states.steps == [0, 100, 200]
    assert len(tape) < STEPS * 67
    with pytest.raises(RenderError, match=r"at step \d, the replay has another observation") as refused:
        played(tape, 1e-15)
    clip = played(tape, 1e-15, may_correct=True)
    assert refused.value.step > 0
    assert "set from states every 100 steps, off by at most" in clip.note
    assert f"at step {refused.value.step}, " in clip.note
    shown = np.array(list(decode_video(clip.data)), int)
    assert len(shown) == STEPS + 1
    exact = np.array(list(decode_video(played(tape, 0.0).data)), int)
    assert np.abs(shown - exact).mean() < 0.5
    assert np.abs(exact - frames).mean() < 5


def test_another_episode_is_not_shown(taped):
    with pytest.raises(RenderError, match=r"at step 100, the replay is off by .*, too far for the same episode"):
        played(taped[0], 1e-2, may_correct=True)


def test_states_are_plain_data_and_nonsense_is_refused():
    tape = Tape(seed=7)
    tape.began(check=1)
    tape.note_state(0.5, np.arange(3.0))
    total, state = Tape.unpacked(tape.packed()).states.at(0)
    assert (total, state.tolist()) == (0.5, [0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match="no states"):
        States.unpacked((np.zeros(1), np.zeros(2), np.zeros((1, 3))))
