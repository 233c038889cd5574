"""Clips of tapes: each shows, pixel for pixel, what the clip shows that was recorded while the episode ran."""

import functools

import gymnasium as gym
import pytest

from tests.support.lake import Lake
from tests.support.pictures import LOSSLESS, shown
from tune_media.encoding.encoder import VideoEncoder
from tune_media.recording.episode import EpisodeStart, OnTape
from tune_media.recording.overlay_lines import by_name
from tune_media.recording.plan import Plan
from tune_media.recording.recorder import Recorder
from tune_media.recording.rendering import Renderer
from tune_media.replay.player import ReplayDiffers
from tune_media.replay.tape import Tape
from tune_media.replay.tape_recorder import TapeRecorder
from tune_media.replay.tape_rendering import render_tape
from tune_media.selection import as_selectors
from tune_media.values.options import VideoOptions

SEEN = ["step", "reward", "return", "action", "curve", lambda step: f"{step.info} {step.observation} {step.env_index}"]


class Tells(gym.Wrapper):
    """Tells the number of the step in its info."""

    def reset(self, **kwargs):
        self.count = 0
        observation, info = self.env.reset(**kwargs)
        return observation, {**info, "count": self.count}

    def step(self, action):
        self.count += 1
        *result, info = self.env.step(action)
        return *result, {**info, "count": self.count}


def make(name="CartPole-v1", **options):
    return Tells(gym.make(name, render_mode="rgb_array", **options))


def recorded(env, video, frame=None, is_direct=True, steps=12):
    """Return the candidate of an env's second episode, recorded while it runs and taped."""
    taping, renderer = TapeRecorder(env), Renderer(env, frame)
    recorder = Recorder(Plan("episodes", as_selectors("last"), video=video))
    env.action_space.seed(9)
    for number in range(2):
        observation, _ = env.reset(seed=30 + number)
        render = functools.partial(renderer.frames, 0) if is_direct else None
        on_tape, facts = OnTape(taping.tape), {"env_index": 3}
        start = EpisodeStart(
            f"e{number}", render, renderer.fps(0), env, observation=observation, on_tape=on_tape, facts=facts
        )
        recorder.start(0, start)
        for _ in range(steps):
            action = env.action_space.sample()
            observation, reward, terminated, truncated, info = env.step(action)
            recorder.step(0, float(reward), action, info, observation=observation, env_index=3)
            if terminated or truncated:
                break
        record = recorder.end(0)
    return recorder.candidates.take([record.id], [record.id])[record.id]


def places_of(tape):
    """Return the steps of all frames of a tape's clip."""
    return tape.pictures.places(tape.every, len(tape))


CASES = {
    "plain": (make, {}, None),
    "overlays": (make, {"overlay": SEEN, "height": 120}, None),
    "overlays of a continuous action": (
        lambda: make("Pendulum-v1", max_episode_steps=12),
        {"overlay": ["action", "return"]},
        None,
    ),
    "scaled and cut": (make, {"width": 200, "max_frames": 5}, None),
    "fps": (make, {"fps": 7}, None),
    "every fourth frame and the last": (lambda: make(max_episode_steps=10), {"every": 4, "overlay": SEEN}, None),
    "a function as frame": (make, {}, lambda env: env.render()[:, ::-1]),
    "views": (make, {}, {"front": "render", "upside_down": lambda env: env.render()[::-1]}),
    "random dynamics": (lambda: make("FrozenLake-v1", is_slippery=True), {}, None),
}


class Levels(gym.Wrapper):
    """Becomes faster with each game, and tells the number of games in its info."""

    games = 0

    def reset(self, **kwargs):
        self.games += 1
        self.metadata = {**self.env.metadata, "render_fps": 10 + self.games}
        return self.env.reset(**kwargs)

    def step(self, action):
        *result, info = self.env.step(action)
        return *result, {**info, "games": self.games}


