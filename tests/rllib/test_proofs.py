import functools
import importlib
import os
import random

import pytest

from tests.support import odd_envs
from tests.support.faults import wait_until
from tune_media.recording.episode import EpisodeStart, OnTape
from tune_media.recording.plan import Plan
from tune_media.recording.recorder import Recorder
from tune_media.recording.rendering import Renderer
from tune_media.replay.env_state import EnvState
from tune_media.replay.player import RenderError
from tune_media.replay.recipe import Recipe
from tune_media.replay.tape import Tape
from tune_media.replay.tape_recorder import TapeRecorder
from tune_media.replay.taped_clip import TapedClip
from tune_media.replay.taping import Taping
from tune_media.replay.verdicts import Verdict, decide, verdict_on
from tune_media.rllib.proofs import Prover
from tune_media.selection import as_selectors
from tune_media.values.options import VideoOptions

pytestmark = pytest.mark.any_ray  # envs, tapes and processes; no env runner of RLlib's
VIDEO = VideoOptions(overlay=("step", "return"))


def samples_of(kind, episodes=2, frame=None):
    """Return samples of an env's episodes, recorded while they ran."""
    config = {"process": os.getpid(), "salt": random.SystemRandom().random()}  # no two tests have the same recipe
    env = kind(config)
    base = EnvState(env).as_baseline()
    recipe = Recipe.of(kind, config, env, frame=frame, video=VIDEO, base=base)
    taping, renderer = TapeRecorder(env, None, base), Renderer(env, frame)
    recorder = Recorder(Plan("episodes", as_selectors("all"), video=VIDEO))
    proof = Taping(recorder).proof
    for number in range(episodes):
        env.reset(seed=3 if number == 0 else None)
        render = functools.partial(renderer.frames, 0)
        recorder.start(0, EpisodeStart(f"e{number}", render, 10.0, env, on_tape=OnTape(taping.tape, recipe.hash)))
        is_over = False
        while not is_over:
            _, reward, is_over, _, info = env.step(1)
            recorder.step(0, reward, 1, info)
        recorder.end(0, proof=proof)
    data = {one.record.id: one for one in recorder.candidates.data()}
    taken = recorder.candidates.take(list(data), list(data))
    return [TapedClip(data[id].tape, recipe, held.record) for id, held in taken.items()]


def with_pictures(sample, change):
    """Return a sample with other checksums of its frames on its tape."""
    tape = Tape.unpacked(sample.tape)
    change(tape.pictures)
    return TapedClip(tape.packed(), sample.recipe, sample.episode)


@pytest.fixture
def prover(request):
    found = Prover(getattr(request, "param", ("",)))
    yield found
    found._pool.close()  # its process would end by itself, some time later


def proven(prover, samples):
    """Return the verdict on some samples; None if there is none."""
    prover.prove(samples)
    wait_until(lambda: not prover.is_busy, 120)
    return verdict_on(samples[0].recipe.hash)


def test_an_env_that_shows_the_same_pictures_again_is_proven_by_its_later_episodes(prover):
    first, second = samples_of(odd_envs.Plain)
    assert proven(prover, [first]) is None, "an episode of a new env proves little"
    verdict = proven(prover, [first, second])
    assert (verdict.repeats, verdict.shows_alone) == (True, True)
    assert all(seconds > 0 for seconds in verdict.frame_seconds)
    assert prover.problems() == []


def test_frames_of_a_part_of_an_episode_are_compared_once_the_env_is_proven(prover):
    samples = samples_of(odd_envs.Plain, episodes=3)
    assert proven(prover, samples).repeats

    def only_the_end(pictures):
        pictures.how, pictures.are_all = "alone", False
        pictures._blocks = {"": [[4, 5, pictures._blocks[""][0][2]]]}  # the checksum of all six frames

    prover._rests_until = 0.0
    verdict = proven(prover, [with_pictures(samples[-1], only_the_end)])
    assert "the replay shows other pictures than the episode, from step 4 to step 5" in verdict.reason


def test_an_env_whose_state_can_be_restored_is_proven_and_a_picture_of_it_shows_its_age(prover):
    samples = samples_of(odd_envs.CountsEpisodes, episodes=4)
    assert proven(prover, samples).repeats
    clip = prover._pool.render(samples[-1].recipe, samples[-1].tape)[""]
    assert clip.compared == "steps, state, all pictures"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (odd_envs.RenderDraws, "render() of the env draws random numbers, so episodes that are rendered are others"),
        (odd_envs.RenderDrawsFromGlobal, "render() of the env draws random numbers"),
    ],
)
def test_an_env_whose_pictures_draw_random_numbers_is_recorded_directly(prover, kind, words):
    """It repeated the episodes that were rendered while they ran, and none of the others."""
    assert words in proven(prover, samples_of(kind)).reason


@pytest.mark.parametrize("kind", [odd_envs.SamplesFromANewSpace, odd_envs.ImportDraws])
def test_generators_that_differ_between_any_two_plays_do_not_tell_of_its_pictures(prover, kind):
    assert proven(prover, samples_of(kind)).repeats


