import dataclasses
import gc
import weakref

import pytest

from tests.support.fake_env_runners import FakeEnvRunner, recording_on
from tune_media.rllib import env_runner_requests


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
        index, recording = env_runner_requests.begin_round(env_runner, "episodes")
        assert index == 3
        recordings.add(recording)
    assert len(recordings) == 2


@pytest.mark.parametrize(
    ("fails", "request_of"),
    [
        ("begin_round", lambda env_runner: env_runner_requests.begin_round(env_runner, "episodes")),
        ("take", lambda env_runner: env_runner_requests.take(env_runner, "episodes", (), ())),
        ("go_on_from", lambda env_runner: env_runner_requests.go_on_from(env_runner, "episodes", {})),
        ("answer", lambda env_runner: env_runner_requests.ask(env_runner, "episodes", ())),
        ("take", lambda env_runner: env_runner_requests.ask_and_take(env_runner, "episodes", ())),
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
    problems = getattr(answer, "problems", None) or env_runner_requests.before_training(env_runner, "episodes").problems
    assert [problem.text for problem in problems] == [
        "episodes may be missing: a request of the Algorithm raised KeyError: 'x'"
    ]


def test_a_strict_recorder_raises_when_a_request_fails(monkeypatch):
    env_runner = FakeEnvRunner()
    recording = recording_on(env_runner)
    recording.recorder.plan = dataclasses.replace(recording.recorder.plan, strict=True)
    monkeypatch.setattr(recording, "answer", None)
    with pytest.raises(TypeError):
        env_runner_requests.ask(env_runner, "episodes", ())
