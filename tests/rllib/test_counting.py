from types import SimpleNamespace

import pytest

from tune_media import EpisodeRecord
from tune_media.rllib.counting import FetchedEpisodes, ReportedEpisodes, watch_fetches, without_uncounted
from tune_media.selection import best
from tune_media.values.episodes import EpisodeData

NAN = float("nan")


@pytest.mark.parametrize(
    ("returns", "reported", "all_are_here", "late"),
    [
        ({"a": 0.0, "extra": 0.0, "b": 0.0, "c": 0.0}, ReportedEpisodes(3), True, ["extra"]),
        # The old stack says by their returns which episodes it counts.
        ({"a": 1.0, "b": 5.0, "c": 1.0}, ReportedEpisodes(2, (5.0, 1.0)), False, ["c"]),
        # ``failures()`` never saw these: NaN is unequal to itself, so they were late.
        ({"a": NAN, "b": 1.0, "c": NAN, "extra": 3.0}, ReportedEpisodes(3, (NAN, 1.0, NAN)), True, ["extra"]),
        # Atari on the old stack: an episode ends with a life, and RLlib reports whole games.
        ({"a": 1.0, "b": 2.0}, ReportedEpisodes(1, (3.0,)), True, []),
    ],
)
def test_the_episodes_that_rllib_fetched_last_are_those_that_it_does_not_count(returns, reported, all_are_here, late):
    episodes = [EpisodeData(EpisodeRecord(id, value, 1, id=id)) for id, value in returns.items()]
    times = {id: float(time) for time, id in enumerate(sorted(returns))}
    found = without_uncounted(episodes, times, reported, all_are_here=all_are_here)
    assert [one.record.id for one in found] == list(returns)
    assert [one.record.id for one in found if one.is_late] == late


@pytest.mark.parametrize("reported", [ReportedEpisodes(None), ReportedEpisodes(0)])
def test_episodes_that_rllib_never_fetched_are_counted(reported):
    episodes = [EpisodeData(EpisodeRecord("a", 0.0, 1))]
    assert not without_uncounted(episodes, {}, reported, all_are_here=True)[0].is_late


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
