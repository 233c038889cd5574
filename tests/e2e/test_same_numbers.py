"""Adding the recorder changes no number that RLlib or the user reports; its own are of the same episodes."""

import pytest
import ray

from tests.support.same_numbers import SETTINGS, changed_by_recorder, recorder, run


def reported_by_rllib(metrics):
    """Return the number of episodes of an evaluation, and the least and largest return, as RLlib reports them."""
    if "hist_stats" in metrics:
        returns = metrics["hist_stats"]["episode_reward"]
        return len(returns), min(returns), max(returns)
    return metrics["num_episodes"], metrics["episode_return_min"], metrics["episode_return_max"]


def assert_of_the_counted_episodes(results, stack):
    for result in results:
        metrics = result["evaluation"]["env_runners"]
        count, least, largest = reported_by_rllib(metrics)
        counted = [episode.record.episode_return for episode in metrics["episodes"]["data"].counted()]
        assert len(counted) == count
        assert metrics["episodes"]["best"].episode.episode_return == pytest.approx(max(counted))
        assert metrics["episodes"]["worst"].episode.episode_return == pytest.approx(min(counted))
        assert metrics["custom_metrics"]["r_sum_max"] == pytest.approx(max(counted))
        if stack == "old" or ray.__version__ != "2.50.1":  # whose extremes are over several evaluations
            assert (min(counted), max(counted)) == pytest.approx((least, largest))
        else:
            assert least - 1e-6 <= min(counted) and max(counted) <= largest + 1e-6


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_frames_that_draw_random_numbers_change_no_number(ray_session, setting):
    assert not changed_by_recorder(setting)


@pytest.mark.parametrize("stack", ["new", "old"])
def test_the_clips_of_two_env_runners_are_of_the_episodes_that_rllib_counts(ray_session, stack):
    assert_of_the_counted_episodes(run(stack, recorder(), 2), stack)
