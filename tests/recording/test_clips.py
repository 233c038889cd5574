import numpy as np
import pytest

from tests.support.envs import CountingEnv, read_frame
from tests.support.recorders import make_recorder, only, play, take_all
from tune_media import VideoOptions
from tune_media.encoding.decode import decode_video
from tune_media.encoding.frame_checks import frame_check
from tune_media.recording.clips import MOST_BEGUN, Clips, Frames, pictures_of, shows
from tune_media.steps import StepFacts


def test_options_reach_the_clip():
    recorder = make_recorder(video=VideoOptions(fps=5, height=64, width=96))
    record = play(recorder, CountingEnv())
    clip = take_all(recorder)[record.id]
    assert (clip.fps, clip.width, clip.height) == (5, 96, 64)


def picture(shade, height=32, width=48):
    return np.full((height, width, 3), shade, np.uint8)


def fed(frames, **options):
    """Return the clips of an episode whose views are these at each step, and the number of renders."""
    rendered = iter(frames)
    clips = Clips(VideoOptions(**options), lambda: next(rendered), fps=12)
    for step in range(len(frames)):
        clips.feed(StepFacts(step, 0.0, 0.0))
    return clips.finish(), len(frames) - len(list(rendered))


def test_of_an_episode_that_is_only_begun_few_frames_are_rendered():
    shown = [{"": picture(step)} for step in range(2 * MOST_BEGUN)]
    rendered = iter(shown)
    clips = Clips(VideoOptions(), lambda: next(rendered), fps=12, frames=Frames.BEGUN)
    for step in range(len(shown)):
        clips.feed(StepFacts(step, 0.0, 0.0))
    assert len(list(rendered)) == MOST_BEGUN
    assert clips.checks() == {"": tuple(frame_check(picture(step)) for step in range(MOST_BEGUN))}
    assert clips.finish() == {}


@pytest.mark.parametrize("frames", [Frames.ENCODED, Frames.CHECKED])
def test_once_the_first_frames_are_enough_no_more_are_rendered_and_nothing_is_encoded(frames):
    asked, checks = [], [frame_check(picture(step)) for step in range(2 * MOST_BEGUN)]

    def are_enough():
        asked.append(True)
        return len(asked) > 3

    shown = iter([{"": picture(step)} for step in range(2 * MOST_BEGUN)])
    clips = Clips(VideoOptions(), lambda: next(shown), fps=12, frames=frames, are_enough=are_enough)
    for step in range(2 * MOST_BEGUN):
        clips.feed(StepFacts(step, 0.0, 0.0))
    clips.feed_last()
    assert clips.checks() == {"": tuple(checks[: MOST_BEGUN + 3])}
    assert (clips.frames, clips.finish(), len(asked)) == (Frames.BEGUN, {}, 4)
    pictures = pictures_of(clips.checks(), are_all=False)
    assert shows({"": checks}, pictures)
    assert shows({"": checks, "other": checks}, pictures)
    assert not shows({"": [0, *checks[1:]]}, pictures)
    assert not shows({"": checks[:5]}, pictures)
    assert not shows({"other": checks}, pictures)


def test_a_clip_that_has_all_its_frames_is_not_given_up_later():
    clips = Clips(VideoOptions(max_frames=10), lambda: {"": picture(9)}, fps=12, are_enough=lambda: True)
    for step in range(2 * MOST_BEGUN):
        clips.feed(StepFacts(step, 0.0, 0.0))
    assert clips.finish()[""].frames == 10


def test_a_clip_of_which_all_frames_are_known_has_no_others_and_no_other_views():
    pictures = pictures_of({"": [1, 2], "side": [3]}, are_all=True)
    assert shows({"": [1, 2], "side": [3]}, pictures)
    assert not shows({"": [1, 2, 2], "side": [3]}, pictures)
    assert not shows({"": [1, 2], "side": [3], "top": [4]}, pictures)
    assert not shows({"": [1, 2]}, pictures)


