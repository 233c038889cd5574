import numpy as np
import pytest

import tune_media as tm
from tests.support.envs import CountingEnv
from tests.support.loops import play


@pytest.mark.parametrize(("given", "seeds"), [(3, [0, 1, 2]), ([7, 5, 7], [7, 5, 7]), (np.array([4, 2]), [4, 2])])
def test_a_number_of_seeds_counts_from_zero_and_others_keep_their_order(given, seeds):
    env = tm.gym.RecordEpisodes(tm.gym.FixedSeeds(CountingEnv(), given), video=None, keep="all")
    play(env, len(seeds))
    assert [record.seed for record in env.take()["all"]] == seeds


@pytest.mark.parametrize("seeds", [[], [-1], "seven", "3", 0, -2, 2.5, None, True, [True]])
def test_seeds_that_cannot_be_fail_at_once_and_name_the_value(seeds):
    with pytest.raises(ValueError, match=r"seeds(=|\)) takes a positive number or seeds 0, 1, ...; got") as failure:
        tm.gym.FixedSeeds(CountingEnv(), seeds)
    assert repr(seeds) in str(failure.value)
