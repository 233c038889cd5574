"""Clips of tapes show what their episodes showed: single frames that were rendered while these ran are compared."""

import random

import gymnasium as gym
import numpy as np
import pytest

import tune_media as tm
from tests.support import odd_envs
from tests.support.loops import play
from tune_media.encoding.decode import decode_video
from tune_media.recording.own_frames import FramePlan, OwnFrames
from tune_media.recording.pictures import ALONE, SPARSE, Pictures
from tune_media.replay.tape import Tape
from tune_media.replay.verdicts import ReplayVerdict

STEPS = 5  # of each episode


class Scores(odd_envs.Plain):
    """Has another return in each episode."""

    def step(self, action):
        observation, _, *more = super().step(action)
        return observation, float(self.drawn), *more


def recorded(kind, *, is_proven=True, **options):
    """Return a wrapped env that makes clips of tapes, or is going to do so."""
    options = {"keep": "all", "render": "auto", "env_fn": kind, "collect": False, **options}
    env = tm.gym.RecordEpisodes(kind(), **options)
    if is_proven:
        env._recording._replays.is_proven(ReplayVerdict(True, length=STEPS))
    env.reset(seed=1)
    return env


def places_of(episode):
    """Return the steps whose frames were rendered while an episode ran."""
    tape = Tape.unpacked(episode.tape)
    return sorted(tape.pictures.places(tape.every, len(tape)))


def clips_of(taken, selector="all"):
    found = taken.get(selector, [])
    return found if isinstance(found, list) else [found]


def rendered(taken):
    return {clip.episode.rendered for clip in clips_of(taken)}


def notes_of(taken):
    return [episode.record.note for episode in taken["data"].episodes]


@pytest.fixture
def only_at(monkeypatch):
    """Return a function that says which places episodes have; none is rendered as a whole."""

    def set_places(*places):
        def own_frames(plan, how, *, has_last=True):
            return OwnFrames(places, Pictures(how))

        monkeypatch.setattr(FramePlan, "own_frames", own_frames)

    monkeypatch.setattr("tune_media.recording.own_frames._PROOFS", 0.0)
    return set_places


def test_episodes_that_lead_when_they_end_have_their_last_frame(only_at):
    only_at(0)
    env = recorded(Scores, keep=("best", "worst"))
    for _ in range(3):
        play(env, 6)
        taken = env.take()
        returns = [episode.record.episode_return for episode in taken["data"].episodes]
        for number, episode in enumerate(taken["data"].episodes):
            before = returns[:number]
            leads = not before or returns[number] > max(before) or returns[number] < min(before)
            assert places_of(episode) == ([0, STEPS] if leads else [0])
        for selector in ("best", "worst"):
            assert taken[selector].compared == f"2 of {STEPS + 1} frames"
    env.close()


@pytest.mark.parametrize("keep", ["median", "all"])
def test_if_a_selector_has_no_leader_every_episode_has_its_last_frame(only_at, keep):
    only_at(0)
    env = recorded(Scores, keep=keep)
    play(env, 5)
    assert [places_of(episode) for episode in env.take()["data"].episodes] == [[0, STEPS]] * 5
    env.close()


def test_an_episode_that_ends_before_its_place_has_its_last_frame(only_at):
    only_at(9)
    env = recorded(odd_envs.Plain, keep="first")
    play(env, 3)
    assert [places_of(episode) for episode in env.take()["data"].episodes] == [[STEPS]] * 3
    env.close()


class Levels(odd_envs.Plain):
    """Shows its level, which no replay knows, from its eighth episode on."""

    def shade(self):
        return 20 + 100 * (self.episodes > 8)


def test_one_wrong_frame_costs_all_clips_of_tapes_and_later_episodes_are_rendered_directly(only_at, caplog):
    only_at(0, 3)
    env = recorded(Levels)
    play(env, 5)
    assert rendered(env.take()) == {"replay"}
    play(env, 5)  # some of these show the first level
    taken = env.take()
    assert clips_of(taken) == []
    assert all("shows other pictures than the episode, at step 0" in note for note in notes_of(taken))
    (record,) = caplog.records
    assert "pass render='direct'" in record.getMessage()
    for _ in range(2):
        play(env, 2)
        taken = env.take()
        assert rendered(taken) == {"direct"}
        firsts = [next(iter(decode_video(clip.data))) for clip in clips_of(taken)]
        assert [int(np.median(frame)) for frame in firsts] == pytest.approx([120] * 2, abs=2)
    env.close()


