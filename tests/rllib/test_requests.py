import functools

import pytest
import ray

from tests.support.fake_env_runners import FakeEnvRunner, FakeGroup, fake_ray
from tune_media.rllib.requests import Requests


@pytest.fixture(autouse=True)
def _without_ray(monkeypatch):
    fake_ray(monkeypatch)


def index_of(env_runner, add=0):
    return env_runner.worker_index + add


REQUEST = functools.partial(index_of, add=10)


@pytest.fixture
def group():
    return FakeGroup(FakeEnvRunner(1), FakeEnvRunner(2), FakeEnvRunner(3), local=FakeEnvRunner(0))


def test_all_answer_but_those_that_rllib_knows_to_be_dead(group):
    group.dead = {2}
    assert Requests().call(group, REQUEST, 5.0).answers == {0: 10, 1: 11, 3: 13}
    assert group.timeouts == [(5.0, [1, 3])]


@pytest.mark.parametrize(("only", "answers"), [([1], {1: 11}), ([0], {0: 10}), ([], {})])
def test_some_can_be_asked(group, only, answers):
    assert Requests().call(group, REQUEST, 5.0, only).answers == answers


def test_an_env_runner_is_asked_again_when_it_has_answered(group):
    requests = Requests()
    group.loses = ["answer"]
    assert requests.call(group, REQUEST, 5.0, [1, 2]).answers == {2: 12}
    group.hung = {2}
    assert requests.call(group, REQUEST, 5.0, [1, 2]).answers == {1: 11}
    assert requests.owing() == {2}
    assert requests.call(group, REQUEST, 5.0, [1, 2]).answers == {1: 11}
    assert group.sent == [("index_of", index) for index in (1, 2, 1, 2, 1)]


def test_who_died_and_who_raised_is_told_apart(group):
    group.loses = [ray.exceptions.RayTaskError("ask", "a traceback", KeyError("x")), ray.exceptions.ActorDiedError()]
    replies = Requests().call(group, REQUEST, 5.0)
    assert replies.answers == {0: 10, 3: 13}
    assert (replies.raised, replies.died) == ({1: "KeyError: 'x'"}, (2,))
    assert [problem.lost for problem in replies.problems] == [0]


def test_nobody_waits_for_a_request_that_only_tells(group):
    requests = Requests()
    group.hung = {1}
    requests.tell(group, REQUEST)
    assert group.sent == [("index_of", index) for index in (1, 2, 3)]
    assert requests.owing() == set()
    assert group.timeouts == []


def test_answers_can_be_fetched_later(group):
    requests = Requests()
    group.hung = {1}
    requests.ask(group, REQUEST)
    assert requests.arrived().answers == {2: 12, 3: 13}
    requests.ask(group, REQUEST)
    assert group.sent == [("index_of", index) for index in (1, 2, 3, 2, 3)]
    assert group.timeouts == []
