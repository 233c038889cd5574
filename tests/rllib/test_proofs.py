import functools
import os
import random
from dataclasses import replace

import pytest

from tests.support import odd_envs
from tests.support.faults import wait_until
from tune_media.recording.clips import pictures_of
from tune_media.recording.plan import Plan
from tune_media.recording.recorder import EpisodeRecorder
from tune_media.recording.rendering import Renderer
from tune_media.replay import render_actor, render_pool
from tune_media.replay.recipe import Recipe
from tune_media.replay.tape import Tape
from tune_media.replay.tape_recorder import TapeRecorder
from tune_media.replay.verdicts import Verdict, decide, verdict_on
from tune_media.rllib.proofs import Prover, Sample, _to_prove
from tune_media.selection import as_selectors
from tune_media.values.options import VideoOptions

pytestmark = pytest.mark.any_ray  # envs, tapes and processes; no env runner of RLlib's
VIDEO = VideoOptions(overlay=("step", "return"))


def samples_of(kind, episodes=2, frame=None):
    """Return samples of an env's episodes, recorded while they ran."""
    config = {"process": os.getpid(), "salt": random.SystemRandom().random()}  # no two tests have the same recipe
    env = kind(config)
    recipe = Recipe.of(kind, config, env, frame=frame, video=VIDEO)
    taping, renderer = TapeRecorder(env), Renderer(env, frame)
    recorder = EpisodeRecorder(Plan("episodes", as_selectors("all"), video=VIDEO))
    for number in range(episodes):
        env.reset(seed=3 if number == 0 else None)
        render = functools.partial(renderer.frames, 0)
        recorder.start(0, f"e{number}", render, 10.0, env=env, tape=taping.tape, recipe=recipe.hash, env_index=0)
        is_over = False
        while not is_over:
            _, reward, is_over, _, info = env.step(1)
            recorder.step(0, reward, 1, info)
        recorder.end(0)
    data = {one.record.id: one for one in recorder.candidates.data()}
    taken = recorder.candidates.take(list(data), list(data))
    return [
        Sample(recipe, data[id].tape, held.record, {view: clip.checks for view, clip in held.clips.items()})
        for id, held in taken.items()
    ]


@pytest.fixture
def prover():
    found = Prover()
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
    assert proven(prover, [first, second]) == Verdict(True)
    assert prover.problems() == []


def test_an_episode_whose_first_frames_were_rendered_proves_its_tape_and_one_with_frames_missing_does_not(prover):
    whole = samples_of(odd_envs.Plain)[1]
    begun = replace(whole, checks={view: checks[:3] for view, checks in whole.checks.items()})
    assert proven(prover, [replace(begun, record=replace(begun.record, rendered="replay"))]) == Verdict(True)
    longer = replace(whole, checks={view: (*checks, 1) for view, checks in whole.checks.items()})
    assert "instead of 7" in prover._difference(replace(longer, record=replace(begun.record, rendered="replay")))
    tape = Tape.unpacked(whole.tape)
    tape.pictures = pictures_of(whole.checks, are_all=True)
    checked = replace(begun, tape=tape.packed(), record=replace(begun.record, rendered="replay"))
    assert "instead of 3" in prover._difference(checked)
    verdict = proven(prover, [begun])
    assert not verdict.repeats
    assert "shows 6 frames in a replay instead of 3" in verdict.reason


def test_a_proof_renders_no_more_frames_than_were_rendered_while_the_episode_ran(prover):
    whole = samples_of(odd_envs.Plain)[1]
    tape, first = Tape.unpacked(whole.tape), {view: checks[:3] for view, checks in whole.checks.items()}
    tape.pictures = pictures_of(first, are_all=False)
    begun = replace(whole, tape=tape.packed(), checks=first, record=replace(whole.record, rendered="replay"))
    found = prover._pool.render(begun.recipe, begun.tape, only_checked=True)
    assert {view: clip.checks for view, clip in found.items()} == first
    clip = prover._pool.render(begun.recipe, begun.tape)[""]
    assert clip.checks == whole.checks[""]
    assert proven(prover, [begun]) == Verdict(True)


def test_of_many_samples_the_latest_are_played_and_one_of_which_each_frame_is_known():
    whole = samples_of(odd_envs.Plain)[0]
    begun = [replace(sample, record=replace(sample.record, rendered="replay")) for sample in samples_of(odd_envs.Plain)]
    chosen = _to_prove([*begun, whole, *begun, *begun])
    assert [sample is whole for sample in chosen] == [True, False, False, False]
    assert [Tape.unpacked(sample.tape).number for sample in chosen[1:]] == [1, 1, 1]


@pytest.mark.parametrize("kind", [odd_envs.ReusesBuffers, odd_envs.SharesASimulator])
def test_buffers_and_a_simulator_that_envs_share_do_no_harm(prover, kind):
    samples = samples_of(kind)
    env = odd_envs.SharesASimulator.user
    assert proven(prover, samples) == Verdict(True)
    assert odd_envs.SharesASimulator.user is env, "an env was made here"


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (odd_envs.CountsEpisodes, "shows other pictures in a replay, from frame 0 of 6 on"),
        (odd_envs.ShowsTheClock, "shows other pictures in a replay"),
        (odd_envs.DrawsFromTheSystem, "does not repeat its episodes in another process: at step "),
        (odd_envs.DrawsFromGlobalRandom, "does not repeat its episodes in another process: at step "),
        (odd_envs.ChangesItsConfig, "does not repeat its episodes in another process: at step 1, the replay has"),
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


def test_a_tape_is_played_on_its_node_and_want_of_room_there_tells_nothing_of_the_env(prover, monkeypatch):
    nodes = []

    class Full:
        def __init__(self, recipe, *, niceness, node, resources):
            nodes.append(node)

        def render(self, tape, **how):
            raise render_actor.NoRoomError("no node had room")

        def close(self):
            pass

    monkeypatch.setattr(render_pool, "RenderActor", Full)
    monkeypatch.setattr(render_pool, "is_elsewhere", lambda node: node == "elsewhere")  # on a cluster of two nodes
    samples = [replace(sample, node="elsewhere") for sample in samples_of(odd_envs.Plain)]
    assert proven(prover, samples) is None
    assert nodes == ["elsewhere"]


def test_a_process_that_dies_tells_nothing_of_the_env(prover):
    assert proven(prover, samples_of(odd_envs.DiesElsewhere)) is None
    assert prover.problems() == []


def test_a_proof_that_fails_later_ends_the_replays_for_good(prover):
    samples = samples_of(odd_envs.CountsEpisodes)
    decide(samples[0].recipe.hash, Verdict(True))
    assert not proven(prover, samples).repeats
    assert not decide(samples[0].recipe.hash, Verdict(True))


def test_of_all_trials_one_proves_a_recipe(prover):
    samples, other = samples_of(odd_envs.Plain), Prover()
    assert proven(prover, samples[:1]) is None
    other.prove(samples)
    assert not other.is_busy
    assert proven(prover, samples) == Verdict(True)


def two_views(env):
    return {"left": env.render(), "right": env.render()[::2]}


def shown(env):
    return env.render()[::2]


def test_each_of_several_views_with_names_is_compared(prover):
    samples = samples_of(odd_envs.Plain, frame={"left": "render", "right": shown})
    samples = [replace(sample, views=("left", "right")) for sample in samples]
    wrong = {**samples[1].checks, "right": samples[1].checks["left"]}
    assert proven(prover, samples) == Verdict(True)
    verdict = proven(prover, [replace(samples[1], checks=wrong)])
    assert "shows other pictures of view 'right' in a replay, from frame 0" in verdict.reason


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
