"""Whether episodes succeed: from the env's info over RLlib, Tune, the files and the evaluation to the table."""

import gymnasium as gym
import numpy as np
import pytest
from click.testing import CliRunner
from ray import tune
from scipy import stats

import tune_media as tm
from tests.support.experiment import fit
from tests.support.rllib_configs import evaluation, on_old_stack, ppo
from tune_media.cli import main

SEEDS = 8


class Reaching(gym.Env):
    """Three steps; whether the last one succeeds is a matter of the seed."""

    def __init__(self, config=None):
        self.observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
        self.action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.luck = 0, self.np_random.random()
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        info = {"is_success": self.luck > 0.5 if self.steps == 3 else self.steps == 2, "luck": self.luck}
        return np.zeros(2, np.float32), self.luck, self.steps == 3, False, info


@pytest.mark.parametrize("old_stack", [False, pytest.param(True, marks=pytest.mark.any_ray)])
def test_it_goes_from_the_info_of_the_last_step_to_all_that_reads_results(old_stack, ray_session, tmp_path):
    recorder = tm.rllib.record_episodes(seeds=SEEDS, video=None, check_frame=False, strict=True)
    config = ppo(recorder, **evaluation(0, SEEDS)).environment(Reaching)
    if old_stack:
        on_old_stack(config)
    options = {"stop": {"training_iteration": 1}, "checkpoint_config": tune.CheckpointConfig(checkpoint_at_end=True)}
    (result,) = fit("PPO", tmp_path, [tm.JsonMediaLoggerCallback()], space=config, name="sweep", **options)
    catalog = tm.load(tmp_path / "sweep")
    episodes = catalog.episodes()
    episodes = episodes[~episodes["late"] & (episodes["section"] == "evaluation")]
    count, total = int(episodes["success"].sum()), len(episodes)
    assert 0 < count < total
    by_seed = episodes.groupby("seed")["success"].agg(["min", "max"]).astype(bool)
    assert (by_seed["min"] == by_seed["max"]).all()  # the seeds decide
    assert set(by_seed.index) == set(range(SEEDS))
    found = result.metrics["evaluation"]["env_runners"]["custom_metrics"]
    truth = stats.binomtest(count, total).proportion_ci(method="wilson")
    rate = (count / total, truth.low, truth.high)
    names = ("success_rate", "success_rate_low", "success_rate_high")
    assert tuple(found[name] for name in names) == pytest.approx(rate)
    (trial,) = catalog.trials
    assert trial.last_metrics["evaluation/env_runners/custom_metrics/success_rate"] == count / total
    assert f"{rate[0]:.3g} [{rate[1]:.3g}, {rate[2]:.3g}]" in CliRunner().invoke(main, ["list", catalog.path]).output

    evaluated = tm.evaluate(tmp_path / "sweep", seeds=SEEDS, clips=None)
    (line,) = evaluated.checkpoints
    own = by_seed["min"].sum()
    assert line.success_rate == own / SEEDS
    truth = stats.binomtest(int(own), SEEDS).proportion_ci(method="wilson")
    assert (line.success_low, line.success_high) == pytest.approx((truth.low, truth.high))
    assert evaluated.to_pandas()["success_rate"].tolist() == [own / SEEDS]
    (evaluated_trial,) = evaluated.catalog.trials
    assert evaluated_trial.last_metrics["evaluation/env_runners/custom_metrics/success_rate"] == own / SEEDS
    none = tm.evaluate(tmp_path / "sweep", seeds=SEEDS, clips=None, name="none", success=never)
    assert none.checkpoints[0].success_rate == 0
    unknown = tm.evaluate(tmp_path / "sweep", seeds=SEEDS, clips=None, name="unknown", success="data/solved")
    assert unknown.problems == ["success='data/solved' tells of no episode whether it succeeded"]
    with pytest.raises(ValueError, match=r"seed 0: 'luck' in an info is 0\.\d+, which is no boolean, 0 or 1"):
        tm.evaluate(tmp_path / "sweep", seeds=SEEDS, clips=None, name="unclear", success="luck")
    once = tm.evaluate(tmp_path / "sweep", seeds=SEEDS, clips=None, success_when="once")
    assert (once.checkpoints[0].success_rate, once.checkpoints[0].success_at_end_rate) == (1, own / SEEDS)
    with pytest.raises(ValueError, match="success was None and is"):
        tm.evaluate(tmp_path / "sweep", seeds=SEEDS, clips=None, name=evaluated.name, success=never)


def never(episode):
    return False
