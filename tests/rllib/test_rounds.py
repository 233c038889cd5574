"""The Algorithm's side, with a fake Algorithm."""

from types import SimpleNamespace

import pytest

from tests.support.fake_env_runners import FakeEnvRunner, FakeGroup, play, recording_on
from tune_media.recording.plan import Plan
from tune_media.rllib.rounds import Rounds
from tune_media.rllib.settings import RecorderSettings
from tune_media.selection import as_selectors


def algorithm_of(group):
    config = SimpleNamespace(
        enable_env_runner_and_connector_v2=True,
        evaluation_sample_timeout_s=5.0,
        evaluation_interval=1,
        evaluation_num_env_runners=1,
        evaluation_duration=1,
        evaluation_duration_unit="episodes",
        evaluation_config=None,
        evaluation_force_reset_envs_before_iteration=True,
        num_env_runners=1,
        num_envs_per_env_runner=1,
        custom_evaluation_function=None,
    )
    saved = {}
    return SimpleNamespace(
        config=config,
        iteration=0,
        env_runner_group=group,
        eval_env_runner_group=None,
        metrics=SimpleNamespace(peek=lambda key: 64),
        get_state=lambda: {"iteration": 3},
        set_state=saved.update,
        saved=saved,
    )


@pytest.fixture
def place():
    env_runner = FakeEnvRunner()
    group = FakeGroup(env_runner)
    settings = RecorderSettings(Plan("episodes", as_selectors("best"), collect={"speed": len}), ("train",), window=5)
    return Rounds(settings), algorithm_of(group), recording_on(env_runner)


def test_numbers_of_rllib_and_the_user_stay_as_they_are(place):
    """On the old stack ours, over one episode more, stood in the place of the user's ``custom_metrics/pos_mean``."""
    rounds, algorithm, recording = place
    play(recording, "a", 1.0, metrics={"pos": 5.0, "own": 2.0})
    result = {"training_iteration": 1, "env_runners": {"custom_metrics": {"pos_mean": 3.0}}}
    rounds.end_iteration(algorithm, result)
    metrics = result["env_runners"]["custom_metrics"]
    assert (metrics["pos_mean"], metrics["pos_max"], metrics["own_mean"]) == (3.0, 5.0, 2.0)
    assert metrics["pos_windowed_mean"] == 5.0


def test_a_name_that_rllib_uses_itself_does_not_end_training(caplog):
    settings = RecorderSettings(Plan("num_episodes", as_selectors("best")), env_runners=frozenset({7}))
    rounds, algorithm = Rounds(settings), algorithm_of(FakeGroup(FakeEnvRunner()))
    rounds.begin(algorithm)
    result = {"training_iteration": 1, "env_runners": {"num_episodes": 3}}
    rounds.end_iteration(algorithm, result)
    assert result["env_runners"]["num_episodes"] == 3
    assert "record_episodes 'num_episodes': reporting problems failed" in caplog.text


def test_checkpoints_hold_windows_and_episode_counters(place):
    rounds, algorithm, recording = place
    rounds.begin(algorithm)
    for value in (1.0, 2.0):
        play(recording, f"episode {value}", value, metrics={"own": value})
    rounds.end_iteration(algorithm, {"training_iteration": 1})
    state = algorithm.get_state()
    assert state["iteration"] == 3

    env_runner = FakeEnvRunner()
    after, restored = Rounds(rounds._settings), algorithm_of(FakeGroup(env_runner))
    recording = recording_on(env_runner)
    after.begin(restored)
    restored.set_state(state)
    assert restored.saved["iteration"] == 3
    assert recording.recorder.starts.counts() == {0: 2}
    play(recording, "b", 6.0, metrics={"own": 6.0})
    result = {"training_iteration": 2}
    after.end_iteration(restored, result)
    assert result["env_runners"]["custom_metrics"]["own_windowed_mean"] == 3.0


def test_a_fault_in_the_algorithm_costs_a_warning(place, caplog):
    rounds, algorithm, _ = place
    del algorithm.env_runner_group.env_runners
    rounds.end_iteration(algorithm, {"training_iteration": 1})
    assert "the collection of this round's episodes failed" in caplog.text
