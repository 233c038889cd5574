"""Episodes of an env are put on tape for a recorder, until it renders them directly."""

import gc
import weakref

import gymnasium as gym

from tune_media.recording.plan import Plan
from tune_media.recording.recorder import Recorder
from tune_media.replay.tape_recorder import tape_recorder_of
from tune_media.replay.taping import Taping
from tune_media.selection import as_selectors


def lake():
    return gym.make("FrozenLake-v1", render_mode="rgb_array")


def taping_of(env, render):
    recorder = Recorder(Plan("episodes", as_selectors("all"), render=render), problems_are_collected=True)
    taping = Taping(recorder)
    taping.put_all_on_tape(env)
    return taping, recorder


def test_nothing_is_taped_once_all_recorders_render_directly():
    env = lake()
    one, _ = taping_of(env, "auto")
    other, _ = taping_of(env, "auto")
    taping = tape_recorder_of(env)
    env.reset()
    one.give_up("nobody needs it")
    env.reset()
    assert taping.is_on  # the other one needs it
    other.give_up("nobody needs it")
    env.step(0)
    assert len(taping.tape) == 1  # the running episode to its end
    env.reset()
    assert not taping.is_on
    assert taping.tape is None


def test_an_env_that_nobody_steps_is_recorded_directly_and_it_is_said():
    taping, recorder = taping_of(object(), "replay")
    assert taping.mode == "direct"
    (problem,) = recorder.problems.take()
    assert problem.text.startswith("episodes are rendered while they run: nobody steps 'object' here")


def test_an_env_that_was_replaced_is_not_kept_alive():
    first, second = lake(), lake()
    taping, _ = taping_of(first, "direct")
    for env in (first, second):
        taping.watched(0, env, env.render)
    held = weakref.ref(first)
    del first, env
    gc.collect()
    assert held() is None
