"""The chosen episodes of a wrapper are rendered from their tapes, in another process."""

import copy
import functools
import os
import pickle
import random
import subprocess
import sys
import textwrap
import threading

import gymnasium as gym
import numpy as np
import pytest

import tune_media as tm
from tests.support import lake
from tests.support.envs import CountingEnv
from tests.support.loops import play
from tests.support.same_clips import are_same
from tune_media.encoding.decode import probe_video

MAKE = functools.partial(lake.Lake, {})


def drifting(config):
    """Return a lake whose steps depend on numbers that no seed reaches."""

    class Drifting(gym.Wrapper):
        def step(self, action):
            self.unwrapped.s = random.SystemRandom().choice([1, 2, 3, 6, 8, 9, 10, 13, 14])
            return self.env.step(action)

    return Drifting(lake.Lake(config))


def rendered(clips):
    return [clip.episode.rendered for clip in clips]


@pytest.fixture
def children():
    """Return a function that returns the processes that render, without those of earlier tests."""
    before = processes()
    return lambda: processes() - before


def processes():
    told = subprocess.run(
        ["ps", "-A", "-ww", "-o", "ppid=,pid=,args="], capture_output=True, text=True, check=True
    ).stdout
    lines = (line.split(maxsplit=2) for line in told.splitlines() if "tune_media.replay.child" in line)
    return {int(process) for parent, process, _ in lines if int(parent) == os.getpid()}


def test_the_clips_are_those_of_direct_recording_and_no_random_number_is_drawn():
    def mirrored(env):
        return env.render()[:, ::-1]

    options = {"video": tm.VideoOptions(every=3, height=64, overlay=("step", "return"))}
    options |= {"frame": {"front": "render", "mirrored": mirrored}, "keep": "all"}
    clips, states = [], []
    for more in ({}, {"render": "replay", "env_fn": MAKE}):
        random.seed(1), np.random.seed(1)
        env = tm.gym.RecordEpisodes(MAKE(), **options, **more)
        play(env, 3, seed=4)
        taken = env.take()["all"]
        clips.append([(view, probe_video(clip.data), clip.note) for episode in taken for view, clip in episode.items()])
        states.append((random.getstate(), np.random.get_state()[1].tolist()))
        env.close()
    for (view, clip, note), (other_view, other, other_note) in zip(*clips, strict=True):
        assert (view, note) == (other_view, other_note)
        assert are_same(clip, other)
    assert states[0] == states[1]


@pytest.mark.any_ray
def test_the_process_ends_with_the_wrapper_and_a_copy_has_its_own(children):
    env = tm.gym.RecordEpisodes(CountingEnv(), keep="all", render="replay", env_fn=CountingEnv)
    assert not children()
    play(env, 1)
    assert rendered(env.take()["all"]) == ["replay"]
    (first,) = children()
    twin = copy.deepcopy(pickle.loads(pickle.dumps(env)))
    play(twin, 2)
    assert rendered(twin.take()["all"]) == ["replay"] * 2
    assert len(children()) == 2
    twin.close()
    assert children() == {first}
    play(env, 1)
    env.close()
    assert not children()
    assert rendered(env.take()["all"]) == ["replay"]  # it was played before
    assert not children()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (functools.partial(drifting, {}), "does not repeat its episodes: at "),
        (functools.partial(lake.ShowsItsAge, {}), "shows other pictures"),
    ],
)
def test_auto_loses_no_clip_of_an_env_that_does_not_repeat_its_episodes(make, words, children, caplog):
    env = tm.gym.RecordEpisodes(make(), keep="all", render="auto", env_fn=make)
    for _ in range(2):
        play(env, 3)
        taken = env.take()
        assert rendered(taken["all"]) == ["direct"] * 3
        assert not any(episode.record.note for episode in taken["data"].episodes)
    (record,) = caplog.records
    assert words in record.getMessage()
    assert "pass render='direct'" in record.getMessage()
    assert not children()


