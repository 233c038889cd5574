"""Replays of a Gymnasium env that is stepped in a plain loop."""

import itertools
import random
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest

from tune_media.recording.plan import Plan
from tune_media.recording.problems import FrameError
from tune_media.recording.recorder import EpisodeRecorder
from tune_media.recording.rendering import Renderer
from tune_media.recording.winners import Winners
from tune_media.replay.player import ReplayDiffers
from tune_media.replay.replay_decision import Replayer, reason_of
from tune_media.replay.tape_recorder import tape_recorder_of
from tune_media.selection import as_selectors


class Lake(gym.Wrapper):
    """A frozen lake; ``drifts`` makes its first step depend on a generator that no seed reaches."""

    def __init__(self, *, drifts=False, now=None, render_takes=0.0):
        super().__init__(gym.make("FrozenLake-v1", render_mode="rgb_array"))
        self.drifts, self.is_closed = drifts, False
        self.now, self.render_takes = now or SimpleNamespace(seconds=0.0), render_takes

    def render(self):
        self.now.seconds += self.render_takes
        return self.env.render()

    def step(self, action):
        self.now.seconds += 1.0
        if self.drifts:
            self.unwrapped.s = random.SystemRandom().choice([1, 2, 3, 6, 8, 9, 10, 13, 14])
        return self.env.step(action)

    def close(self):
        self.is_closed = True


class Loop:
    """A recorder with a replayer, as the owner of an env has them."""

    def __init__(self, render="replay", *, strict=False, **lake):
        self.env, self.others, self.lake = Lake(**lake), [], lake
        self.recorder = EpisodeRecorder(
            Plan("episodes", as_selectors("all"), render=render, strict=strict), problems_are_collected=True
        )
        self.replayer = Replayer(self.recorder)
        self.replayer.put_on_tape(self.env, itertools.count(3) if render == "replay" else None)

    def make(self):
        self.others.append(Lake(**self.lake))
        return self.others[-1]

    def round(self, episodes=4, winners=None):
        for number in range(episodes):
            self.env.reset()
            tape = self.replayer.tape_of(self.env)
            frames = Renderer(self.env)
            frames_of = self.replayer.frames_of
            self.recorder.start(
                0, f"e{number}", lambda frames=frames: frames.frames(0), 4.0, tape=tape, frames_of=frames_of
            )
            for _ in range(3):
                _, reward, *_ = self.env.step(1)
                self.recorder.step(0, reward)
            self.recorder.end(0)
        ids = [record.id for record in self.recorder.candidates.records()]
        return self.replayer.taken(self.recorder.candidates.take(ids[:winners], ids), self.make)


def rendered(taken):
    return [kept.record.rendered for kept in taken.kept.values()]


def test_all_replays_take_place_in_one_env_that_is_closed_at_the_end():
    loop = Loop()
    for _ in range(2):
        assert rendered(loop.round()) == ["replay"] * 4
    (other,) = loop.others
    assert not other.is_closed
    loop.replayer.close()
    assert other.is_closed


def test_the_first_difference_ends_replays_and_is_counted():
    loop = Loop(drifts=True)
    taken = loop.round(12)
    assert len(taken.kept) == 12
    assert taken.lost
    assert {id for id, kept in taken.kept.items() if not kept.clips} == set(taken.lost)
    assert all(kept.tape is None for kept in taken.kept.values())
    assert sum(problem.lost for problem in taken.problems) == len(taken.lost)
    assert all("the replay has another observation" in reason for reason in taken.lost.values())
    assert rendered(loop.round(2)) == ["direct"] * 2
    assert all(other.is_closed for other in loop.others)


@pytest.mark.parametrize(
    ("drifts", "render_takes", "winners", "then"),
    [
        (False, 9.0, 2, "replay"),
        (True, 9.0, 12, "direct"),  # it is not the same again
        (False, 9.0, 12, "direct"),  # all are rendered in any case
        (False, 0.01, 2, "direct"),  # stepping the winners again takes longer than rendering them all
    ],
)
def test_auto_decides_by_the_first_winners_and_loses_none(now, drifts, render_takes, winners, then):
    loop = Loop("auto", drifts=drifts, now=now, render_takes=render_takes)
    assert loop.round(0) == Winners()
    assert loop.replayer.mode == "auto"  # no winner, no proof
    assert rendered(loop.round(12, winners)) == ["direct"] * winners
    assert loop.replayer.mode == then
    second = loop.round(2)
    assert rendered(second) == [then] * 2
    assert (second.lost, second.problems) == ({}, [])


