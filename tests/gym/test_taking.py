import numpy as np
import pytest

import tune_media as tm
from tests.support.envs import CountingEnv
from tests.support.loops import play
from tune_media.gym.recording import MAX_UNTAKEN


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

    monkeypatch.setattr("tune_media.encoding.encoder.VideoEncoder.finish", finish)
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
