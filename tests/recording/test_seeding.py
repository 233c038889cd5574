import pytest

from tests.support.envs import CountingEnv
from tune_media.recording.seeding import SeededResets, seeded, share


@pytest.mark.parametrize(("runners", "sub_envs"), [(1, 1), (2, 1), (1, 3), (3, 2)])
def test_the_sub_envs_of_all_env_runners_take_turns_over_all_seeds(runners, sub_envs):
    seeds = list(range(100, 112))
    shares = [share(seeds, runner, runners, index, sub_envs) for runner in range(runners) for index in range(sub_envs)]
    places = len(shares)
    first_turns = [own[turn] for turn in range(len(seeds) // places) for own in shares]
    assert first_turns == seeds  # each once, before any comes again


def test_resets_take_the_seeds_in_turn_whatever_is_passed():
    env = CountingEnv()
    resets = SeededResets(env, [3, 4])
    lengths = []
    for _ in range(4):
        env.reset(seed=99)
        lengths.append((resets.last, env.length))
    assert [seed for seed, _ in lengths] == [3, 4, 3, 4]
    assert lengths[:2] == lengths[2:]
    resets.start_over()
    env.reset()
    assert resets.last == 3
    assert seeded(env) is resets
    assert seeded(CountingEnv()) is None
