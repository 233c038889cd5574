import numpy as np
import pytest

from tests.support.envs import CountingEnv
from tests.support.recorders import make_recorder, only
from tune_media import VideoOptions
from tune_media.encoding.decode import decode_video
from tune_media.encoding.frame_checks import frame_check
from tune_media.recording.clips import MOST_BEGUN, Clips, Frames, pictures_of, shows
from tune_media.steps import StepFacts


def picture(shade, height=32, width=48):
    return np.full((height, width, 3), shade, np.uint8)


def fed(shown, frames=Frames.ENCODED, are_enough=None, **options):
    """Return the clips of an episode whose steps show these pictures, and the number of those that were rendered."""
    rendered = iter(shown)
    clips = Clips(VideoOptions(**options), lambda: {"": next(rendered)}, fps=12, frames=frames, are_enough=are_enough)
    for step in range(len(shown)):
        clips.feed(StepFacts(step, 0.0, 0.0))
    clips.feed_last()
    return clips, len(shown) - len(list(rendered))


MANY = [picture(step) for step in range(2 * MOST_BEGUN)]
CHECKS = list(map(frame_check, MANY))


def test_of_an_episode_that_is_only_begun_few_frames_are_rendered():
    clips, rendered = fed(MANY, Frames.BEGUN)
    assert rendered == MOST_BEGUN
    assert clips.checks() == {"": tuple(CHECKS[:MOST_BEGUN])}
    assert clips.finish() == {}


@pytest.mark.parametrize("frames", [Frames.ENCODED, Frames.CHECKED])
def test_once_the_first_frames_are_enough_no_more_are_rendered_and_nothing_is_encoded(frames):
    asked = []
    clips, rendered = fed(MANY, frames, lambda: asked.append(True) or len(asked) > 3)
    assert rendered == MOST_BEGUN + 3
    assert clips.checks() == {"": tuple(CHECKS[:rendered])}
    assert (clips.frames, clips.finish(), len(asked)) == (Frames.BEGUN, {}, 4)
    pictures = pictures_of(clips.checks(), are_all=False)
    assert shows({"": CHECKS}, pictures)
    assert shows({"": CHECKS, "other": CHECKS}, pictures)
    assert not shows({"": [0, *CHECKS[1:]]}, pictures)
    assert not shows({"": CHECKS[:5]}, pictures)
    assert not shows({"other": CHECKS}, pictures)


def test_a_clip_that_has_all_its_frames_is_not_given_up_later():
    clips, _ = fed(MANY, are_enough=lambda: True, max_frames=10)
    assert clips.finish()[""].frames == 10


def test_a_clip_of_which_all_frames_are_known_has_no_others_and_no_other_views():
    pictures = pictures_of({"": [1, 2], "side": [3]}, are_all=True)
    assert shows({"": [1, 2], "side": [3]}, pictures)
    assert not shows({"": [1, 2, 2], "side": [3]}, pictures)
    assert not shows({"": [1, 2], "side": [3], "top": [4]}, pictures)
    assert not shows({"": [1, 2]}, pictures)


def test_an_overlay_is_drawn_at_the_size_of_the_clip():
    plain, drawn = (fed([picture(128, 256, 384)], height=128, overlay=overlay)[0] for overlay in ((), "step"))
    (before,), (after,) = (decode_video(clips.finish()[""].data) for clips in (plain, drawn))
    assert before.shape == after.shape == (128, 192, 3)
    changed = np.abs(before.astype(int) - after).max(axis=(1, 2)) > 60
    assert 0 < changed.sum() < 40  # rows of one line of text


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
