"""A real env runner of RLlib's, built without Ray, whose episodes are taped, and rendered elsewhere."""

import gymnasium as gym
import numpy as np
import pytest

from tests.support.lake import MADE, EachLife, HasSimulator, Lake, Pong, SaysDirect, ShowsItsAge
from tests.support.taped_env import PROVEN, taped_env
from tune_media.recording.pictures import SPARSE, WHOLE, Pictures
from tune_media.replay.player import RenderError
from tune_media.replay.recipe import LoadedRecipe
from tune_media.replay.tape import Tape
from tune_media.replay.verdicts import decide, refuse


@pytest.fixture(autouse=True)
def made():
    MADE.clear()
    yield MADE
    MADE.clear()


def recorded(env=Lake, env_config=None, sub_envs=1, **arguments):
    """Return an env runner, its recording, and a function that plays a round and returns what is collected."""
    runner = taped_env("new stack", env, env_config, sub_envs=sub_envs, **{"render": "replay", **arguments})
    return runner.env_runner, runner.recording, runner.play


def places_of(tape):
    """Return the steps whose frames were rendered while the episode of a tape ran."""
    return tape.pictures.places(tape.every, len(tape))


def test_an_atari_game_is_replayed_without_a_seed_which_would_load_it_anew(monkeypatch):
    import ale_py

    loaded, load = [], ale_py.AtariEnv.load_game
    monkeypatch.setattr(ale_py.AtariEnv, "load_game", lambda env: (loaded.append(env), load(env))[1])
    _, _, play = recorded(Pong)
    loaded.clear()
    for _ in range(2):
        collected = play(2)
        assert collected.rendered == {"replay"}
        assert collected.clips()[-1].frames == collected.clips()[-1].episode.episode_length + 1
    assert loaded == []


@pytest.mark.any_ray
@pytest.mark.parametrize("trigger", [None, lambda index: index % 3 == 2])
def test_auto_renders_directly_until_the_env_is_proven_and_then_ever_fewer_episodes(trigger):
    _, recording, play = recorded(render="auto", keep=("first", "last"), trigger=trigger)
    collected = play(4)
    data = collected.episodes
    assert {one.record.rendered for one in data} == ({"direct"} if trigger is None else {"direct", None})
    assert len(collected.samples) >= (1 if trigger else 3)  # they prove the tapes
    assert {sample.recipe.hash for sample in collected.samples} == {recording.replays.recipe.hash}
    assert all(Tape.unpacked(sample.tape).pictures.are_all for sample in collected.samples)
    decide(recording.replays.recipe.hash, PROVEN)
    rounds = [play(4) for _ in range(8)]
    found = [episode for each in rounds for episode in each.episodes]
    assert {one.record.rendered for one in found} == ({"replay"} if trigger is None else {"replay", None})
    for each in rounds:
        assert all(Tape.unpacked(sample.tape).pictures.are_all for sample in each.samples)
    tapes = [Tape.unpacked(clip.tape) for each in rounds for clip in each.clips("last")]
    assert len(tapes) == len(rounds)
    assert all(tape.pictures.are_all or len(tape) in places_of(tape) for tape in tapes), "those that lead a selector"


@pytest.mark.any_ray
def test_some_later_episodes_are_rendered_as_a_whole_to_prove_the_others(monkeypatch):
    monkeypatch.setattr("tune_media.recording.own_frames._PROOFS", 1e9)
    _, recording, play = recorded(render="auto")
    decide(recording.replays.recipe.hash, PROVEN)
    collected = play(5)
    assert collected.rendered == {"replay"}
    (sample,) = collected.samples
    assert places_of(Tape.unpacked(sample.tape)) == set(range(sample.episode.episode_length + 1))