def test_nothing_is_taped_once_the_choice_is_to_render_directly(now):
    loop = Loop("auto", now=now)
    other = Replayer(loop.recorder)
    other.put_on_tape(loop.env)
    taping = tape_recorder_of(loop.env)
    loop.round(2)
    assert loop.replayer.mode == "direct"
    loop.round(2)
    assert taping.is_on  # the other one needs it
    other.give_up("nobody needs it")
    loop.env.step(0)
    assert len(taping.tape) == 4  # the running episode to its end
    loop.env.reset()
    assert not taping.is_on
    assert taping.tape is None


def test_auto_leaves_the_episodes_as_they_are():
    loop, plain = Loop("auto"), Lake()
    for env in (loop.env, plain):
        env.unwrapped.np_random = np.random.default_rng(5)
    for _ in range(5):
        assert loop.env.reset()[0] == plain.reset()[0]
        assert [loop.env.step(1)[0] for _ in range(3)] == [plain.step(1)[0] for _ in range(3)]


def test_a_strict_recorder_raises():
    with pytest.raises(Exception, match="the replay has another observation"):
        Loop(drifts=True, strict=True).round(12)


def test_an_env_that_nobody_steps_is_recorded_directly_and_it_is_said():
    loop = Loop()
    loop.replayer.put_on_tape(object(), itertools.count())
    assert loop.replayer.mode == "direct"
    (problem,) = loop.recorder.problems.take()
    assert problem.text.startswith("episodes are rendered while they run: nobody steps 'object' here")


def test_a_generator_that_all_envs_share_is_left_as_it_was():
    shared = np.random.default_rng(5)

    class Dice(gym.Env):
        observation_space, action_space = gym.spaces.Discrete(6), gym.spaces.Discrete(2)

        def __init__(self):
            self.random = shared

        def reset(self, *, seed=None, options=None):
            return int(self.random.integers(6)), {}

        def step(self, action):
            return int(self.random.integers(6)), 0.0, False, False, {}

        def render(self):
            return np.zeros((16, 16, 3), np.uint8)

    loop = Loop()
    loop.env, loop.make = Dice(), lambda: Dice()
    loop.replayer.put_on_tape(loop.env, index=1)
    for number in range(2):
        loop.env.reset()
        loop.recorder.start(0, f"e{number}", None, 4.0, tape=loop.replayer.tape_of(loop.env))
        loop.env.step(0)
        loop.recorder.step(0, 0.0)
        loop.recorder.end(0)
    ids = [record.id for record in loop.recorder.candidates.records()]
    before = shared.bit_generator.state
    taken = loop.replayer.taken(loop.recorder.candidates.take(ids, ids), loop.make)
    assert rendered(taken) == ["replay"] * 2
    assert all(kept.clips[""].frames == 2 for kept in taken.kept.values())
    assert shared.bit_generator.state == before


def test_a_tape_of_another_length_than_the_episode_is_not_the_episode():
    loop = Loop()
    loop.env.reset()
    loop.recorder.start(0, "e0", None, 4.0, tape=loop.replayer.tape_of(loop.env))
    loop.env.step(1)
    for _ in range(2):
        loop.recorder.step(0, 0.0)
    loop.recorder.end(0)
    (id,) = (record.id for record in loop.recorder.candidates.records())
    taken = loop.replayer.taken(loop.recorder.candidates.take([id], [id]), loop.make)
    assert "has 1 steps and the episode 2" in taken.lost[id]


def test_a_reason_names_the_env_and_the_remedy():
    assert "pass render='direct'" in reason_of(ReplayDiffers(3, "has another observation"), "'Maze'")
    assert reason_of(FrameError("env 'Maze' returned None"), "'Maze'") == "env 'Maze' returned None"
    assert "'Maze' raised ValueError: odd" in reason_of(ValueError("odd"), "'Maze'")
