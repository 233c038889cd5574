"""Values and pictures that are easy to lose arrive in real runs as the env and the hooks wrote them down."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import ray
from packaging.version import Version
from ray.rllib.algorithms.callbacks import DefaultCallbacks, make_multi_callbacks
from ray.rllib.algorithms.ppo import PPOConfig

import tune_media as tm
from tests.support.envs.odd_values import LARGE, OddValuesEnv
from tests.support.experiment import fit, rows_of, tensorboard_events
from tests.support.rllib_configs import multi_agent, small

HAS_ITEM_SERIES = Version(ray.__version__) >= Version("2.52")
LOGGED_FOREVER = {"reduce": "item_series", "window": 3} if HAS_ITEM_SERIES else {"reduce": None, "window": 3}
LEARN = {"train_batch_size": 32, "minibatch_size": 32, "num_epochs": 1}
CALLBACKS = [tm.JsonMediaLoggerCallback, tm.TBXMediaLoggerCallback]


class Heatmaps(DefaultCallbacks):
    def on_episode_end(self, *, episode, metrics_logger=None, **kwargs):
        if metrics_logger is None:
            return
        picture = np.random.default_rng().integers(0, 255, (80, 100, 3)).astype(np.uint8)
        np.save(Path(self.log_dir) / f"{episode.id_}.npy", picture)
        metrics_logger.log_value("heatmap", picture, **LOGGED_FOREVER)


@pytest.fixture(scope="module", params=["new", "old"])
def run(request, ray_session, tmp_path_factory):
    """Three training iterations of a multi-agent env, with the recorder and a hook that logs pictures."""
    storage, is_old = tmp_path_factory.mktemp(f"odd_{request.param}"), request.param == "old"
    hook = type("Heatmaps", (Heatmaps,), {"log_dir": str(storage)})
    both = [hook, tm.rllib.record_episodes(sections="train", video=None)]
    settings = {"multi_agent": multi_agent(), "env_runners": {"rollout_fragment_length": 32}}
    config = small(PPOConfig, LEARN, OddValuesEnv, old_stack=is_old, **settings)({"log_dir": str(storage)})
    config.callbacks(make_multi_callbacks(both) if is_old else both)
    callbacks = [callback(media=tm.MediaOptions(strict=True)) for callback in CALLBACKS]
    results = fit("PPO", storage / "out", callbacks, space=config, stop={"training_iteration": 3})
    assert not results.errors
    return storage, Path(results[0].path), request.param


def test_every_value_is_in_the_rows_as_the_env_wrote_it(run):
    storage, trial, _ = run
    rows = [row for file in sorted(trial.glob("episode_data/data-*.json")) for row in json.loads(file.read_text())]
    told = {round(one["return"], 6): one for one in (json.loads(path.read_text()) for path in storage.glob("*.told"))}
    assert len(rows) >= 5
    for row in rows:
        wrote = told[round(row["episode_return"], 6)]
        assert row["series"]["left/map"] == wrote["map"]
        assert row["series"]["left/seen"] == wrote["seen"]
        assert row["series"]["ids"] == wrote["ids"]
        assert row["values"]["code"] == LARGE + wrote["length"]
        assert row["metrics"]["left/goals"] == wrote["length"]
        assert row["metrics"]["left/speed_avg"] == pytest.approx(np.mean(wrote["speeds"]))
        assert row["metrics"]["left/speed_avg_final"] == 99.0


def test_pictures_of_the_metrics_logger_are_stored_once_each_and_not_as_numbers(run):
    storage, trial, stack = run
    if stack == "old":
        pytest.skip("the old API stack has no metrics logger")
    wrote = Counter(np.load(path).tobytes() for path in storage.glob("*.npy"))
    rows = rows_of(tm.load(trial.parent), key="heatmap")
    stored = Counter(np.asarray(PIL.Image.open(row["file"]).convert("RGB")).tobytes() for row in rows)
    assert len(stored) >= 3
    assert set(stored.values()) == {1}
    assert stored.keys() <= wrote.keys()
    assert {(row["kind"], row["width"], row["height"]) for row in rows} == {("image", 100, 80)}
    assert max(map(len, (trial / "result.json").read_text().splitlines())) < 20_000
    events = tensorboard_events(trial)
    assert {event.step for event in events.Images("train/heatmap")} == {row["step"] for row in rows}
    assert not [tag for tag in events.Tags()["histograms"] if "heatmap" in tag]
