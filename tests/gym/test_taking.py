import numpy as np

import tune_media as tm
from tests.support.envs import CountingEnv
from tests.support.loops import play
from tune_media.gym.recording import MAX_UNTAKEN


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