def test_an_env_that_differs_once_is_not_said_to_draw_in_its_pictures(prover):
    reason = proven(prover, samples_of(odd_envs.DiffersOnce)).reason
    assert "at step 1, the replay has another" in reason
    assert "render()" not in reason


def test_an_env_whose_picture_depends_on_those_before_it_is_not_compared_by_single_frames(prover):
    verdict = proven(prover, samples_of(odd_envs.RenderAges))
    assert (verdict.repeats, verdict.shows_alone) == (True, False)


def test_an_env_whose_code_was_edited_since_is_not_replayed(prover, tmp_path, monkeypatch):
    """A process that renders imports the code as it is by then; the hash is of the code that the env runner has."""
    monkeypatch.syspath_prepend(tmp_path)
    source = (
        "from tests.support.odd_envs import Plain\n\nclass Edited(Plain):\n    def shade(self):\n        return {}\n"
    )
    (tmp_path / "edited_later.py").write_text(source.format(7))
    module = importlib.import_module("edited_later")
    samples = samples_of(module.Edited)
    (tmp_path / "edited_later.py").write_text("# a comment changes nothing\n" + source.format(7))
    assert proven(prover, samples).repeats
    other = samples_of(module.Edited)
    (tmp_path / "edited_later.py").write_text(source.format(77))
    with pytest.raises(RenderError, match="the code of edited_later was edited since the episode was recorded"):
        prover._pool.render(other[1].recipe, other[1].tape)
    prover._pool.close()
    with pytest.raises(RenderError, match=r"shows other pictures .*; the code of edited_later was edited since"):
        prover._pool.render(other[1].recipe, other[1].tape, may_be_edited=True)


@pytest.mark.parametrize("kind", [odd_envs.ReusesBuffers, odd_envs.SharesASimulator])
def test_buffers_and_a_simulator_that_envs_share_do_no_harm(prover, kind):
    samples = samples_of(kind)
    env = odd_envs.SharesASimulator.user
    assert proven(prover, samples).repeats
    assert odd_envs.SharesASimulator.user is env, "an env was made here"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (odd_envs.CountsInC, "the replay shows other pictures than the episode, from step 0 to step 5"),
        (odd_envs.ShowsTheClock, "the replay shows other pictures than the episode"),
        (odd_envs.DrawsFromTheSystem, "does not repeat its episodes in another process: at step "),
        (odd_envs.DrawsFromGlobalRandom, "does not repeat its episodes in another process: at step "),
        (odd_envs.HoldsAPort, "the env cannot be made again: OSError: [Errno 98] Address already in use"),
    ],
)
def test_an_env_that_does_not_is_recorded_directly_and_it_is_said_once(prover, kind, words):
    samples = samples_of(kind)
    verdict = proven(prover, samples)
    assert not verdict.repeats
    assert words in verdict.reason  # of random observations, the first may have the same last byte of its checksum
    assert prover.problems() == [verdict.reason]
    assert proven(prover, samples) == verdict
    assert prover.problems() == []


def test_a_process_that_dies_tells_nothing_of_the_env(prover):
    assert proven(prover, samples_of(odd_envs.DiesElsewhere)) is None
    assert prover.problems() == []


def test_a_proof_that_fails_later_ends_the_replays_for_good(prover):
    samples = samples_of(odd_envs.CountsInC)
    decide(samples[0].recipe.hash, Verdict(True))
    assert not proven(prover, samples).repeats
    assert not decide(samples[0].recipe.hash, Verdict(True))


def test_of_all_trials_one_proves_a_recipe(prover):
    samples, other = samples_of(odd_envs.Plain), Prover()
    assert proven(prover, samples[:1]) is None
    other.prove(samples)
    assert not other.is_busy
    assert proven(prover, samples).repeats


def two_views(env):
    return {"left": env.render(), "right": env.render()[::2]}


def shown(env):
    return env.render()[::2]


@pytest.mark.parametrize("prover", [("left", "right")], indirect=True)
def test_each_of_several_views_with_names_is_compared(prover):
    samples = samples_of(odd_envs.Plain, frame={"left": "render", "right": shown})
    assert proven(prover, samples).repeats

    def swap(pictures):
        pictures._blocks["right"] = pictures._blocks["left"]

    prover._rests_until = 0.0
    verdict = proven(prover, [with_pictures(samples[1], swap)])
    assert "shows other pictures than the episode, from step 0 to step 5 of view 'right'" in verdict.reason


def test_several_views_whose_names_are_not_known_before_are_recorded_directly(prover):
    assert "shows several views (left, right)" in proven(prover, samples_of(odd_envs.Plain, frame=two_views)).reason


def test_an_env_without_frames_is_known_before_the_first_evaluation(prover):
    recipe = samples_of(odd_envs.Plain)[0].recipe
    config = {"salt": random.random()}
    without = Recipe.of(odd_envs.HasNoPicture, config, odd_envs.HasNoPicture(config))
    cannot = Recipe.of(odd_envs.CannotBeMade, {"process": os.getpid()})
    for each in (recipe, without, without, cannot):
        prover.check(each, "an experiment")
    wait_until(lambda: not prover.is_busy, 120)
    (problem,) = prover.problems()
    assert "env 'HasNoPicture' returned None from render()" in problem
