import numpy as np
import pytest
from crc32c import crc32c

from tests.support.envs import CountingEnv
from tests.support.recorders import make_recorder, only
from tune_media import VideoOptions
from tune_media.encoding.decode import decode_video
from tune_media.recording.episode import EpisodeStart
from tune_media.recording.episode_clips import Clips
from tune_media.steps import StepFacts


def picture(shade, height=32, width=48):
    return np.full((height, width, 3), shade, np.uint8)


def fed(shown, are_encoded=True, **options):
    """Return the clips of an episode whose steps show these pictures, and the number of those that were rendered."""
    rendered = iter(shown)
    clips = Clips(VideoOptions(**options), lambda: {"": next(rendered)}, fps=12, are_encoded=are_encoded)
    for step in range(len(shown)):
        clips.feed(StepFacts(step, 0.0, 0.0))
    clips.feed_last()
    return clips, len(shown) - len(list(rendered))


MANY = [picture(step) for step in range(100)]


@pytest.mark.parametrize("options", [{}, {"every": 3}, {"max_frames": 10}, {"every": 2, "max_frames": 10}], ids=str)
def test_an_episode_that_is_not_encoded_is_rendered_at_the_same_steps_and_has_the_same_checksums(options):
    encoded, rendered = fed(MANY, **options)
    checked, also_rendered = fed(MANY, are_encoded=False, **options)
    assert rendered == also_rendered == encoded.finish()[""].frames
    assert checked.finish() == {}
    assert checked.pictures.blocks() == encoded.pictures.blocks()
    places = checked.pictures.places(options.get("every", 1), len(MANY) - 1)
    assert len(places) == rendered
    assert [checked.pictures.at(step) for step in sorted(places)] == [
        {"": crc32c(frame.data)} for frame in MANY[:rendered]
    ]


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
    recorder.start(0, EpisodeStart("e", lambda: frames() if env.counter.step_count < 10 else 1 / 0, fps=12))
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
    recorder.start(0, EpisodeStart("e", only(env), fps=12))
    for reward in (0, 0, 7, -7, 0, 0, 0, 0, 0, 0):
        env.step(0)
        recorder.step(0, reward)
    curve = next(iter(recorder._running[0].clips._overlays.values()))._curve
    recorder.end(0)
    assert told == [0, 4, 8, 10]
    assert (len(curve.values), curve.largest) == (11, 7)  # the peak is in a step that is not shown
