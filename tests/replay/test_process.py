"""Tapes played in a process of its own: each frame, before it is encoded, is the one of direct recording."""

import copy
import hashlib
import importlib.util
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from tests.support.fork_workers import VARIABLE
from tune_media.recording.episode_clips import Clips
from tune_media.recording.rendering import Renderer
from tune_media.replay.child_processes import child_processes
from tune_media.replay.player import RenderError
from tune_media.replay.process import RenderProcess
from tune_media.replay.recipe import FromKeywords, LoadedRecipe, Recipe, differences
from tune_media.replay.render_pool import RenderPool
from tune_media.replay.tape_recorder import TapeRecorder
from tune_media.steps import StepFacts
from tune_media.values.child_process import ChildProcess
from tune_media.values.options import VideoOptions

STEPS = 40
FAMILIES = {
    "CartPole-v1": "pygame",  # test_player.py has more of this kind, and needs no process for them
    "ALE/Breakout-v5": "ale_py",  # sticky actions
    "LunarLander-v3": "Box2D",
    "HalfCheetah-v5": "mujoco",
}
NOTED = "TUNE_MEDIA_TEST_FRAMES"


@pytest.fixture(autouse=True)
def frames_file(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # where a replay may write
    monkeypatch.setenv(NOTED, str(tmp_path / "frames"))


def noted(env):
    """Render, and note the frame's hash where both processes find it."""
    picture = env.render()
    with Path(os.environ[NOTED]).open("a") as file:
        file.write(f"{hashlib.sha256(np.ascontiguousarray(picture)).hexdigest()}\n")
    return picture


def frames_so_far():
    """Return the hashes of the frames that were rendered since the last call."""
    file = Path(os.environ[NOTED])
    hashes = file.read_text().split() if file.exists() else []
    file.write_text("")
    return hashes


def directly(env, video, episodes):
    """Play episodes, rendering while they run; return the tape and the frames of the last one."""
    recorder, renderer = TapeRecorder(env), Renderer(env, noted)
    actions = copy.deepcopy(env.action_space)  # the env may draw from its own
    actions.seed(3)
    for _ in range(episodes):
        frames_so_far()
        observation, _ = env.reset()
        recorder.tape.every = video.every
        clips, total, over = Clips(video, lambda: renderer.frames(0), renderer.fps(0)), 0.0, False
        clips.feed(StepFacts(0, 0.0, 0.0, None, env, observation=observation))
        while not over and len(recorder.tape) < STEPS:
            action = actions.sample()
            observation, reward, terminated, truncated, info = env.step(action)
            over, total = terminated or truncated, total + reward
            clips.feed(StepFacts(len(recorder.tape), float(reward), total, action, env, info, observation=observation))
        clips.feed_last()
        clips.cancel()
        recorder.tape.pictures = clips.pictures
    return recorder.tape.packed(), frames_so_far()


def atari():
    import ale_py

    gym.register_envs(ale_py)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_clip_is_the_one_of_direct_recording(name, monkeypatch):
    if name == "CartPole-v1":
        monkeypatch.delenv(VARIABLE, raising=False)  # the process starts as it does for users
    if importlib.util.find_spec(FAMILIES[name]) is None:
        pytest.skip(f"{FAMILIES[name]} is not installed")
    if FAMILIES[name] == "ale_py":
        atari()
    config = {"render_mode": "rgb_array"}
    env = gym.make(name, **config)
    video = VideoOptions(every=3, overlay=("step", "return"))  # render() is called at each third step
    tape, recorded = directly(env, video, episodes=2)  # no reset is given a seed, and the last one is not the first
    recipe = Recipe.of(FromKeywords(gym.make, gym.spec(name)), config, env)
    with RenderProcess(recipe.content, frame=noted) as process:
        clip = process.render(tape, video)[""]
        assert (clip.frames, frames_so_far()) == (len(recorded), recorded)
        small = process.render(tape, VideoOptions(height=64, every=6))[""]
        assert frames_so_far() == recorded  # the schedule is that of the recording, whichever frames are kept
    assert "render()" not in str(small.note)
    assert (small.height, small.frames) == (64, len(recorded[::2]) + (len(recorded) % 2 == 0))


class Odd(gym.Env):
    """An env whose generators no seed reaches; ``kind`` says which it draws from."""

    metadata = {"render_fps": 10}  # noqa: RUF012
    render_mode = "rgb_array"

    def __init__(self, kind):
        self.kind = kind
        self.observation_space = gym.spaces.Box(0, 1, (1,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self.old = np.random.RandomState(int.from_bytes(os.urandom(4), "little"))
        self.plain = random.Random()
        self.shade = 0

    def _draw(self):
        if self.kind == "no generator of its own":
            return random.SystemRandom().random()
        if self.kind == "action space":
            return float(self.action_space.sample())
        return self.plain.random() if self.kind == "random.Random" else self.old.random_sample()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._shown(), {}

    def step(self, action):
        return self._shown(), 1.0, False, False, {}

    def _shown(self):
        self.shade = self._draw()
        return np.array([self.shade], np.float32)

    def render(self):
        return np.full((32, 32, 3), int(255 * self.shade), np.uint8)


def make_odd(config):
    return Odd(**config)


def test_an_action_space_that_no_seed_reaches_is_on_the_tape():
    """So are other generators: the envs of the tests below draw from them."""
    tape, recorded = directly(Odd("action space"), VideoOptions(), episodes=2)
    recipe = Recipe.of(make_odd, {"kind": "action space"})
    with RenderProcess(recipe.content, frame=noted) as process:
        process.render(tape)
        assert frames_so_far() == recorded


def test_a_replay_that_is_not_the_episode_makes_no_clip_and_says_why():
    tape, _ = directly(Odd("no generator of its own"), VideoOptions(), episodes=1)
    recipe = Recipe.of(make_odd, {"kind": "no generator of its own"})
    with RenderProcess(recipe.content) as process:
        with pytest.raises(RenderError, match=r"at the reset, the replay has another observation; nothing .* changed"):
            process.render(tape)
        tape, recorded = directly(Odd("random.Random"), VideoOptions(), episodes=1)
        with pytest.raises(RenderError):
            process.render(tape)  # the recipe's env is of another kind
    with RenderProcess(recipe.content, env=lambda config: Odd("random.Random"), frame=noted) as process:
        process.render(tape)
        assert frames_so_far() == recorded
    broken = RenderProcess(None, env="tests.replay.test_process:nothing")
    with broken, pytest.raises(RenderError, match="names no function: pass module:function"):
        broken.render(tape)


def test_what_has_changed_since_the_recording_is_named():
    tape, _ = directly(Odd("no generator of its own"), VideoOptions(), episodes=1)
    known = pickle.loads(Recipe.of(make_odd, {"kind": "no generator of its own"}).content)
    known["facts"]["cpu"] = "Z80"
    known["facts"]["versions"]["numpy"] = "0.1"
    with RenderProcess(pickle.dumps(known)) as process, pytest.raises(RenderError) as caught:
        process.render(tape)
    assert caught.value.step == 0
    assert "other CPU (then Z80, now" in str(caught.value)
    assert "numpy 0.1, now" in str(caught.value)


class Dies(Odd):
    def step(self, action):
        print("the simulator has lost its licence", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_dies_is_named_and_started_again():
    def make(config):
        return Odd(**config) if config.worker_index else Dies(**config)

    tape, recorded = directly(Odd("RandomState"), VideoOptions(), episodes=1)
    with RenderProcess(Recipe.of(make, {"kind": "RandomState"}).content, frame=noted) as process:
        with pytest.raises(RenderError, match="ended by SIGKILL: the simulator has lost its licence"):
            process.render(tape)
        frames_so_far()
        process.render(tape, env_runner=1)
        assert frames_so_far() == recorded


def test_a_pool_that_is_ended_while_its_process_starts_renders_nothing(monkeypatch):
    """The process had not begun when it was to be killed: it rendered on, and the driver waited for it."""
    tape, _ = directly(Odd("RandomState"), VideoOptions(), episodes=1)
    pool, start = RenderPool(), subprocess.Popen

    def popen(*arguments, **options):
        pool.kill()
        return start(*arguments, **options)

    monkeypatch.setattr(subprocess, "Popen", popen)
    with pytest.raises(RenderError, match="ended by SIG"):
        pool.render(Recipe.of(make_odd, {"kind": "RandomState"}), tape)
    pool.close()


class Hangs(Odd):
    def step(self, action):
        time.sleep(3600)


def test_an_env_that_hangs_is_named_and_costs_its_clip_alone(monkeypatch):
    def make(config):
        return Odd(**config) if config.worker_index else Hangs(**config)

    monkeypatch.setattr("tune_media.replay.process._SILENT_SECONDS", 120.0)
    tape, recorded = directly(Odd("RandomState"), VideoOptions(), episodes=1)
    with RenderProcess(Recipe.of(make, {"kind": "RandomState"}).content, frame=noted) as process:
        process.render(tape, env_runner=1)
        assert frames_so_far() == recorded
        monkeypatch.setattr("tune_media.replay.process._SILENT_SECONDS", 0.5)  # it is warm
        with pytest.raises(RenderError, match="did not come back from a call within") as caught:
            process.render(tape)
        assert not caught.value.has_died
        monkeypatch.undo()


def test_a_request_that_was_interrupted_leaves_no_answer_to_the_next_one():
    def interrupt(step, steps):
        raise KeyboardInterrupt

    tape, recorded = directly(Odd("RandomState"), VideoOptions(), episodes=1)
    with RenderProcess(Recipe.of(make_odd, {"kind": "RandomState"}).content, frame=noted) as process:
        with pytest.raises(KeyboardInterrupt):
            process.render(tape, on_step=interrupt)
        while frames_so_far():  # in the tests, it takes a moment until a renderer ends
            time.sleep(0.2)
        assert process.render(tape)[""].frames == len(recorded)
        assert frames_so_far() == recorded


def test_a_recipe_makes_envs_without_rllib_and_knows_where_they_were_made():
    def make(config):
        return dict(config), config.worker_index, config.vector_index, config.num_workers

    recipe = Recipe.of(make, {"size": 5}, num_workers=2)
    loaded = LoadedRecipe.of(recipe.content)
    assert loaded.make(1, 3) == ({"size": 5}, 1, 3, 2)
    assert {"cpu", "libm", "os", "versions", "environment", "wrappers"} <= loaded.facts.keys()
    assert differences(loaded.facts, loaded.facts) == []


def test_what_is_too_large_is_no_recipe():
    with pytest.raises(ValueError, match="take more than 1,048,576 bytes"):
        Recipe.of(make_odd, {"map": np.zeros(2**20)})
    with pytest.raises(ValueError, match="no recipe"):
        LoadedRecipe.of(b"\x80\x04}\x94.")


def test_a_process_of_ours_is_no_simulator_while_it_starts_or_when_it_has_ended():
    """A thread starts them while an env is made or reset: the env would be rendered directly for ever."""
    seen, before = set(), child_processes()

    def start_and_end():
        for _ in range(30):
            process = ChildProcess("platform", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            process.kill()  # and it is not waited for, yet
            time.sleep(0.005)
            process.popen.wait()

    thread = threading.Thread(target=start_and_end)
    thread.start()
    while thread.is_alive():
        seen |= child_processes() - before
    assert not seen


@pytest.mark.skipif(not Path("/proc/self/autogroup").exists(), reason="the kernel shares out among no sessions")
def test_a_background_process_stands_back_with_its_session():
    # without rights, one such niceness can be set on a machine in a tenth of a second
    code = "import os, time; from tune_media.values.child_process import stand_back as f\n"
    code += "while f(19) or not open('/proc/self/autogroup').read().endswith(' nice 5\\n'): time.sleep(0.2)\n"
    command = [sys.executable, "-c", f"{code}print(os.nice(0))"]
    done = subprocess.run(command, start_new_session=True, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "19\n"
