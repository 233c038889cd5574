"""The Algorithm's side, with a fake Algorithm."""

from types import SimpleNamespace

import pytest

from tests.support.fake_env_runners import FakeEnvRunner, FakeGroup, fake_ray, play, recording_on
from tune_media.recording.episode import EpisodeStart
from tune_media.recording.plan import Plan
from tune_media.rllib import env_runner_requests
from tune_media.rllib.recorder_callback import EpisodeRecorderCallback
from tune_media.rllib.rounds import Rounds
from tune_media.rllib.settings import RecorderSettings
from tune_media.selection import as_selectors


@pytest.fixture(autouse=True)
def _without_ray(monkeypatch):
    fake_ray(monkeypatch)


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
        callbacks_class=[],
    )
    saved = {}
    return SimpleNamespace(
        config=config,
        iteration=0,
        step=lambda: None,
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


def test_a_fault_in_the_algorithm_is_told_in_the_result(place, caplog):
    rounds, algorithm, _ = place
    del algorithm.env_runner_group._worker_manager
    result = {"training_iteration": 1}
    rounds.end_iteration(algorithm, result)
    (problem,) = result["env_runners"]["episodes"]["problems"]
    assert "the collection of this round's episodes failed: AttributeError" in problem.text
    assert problem.text in caplog.text


def test_triggers_of_a_restarted_env_runner_go_on_and_nobody_waits(place):
    """Without a timeout, an env runner that hung held up training for ever."""
    rounds, algorithm, recording = place
    group = algorithm.env_runner_group
    play(recording, "a", 1.0)
    rounds.end_iteration(algorithm, {"training_iteration": 1})
    group.env_runners = [FakeEnvRunner(1), FakeEnvRunner(2)]
    recording = recording_on(group.env_runners[0])
    group.hung = {2}
    group.sent.clear()
    group.timeouts.clear()
    callback = EpisodeRecorderCallback(rounds._settings)
    callback._rounds = rounds
    told = {"algorithm": algorithm, "is_evaluation": False}
    callback.on_env_runners_recreated(env_runner_group=group, env_runner_indices=[1], **told)
    callback.on_workers_recreated(worker_set=group, worker_ids=[1], **told)
    assert recording.recorder.starts.counts() == {0: 1}
    assert group.sent == [("go_on_from", 1)] * 2
    assert group.timeouts == []


def evaluated(algorithm, rounds, returns, reported):
    """Return the part of an evaluation's metrics that holds the recorder's."""
    rounds.begin_evaluation(algorithm)
    for index, value in enumerate(returns):
        play(recording_on_evaluation(algorithm), f"episode {index}", value)
    metrics = {"env_runners": {"num_episodes": reported}}
    rounds.end_evaluation(algorithm, metrics)
    return metrics["env_runners"].get("episodes", {})


def recording_on_evaluation(algorithm):
    return env_runner_requests.recordings_of(algorithm.eval_env_runner_group.env_runners[0])["episodes"]


@pytest.fixture
def evaluation():
    env_runner = FakeEnvRunner()
    algorithm = algorithm_of(FakeGroup())
    algorithm.eval_env_runner_group = FakeGroup(env_runner)
    recording_on(env_runner)
    return algorithm


@pytest.mark.parametrize(
    ("sees_all", "reported", "is_told"), [(True, 0, True), (True, 1, False), (False, 0, False), (False, 1, False)]
)
def test_an_evaluation_is_endless_only_if_rllib_says_so(evaluation, sees_all, reported, is_told):
    """With ``env_indices=``, it was told that no episode ended if one ended on another sub-env."""
    rounds = Rounds(RecorderSettings(Plan("episodes", as_selectors("best"), sees_all=sees_all)))
    recorder = recording_on_evaluation(evaluation).recorder
    recorder.start(0, EpisodeStart("long"))
    recorder.step(0, 1.0)
    found = evaluated(evaluation, rounds, [], reported)
    told = [problem for problem in found.get("problems", ()) if "no episode ended" in problem.text]
    assert len(told) == is_told


def test_an_evaluation_within_a_step_has_the_number_of_the_iteration_that_ends_with_it(evaluation):
    rounds = Rounds(RecorderSettings(Plan("episodes", as_selectors("best"))))
    evaluation.step = lambda: evaluated(evaluation, rounds, [1.0], 1)
    rounds.begin(evaluation)
    evaluation.iteration = 3
    assert evaluation.step()["best"].episode.training_iteration == 4
    assert evaluated(evaluation, rounds, [1.0], 1)["best"].episode.training_iteration == 3


def test_an_evaluation_on_the_training_env_runner_is_no_training_episode():
    """RLlib evaluates there if it has no evaluation env runners."""
    local = FakeEnvRunner(0)
    algorithm = algorithm_of(FakeGroup(local=local))
    rounds, recording = Rounds(RecorderSettings(Plan("episodes", as_selectors("all")), ("train",))), recording_on(local)
    recording.is_evaluating = False
    rounds.begin_evaluation(algorithm)
    assert recording.is_evaluating
    rounds.end_evaluation(algorithm, {})
    assert not recording.is_evaluating


def test_episodes_that_never_end_are_told_in_the_second_round_that_drops_some(place):
    rounds, algorithm, recording = place

    def problems(iteration, dropped):
        for _ in range(dropped):
            recording.recorder.start(0, EpisodeStart("a", None, 10.0))
            recording.recorder.step(0, 1.0)
        recording.recorder.abandon(0)  # RLlib resets the env
        rounds.end_iteration(algorithm, result := {"training_iteration": iteration})
        return result["env_runners"]["episodes"].get("problems", ())

    assert problems(1, 3) == ()
    (problem,) = problems(2, 2)
    assert "no train episode has ended: 5 were left out" in problem.text
    assert problems(3, 2) == ()


def test_an_episode_that_ended_once_says_that_they_do_end(place):
    rounds, algorithm, recording = place
    play(recording, "a", 1.0)
    for iteration in range(1, 4):
        recording.recorder.abandoned = 3
        rounds.end_iteration(algorithm, result := {"training_iteration": iteration})
        assert result["env_runners"]["episodes"]["num_abandoned"] == 3
        assert "problems" not in result["env_runners"]["episodes"]
