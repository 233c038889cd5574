import gymnasium as gym
import numpy as np
import pytest

import tune_media as tm
from tests.support.envs import CountingEnv
from tests.support.loops import play
from tune_media.gym.recording import MAX_UNTAKEN
from tune_media.recording.episode import Candidate
from tune_media.recording.winners import Winners, result_of
from tune_media.values.episodes import EpisodeData


def test_take_hands_over_the_chosen_ones_once():
    env = tm.gym.RecordEpisodes(CountingEnv(), keep=("best", tm.selection.worst(2)))
    played = play(env, 5)
    taken = env.take()
    returns = sorted(total for total, _ in played)
    assert taken["best"].episode.episode_return == pytest.approx(returns[-1])
    assert [clip.episode.episode_return for clip in taken["worst"]] == pytest.approx(returns[:2])
    assert env.take() == {}


def test_a_plain_user_who_never_takes_is_not_warned_and_holds_little(caplog):
    env = tm.gym.RecordEpisodes(CountingEnv({"length": 1}), video=None)
    play(env, MAX_UNTAKEN + 50)
    assert len(env._recording.recorder.candidates.data()) == MAX_UNTAKEN
    assert not caplog.records
    taken = env.take()
    assert len(taken["data"].episodes) == MAX_UNTAKEN
    assert taken["data"].note == "50 episodes ended too long before take(); call it at least every 1,000 episodes"
    assert len(caplog.records) == 1
    play(env, MAX_UNTAKEN + 50)
    assert len(env.take()["data"].episodes) == MAX_UNTAKEN + 50  # who takes gets all
    assert env.take() == {}


def test_a_clip_that_cannot_be_encoded_is_named_and_the_data_are_there(monkeypatch, caplog):
    def finish(self):
        raise RuntimeError("no memory")

    monkeypatch.setattr("tune_media.encoding.VideoEncoder.finish", finish)
    env = tm.gym.RecordEpisodes(CountingEnv(), keep="best")
    play(env, 2)
    taken = env.take()
    assert set(taken) == {"data", "problems"}
    notes = [episode.record.note for episode in taken["data"].episodes]
    assert sorted(notes, key=str) == [None, "no clip: encoding its frames raised RuntimeError: no memory"]
    assert ["no memory" in record.getMessage() for record in caplog.records] == [True]


def test_a_failed_replay_costs_the_clip_alone():
    class Drifting(CountingEnv):
        made = iter(range(9))  # of Python 3.14, a count cannot be pickled

        def __init__(self):
            super().__init__({"length": 3})
            self.number = next(self.made)  # each env shows another one

        def step(self, action):
            observation, *rest = super().step(action)
            return observation + self.number, *rest

    env = tm.gym.RecordEpisodes(
        Drifting(),
        keep="best",
        render="replay",
        env_fn=Drifting,
        trajectories=True,
        collect=lambda step: {"map": tm.Image(np.zeros((8, 8), np.uint8))},
    )
    play(env, 1)
    taken = env.take()
    assert set(taken) == {"map", "data", "problems"}
    assert set(taken["map"]) == {"best"}
    (episode,) = taken["data"].episodes
    assert "does not repeat its episodes" in episode.record.note
    assert set(taken["data"].trajectories) == {episode.record.id}
    env.close()


def test_a_selector_that_raises_does_not_end_the_loop(caplog):
    env = tm.gym.RecordEpisodes(CountingEnv(), keep=("last", tm.selection.best(by="sped")), video=None)
    play(env, 2)
    assert set(env.take()) == {"last", "data", "problems"}
    assert "sped" in caplog.text


class OnePicture(gym.vector.VectorEnv):
    """Two sub-envs in one batch, of which the second earns more, and one picture of the first."""

    metadata = {"render_fps": 10, "autoreset_mode": gym.vector.AutoresetMode.NEXT_STEP}  # noqa: RUF012
    num_envs, render_mode = 2, "rgb_array"
    single_observation_space = gym.spaces.Box(0, 1, (1,), np.float32)
    single_action_space = gym.spaces.Discrete(2)
    observation_space = gym.spaces.Box(0, 1, (2, 1), np.float32)
    action_space = gym.spaces.MultiDiscrete([2, 2])
    steps = 0

    def reset(self, *, seed=None, options=None):
        return np.zeros((2, 1), np.float32), {}

    def step(self, actions):
        self.steps += 1
        ends = np.full(2, self.steps % 6 == 5)
        return np.zeros((2, 1), np.float32), np.array([0.0, 2.0]), ends, ends & False, {}

    def render(self):
        return np.full((32, 32, 3), self.steps, np.uint8)


def test_the_best_episode_with_pictures_is_not_called_the_best_of_all():
    env = tm.gym.RecordVectorEpisodes(OnePicture(), keep=("best", "worst"))
    env.reset()
    for _ in range(11):
        env.step(np.zeros(2, int))
    taken = env.take()
    assert taken["best"].episode.episode_return == 0
    assert taken["best"].note == "'best' of the episodes with pictures: one without, return 10, is first"
    assert taken["worst"].note is None
    assert sum(problem.lost for problem in taken["problems"]) == 2
    env.close()


@pytest.mark.parametrize("finished_at", [1.0, 3.0])
def test_only_an_episode_that_the_selector_would_choose_is_told_of(finished_at):
    winner = tm.EpisodeRecord("a", 1.0, 2, finished_at=2.0)
    other = tm.EpisodeRecord("b", 5.0, 2, finished_at=finished_at, note="no clip: it was dropped")
    rule = tm.selection.last()
    winners = Winners({winner.id: Candidate(winner, {})})
    result = result_of([rule], {rule.name: [winner]}, winners, [EpisodeData(other)], {})
    assert (result[rule.name].note is not None) == (finished_at > winner.finished_at)
