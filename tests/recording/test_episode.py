import numpy as np
import pytest

from tests.support.envs import CountingEnv
from tests.support.recorders import make_recorder, play
from tune_media import VideoOptions
from tune_media.recording.clips import Clips
from tune_media.recording.episode import RunningEpisode
from tune_media.recording.problems import Problems
from tune_media.recording.trajectory import TrajectoryBuilder
from tune_media.steps import StepFacts


def test_an_episode_whose_clip_is_lost_says_why_in_its_note():
    recorder, env = make_recorder(), CountingEnv({"render_mode": None})
    play(recorder, env)
    (data,) = recorder.candidates.data()
    assert data.record.note.startswith("no clip: the reset frame raised ValueError")
    (problem,) = recorder.problems.take()
    assert problem.lost == 1


def running(*views, **fields):
    """Return an episode of one frame in each view; its agents are left and right."""
    frames = {view: np.zeros((16, 16, 3), np.uint8) for view in views or ("",)}
    clips = Clips(VideoOptions(), lambda: frames, 10)
    episode = RunningEpisode({"episode_id": "e"}, clips, None, frozenset({"left", "right"}), **fields)
    episode.feed(StepFacts(0, 0.0, 0.0))
    return episode


def test_known_facts_win_over_counted_ones_and_notes_are_joined():
    episode = running(note="no clip: lost")
    episode.episode_return = 2.0
    record = episode.data({"extra": 1.0}, {"episode_return": 3.0, "note": "cut"}).record
    assert (record.episode_return, record.metrics, record.note) == (3.0, {"extra": 1.0}, "cut; no clip: lost")


def test_an_exception_costs_clip_and_trajectory_and_the_data_go_on():
    episode, problems = running(steps=TrajectoryBuilder()), Problems("episodes", are_collected=True)
    with episode.guard_clip("a frame", problems, strict=False):
        raise OSError("the camera is gone")
    assert (episode.is_candidate, episode.clips, episode.steps) == (False, None, None)
    assert episode.data({}, {}).record.note == "no clip: a frame raised OSError: the camera is gone"
    assert [problem.lost for problem in problems.take()] == [1]
    with pytest.raises(OSError, match="gone"), episode.guard_clip("a frame", problems, strict=True):
        raise OSError("the camera is gone")
