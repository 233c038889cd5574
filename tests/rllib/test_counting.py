from types import SimpleNamespace

import pytest

from tune_media import EpisodeRecord
from tune_media.rllib.counting import FetchedEpisodes, ReportedEpisodes, watch_fetches, without_uncounted
from tune_media.selection import best
from tune_media.values.episodes import EpisodeData


def episode(id, value=0.0):
    return EpisodeData(EpisodeRecord(id, value, 1, id=id))


def late_ones(episodes):
    return [one.record.id for one in episodes if one.is_late]


def test_the_episodes_that_rllib_fetched_last_are_those_that_it_does_not_count():
    all_of_them = [episode("a"), episode("extra"), episode("b"), episode("c")]
    times = {"a": 1.0, "b": 2.0, "c": 3.0, "extra": 4.0}
    found = without_uncounted(all_of_them, times, ReportedEpisodes(3), all_are_here=True)
    assert late_ones(found) == ["extra"]
    assert [one.record.id for one in found] == ["a", "extra", "b", "c"]


def test_the_old_stack_says_by_their_returns_which_episodes_it_counts():
    all_of_them = [episode("a", 1.0), episode("b", 5.0), episode("c", 1.0)]
    times = {"a": 1.0, "b": 2.0, "c": 3.0}
    found = without_uncounted(all_of_them, times, ReportedEpisodes(2, (5.0, 1.0)), all_are_here=False)
    assert late_ones(found) == ["c"]


def test_episodes_whose_return_is_not_a_number_are_counted_on_the_old_stack():
    """``failures()`` never saw them: NaN is unequal to itself, so they were late."""
    nan = float("nan")
    all_of_them = [episode("a", nan), episode("b", 1.0), episode("c", nan), episode("extra", 3.0)]
    times = {"a": 1.0, "b": 2.0, "c": 3.0, "extra": 4.0}
    found = without_uncounted(all_of_them, times, ReportedEpisodes(3, (nan, 1.0, nan)), all_are_here=True)
    assert late_ones(found) == ["extra"]


def test_if_rllib_counts_by_something_else_all_are_counted():
    """Atari on the old stack: an episode ends with a life, and RLlib reports whole games."""
    all_of_them = [episode("a", 1.0), episode("b", 2.0)]
    found = without_uncounted(all_of_them, {"a": 1.0, "b": 2.0}, ReportedEpisodes(1, (3.0,)), all_are_here=True)
    assert late_ones(found) == []


@pytest.mark.parametrize("reported", [ReportedEpisodes(None), ReportedEpisodes(0)])
def test_episodes_that_rllib_never_fetched_are_counted(reported):
    found = without_uncounted([episode("a")], {}, reported, all_are_here=True)
    assert late_ones(found) == []


def test_an_episode_that_ends_with_another_waits_for_the_next_fetch():
    """The old sampler hands out one episode a sample, though two sub-envs may end in the same step."""
    fetched = FetchedEpisodes(sub_envs=2)
    fetched.ended("a")
    fetched.ended("b")
    fetched.fetch(1)
    assert (fetched.is_open("a"), fetched.is_open("b")) == (False, True)
    fetched.begin_round()
    assert (fetched.is_late("a"), fetched.is_late("b")) == (True, False)


def test_each_fetch_that_rllib_may_drop_keeps_its_own_winner():
    """A better episode that RLlib does not count must not push out the best of those that it counts."""
    fetched = FetchedEpisodes(in_flight=1)
    records = []
    for id, value in (("first", 5.0), ("counted", 7.0), ("extra", 9.0)):
        records.append(EpisodeRecord(id, value, 1, id=id))
        fetched.ended(id)
        fetched.fetch()
    held = fetched.choosing_from_each(best()).choose(records)
    assert [record.id for record in held] == ["counted", "extra"]
    fetched.begin_round()
    assert fetched.choosing_from_each(best()).choose(records) == []


def test_fetches_are_seen_with_the_number_of_their_episodes():
    seen = []
    old = SimpleNamespace(
        get_metrics=lambda: [SimpleNamespace(episode_faulty=False), SimpleNamespace(episode_faulty=True)]
    )
    new = SimpleNamespace(get_metrics=lambda: {"num_episodes": 3})
    for env_runner in (old, new):
        watch_fetches(env_runner, seen.append)
        env_runner.get_metrics()
    assert seen == [1, None]


def test_a_training_iteration_of_the_old_stack_counts_its_own_episodes_not_the_window():
    window = {"num_episodes": 3, "hist_stats": {"episode_reward": [1.0] * 100}}
    assert ReportedEpisodes.of(window).count == 3
