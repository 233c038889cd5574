import pytest
from ray.rllib.algorithms.ppo import PPOConfig

from tune_media.rllib.replies import Unfinished
from tune_media.rllib.will_record import endless, unmatched_paths

MISSING = Unfinished(unmatched=frozenset({"spped", "goal"}), info_names=("speed", "data/x"))


def test_a_path_that_no_env_runner_has_matched_is_named_with_the_names_there_are():
    (reason,) = unmatched_paths([MISSING, Unfinished(unmatched=frozenset({"spped"}))], episodes=3)
    assert "collect='spped'" in reason
    assert "first 3 episodes" in reason
    assert "speed, data/x" in reason
    (reason,) = unmatched_paths([Unfinished(unmatched=frozenset({"x"}))], episodes=1)
    assert "infos are empty" in reason


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"evaluation_duration": 50, "evaluation_duration_unit": "timesteps"}, "evaluation_duration=50 timesteps"),
        ({"evaluation_duration": "auto"}, "evaluation_duration='auto'"),
        ({"evaluation_sample_timeout_s": 3.0}, "evaluation_sample_timeout_s=3.0 seconds"),
    ],
)
def test_an_evaluation_that_ends_before_its_episodes_is_named(options, words):
    config = PPOConfig().evaluation(evaluation_interval=1, **options)
    reason = endless([Unfinished(longest=50), Unfinished()], 0, config)
    assert words in reason
    assert "step 50" in reason


def test_an_evaluation_whose_episodes_end_or_go_on_in_the_next_is_no_problem():
    config = PPOConfig().evaluation(evaluation_duration=50, evaluation_duration_unit="timesteps")
    assert not endless([Unfinished(longest=50)], 2, config)
    assert not endless([Unfinished()], 0, config)
    config.evaluation(evaluation_force_reset_envs_before_iteration=False)
    assert not endless([Unfinished(longest=50)], 0, config)
