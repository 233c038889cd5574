import dataclasses
import gc
import weakref

import pytest

from tests.support.fake_env_runners import FakeEnvRunner, play, recording_on
from tune_media.recording.winners import Winners
from tune_media.rllib import registry


@pytest.mark.parametrize(
    ("request_of", "answer"),
    [
        (lambda env_runner: registry.begin_round(env_runner, "episodes"), None),
        (lambda env_runner: registry.ask(env_runner, "episodes", ()), None),
        (lambda env_runner: registry.ask_and_take(env_runner, "episodes", ()), None),
        (lambda env_runner: registry.take(env_runner, "episodes", (), ()), Winners()),
        (lambda env_runner: registry.before_training(env_runner, "episodes").problems, []),
        (lambda env_runner: registry.go_on_from(env_runner, "episodes", {"1": {"0": 3}}), None),
    ],
)
def test_an_env_runner_that_records_under_another_name_has_nothing_to_say(request_of, answer):
    env_runner = FakeEnvRunner()
    play(recording_on(env_runner, "others"), "a", 1.0)
    assert request_of(env_runner) == answer
    assert set(registry.recordings_of(env_runner)) == {"others"}


def test_recorders_of_one_env_runner_and_env_runners_of_one_recorder_do_not_mix():
    first, second = FakeEnvRunner(1), FakeEnvRunner(2)
    for env_runner, name in ((first, "wide"), (first, "small"), (second, "wide")):
        play(recording_on(env_runner, name), f"{name} {env_runner.worker_index}", 1.0)
    for env_runner, name in ((first, "wide"), (first, "small"), (second, "wide")):
        answer = registry.ask(env_runner, name, ())
        told = [episode.record.episode_id for episode in answer.data]
        assert (answer.env_runner, told) == (env_runner.worker_index, [f"{name} {env_runner.worker_index}"])


def test_a_recording_goes_with_its_env_runner():
    env_runner = FakeEnvRunner()
    recording = weakref.ref(recording_on(env_runner))
    del env_runner
    gc.collect()
    assert recording() is None


def test_an_env_runner_that_was_restarted_has_another_recording():
    recordings = set()
    for env_runner in (FakeEnvRunner(3), FakeEnvRunner(3)):
        recording_on(env_runner)
        index, recording = registry.begin_round(env_runner, "episodes")
        assert index == 3
        recordings.add(recording)
    assert len(recordings) == 2


def test_all_candidates_can_be_taken_with_the_answer():
    env_runner = FakeEnvRunner()
    recording = recording_on(env_runner, keep="all")
    for name in ("a", "b"):
        play(recording, name, 1.0)
    answer = registry.ask_and_take(env_runner, "episodes", ())
    assert list(answer.kept.kept) == answer.candidates
    assert [kept.record.episode_id for kept in answer.kept.kept.values()] == ["a", "b"]
    assert registry.ask_and_take(env_runner, "episodes", [answer.serial]).data == []


def test_winners_are_handed_over_and_losers_dropped():
    env_runner = FakeEnvRunner()
    recording = recording_on(env_runner, keep="all")
    for name in ("a", "b", "c"):
        play(recording, name, 1.0)
    a, b, c = registry.ask(env_runner, "episodes", ()).candidates
    assert list(registry.take(env_runner, "episodes", [b], [a, b]).kept) == [b]
    assert registry.ask(env_runner, "episodes", ()).candidates == [c]


def test_a_problem_is_told_once():
    env_runner = FakeEnvRunner()
    recording_on(env_runner).recorder.problems.report("no camera", lost=1)
    assert [problem.lost for problem in registry.before_training(env_runner, "episodes").problems] == [1]
    assert registry.before_training(env_runner, "episodes").problems == []


def test_triggers_go_on_from_the_counts_of_the_same_env_runner():
    env_runner = FakeEnvRunner(2)
    recording = recording_on(env_runner)
    registry.go_on_from(env_runner, "episodes", {"1": {"0": 9}, "2": {"0": 4}})
    play(recording, "a", 1.0)
    assert registry.ask(env_runner, "episodes", ()).starts == {0: 5}


@pytest.mark.parametrize(
    ("fails", "request_of"),
    [
        ("begin_round", lambda env_runner: registry.begin_round(env_runner, "episodes")),
        ("take", lambda env_runner: registry.take(env_runner, "episodes", (), ())),
        ("go_on_from", lambda env_runner: registry.go_on_from(env_runner, "episodes", {})),
        ("answer", lambda env_runner: registry.ask(env_runner, "episodes", ())),
        ("take", lambda env_runner: registry.ask_and_take(env_runner, "episodes", ())),
    ],
)
def test_a_request_that_fails_costs_a_problem_and_not_the_env_runner(monkeypatch, fails, request_of):
    """RLlib ends an env runner in which a function of the Algorithm raises."""
    env_runner = FakeEnvRunner()
    recording = recording_on(env_runner)

    def fail(*args):
        raise KeyError("x")

    monkeypatch.setattr(recording, fails, fail)
    answer = request_of(env_runner)
    problems = getattr(answer, "problems", None) or registry.before_training(env_runner, "episodes").problems
    assert [problem.text for problem in problems] == [
        "episodes may be missing: a request of the Algorithm raised KeyError: 'x'"
    ]


def test_a_strict_recorder_raises_when_a_request_fails(monkeypatch):
    env_runner = FakeEnvRunner()
    recording = recording_on(env_runner)
    recording.recorder.plan = dataclasses.replace(recording.recorder.plan, strict=True)
    monkeypatch.setattr(recording, "answer", None)
    with pytest.raises(TypeError):
        registry.ask(env_runner, "episodes", ())
