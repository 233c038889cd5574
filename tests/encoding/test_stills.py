import functools
import sys

import numpy as np
import pytest

import tune_media as tm
from tests.support.envs import CountingEnv
from tests.support.loops import play
from tune_media.encoding.encoder import encode_video
from tune_media.encoding.stills import Stills, reason_of
from tune_media.replay.process import RenderProcess
from tune_media.replay.recipe import Recipe

BLACK, GREY = np.zeros((32, 32, 3), np.uint8), np.full((32, 32, 3), 7, np.uint8)
PICTURE = np.random.default_rng(0).integers(0, 255, (32, 32, 3), np.uint8)


class Draws(CountingEnv):
    """An env that renders the same picture at all steps, or, if it is dark at first, another one later."""

    def __init__(self, picture, later=None):
        super().__init__({"length": 4})
        self.picture, self.later = picture, picture if later is None else later

    def render(self):
        return self.picture if self.counter.step_count < 2 else self.later


@pytest.mark.parametrize(("picture", "look"), [(BLACK, "black"), (GREY, "of one colour")])
@pytest.mark.parametrize(
    "options",
    [{"video": tm.VideoOptions(overlay="step")}, {"video_length": 3}, {"render": "replay"}],
    ids=["drawn on", "of a length", "of a tape"],
)
def test_a_clip_on_which_nothing_is_drawn_is_reported(picture, look, options, tmp_path, caplog, monkeypatch):
    monkeypatch.delenv("SDL_VIDEODRIVER", raising=False)
    if "render" in options:
        options = {**options, "env_fn": functools.partial(Draws, picture)}
    env = tm.gym.RecordEpisodes(Draws(picture), tmp_path if "video_length" in options else None, **options)
    play(env, 2)
    clip = env.take().get("last")
    env.close()
    assert caplog.text.count(f"a clip shows nothing: every frame is {look}") == 1
    if clip is not None and "video" in options:
        assert clip.note == f"a still: all frames are {look}"


def test_clips_that_show_something_are_not_reported(caplog):
    for env in (Draws(BLACK, PICTURE), CountingEnv(), Draws(PICTURE)):
        play(tm.gym.RecordEpisodes(env, keep="all"), 2)
    assert "shows nothing" not in caplog.text


def test_stills_are_reported_if_the_first_clips_all_are():
    still, moving = (encode_video([PICTURE, other], 30) for other in (PICTURE, GREY))
    told = []
    stills = Stills(told.append)
    stills.look([still, still])
    assert told == []
    stills.look([still])
    assert "render() may return an old picture" in told[0]
    stills = Stills(told.append)
    stills.look([moving, still, still, still, still])
    assert len(told) == 1


@pytest.mark.parametrize(("later", "words"), [(None, "every frame is black"), (PICTURE, None)])
def test_the_check_before_training_sees_that_nothing_is_drawn(later, words):
    with RenderProcess(Recipe.of(lambda config: Draws(BLACK, later), {}).content) as process:
        problem = process.check()[0]
    assert (problem is None) if words is None else problem.startswith(f"a clip shows nothing: {words}")


def test_the_remedy_for_the_dummy_driver_names_it(monkeypatch, caplog):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    play(tm.gym.RecordEpisodes(Draws(BLACK)), 1)
    assert "SDL_VIDEODRIVER=dummy is set" in caplog.text


@pytest.mark.parametrize(("set_to", "remedy"), [(None, "set MUJOCO_GL=egl or osmesa"), ("egl", "tune-media doctor")])
def test_the_remedy_for_mujoco_is_not_what_is_set_already(monkeypatch, set_to, remedy):
    monkeypatch.setitem(sys.modules, "mujoco", sys)  # it was imported
    monkeypatch.delenv("SDL_VIDEODRIVER", raising=False)
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    if set_to is not None:
        monkeypatch.setenv("MUJOCO_GL", set_to)
    assert remedy in reason_of("black")
