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


def test_a_selector_that_raises_does_not_end_the_loop(caplog):
    env = tm.gym.RecordEpisodes(CountingEnv(), keep=("last", tm.selection.best(by="sped")), video=None)
    play(env, 2)
    assert set(env.take()) == {"last", "data", "problems"}
    assert "sped" in caplog.text
