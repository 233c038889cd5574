"""A tape becomes a clip only if the replay shows the frames that were rendered while its episode ran."""

import json
import pickle
import random
import threading
import time

import gymnasium as gym
import numpy as np
import pytest

from tests.support import odd_envs
from tune_media.encoding.decode import decode_video
from tune_media.recording.pictures import ALONE, SPARSE, STEPS, WHOLE, Pictures
from tune_media.replay.player import RenderError
from tune_media.replay.recipe import Recipe
from tune_media.replay.recipe_player import RecipePlayer
from tune_media.replay.tape_recorder import TapeRecorder
from tune_media.values.options import VideoOptions
from tune_media.values.problems import Message

STEPS_OF_ONE = 5  # each episode of the odd envs


def taped(kind, how, places, episodes=1):
    """Return the tape of an episode of which some frames were rendered while it ran, and these frames."""
    env = kind()
    recorder, frames = TapeRecorder(env), {}
    for number in range(episodes):
        env.reset(seed=number)
        pictures, frames = Pictures(how, are_all=how == WHOLE), {}
        for step in range(STEPS_OF_ONE + 1):
            if step:
                env.step(1)
            if step in places:
                frames[step] = env.render()
                pictures.add(step, {"": frames[step]})
    recorder.tape.pictures = pictures
    env.close()
    return recorder.tape, frames


def rendered(kind, tape, is_lenient=False, env=None):
    return clip_of(Recipe.of(kind, {}).content, tape, is_lenient, env)


def clip_of(recipe, tape, is_lenient=False, env=None):
    player = RecipePlayer(recipe, env, None)
    (clip,) = player.render(
        tape, VideoOptions(), (0, 0), is_lenient=is_lenient, on_step=lambda step, steps: None
    ).values()
    return clip


ALL = range(STEPS_OF_ONE + 1)
HOWS = {"all 6 frames": (WHOLE, ALL), "3 of 6 frames": (SPARSE, [0, 2, 5]), "1 of 6 frames": (ALONE, [3])}


@pytest.mark.parametrize("is_lenient", [False, True])
@pytest.mark.parametrize("compared", HOWS)
def test_a_clip_says_how_many_of_its_frames_were_compared(compared, is_lenient):
    tape, _ = taped(odd_envs.Plain, *HOWS[compared], episodes=3)
    clip = rendered(odd_envs.Plain, tape, is_lenient)
    assert (clip.frames, clip.compared, clip.note) == (6, compared, None)


def test_a_clip_without_frames_to_compare_names_the_packages_that_were_updated_since():
    tape, _ = taped(odd_envs.Plain, STEPS, [])
    known = pickle.loads(Recipe.of(odd_envs.Plain, {}).content)
    assert clip_of(pickle.dumps(known), tape).note is None
    known["facts"]["versions"]["gymnasium"] = "0.1"
    clip = clip_of(pickle.dumps(known), tape)
    assert clip.compared == "steps only"
    assert clip.note == f"its frames were not compared: gymnasium 0.1, now {gym.__version__}"


@pytest.mark.parametrize("compared", HOWS)
def test_a_frame_that_the_replay_does_not_show_costs_the_clip_and_its_step_is_told(compared):
    tape, _ = taped(odd_envs.CountsEpisodes, *HOWS[compared], episodes=3)
    with pytest.raises(RenderError, match="shows other pictures than the episode") as caught:
        rendered(odd_envs.CountsEpisodes, tape)
    assert caught.value.is_of_env
    assert caught.value.step == min(HOWS[compared][1])


@pytest.mark.parametrize("compared", HOWS)
def test_if_that_is_allowed_there_is_a_clip_with_a_note_of_an_episode_whose_steps_are_the_same(compared):
    tape, _ = taped(odd_envs.CountsEpisodes, *HOWS[compared], episodes=3)
    clip = rendered(odd_envs.CountsEpisodes, tape, is_lenient=True)
    assert (clip.frames, clip.compared) == (6, "steps only")
    assert "all steps are those of the episode, but its frames looked different" in clip.note


