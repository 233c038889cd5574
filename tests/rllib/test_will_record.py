from dataclasses import replace

import pytest
from ray.rllib.algorithms.bc import BCConfig
from ray.rllib.algorithms.cql import CQLConfig
from ray.rllib.algorithms.ppo import PPOConfig

import tune_media as tm
from tune_media import selection
from tune_media.recording.plan import Plan
from tune_media.rllib.settings import RecorderSettings
from tune_media.rllib.will_record import reasons_for_nothing
from tune_media.selection import as_selectors


def reasons(config, sections=("evaluation",), keep="best", env_runners=None, env_indices=None, **options):
    plan = Plan("episodes", as_selectors(keep), **options)
    settings = RecorderSettings(plan, sections, env_runners=env_runners, env_indices=env_indices)
    return list(reasons_for_nothing(settings, config))


def evaluating(env_runners=2):
    return PPOConfig().evaluation(evaluation_interval=1, evaluation_num_env_runners=env_runners)


@pytest.mark.parametrize("interval", [None, 0])
def test_without_evaluations_the_evaluation_section_gets_nothing(interval):
    (reason,) = reasons(PPOConfig().evaluation(evaluation_interval=interval))
    assert f"evaluation_interval={interval}" in reason
    assert "config.evaluation(evaluation_interval=1)" in reason
    assert "sections='train'" in reason
    assert "If you call algo.evaluate() yourself, add config.evaluation(evaluation_num_env_runners=1)" in reason
    (reason,) = reasons(PPOConfig().evaluation(evaluation_interval=interval, evaluation_num_env_runners=1))
    assert "If you call algo.evaluate() yourself, ignore this." in reason
    assert reasons(evaluating()) == []
    assert reasons(PPOConfig(), sections=("train",)) == []


@pytest.mark.parametrize("algorithm", [BCConfig, CQLConfig])
def test_offline_rl_plays_no_training_episodes(algorithm):
    (reason,) = reasons(algorithm())
    assert "config.evaluation(evaluation_interval=1)" in reason
    assert "sections='train'" not in reason
    (reason,) = reasons(algorithm().evaluation(evaluation_interval=1), sections=("train", "evaluation"))
    assert reason.startswith(f"sections='train' records nothing: {algorithm.__name__[:-6]} learns from stored data")
    assert reasons(algorithm().evaluation(evaluation_interval=1)) == []


@pytest.mark.parametrize(
    ("env_runners", "remote", "is_right"),
    [({7}, 2, False), ({0}, 2, False), ({0}, 0, True), ({1}, 0, False), ({2, 9}, 2, True)],
)
def test_env_runners_that_do_not_exist_or_do_not_play_are_named(env_runners, remote, is_right):
    found = reasons(evaluating(remote), env_runners=env_runners)
    assert (found == []) is is_right
    if not is_right:
        assert f"env_runners={sorted(env_runners)}" in found[0]
        assert f"evaluation_num_env_runners={remote}" in found[0]
    train = PPOConfig().env_runners(num_env_runners=remote)
    assert (reasons(train, sections=("train",), env_runners=env_runners) == []) is is_right


def test_sub_envs_that_do_not_exist_are_named():
    (reason,) = reasons(evaluating(), env_indices={3})
    assert "env_indices=[3]" in reason
    assert "num_envs_per_env_runner=1" in reason


@pytest.mark.parametrize(
    ("by", "meant"), [("retrun", "episode_return"), ("episode_retrun", "episode_return"), ("length", "episode_length")]
)
def test_a_misspelt_number_of_an_episode_is_named_with_the_right_one(by, meant):
    (reason,) = reasons(evaluating(), keep=selection.best(by=by))
    assert f"by={by!r}" in reason
    assert f"by={meant!r}" in reason
    assert reasons(evaluating(), keep=selection.best(by=by), collect=lambda step: {by: 1.0}) == []


def test_a_predicate_that_fails_for_every_episode_is_named():
    (reason,) = reasons(evaluating(), keep=selection.where(lambda record: record.retrun > 0, name="won"))
    assert "keep='won'" in reason
    assert "retrun" in reason


NEEDS_A_REAL_EPISODE = selection.where(lambda record: record.metrics["goals"] > 0 and record.task > 3, name="won")
FOUR_SUB_ENVS = {"num_envs_per_env_runner": 4}


@pytest.mark.parametrize(
    ("config", "options"),
    [
        (evaluating().env_runners(**FOUR_SUB_ENVS), {"env_indices": {3}}),
        (evaluating().evaluation(evaluation_config=FOUR_SUB_ENVS), {"env_indices": {3}}),  # the evaluation's own number
        *(
            (evaluating(), {"keep": (selection.best(by=by), selection.failures(below=1, by=by))})
            for by in ("episode_length", "speed_avg", "return/left", "success")  # episodes may have them
        ),
        (evaluating(), {"keep": NEEDS_A_REAL_EPISODE}),
        *((evaluating(), {"sections": ("train", "evaluation"), "render": render}) for render in ("replay", "auto")),
    ],
)
def test_what_may_record_is_not_doubted(config, options):
    assert reasons(config, **options) == []


def test_a_selector_that_remembers_episodes_does_not_see_the_trial():
    seen = []
    keep = selection.where(lambda record: seen.append(record.episode_return) or True, name="remembers")
    assert reasons(evaluating(), keep=keep) == []
    assert seen == []


def test_an_env_outside_of_rllib_is_said_to_be_recorded_there():
    module = pytest.importorskip("ray.rllib.env.external.env_runner_server_for_external_inference")
    config = PPOConfig().env_runners(env_runner_cls=module.EnvRunnerServerForExternalInference)
    (found,) = reasons(config, sections=("train", "evaluation"))
    assert "EnvRunnerServerForExternalInference play no episode" in found


def test_recorders_of_one_section_that_disagree_about_success_are_named():
    first, second = (tm.rllib.record_episodes(name=name, success=f"data/{name}") for name in ("first", "second"))
    config = evaluating().callbacks([first, second])
    settings = {recorder.args[0].plan.name: recorder.args[0] for recorder in (first, second)}
    assert list(reasons_for_nothing(settings["first"], config)) == []
    (reason,) = reasons_for_nothing(settings["second"], config)
    assert "'first' and 'second' have different success=" in reason
    assert "custom_metrics/success_rate for the evaluation episodes: that of 'first'" in reason
    assert list(reasons_for_nothing(replace(settings["second"], sections=("train",)), config)) == []
    first, second = (tm.rllib.record_episodes(name=when, success_when=when) for when in ("end", "once"))
    (reason,) = reasons_for_nothing(second.args[0], evaluating().callbacks([first, second]))
    assert "'end' and 'once' have different success_when=" in reason
