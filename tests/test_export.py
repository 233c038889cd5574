"""Chosen episodes as a Minari dataset."""

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from ray import tune

import tune_media as tm


def train(config):
    env = gym.make("CartPole-v1")
    env = tm.gym.RecordEpisodes(env, keep="all", trajectories=True, video=None)
    for _ in range(2):
        for seed in range(2):
            env.reset(seed=seed)
            over = False
            while not over:
                *_, terminated, truncated, _ = env.step(env.action_space.sample())
                over = terminated or truncated
        tune.report(env.take())


def test_a_dataset_holds_the_steps_of_the_chosen_episodes(ray_session, tmp_path, monkeypatch, caplog):
    pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    run_config = tune.RunConfig(
        name="exported", storage_path=str(tmp_path), verbose=0, callbacks=[tm.JsonMediaLoggerCallback()]
    )
    results = tune.Tuner(train, run_config=run_config).fit()
    told = tm.load(results.experiment_path).episodes()
    dataset = tm.export.to_minari(
        results.experiment_path,
        "cartpole/random-v0",
        where=lambda episode: episode["seed"] == 1,
        before_code=lambda: pytest.fail("steps that were recorded need no code"),
        env=gym.make("CartPole-v1"),
        data_format="arrow",
    )
    episodes = list(dataset.iterate_episodes())
    assert sorted(sum(episode.rewards) for episode in episodes) == sorted(told[told["seed"] == 1]["episode_return"])
    for episode in episodes:
        assert episode.observations.shape == (len(episode.rewards) + 1, 4)
        assert episode.observations.dtype == np.float32
        assert episode.terminations[-1]
    next(Path(results.experiment_path).rglob("steps-*.parquet")).write_bytes(b"noise")
    whole = {"where": lambda episode: episode["seed"] == 1, "env": gym.make("CartPole-v1")}
    assert len(tm.export.to_minari(results.experiment_path, "cartpole/half-v0", **whole)) == 1
    assert "passed over" in caplog.text
    with pytest.raises(ValueError, match="env="):
        tm.export.to_minari(results.experiment_path, "cartpole/random-v1")
    with pytest.raises(ValueError, match="trajectories=True"):
        tm.export.to_minari(results.experiment_path, "x/y-v0", where=lambda episode: False, env="CartPole-v1")