@pytest.mark.parametrize("is_lenient", [False, True])
def test_there_is_never_a_clip_of_an_episode_whose_steps_are_others(is_lenient):
    tape, _ = taped(odd_envs.DrawsFromTheSystem, SPARSE, [0])
    with pytest.raises(RenderError, match="has another observation") as caught:
        rendered(odd_envs.DrawsFromTheSystem, tape, is_lenient)
    assert caught.value.is_of_env


def test_frames_that_age_are_compared_in_a_play_that_renders_no_others():
    tape, frames = taped(odd_envs.RenderAges, SPARSE, [0, 2, 5])
    clip = rendered(odd_envs.RenderAges, tape)
    assert clip.compared == "3 of 6 frames"
    tape.pictures.how = ALONE
    with pytest.raises(RenderError, match="other pictures than the episode, at step 2"):
        rendered(odd_envs.RenderAges, tape)
    shades = [int(np.median(frame)) for frame in decode_video(clip.data)]
    assert abs(shades[0] - int(np.median(frames[0]))) < 5


def test_a_tape_without_own_frames_makes_no_clip_and_that_tells_nothing_of_its_env():
    tape, _ = taped(odd_envs.Plain, SPARSE, [])
    with pytest.raises(RenderError, match="no frame of it was rendered while it ran") as caught:
        rendered(odd_envs.Plain, tape)
    assert (caught.value.is_of_env, caught.value.step) == (False, None)
    assert rendered(odd_envs.Plain, tape, is_lenient=True).compared == "steps only"
    tape.pictures = Pictures(STEPS)  # render="replay"
    assert rendered(odd_envs.Plain, tape).compared == "steps only"


def test_frames_of_another_env_are_not_compared_and_those_of_its_recipe_are():
    def larger(config):
        return Larger()

    class Larger(odd_envs.Plain):
        def render(self):
            return np.tile(super().render(), (2, 2, 1))

    tape, _ = taped(odd_envs.Plain, SPARSE, [0, 5])
    clip = rendered(odd_envs.Plain, tape, is_lenient=True, env=larger)
    assert (clip.height, clip.compared, clip.note) == (32, "2 of 6 frames", None)
    clip = rendered(odd_envs.DrawsFromTheSystem, tape, is_lenient=True, env=larger)
    assert (clip.height, clip.compared) == (32, "steps only")
    assert "the env of its recipe does not play it here" in clip.note


DRAWS = "draws"


@pytest.fixture
def is_alone(monkeypatch):
    """A process that plays tapes has no threads but an env's; in this one, other tests may have left some."""
    threads = threading.enumerate
    here = threading.current_thread()
    monkeypatch.setattr(threading, "enumerate", lambda: [here, *(t for t in threads() if t.name == DRAWS)])


class StartsAThread(odd_envs.Plain):
    """Its thread draws numbers, while its frames take a while."""

    def __init__(self, config=None):
        super().__init__(config)
        self._is_over = threading.Event()
        threading.Thread(target=self._draw, name=DRAWS, daemon=True).start()

    def _draw(self):
        while not self._is_over.is_set():
            random.random()
            time.sleep(0.0005)

    def render(self):
        time.sleep(0.003)
        return super().render()

    def close(self):
        self._is_over.set()


def proved(kind, *, episodes=2, is_first=True):
    tape, _ = taped(kind, WHOLE, ALL, episodes)
    return RecipePlayer(Recipe.of(kind, {}).content, None, None).prove(tape, (0, 0), is_first=is_first)


