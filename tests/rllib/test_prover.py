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
from tune_media.replay.player import RenderError
from tune_media.replay.proofs import MOST_FAULTS, NEEDED, Proofs, note_proofs
from tune_media.replay.recipe import Recipe
from tune_media.replay.tape import Tape
from tune_media.replay.tape_recorder import TapeRecorder
from tune_media.replay.taped_clip import TapedClip
from tune_media.replay.verdicts import ReplayVerdict, decide, is_first, verdict_on
from tune_media.rllib.prover import Prover
from tune_media.selection import as_selectors
from tune_media.values.options import VideoOptions

pytestmark = pytest.mark.any_ray  # envs, tapes and processes; no env runner of RLlib's
VIDEO = VideoOptions(overlay=("step", "return"))


def samples_of(kind, episodes=NEEDED, frame=None, **more):
    """Return samples of an env's episodes, recorded while they ran; its config has ``more``."""
    salt = random.SystemRandom().random()  # no two tests have the same recipe
    config = {"process": os.getpid(), "salt": salt, **more}
    env = kind(config)
    recipe = Recipe.of(kind, config, env, frame=frame, video=VIDEO)
    taping, renderer = TapeRecorder(env), Renderer(env, frame)
    recorder = Recorder(Plan("episodes", as_selectors("all"), video=VIDEO))
    for number in range(episodes):
        env.reset(seed=3 if number == 0 else None)
        render = functools.partial(renderer.frames, 0)
        recorder.start(0, EpisodeStart(f"e{number}", render, 10.0, env, on_tape=OnTape(taping.tape, recipe.hash)))
        is_over = False
        while not is_over:
            _, reward, is_over, _, info = env.step(1)
            recorder.step(0, reward, 1, info)
        recorder.end(0)
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
    samples = samples_of(odd_envs.Plain)
    assert proven(prover, samples[:1]) is None
    assert proven(prover, samples[:2]) == ReplayVerdict(True, ages=False, length=5, draws=[])
    assert prover.problems() == []


def test_an_env_that_writes_is_refused_before_it_does(prover, tmp_path):
    file = tmp_path / "episodes.txt"
    samples = samples_of(odd_envs.NotesItsEpisodes, file=str(file))
    refused = f"env 'NotesItsEpisodes' opens {file} for writing, and a replay would do so, too"
    reason = f"render='auto': episodes are rendered while they run, since {refused}"
    assert proven(prover, samples) == ReplayVerdict(False, reason)
    assert prover.problems() == [reason]
    assert set(file.read_text().split()) == {str(os.getpid())}


def test_first_episodes_of_new_envs_alone_prove_little(prover):
    """A state that one episode leaves to the next shows only in the second."""
    (sample,) = samples_of(odd_envs.Plain, episodes=1)
    assert proven(prover, [sample] * (NEEDED + 1)) is None


def test_episodes_of_which_some_frames_were_rendered_prove_nothing(prover):
    def in_part(pictures):
        pictures.are_all = False

    samples = [with_pictures(sample, in_part) for sample in samples_of(odd_envs.Plain, episodes=5)]
    assert proven(prover, samples) is None
    assert prover.problems() == []


def test_if_playing_takes_long_one_episode_proves_enough(prover, monkeypatch):
    monkeypatch.setattr("tune_media.replay.proofs._SECONDS", 0.0)
    assert proven(prover, samples_of(odd_envs.Plain)[-1:]).repeats


@pytest.mark.parametrize("kind", [odd_envs.SamplesFromANewSpace, odd_envs.ImportDraws, odd_envs.RenderDrawsFromGlobal])
def test_generators_that_no_step_and_no_picture_follows_from_do_no_harm(prover, kind):
    assert proven(prover, samples_of(kind)).repeats


def test_of_an_env_whose_picture_depends_on_those_before_it_the_verdict_says_so(prover):
    verdict = proven(prover, samples_of(odd_envs.RenderAges))
    assert (verdict.repeats, verdict.ages) == (True, True)


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
    clip = prover._pool.render(other[1].recipe, other[1].tape, is_lenient=True)[""]
    assert clip.compared == "steps only"
    assert "the code of edited_later was edited since" in clip.note


@pytest.mark.parametrize("kind", [odd_envs.ReusesBuffers, odd_envs.SharesASimulator])
def test_buffers_and_a_simulator_that_envs_share_do_no_harm(prover, kind):
    samples = samples_of(kind)
    env = odd_envs.SharesASimulator.user
    assert proven(prover, samples).repeats
    assert odd_envs.SharesASimulator.user is env, "an env was made here"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (odd_envs.CountsEpisodes, "the replay shows other pictures than the episode, from step 0 to step 5"),
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


def test_a_process_that_dies_tells_nothing_of_the_env_but_three_such_plays_refuse_its_recipe(prover, monkeypatch):
    def die(*arguments, **options):
        raise RenderError("the process died", has_died=True)

    samples = samples_of(odd_envs.DiesElsewhere)
    assert proven(prover, samples) is None
    monkeypatch.setattr(prover._pool, "prove", die)  # a real process takes seconds to start
    for _ in range(MOST_FAULTS - 2):
        assert proven(prover, samples) is None
    assert prover.problems() == []
    verdict = proven(prover, samples)
    assert not verdict.repeats
    assert "3 times another process could not play an episode again" in verdict.reason
    assert proven(prover, samples) == verdict
    assert prover.problems() == [verdict.reason]


def test_a_proof_that_fails_later_ends_the_replays_for_good(prover):
    samples = samples_of(odd_envs.CountsEpisodes)
    decide(samples[0].recipe.hash, ReplayVerdict(True))
    assert not proven(prover, samples).repeats
    assert not decide(samples[0].recipe.hash, ReplayVerdict(True))


def test_of_all_trials_one_plays_the_next_proofs_of_a_recipe_and_another_may_go_on_later(prover):
    samples, other = samples_of(odd_envs.Plain), Prover()
    recipe = samples[0].recipe.hash
    assert is_first("proof 0", recipe)  # by a trial that has ended since
    prover.prove(samples)
    assert not prover.is_busy
    note_proofs(recipe, Proofs(count=1))
    assert proven(prover, samples).repeats
    other.prove(samples[:1])  # one proof of many
    assert other.is_busy


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
    (problem,) = prover.problems()  # waits for the checks
    assert "env 'HasNoPicture' returned None from render()" in problem


def test_a_proof_waits_for_a_frame_check_and_is_not_left_out(prover):
    """A trial of one short evaluation, whose result comes while the check runs, would prove nothing."""
    samples = samples_of(odd_envs.Plain)
    prover.check(samples[0].recipe, "an experiment of one evaluation")
    assert proven(prover, samples).repeats