def test_a_changed_env_has_a_recipe_of_its_own_and_is_recorded_directly_until_it_is_proven(made):
    env_runner, recording, play = recorded(render="auto")
    decide(recording.replays.recipe.hash, PROVEN)
    first = recording.replays.recipe.hash
    assert play(2).rendered == {"replay"}
    env_runner.config.environment(env_config={"level": 3})
    env_runner.make_env()
    assert recording.replays.recipe.hash != first
    assert LoadedRecipe.of(recording.replays.recipe.content).config["level"] == 3
    collected = play(2)
    assert collected.rendered == {"direct"}
    assert set(collected.chosen["data"].recipes) == {recording.replays.recipe.hash}
    env_runner.make_env()
    decide(recording.replays.recipe.hash, PROVEN)
    assert play(2).rendered == {"replay"}, "a restart changes nothing"


def test_wrappers_that_are_exchanged_in_place_end_the_tapes(made):
    _, recording, play = recorded(render="auto")
    decide(recording.replays.recipe.hash, PROVEN)
    assert play(2).rendered == {"replay"}
    inner = made[-1]
    inner.env = gym.wrappers.TimeLimit(inner.env, 3)
    play(1)
    assert play(2).rendered == {"direct"}


@pytest.mark.any_ray
def test_of_many_sub_envs_few_are_encoded_while_unproven_and_the_others_clips_are_the_same(monkeypatch):
    _, _, play = recorded(render="auto", sub_envs=4)
    monkeypatch.setattr("tune_media.rllib.env_runner_taping._MOST_ENCODED", 2)
    for _ in range(20):  # the first four to end may all be encoded ones
        collected = play(4)
        clips = collected.clips()
        late = [clip for clip in clips if clip.episode.rendered == "replay"]
        if late:
            break
    assert 0 < len(late) < len(clips)
    for clip in late:
        assert clip.frames == clip.episode.episode_length + 1, "it is made of the tape, and its pictures agree"
    assert all(Tape.unpacked(clip.tape).pictures.are_all for clip in late), "its tape is proven like the others"
    assert all(env.renders for env in MADE), "its frames were rendered while it ran, for their checksums"


@pytest.mark.any_ray
def test_a_clip_of_an_unproven_tape_with_other_pictures_is_not_shown(monkeypatch):
    _, _, play = recorded(ShowsItsAge, render="auto", sub_envs=2)
    monkeypatch.setattr("tune_media.rllib.env_runner_taping._MOST_ENCODED", 1)
    clips = [clip for _ in range(2) for clip in play(4).clips() if clip.episode.rendered == "replay"]
    later = [clip for clip in clips if Tape.unpacked(clip.tape).number]
    assert later
    with pytest.raises(RenderError, match="other pictures"):
        _ = later[-1].frames


@pytest.mark.any_ray
@pytest.mark.parametrize("env", [Lake, ShowsItsAge])
def test_if_rendering_takes_long_one_episode_is_rendered_whole_and_single_frames_of_the_others(monkeypatch, env):
    _, _, play = recorded(env, render="auto", sub_envs=3)
    monkeypatch.setattr("tune_media.rllib.env_runner_taping._MOST_RENDERING", 0.0)
    rounds = [play(5) for _ in range(3)]
    data = [episode for each in rounds for episode in each.episodes]
    assert 1 <= sum(one.record.rendered == "direct" for one in data) < len(data)
    for one in data:
        pictures, is_whole = Tape.unpacked(one.tape).pictures, one.record.rendered == "direct"
        assert (pictures.are_all, pictures.how) == ((True, WHOLE) if is_whole else (False, SPARSE))
    late = [clip for each in rounds for clip in each.clips() if clip.episode.rendered == "replay"]
    (clip,) = [clip for clip in late if places_of(Tape.unpacked(clip.tape))][-1:]
    if env is Lake:
        assert clip.frames == clip.episode.episode_length + 1
        assert clip.compared == f"{len(places_of(Tape.unpacked(clip.tape)))} of {clip.frames} frames"
    else:
        with pytest.raises(RenderError, match="other pictures"):
            _ = clip.frames


@pytest.mark.any_ray
def test_an_episode_that_cannot_be_replayed_is_rendered_to_its_end(monkeypatch):
    _, recording, _ = recorded(render="auto", sub_envs=2)
    monkeypatch.setattr("tune_media.rllib.env_runner_taping._MOST_RENDERING", 0.0)
    tape = Tape(1)
    recording.replays._whole, recording.recorder.clock.rendering = Tape(2), 1.0
    tape.fault = "a step is lost"
    assert recording.replays._rest_of(tape, 3, Pictures()) is None
    tape.fault = None
    assert recording.replays._rest_of(tape, 3, Pictures()) is not None


