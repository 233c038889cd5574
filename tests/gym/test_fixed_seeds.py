import pytest

import tune_media as tm
from tests.support.envs import CountingEnv
from tests.support.loops import play


def test_fixed_seeds_show_the_same_episodes_and_stand_in_the_record():
    def run():
        env = tm.gym.RecordEpisodes(tm.gym.FixedSeeds(CountingEnv(), [7, 11]), keep="all")
        played = play(env, 3)
        return played, [clip.episode.seed for clip in env.take()["all"]]

    played, seeds = run()
    assert run() == (played, seeds)
    assert seeds == [7, 11, 7]
    assert played[0] == played[2] != played[1]


@pytest.mark.parametrize("seeds", [[], [-1], "seven", 0, None, [True]])
def test_seeds_that_are_none_fail_at_once(seeds):
    with pytest.raises(ValueError, match=r"seeds(=|\)) takes a positive number or seeds 0, 1, ...; got"):
        tm.gym.FixedSeeds(CountingEnv(), seeds)
