import pickle

import pytest

import tune_media as tm
from tune_media.rllib import record_episodes
from tune_media.rllib.settings import RecorderSettings


def settings_of(**arguments) -> RecorderSettings:
    return record_episodes(**arguments).args[0]


def test_each_env_runner_gets_a_callback_of_its_own():
    recorder = record_episodes(name="mine")
    assert recorder() is not recorder()
    assert repr(recorder()) == "EpisodeRecorderCallback('mine')"


def test_a_recorder_can_be_sent_to_another_process():
    recorder = record_episodes(keep=tm.selection.best(2), collect="data/speed", seeds=2)
    (sent,) = pickle.loads(pickle.dumps(recorder)).args
    assert (sent.seeds, sent.plan.collect) == ((0, 1), "data/speed")
    records = [tm.EpisodeRecord("a", 1.0, 1), tm.EpisodeRecord("b", 3.0, 1), tm.EpisodeRecord("c", 2.0, 1)]
    assert [record.episode_id for record in sent.plan.selectors[0].choose(records)] == ["b", "c"]


@pytest.mark.parametrize(
    ("arguments", "sees_all"),
    [
        ({}, True),
        ({"env_runners": [1]}, False),
        ({"env_indices": [0]}, False),
        ({"trigger": tm.selection.every(2)}, True),  # the data of the others are kept
        ({"trigger": tm.selection.every(2), "collect": False}, False),
    ],
)
def test_a_recorder_knows_whether_it_is_told_of_all_episodes(arguments, sees_all):
    assert settings_of(**arguments).plan.sees_all is sees_all


def test_short_forms_of_arguments_are_spelt_out():
    settings = settings_of(sections=["train", "evaluation"], seeds=3, env_runners=range(2), env_indices=1)
    assert settings.sections == ("train", "evaluation")
    assert settings.seeds == (0, 1, 2)
    assert (settings.env_runners, settings.env_indices) == (frozenset({0, 1}), frozenset({1}))
