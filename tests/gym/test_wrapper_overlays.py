"""What is drawn over the frames of a wrapper's clips is the episode's, whenever its frames are rendered."""

import threading

import numpy as np
import pytest

import tune_media as tm
from tests.support import games
from tests.support.loops import play
from tune_media.replay.recipe import LoadedRecipe

pytestmark = pytest.mark.any_ray


def test_a_function_that_cannot_be_pickled_is_called_while_the_episode_runs(caplog):
    lock = threading.Lock()

    def text(step):
        with lock:
            return games.text(step)

    video = tm.VideoOptions(overlay=("step", text, "return"), every=3)
    env = tm.gym.RecordEpisodes(games.Game(), None, env_fn=games.Game, render="replay", keep="last", video=video)
    play(env, 2)
    clip = env.take()["last"]
    assert (clip.episode.rendered, clip.note, caplog.records) == ("replay", None, [])
    first, line, last = LoadedRecipe.of(env._recording._replays.recipe.content).video.overlay
    assert (first, last) == ("step", "return") and "text" in line.name
    assert line(None) == ""  # the recipe holds no code of the function
    env.close()


def test_a_function_that_raises_costs_its_line_and_not_the_clip():
    video = tm.VideoOptions(overlay=(games.text, lambda step: step.nope))
    env = tm.gym.RecordEpisodes(games.Game(), None, env_fn=games.Game, render="replay", keep="last", video=video)
    play(env, 2)
    taken = env.take()
    env.close()
    assert games.number_on(taken["last"].content()) == 2
    assert "VideoOptions(overlay=...), a function, raised AttributeError" in taken["last"].note
    (problem,) = taken["problems"]
    assert str(problem).startswith("a line of an overlay is missing: VideoOptions(overlay=...), a function, raised")


def test_evaluations_call_the_function_while_they_play(tmp_path):
    """Their second episode is the second game of its env, and a replay's first; one is played twice, as a probe."""
    video = tm.VideoOptions(overlay=games.text)
    (tmp_path / "policy").mkdir()
    found = tm.evaluate(
        tmp_path / "policy",
        policy=lambda path: lambda observation: np.int64(0),
        env=games.Game,
        seeds=3,
        clips="all",
        video=video,
    )
    assert not found.problems
    clips = [clip for clip in found.catalog if clip["key"].startswith("episodes/")]
    numbers = [(games.number_on(clip.read_bytes()), clip["fps"]) for clip in clips]
    assert sorted(numbers) == [(1, 11), (2, 12), (4, 14)]