def test_an_overlay_is_drawn_at_the_size_of_the_clip():
    plain, _ = fed([{"": picture(128, 256, 384)}], height=128)
    drawn, _ = fed([{"": picture(128, 256, 384)}], height=128, overlay="step")
    (before,), (after,) = (decode_video(clips[""].data) for clips in (plain, drawn))
    assert before.shape == after.shape == (128, 192, 3)
    changed = np.abs(before.astype(int) - after).max(axis=(1, 2)) > 60
    assert 0 < changed.sum() < 40  # rows of one line of text


def kept(steps, every, **options):
    """Return the clip of an episode with this many steps, the steps that it shows, and the number of renders."""
    env = CountingEnv({"length": steps})
    recorder = make_recorder(video=VideoOptions(every=every, **options))
    record = play(recorder, env)
    clip = take_all(recorder)[record.id]
    return clip, [read_frame(frame).step for frame in decode_video(clip.data)], env.renders


@pytest.mark.parametrize(
    ("steps", "every", "shown"),
    [
        (10, 3, [0, 3, 6, 9, 10]),
        (9, 3, [0, 3, 6, 9]),
        (11, 3, [0, 3, 6, 9, 11]),
        (5, 100, [0, 5]),
        (4, 1, [0, 1, 2, 3, 4]),
    ],
)
def test_every_nth_frame_is_rendered_and_kept_and_the_last_one(steps, every, shown):
    clip, steps_shown, renders = kept(steps, every)
    assert steps_shown == shown
    assert renders == clip.frames == len(shown)
    assert (clip.fps, clip.facts()["frame_stride"]) == (12 / every, every)


def test_a_clip_of_every_nth_frame_has_the_given_speed_divided_by_n():
    clip, _, _ = kept(10, 4, fps=50)
    assert clip.fps == 12.5


def test_a_clip_of_every_nth_frame_is_cut_after_the_most_frames_that_it_keeps():
    clip, shown, renders = kept(20, 3, max_frames=4)
    assert (shown, renders) == ([0, 3, 6, 9], 4)
    assert "cut after 4 frames" in clip.note
    whole, shown, _ = kept(10, 3, max_frames=5)
    assert (shown, whole.note) == ([0, 3, 6, 9, 10], None)


def test_a_last_frame_that_cannot_be_rendered_costs_the_clip_and_its_record_says_so():
    env, recorder = CountingEnv({"length": 10}), make_recorder(video=VideoOptions(every=3))
    env.reset()
    frames = only(env)
    recorder.start(0, "e", lambda: frames() if env.counter.step_count < 10 else 1 / 0, fps=12)
    for _ in range(10):
        recorder.step(0, env.step(0)[1])
    assert recorder.end(0) is None
    (data,) = recorder.candidates.data()
    assert data.record.note.startswith("no clip: the last frame raised ZeroDivisionError")
    assert [problem.lost for problem in recorder.problems.take()] == [1]


def test_a_skipped_last_frame_that_the_env_does_not_show_any_more_is_missing():
    env, recorder = CountingEnv({"length": 10}), make_recorder(video=VideoOptions(every=3))
    env.reset()
    recorder.start(0, "e", only(env), fps=12)
    for step in range(10):
        recorder.step(0, env.step(0)[1], picture=step < 9)
    env.reset()
    record = recorder.end(0)
    clip = take_all(recorder)[record.id]
    assert [read_frame(frame).step for frame in decode_video(clip.data)] == [0, 3, 6, 9]


def test_overlays_of_skipped_steps_are_not_drawn_and_their_returns_are_in_the_curve():
    told = []
    options = VideoOptions(every=4, overlay=("curve", lambda facts: told.append(facts.step) or f"{facts.step}"))
    recorder, env = make_recorder(video=options), CountingEnv({"length": 10})
    env.reset()
    recorder.start(0, "e", only(env), fps=12)
    for reward in (0, 0, 7, -7, 0, 0, 0, 0, 0, 0):
        env.step(0)
        recorder.step(0, reward)
    curve = next(iter(recorder._running[0].clips._overlays.values()))._curve
    recorder.end(0)
    assert told == [0, 4, 8, 10]
    assert (len(curve.values), curve.largest) == (11, 7)  # the peak is in a step that is not shown