def games(step):
    return f"games {step.info.get('games', '-')}"


def levels():
    return Levels(make())


def test_the_texts_of_functions_and_the_speed_are_the_episodes():
    """An overlay function got the replay's info: a clip said that the second game was the first."""
    video = VideoOptions(overlay=("step", games), height=120, crf=LOSSLESS)
    direct = recorded(levels(), video)
    assert direct.tape.lines.at(1) == ["games 2"]
    tape = Tape.unpacked(direct.tape.packed())
    for options in (video, by_name(video)):
        clips = render_tape(tape, Renderer(levels()), options)
        assert shown(clips) == shown(direct.clips)
        assert (clips[""].fps, clips[""].note) == (direct.clips[""].fps, None) == (12, None)


def test_a_tape_without_lines_says_whose_texts_its_clip_shows():
    direct = recorded(levels(), VideoOptions())
    old = Tape.unpacked(b"TMT\x03" + direct.tape.packed()[4:])  # version 3, but for the speed
    clip = render_tape(old, Renderer(levels()), VideoOptions(overlay=games))[""]
    assert clip.note == "the text of an overlay function is the replay's: it was not called while the episode ran"
    clip = render_tape(old, Renderer(levels()), by_name(VideoOptions(overlay=games)))[""]
    assert clip.note == f"overlay functions were not called at {clip.frames} of the frames while the episode ran"
    clip = render_tape(old, Renderer(levels()), VideoOptions(overlay=lambda step: step.nope))[""]
    assert clip.frames > 3 and "a function, raised AttributeError" in clip.note
    clip = render_tape(old, Renderer(levels()), VideoOptions(overlay=("step", "return")))[""]
    assert clip.note is None


def test_texts_of_other_functions_or_steps_are_not_taken_for_the_episodes():
    direct = recorded(levels(), VideoOptions(overlay=games, every=4))
    other = render_tape(direct.tape, Renderer(levels()), VideoOptions(overlay=lambda step: "other"))[""]
    assert "the text of an overlay function is the replay's" in other.note
    more = render_tape(direct.tape, Renderer(levels()), VideoOptions(overlay=games, every=2))[""]
    assert "overlay functions were not called at" in more.note


@pytest.mark.parametrize("case", CASES)
def test_the_clip_is_the_one_that_direct_recording_makes(case):
    make_env, options, frame = CASES[case]
    video = VideoOptions(**options, crf=LOSSLESS)
    direct = recorded(make_env(), video, frame)
    clips = render_tape(direct.tape, Renderer(make_env(), frame), video, env_index=3, compared=places_of(direct.tape))
    assert clips.keys() == direct.clips.keys()
    assert shown(clips) == shown(direct.clips)
    for view, clip in clips.items():
        assert clip.frames == direct.clips[view].frames > 3


def test_a_replay_that_differs_leaves_no_clip_and_no_encoder(monkeypatch):
    cancel, cancelled = VideoEncoder.cancel, []
    monkeypatch.setattr(VideoEncoder, "cancel", lambda self: cancelled.append(cancel(self)))
    tape = recorded(make(), VideoOptions(), is_direct=False).tape
    tape.checks.values[2] += 1
    with pytest.raises(ReplayDiffers, match="at step 2") as caught:  # its traceback holds the encoder
        render_tape(tape, Renderer(make()), VideoOptions())
    assert len(cancelled) == 1
    assert caught.tb


def test_a_replay_renders_no_frame_after_the_last_that_is_kept():
    env = Tells(Lake({}))
    recorder = TapeRecorder(env)
    env.reset(seed=4)
    while not any(env.step(0)[2:4]):
        pass
    again = Tells(Lake({}))
    clips = render_tape(recorder.tape, Renderer(again), VideoOptions(max_frames=3))
    assert (clips[""].frames, again.env.renders) == (3, 3)
    assert again.count == len(recorder.tape) > 4
