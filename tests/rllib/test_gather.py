"""Gathering from env runners that time out, die, or tell twice: fakes stand in for what Ray does seldom."""

import dataclasses
import pickle

import pytest
import ray

from tests.support.fake_env_runners import FakeEnvRunner, FakeGroup, fake_ray, play, recording_on
from tune_media.recording.choosing import Winners
from tune_media.recording.plan import Plan
from tune_media.rllib import ray_names
from tune_media.rllib.counting import ReportedEpisodes
from tune_media.rllib.gather import AsyncGather, EnvRunnerClient, collect
from tune_media.rllib.round_choice import Round
from tune_media.selection import as_selectors, where

PLAN = Plan("episodes", as_selectors(("best", "worst")))


DIED = ray.exceptions.ActorDiedError()


@pytest.fixture(autouse=True)
def _without_ray(monkeypatch):
    fake_ray(monkeypatch)


@pytest.fixture
def place():
    env_runner = FakeEnvRunner()
    return FakeGroup(env_runner), recording_on(env_runner), EnvRunnerClient()


def round_of(group, seen, iteration=1, count=None):
    return collect(group, PLAN, seen, Round("train", iteration, timeout=5.0, reported=ReportedEpisodes(count)))


def names(collected):
    return [episode.record.episode_id for episode in collected.chosen["data"].episodes]


@pytest.mark.parametrize("lost", [DIED, "answer"])
def test_a_lost_request_for_the_winners_brings_no_episode_twice(place, lost):
    group, recording, seen = place
    play(recording, "a", 1.0)
    group.loses = [None, lost]
    first = round_of(group, seen)
    play(recording, "b", 2.0)
    second = round_of(group, seen, 2)
    assert (names(first), names(second)) == (["a"], ["b"])
    assert "best" not in first.chosen
    assert second.chosen["best"].episode.episode_id == "b"
    (problem,) = first.problems
    assert problem.lost == 1
    assert "within 5 s (config.evaluation(evaluation_sample_timeout_s=...))" in problem.text


def test_an_answer_that_is_lost_comes_with_the_next(place):
    group, recording, seen = place
    play(recording, "a", 1.0)
    recording.recorder.abandoned = 2
    group.loses = ["answer"]
    assert round_of(group, seen).chosen == {}
    play(recording, "b", 2.0)
    second = round_of(group, seen, 2)
    assert names(second) == ["a", "b"]
    assert second.chosen["worst"].episode.episode_id == "a"
    assert second.chosen["num_abandoned"] == 2
    assert round_of(group, seen, 3).chosen == {}


def test_episodes_that_go_down_with_their_env_runner_are_counted():
    first, second = FakeEnvRunner(1), FakeEnvRunner(2)
    group, seen = FakeGroup(first, second), EnvRunnerClient()
    recordings = [recording_on(first), recording_on(second)]
    round_of(group, seen)
    play(recordings[0], "a", 1.0)
    group.env_runners = [first]
    found = round_of(group, seen, 2, count=3)
    assert names(found) == ["a"]
    assert found.chosen["num_lost"] == 2
    assert [(problem.lost, "env runner 2 died" in problem.text) for problem in found.problems] == [(2, True)]


def test_episodes_that_are_missing_for_no_known_reason_are_counted_and_told(place):
    group, recording, seen = place
    play(recording, "a", 1.0)
    with recording.recorder.guard(0, "a step"):
        raise KeyError("x")  # costs an episode, and says so
    exact = Round("evaluation", 1, timeout=5.0, reported=ReportedEpisodes(4), is_exact=True)
    found = collect(group, PLAN, seen, exact)
    assert found.chosen["num_lost"] == 2
    assert sorted((problem.lost, "unknown reason" in problem.text) for problem in found.problems) == [
        (1, False),
        (2, True),
    ]
    play(recording, "b", 1.0)
    assert "num_lost" not in round_of(group, seen, 2, count=2).chosen  # RLlib's number may be of other episodes


def test_an_env_runner_that_was_restarted_in_between_is_noticed():
    env_runner = FakeEnvRunner(1)
    group, seen = FakeGroup(env_runner), EnvRunnerClient()
    play(recording_on(env_runner), "a", 1.0)
    round_of(group, seen, count=1)
    group.env_runners = [FakeEnvRunner(1)]
    play(recording_on(group.env_runners[0]), "b", 1.0)
    assert round_of(group, seen, 2, count=3).chosen["num_lost"] == 2
    assert "num_lost" not in round_of(group, seen, 3, count=0).chosen


def test_a_winner_without_a_clip_is_counted_once_and_its_record_says_why(place, monkeypatch):
    group, recording, seen = place
    play(recording, "a", 1.0)
    play(recording, "b", 2.0)
    take = recording.take

    def lose_best(winners, seen):
        kept = take(winners, seen).kept
        best = next(id for id, winner in kept.items() if winner.record.episode_id == "b")
        kept[best] = dataclasses.replace(kept[best], clips={}, trajectory="its steps")
        return Winners(kept, {best: "no clip: differs"})

    monkeypatch.setattr(recording, "take", lose_best)
    found = round_of(group, seen)
    assert "best" not in found.chosen
    assert found.chosen["worst"].episode.episode_id == "a"
    assert [problem.lost for problem in found.problems] == [1]
    notes = {episode.record.episode_id: episode.record.note for episode in found.chosen["data"].episodes}
    assert notes == {"a": None, "b": "no clip: differs"}
    assert list(found.chosen["data"].trajectories.values()) == ["its steps"]