@pytest.mark.any_ray
def test_if_the_episode_that_is_rendered_whole_is_lost_the_next_one_is_rendered_whole(monkeypatch):
    env_runner, recording, play = recorded(render="auto")
    monkeypatch.setattr("tune_media.rllib.env_runner_taping._MOST_RENDERING", 0.0)
    env_runner.sample(num_timesteps=1, random_actions=True)
    recording.recorder.abandon_all()
    records = [episode.record for episode in play(4).episodes]
    assert "direct" in [record.rendered for record in records]


@pytest.mark.any_ray
def test_a_clip_that_was_cut_for_lack_of_memory_proves_no_more_than_it_has(monkeypatch):
    _, _, play = recorded(render="auto")
    monkeypatch.setattr("tune_media.recording.recorder._CHECKED_EVERY", 1)
    monkeypatch.setattr("tune_media.recording.recorder.MAX_BYTES", 1)
    collected = play(1)
    (clip,) = collected.clips()
    assert (clip.episode.rendered, "no memory left" in clip.note) == ("direct", True)
    assert not any(Tape.unpacked(sample.tape).pictures.are_all for sample in collected.samples)


@pytest.mark.any_ray
@pytest.mark.parametrize("render", ["auto", "replay"])
def test_an_env_that_is_known_not_to_repeat_its_episodes_is_recorded_directly(render):
    _, recording, play = recorded(render=render)
    refuse(recording.replays.recipe.hash, "it draws from the clock")
    for _ in range(2):
        collected = play(2)
        assert collected.rendered == {"direct"}
        assert collected.problems == [], "whoever found it out has said so"
    assert recording.replays.mode == "direct"


@pytest.mark.parametrize("render", ["replay", "auto"])
def test_episodes_that_begin_in_mid_game_are_recorded_directly_and_it_is_said_once(render):
    _, _, play = recorded(EachLife, render=render)
    problems = list(play(1).problems)  # a life is lost, so the next rounds begin in mid-game
    for _ in range(2):
        collected = play(3)
        assert collected.rendered == {"direct"}
        assert all(clip.frames == clip.episode.episode_length + 1 for clip in collected.clips())
        problems += collected.problems
    texts = [problem.text for problem in problems]
    assert len(texts) == (render == "replay"), "with auto, nobody asked for replays"
    assert all("began it in the middle of a game" in text for text in texts)
    assert all(problem.lost == 0 for problem in problems)


@pytest.mark.parametrize(
    ("env", "env_config", "words"),
    [
        (HasSimulator, {}, "processes were started while env"),
        (SaysDirect, {}, "say 'tune_media': 'direct'"),
        ("Fickle-v0", {}, "says that it is nondeterministic"),
        (Lake, {"map": np.zeros(2**20)}, "take more than 1,048,576 bytes"),
    ],
)
def test_an_env_that_must_not_be_made_elsewhere_is_recorded_directly_and_it_is_said(env, env_config, words, made):
    gym.register("Fickle-v0", entry_point=lambda **config: Lake({}), nondeterministic=True)
    _, _, play = recorded(env, env_config=env_config)
    try:
        collected = play()
        assert collected.rendered == {"direct"}
        (problem,) = collected.problems
        assert words in problem.text
        assert problem.lost == 0
    finally:
        for one in made:
            one.close()


@pytest.mark.any_ray
def test_a_tape_that_cannot_be_stored_costs_its_clip_and_is_counted(monkeypatch):
    def refuse(tape):
        raise TypeError("no plain data")

    _, _, play = recorded()
    monkeypatch.setattr("tune_media.replay.tape.Tape.packed", refuse)
    collected = play(2)
    assert sum(problem.lost for problem in collected.problems) >= 2
    assert all("no clip: its tape cannot be stored" in problem.text for problem in collected.problems)
