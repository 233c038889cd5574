"""MuJoCo's states on tapes: a replay with other arithmetic is shown, marked, as long as it stays near the episode."""

import gymnasium as gym
import numpy as np
import pytest

from tune_media.encoding import decode_video
from tune_media.replay.player import RenderError, ReplayDiffers, replay
from tune_media.replay.process import RenderProcess
from tune_media.replay.recipe import Recipe
from tune_media.replay.simulator import Corrections, Simulator, States
from tune_media.replay.tape import Tape
from tune_media.replay.tape_recorder import TapeRecorder

STEPS = 250


class Drifts:
    """A HalfCheetah whose joints are moved a little after each step, as by other arithmetic."""

    def __new__(cls, config):
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


class Pendulum(gym.Env):
    """A pendulum that swings in MuJoCo for a number of steps. A wrapper may give rewards of another kind."""

    def __init__(self, steps=5, turn=0.0, reward=0.5):
        mujoco = pytest.importorskip("mujoco")
        body = "<body><joint axis='0 1 0'/><geom pos='0 0 -1' size='.1'/></body>"
        self.model = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{body}</worldbody></mujoco>")
        self.data, self.forward = mujoco.MjData(self.model), mujoco.mj_step
        self.begin = mujoco.mj_resetData
        self.steps, self.turn, self.reward = steps, turn, reward

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.begin(self.model, self.data)
        self.data.qpos[0], self.count = 1 + self.turn, 0
        return self.data.qpos.copy(), {}

    def step(self, action):
        self.forward(self.model, self.data)
        self.count += 1
        return self.data.qpos.copy(), self.reward, self.count == self.steps, False, {}


@pytest.fixture
def swung():
    """The tape of five steps of a pendulum."""
    env = Pendulum()
    recorder = TapeRecorder(env)
    env.reset(seed=7)
    for _ in range(5):
        env.step(0)
    assert recorder.tape.states.steps == [0, 5]
    return recorder.tape


def test_a_replay_that_goes_on_after_the_episode_is_set_to_the_last_state_too(swung):
    env = Pendulum(steps=6, turn=1e-6)
    corrections = Corrections(Simulator.of(env), swung.states)
    assert len(list(replay(env, swung, corrections))) == 6
    assert 0 < corrections.farthest < 1e-5
    assert np.array_equal(Simulator.of(env).state(), swung.states.at(5)[1])
    far = Pendulum(steps=6, reward=5.0)
    with pytest.raises(ReplayDiffers, match=r"at step 5, the replay is off by .*, too far for the same episode"):
        list(replay(far, swung, Corrections(Simulator.of(far), swung.states)))


@pytest.mark.parametrize("reward", [{"left": 1.0}, np.array([1.0, 2.0])], ids=["agents", "objectives"])
def test_an_episode_whose_rewards_have_no_sum_is_taped_without_states(reward):
    env = Pendulum(reward=reward)
    recorder = TapeRecorder(env)
    for _ in range(2):
        env.reset(seed=7)
        env.step(0)
        assert recorder.tape.fault is None
        assert len(recorder.tape.states) == 0
    assert len(list(replay(Pendulum(reward=reward), Tape.unpacked(recorder.tape.packed())))) == 2


def test_a_simulator_that_cannot_be_read_costs_the_states_only():
    env = Pendulum(steps=2)
    recorder = TapeRecorder(env)
    env.reset(seed=7)
    env.step(0)
    env.forward, env.model = (lambda model, data: None), None
    assert env.step(0)[2]
    assert (len(recorder.tape), recorder.tape.fault, len(recorder.tape.states)) == (2, None, 0)
    assert Simulator.of(env) is None


def test_a_replay_without_a_finite_reward_is_another_episode():
    episode, own = States(), States()
    episode.add(1, 0.0, np.zeros(2))
    own.add(1, float("nan"), np.zeros(2))
    assert Corrections(None, episode).correct(1, own) == "is off by nan there, too far for the same episode"


def test_states_are_plain_data_and_nonsense_is_refused():
    tape = Tape(seed=7)
    tape.began(check=1)
    tape.note_state(0.5, np.arange(3.0))
    total, state = Tape.unpacked(tape.packed()).states.at(0)
    assert (total, state.tolist()) == (0.5, [0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match="no states"):
        States.unpacked((np.zeros(1), np.zeros(2), np.zeros((1, 3))))
