"""Gathering from env runners that time out, die, or tell twice: fakes stand in for what Ray does seldom."""

import dataclasses

import pytest

from tests.support.fake_env_runners import FakeEnvRunner, FakeGroup, play, recording_on
from tune_media.recording.plan import Plan
from tune_media.recording.replay_decision import Taken
from tune_media.rllib.counting import ReportedEpisodes
from tune_media.rllib.gather import EnvRunnersSeen, Round, collect
from tune_media.selection import as_selectors
from tune_media.values.recording_problems import RecordingProblem

PLAN = Plan("episodes", as_selectors(("best", "worst")))


@pytest.fixture
def place():
    env_runner = FakeEnvRunner()
    return FakeGroup(env_runner), recording_on(env_runner), EnvRunnersSeen()


def round_of(group, seen, iteration=1, count=None):
    return collect(group, PLAN, seen, Round("train", iteration, timeout=5.0, reported=ReportedEpisodes(count)))


def names(collected):
    return [episode.record.episode_id for episode in collected.chosen["data"].episodes]


@pytest.mark.parametrize("lost", ["request", "answer"])
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


def test_replays_get_more_time_and_that_time_is_named(place):
    group, recording, seen = place
    play(recording, "a", 1.0)
    play(recording, "b", 2.0)
    group.loses = [None, "answer"]
    plan = dataclasses.replace(PLAN, render="replay")
    found = collect(group, plan, seen, Round("evaluation", 1, timeout=5.0))
    assert group.timeouts == [5.0, 15.0]
    (problem,) = found.problems
    assert "did not answer within 15 s (3 times config.evaluation(evaluation_sample_timeout_s=...))" in problem.text


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
    group, seen = FakeGroup(first, second), EnvRunnersSeen()
    recordings = [recording_on(first), recording_on(second)]
    round_of(group, seen)
    play(recordings[0], "a", 1.0)
    group.env_runners = [first]
    found = round_of(group, seen, 2, count=3)
    assert names(found) == ["a"]
    assert found.chosen["num_lost"] == 2
    assert [(problem.lost, "env runner 2 died" in problem.text) for problem in found.problems] == [(2, True)]


def test_an_env_runner_that_was_restarted_in_between_is_noticed():
    env_runner = FakeEnvRunner(1)
    group, seen = FakeGroup(env_runner), EnvRunnersSeen()
    play(recording_on(env_runner), "a", 1.0)
    round_of(group, seen, count=1)
    group.env_runners = [FakeEnvRunner(1)]
    play(recording_on(group.env_runners[0]), "b", 1.0)
    assert round_of(group, seen, 2, count=3).chosen["num_lost"] == 2
    assert "num_lost" not in round_of(group, seen, 3, count=0).chosen


def test_a_winner_whose_replay_differs_is_counted_once_and_its_record_says_why(place, monkeypatch):
    group, recording, seen = place
    play(recording, "a", 1.0)
    play(recording, "b", 2.0)

    def lose_best(env_runner, winners):
        best = next(id for id, winner in winners.items() if winner.record.episode_id == "b")
        problem = RecordingProblem("no clip: at step 3, the replay differs", 1)
        kept = {**winners, best: dataclasses.replace(winners[best], clips={}, trajectory="its steps")}
        return Taken(kept, {best: "no clip: differs"}, [problem])

    monkeypatch.setattr(recording.replays, "taken_from", lose_best)
    found = round_of(group, seen)
    assert "best" not in found.chosen
    assert found.chosen["worst"].episode.episode_id == "a"
    assert [problem.lost for problem in found.problems] == [1]
    notes = {episode.record.episode_id: episode.record.note for episode in found.chosen["data"].episodes}
    assert notes == {"a": None, "b": "no clip: differs"}
    assert list(found.chosen["data"].trajectories.values()) == ["its steps"]