def test_an_env_runner_that_hangs_costs_one_timeout_and_those_without_a_winner_are_not_waited_for():
    runners = [FakeEnvRunner(index) for index in (1, 2, 3)]
    group, seen = FakeGroup(*runners), EnvRunnerClient()
    recordings = [recording_on(runner) for runner in runners]
    group.hung = {3}
    for iteration in (1, 2):
        for value, recording in enumerate(recordings[:2]):
            play(recording, f"{iteration} {value}", float(value))
        group.timeouts.clear()
        group.sent.clear()
        best = dataclasses.replace(PLAN, selectors=as_selectors("best"))
        found = collect(group, best, seen, Round("evaluation", iteration, timeout=5.0))
        assert found.chosen["best"].episode.episode_id == f"{iteration} 1"
        asked = [1, 2, 3] if iteration == 1 else [1, 2]
        assert group.timeouts == [(5.0, asked), (5.0, [2])]
        assert group.sent == [*(("ask", index) for index in asked), ("take", 1), ("take", 2)]
    assert all(recording.answer([seen._serials[index]]).data == [] for index, recording in enumerate(recordings[:2], 1))


def test_an_env_runner_that_owes_an_answer_still_begins_the_next_evaluation(place):
    group, _, seen = place
    group.hung = {1}
    assert round_of(group, seen).chosen == {}
    seen.begin_round(group, "episodes")
    assert group.sent == [("ask", 1), ("begin_round", 1)]
    assert [asked for _, asked in group.timeouts] == [[1]]


def test_a_request_that_raises_is_told_with_its_text(place):
    group, _, seen = place
    group.loses = [ray.exceptions.RayTaskError("ask", "a traceback", KeyError("x"))]
    (problem,) = round_of(group, seen).problems
    assert problem.text == "episodes may be missing: the request to env runner 1 raised KeyError: 'x'"
    assert problem.lost == 0


def gathered(group, gather, iteration, count):
    return gather.collect(group, Round("train", iteration, timeout=5.0, reported=ReportedEpisodes(count)))


def test_an_asynchronous_algorithm_counts_no_episode_as_lost_that_is_still_to_come():
    """One answer that failed made all episodes that were under way «lost»."""
    runners = [FakeEnvRunner(1), FakeEnvRunner(2)]
    group, gather = FakeGroup(*runners), AsyncGather(PLAN, EnvRunnerClient())
    recordings = [recording_on(runner) for runner in runners]
    play(recordings[1], "a", 1.0)
    group.loses = [DIED, "answer"]
    found = gathered(group, gather, 1, count=4)
    assert found.chosen == {"num_pending": 4}
    assert [(problem.text, problem.lost) for problem in found.problems] == [
        ("episodes may be missing: env runner 1 died", 0)
    ]
    found = gathered(group, gather, 2, count=1)
    assert (names(found), found.chosen["num_pending"]) == (["a"], 4)


def test_an_asynchronous_algorithm_asks_no_dead_env_runner_and_none_twice():
    group, gather = FakeGroup(FakeEnvRunner(1), FakeEnvRunner(2)), AsyncGather(PLAN, EnvRunnerClient())
    group.dead, group.hung = {1}, {2}
    for iteration in range(3):
        assert gathered(group, gather, iteration, count=3).problems == []
    assert group.sent == [("ask_and_take", 2)]
    assert [asked for _, asked in group.timeouts] == [[2]]  # nobody waits a second time


def test_a_predicate_is_asked_once_an_episode_also_over_all_env_runners(monkeypatch):
    asked = []

    def every_second(record):
        asked.append(record.id)
        return len(asked) % 2 == 0

    def pickled(actor, request, send=ray_names.send):
        reference = send(actor, request)
        return dataclasses.replace(reference, answer=pickle.loads(pickle.dumps(reference.answer)))

    monkeypatch.setattr(ray_names, "send", pickled)
    keep, env_runners = as_selectors(where(every_second, name="some")), [FakeEnvRunner(1), FakeEnvRunner(2)]
    recordings = [recording_on(env_runner, keep=keep) for env_runner in env_runners]
    for n in range(20):
        for recording in recordings:
            play(recording, f"episode {n}", float(n), metrics={"n": float(n)})
    found = collect(FakeGroup(*env_runners), Plan("episodes", keep), EnvRunnerClient(), Round("train", 1))
    assert len(found.chosen["some"]) == 20
    assert len(asked) == len(set(asked)) == 40


def test_answers_that_come_after_their_evaluation_are_counted_as_rllib_counted_in_it():
    """They belong to the evaluation in which they were asked for, and RLlib counts the first of it."""
    runners = [FakeEnvRunner(1), FakeEnvRunner(2)]
    group, gather = FakeGroup(*runners), AsyncGather(PLAN, EnvRunnerClient())
    for runner in runners:
        recording = recording_on(runner)
        for number in (1, 2):
            play(recording, f"{runner.worker_index}.{number}", float(number))
            recording._fetched.ended(recording.recorder.candidates.records()[-1].id)
            recording._fetched.fetch()
    group.loses = ["answer", "answer"]
    first = gather.collect(group, Round("evaluation", 5, env_steps=500, reported=ReportedEpisodes(3)))
    assert first.chosen == {"num_unanswered": 2}
    second = gather.collect(group, Round("evaluation", 6, env_steps=600, reported=ReportedEpisodes(0)))
    episodes = second.chosen["data"].episodes
    assert [(episode.record.episode_id, episode.is_late) for episode in episodes] == [
        ("1.1", False),
        ("1.2", False),
        ("2.1", False),
        ("2.2", True),
    ]
    assert {(episode.record.training_iteration, episode.record.env_steps) for episode in episodes} == {(6, 600)}
    assert second.chosen["best"].episode.episode_id == "1.2"