def test_a_difference_is_counted_and_later_episodes_are_rendered_directly(children, caplog):
    make = functools.partial(drifting, {})
    env = tm.gym.RecordEpisodes(make(), keep="all", render="replay", env_fn=make)
    play(env, 12)
    taken = env.take()
    notes = [episode.record.note for episode in taken["data"].episodes if episode.record.note]
    assert notes
    assert len(notes) + len(taken.get("all", [])) == 12
    assert all("does not repeat its episodes: at " in note for note in notes)
    (problem,) = taken["problems"]
    assert problem.lost == len(notes)
    assert len(caplog.records) == 1
    play(env, 2)
    assert rendered(env.take()["all"]) == ["direct"] * 2
    assert not children()
    with pytest.raises(Exception, match="does not repeat its episodes"):
        env = tm.gym.RecordEpisodes(make(), keep="all", render="replay", env_fn=make, strict=True)
        play(env, 12)
        env.take()
    env.close()


def test_steps_beside_the_wrapper_make_another_episode():
    env = tm.gym.RecordEpisodes(MAKE(), keep="all", render="replay", env_fn=MAKE)
    env.reset(seed=1)
    env.env.step(0)
    while not any(env.step(0)[2:4]):
        pass
    (episode,) = env.take()["data"].episodes
    assert "the replay has 8 steps and the episode 7" in episode.record.note
    env.close()


@pytest.mark.parametrize("render", ["replay", "auto"])
def test_an_env_fn_that_cannot_be_pickled_is_named_at_once(render, caplog):
    lock = threading.Lock()

    def make():
        with lock:
            return MAKE()

    env = tm.gym.RecordEpisodes(make(), keep="all", render=render, env_fn=make)
    (record,) = caplog.records
    assert "episodes are rendered while they run" in record.getMessage()
    assert "cannot pickle '_thread.lock' object" in record.getMessage()
    assert "pass render='direct'" in record.getMessage()
    play(env, 2)
    taken = env.take()
    assert rendered(taken["all"]) == ["direct"] * 2
    assert taken["data"].recipes == {}


@pytest.mark.any_ray
def test_a_process_that_cannot_be_started_costs_the_clips_of_one_take(monkeypatch, caplog):
    started = []

    def refuse(*arguments, **options):
        started.append(arguments)
        raise OSError("no more processes")

    monkeypatch.setattr("tune_media.replay.process.subprocess.Popen", refuse)
    env = tm.gym.RecordEpisodes(MAKE(), keep="all", render="replay", env_fn=MAKE)
    play(env, 3)
    notes = [episode.record.note for episode in env.take()["data"].episodes]
    assert len(started) == 1
    assert all("OSError: no more processes" in note for note in notes)
    play(env, 2)
    assert rendered(env.take()["all"]) == ["direct"] * 2
    assert len(caplog.records) == 1


@pytest.mark.any_ray
def test_an_env_that_only_this_process_can_make_is_named(caplog):
    here = os.getpid()

    def make():
        if os.getpid() != here:
            raise RuntimeError("the license is taken")
        return MAKE()

    env = tm.gym.RecordEpisodes(make(), keep="all", render="replay", env_fn=make)
    play(env, 3)
    assert "all" not in env.take()
    play(env, 1)
    assert rendered(env.take()["all"]) == ["direct"]
    (record,) = caplog.records
    assert "the env cannot be made again: RuntimeError: the license is taken" in record.getMessage()


SCRIPT = """
    import gymnasium as gym
    import numpy as np
    import tune_media as tm

    print("runs")

    class Maze(gym.Env):
        metadata = {"render_modes": ["rgb_array"], "render_fps": 4}
        observation_space, action_space = gym.spaces.Discrete(9), gym.spaces.Discrete(2)

        def __init__(self, render_mode=None):
            self.render_mode = render_mode

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.at = 0
            return 0, {}

        def step(self, action):
            self.at += int(self.np_random.integers(1, 3))
            return min(self.at, 8), 1.0, self.at >= 8, False, {}

        def render(self):
            return np.full((32, 32, 3), 20 * self.at, np.uint8)

    for entry in (Maze, "__main__:Maze"):
        gym.register("Maze-v0", entry_point=entry)
        make = lambda: gym.make("Maze-v0", render_mode="rgb_array")
        env = tm.gym.RecordEpisodes(make(), keep="best", render="replay", env_fn=make, strict=True)
        for _ in range(3):
            env.reset()
            while not env.step(0)[2]:
                pass
        clip = env.take()["best"]
        print(clip.episode.rendered, clip.frames == clip.episode.episode_length + 1)
        del gym.registry["Maze-v0"]
"""


def test_a_script_without_a_guard_runs_once_and_its_own_env_is_made_again(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.stdout.split("\n") == ["runs", "replay True", "replay True", ""], done.stderr
