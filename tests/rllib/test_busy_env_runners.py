"""Env runners that still play when a round ends: evaluations as long as the training beside them, and IMPALA."""

import time
from pathlib import Path

import numpy as np
import pytest

import tune_media as tm
from tests.support.envs import CountingEnv
from tests.support.experiment import assert_whole_episode
from tests.support.rllib_configs import built, ppo, small

pytest.importorskip("ray")
from ray.rllib.algorithms.impala import IMPALAConfig

LONGEST_WAIT = 20  # seconds


class GatedEnv(CountingEnv):
    """Waits before its third step until a file is there, or too long, and says so."""

    def __init__(self, config):
        super().__init__(config)
        self.folder = Path(config["gate"]) if config.get("gate") else None

    def step(self, action):
        if self.folder is not None and self.counter.step_count == 2:
            end = time.monotonic() + LONGEST_WAIT
            while not (self.folder / "open").exists():
                if time.monotonic() > end:
                    (self.folder / "waited in vain").touch()
                    break
                time.sleep(0.01)
        return super().step(action)


def test_training_does_not_wait_for_an_evaluation_beside_it(ray_session, tmp_path):
    """The recorder asked for the episodes behind RLlib's next sample: iterations of 0.15 s took 5.3 s."""
    config = ppo(
        tm.rllib.record_episodes(keep="best", render="replay", check_frame=False),
        evaluation_interval=1,
        evaluation_num_env_runners=1,
        evaluation_duration="auto",
        evaluation_parallel_to_training=True,
        evaluation_force_reset_envs_before_iteration=False,
        evaluation_config={"env_config": {"gate": str(tmp_path)}},
    )
    config.environment(GatedEnv).reporting(min_time_s_per_iteration=0.3)  # RLlib counts no episodes of shorter ones
    sections, found = [], []

    def train():
        section = algorithm.train()["evaluation"]["env_runners"]
        sections.append(section)
        episodes = section.get("episodes", {})
        found.extend([episodes] if "best" in episodes else [])
        return episodes

    with built(config) as algorithm:
        for _ in range(2):
            train()
        assert not (tmp_path / "waited in vain").exists()
        assert sections[-1]["episodes"]["num_unanswered"] == 1
        (tmp_path / "open").touch()
        while not train().get("data"):
            assert len(sections) < 100
        while sum(len(one["data"].counted()) for one in found) < 10:
            train()
            assert len(sections) < 300
    for one in found:
        assert_whole_episode(one["best"], one["best"].episode.episode_length)
        records = [episode.record for episode in one["data"].counted()]
        assert one["best"].episode.id in {record.id for record in records}
    assert not [problem for section in sections for problem in section.get("episodes", {}).get("problems", ())]


def test_impala_counts_every_episode_that_rllib_counts(ray_session):
    """Episodes of the last request were neither in a result nor counted: RLlib had 5, and the recorder 2."""
    learn = {"train_batch_size": 32}
    config = small(IMPALAConfig, learn, CountingEnv, reporting={"min_time_s_per_iteration": 1})({"pause": 0.01})
    config.env_runners(num_env_runners=1).callbacks(tm.rllib.record_episodes(sections="train", keep="best"))
    sections, reported, recorded = [], 0, 0
    with built(config) as algorithm:
        while reported < 10 or not recorded:  # on a busy machine, 10 may come before the first answer
            section = algorithm.train()["env_runners"]
            sections.append(section)
            reported += int(np.nan_to_num(section.get("num_episodes", 0)))
            batch = section.get("episodes", {}).get("data")
            recorded += len(batch.counted()) if batch else 0
            assert len(sections) < 400  # most have no episode if the learner has no core to itself
    assert recorded + sections[-1].get("episodes", {}).get("num_pending", 0) >= reported