@pytest.mark.usefixtures("is_alone")
@pytest.mark.parametrize(
    ("kind", "ages", "draws"),
    [
        (odd_envs.Plain, False, []),
        (odd_envs.RenderAges, True, []),
        (odd_envs.RenderDrawsFromGlobal, False, ["random"]),
        (odd_envs.RenderDrawsLater, False, ["numpy.random"]),
        (StartsAThread, False, None),
    ],
)
def test_a_proof_finds_out_whether_frames_age_and_what_they_draw_from(kind, ages, draws):
    assert proved(kind, episodes=1) == {"ages": ages, "length": STEPS_OF_ONE, "draws": draws}


@pytest.mark.usefixtures("is_alone")
@pytest.mark.parametrize(
    ("kind", "draws"),
    [
        (odd_envs.Plain, []),
        (odd_envs.RenderDraws, []),
        (odd_envs.RenderDrawsLater, ["numpy.random"]),
        (StartsAThread, None),
    ],
)
def test_a_frame_check_finds_out_which_global_generators_frames_draw_from(kind, draws):
    player = RecipePlayer(Recipe.of(kind, {}).content, None, None)
    assert player.check() == {"problem": None, "draws": draws}


def test_each_play_of_a_proof_is_in_a_process_of_its_own():
    kind = odd_envs.InstancesDiffer
    tape, _ = taped(kind, WHOLE, ALL, 1)
    kind.made = 0  # as in a process that renders
    facts = RecipePlayer(Recipe.of(kind, {}).content, None, None).prove(tape, (0, 0), is_first=True)
    assert facts["ages"] is False


class LooksAtItsRenders(odd_envs.Plain):
    """Its frames are those of the episode if all are rendered, and others each time if only some are."""

    def __init__(self, config=None):
        super().__init__(config)
        self.rendered = 0

    def shade(self):
        self.rendered += 1
        return self.drawn if self.rendered == self.count + 1 else time.monotonic_ns() % 251


def test_a_proof_of_an_env_whose_single_frames_differ_in_each_play_fails():
    with pytest.raises(RenderError, match="draws other pictures in each replay"):
        proved(LooksAtItsRenders, episodes=1)


def test_the_remedy_of_a_missing_library_is_told_once():
    def breaks(env):
        raise ImportError("pygame is not installed")

    told = {}
    tape, _ = taped(odd_envs.Plain, WHOLE, ALL)
    request = {"tape": tape.packed(), "video": None, "place": (0, 0), "is_lenient": False}
    RecipePlayer(Recipe.of(odd_envs.Plain, {}).content, None, breaks).answer(
        {"do": "render", **request}, lambda *contents, **facts: told.update(facts)
    )
    assert Message(*told["error"]).count("Install it:") == 1


@pytest.mark.parametrize("do", ["prove", "render"])
def test_it_tells_that_the_env_comes_back_while_frames_are_compared(do, tmp_path, monkeypatch):
    """Plays that were compared said nothing, so that a long one was taken for an env that hangs."""
    monkeypatch.setattr("tune_media.replay.recipe_player._TELL_SECONDS", 0.0)
    told = tmp_path / "told"

    def tell(*contents, **facts):  # also in a fork
        with told.open("a") as file:
            file.write(json.dumps({name: value for name, value in facts.items() if name != "clips"}) + "\n")

    tape, _ = taped(odd_envs.Plain, WHOLE if do == "prove" else SPARSE, ALL if do == "prove" else [0, 2, 5])
    how = {"is_first": False} if do == "prove" else {"video": None, "is_lenient": False}
    request = {"do": do, "tape": tape.packed(), "place": (0, 0), **how}
    RecipePlayer(Recipe.of(odd_envs.Plain, {}).content, None, None).answer(request, tell)
    lines = [json.loads(line) for line in told.read_text().splitlines()]
    compared = [line["step"] for line in lines if line.get("is_compared")]
    assert compared == list(range(STEPS_OF_ONE + 1))
    assert [line["step"] for line in lines if "step" in line and line not in lines[:6]] == (
        [] if do == "prove" else compared
    )