def test_an_env_whose_frames_age_when_they_are_rendered_is_taped_and_its_clips_are_right():
    env = recorded(odd_envs.RenderAges, is_proven=False)
    hows = set()
    for number in range(4):
        play(env, 3)
        taken = env.take()
        assert rendered(taken) == {"replay" if number else "direct"}
        hows |= {Tape.unpacked(episode.tape).pictures.how for episode in taken["data"].episodes}
        for clip in clips_of(taken):
            shades = [int(np.median(frame)) for frame in decode_video(clip.data)]
            assert shades == pytest.approx([199 - step for step in range(STEPS + 1)], abs=2)
    assert SPARSE in hows
    assert ALONE not in hows
    env.close()


class RenderDrawsFromNumPy(odd_envs.Plain):
    def shade(self):
        return np.random.randint(200)


@pytest.mark.parametrize(
    ("kind", "is_proven"),
    [
        *((odd_envs.RenderDraws, is_proven) for is_proven in (False, True)),
        (odd_envs.RenderDrawsFromGlobal, True),
        (RenderDrawsFromNumPy, False),
    ],
)
def test_an_env_whose_render_draws_is_recorded_directly_and_plays_as_if_nobody_rendered(kind, is_proven, caplog):
    def run(env):
        """Return all numbers of a run."""
        random.seed(1), np.random.seed(1)
        seen = [env.reset(seed=1)[0].tolist()]
        for _ in range(2):
            for _ in range(2):
                while not (step := env.step(1))[2]:
                    seen.append((step[0].tolist(), random.random(), np.random.random()))
                seen.append(env.reset()[0].tolist())
            if isinstance(env, tm.gym.RecordEpisodes):
                found.append(env.take())
        return seen

    found = []
    env = recorded(kind, is_proven=is_proven)
    assert run(env) == run(kind())
    env.close()
    assert clips_of(found[1])[-1].episode.rendered == "direct"  # the one before had begun
    (record,) = [one for one in caplog.records if "render() of env" in one.getMessage()]
    assert "draws random numbers" in record.getMessage()


def test_a_tape_without_a_frame_makes_no_clip_and_that_costs_no_other(only_at):
    only_at()
    env = recorded(odd_envs.Plain, video=tm.VideoOptions(max_frames=3))  # a clip does not have the last frame
    play(env, 2)
    taken = env.take()
    assert clips_of(taken) == []
    assert all("no frame of it was rendered while it ran" in note for note in notes_of(taken))
    only_at(0)
    play(env, 2)
    assert rendered(env.take()) == {"replay"}
    env.close()


def test_of_a_vector_env_that_resets_in_the_last_step_no_other_episodes_frame_is_compared(monkeypatch):
    monkeypatch.setattr("tune_media.recording.own_frames._DEAR", 1e-12)  # few tapes have more than they need
    monkeypatch.setattr("tune_media.recording.own_frames._KNOWN", 0)
    monkeypatch.setattr("tune_media.recording.own_frames._MOST_WITHOUT", 1e12)
    monkeypatch.setattr("tune_media.recording.own_frames._CHEAP", 0.0)
    monkeypatch.setattr("tune_media.recording.own_frames._MORE", 0.0)
    monkeypatch.setattr("tune_media.recording.own_frames._PROOFS", 0.0)
    mode = gym.vector.AutoresetMode.SAME_STEP
    inner = gym.vector.SyncVectorEnv([odd_envs.Plain] * 2, autoreset_mode=mode)
    env = tm.gym.RecordEpisodes(inner, keep="all", render="auto", env_fn=odd_envs.Plain)
    found = []
    env.reset(seed=1)
    for _ in range(3):
        for _ in range(2 * STEPS):
            env.step(np.ones(2, int))
        found.append(env.take())
    env.close()
    assert [rendered(taken) for taken in found] == [{"direct"}, {"direct", "replay"}, {"replay"}]
    assert all("the final frame is missing" in clip.episode.note for clip in clips_of(found[0]))
    for clip in clips_of(found[2]):
        assert (clip.frames, clip.note) == (STEPS + 1, None)  # the replay shows the last one
        assert clip.compared == f"1 of {STEPS + 1} frames"
    assert [places_of(episode) for episode in found[2]["data"].episodes] == [[0]] * 4
