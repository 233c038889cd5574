import pytest

from tune_media.recording.seeding import share


@pytest.mark.parametrize(("runners", "sub_envs"), [(1, 1), (2, 1), (1, 3), (3, 2)])
def test_the_sub_envs_of_all_env_runners_take_turns_over_all_seeds(runners, sub_envs):
    seeds = list(range(100, 112))
    shares = [share(seeds, runner, runners, index, sub_envs) for runner in range(runners) for index in range(sub_envs)]
    places = len(shares)
    first_turns = [own[turn] for turn in range(len(seeds) // places) for own in shares]
    assert first_turns == seeds  # each once, before any comes again
