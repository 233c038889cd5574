"""The log writer in mjlab, which brings its own rsl_rl, and beside rsl_rl's writer for W&B."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest

import tune_media as tm
from tests.support.trackers import read_wandb, wandb_records, wandb_runs
from tests.support.waiting import wait_until
from tune_media.rsl_rl import LogWriter

ROOT = Path(__file__).parents[1]
pytest.importorskip("mjlab")


@pytest.mark.slow
def test_a_training_of_mjlab_is_a_trial_with_its_clips_and_its_hyperparameters(tmp_path, monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "egl")
    command = [sys.executable, "-m", "tests.support.mjlab_run", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True)
    (trial,) = tm.load(tmp_path / "cartpole").trials
    assert trial.status.word == "terminated"
    assert trial.curves()["step"] == [0, 1, 2, 3]
    assert trial.last_metrics["episode_return_mean"] > 0
    assert [(line["step"], line["frames"]) for line in trial.lines] == [(0, 10), (2, 10)]
    assert (trial.config["algorithm/gamma"], trial.config["env/scene/num_envs"]) == (0.99, 8)
    assert list(Path(trial.path).glob("events.out.tfevents.*"))


def test_the_writer_for_wandb_gets_every_call_but_scalars_over_seconds(tmp_path, monkeypatch):
    @dataclasses.dataclass
    class Env:
        mass: float = 2.0

    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    writer = LogWriter(str(tmp_path / "run"), {"class_name": "WandbLogWriter", "project_name": "walkers"})
    writer.store_config(Env(), {"seed": 1})
    for iteration in range(1, 4):
        writer.add_scalar("Train/mean_reward", float(iteration), iteration)
        writer.add_scalar("Train/mean_reward/time", 0.0, 1000 * iteration)  # W&B would drop all that comes after
    writer.stop()
    wait_until(lambda: read_wandb(tmp_path).status == 0)  # W&B's own process writes the file
    records = list(wandb_records(*wandb_runs(tmp_path)))
    logged = [_values(record.history.item) for record in records if record.WhichOneof("record_type") == "history"]
    assert [(row["_step"], row["Train/mean_reward"]) for row in logged] == [(1, 1.0), (2, 2.0), (3, 3.0)]
    assert not any("Train/mean_reward/time" in row for row in logged)
    config = [_values(record.config.update) for record in records if record.WhichOneof("record_type") == "config"]
    assert config == [{"train_cfg": {"seed": 1}}, {"env_cfg": {"mass": 2.0}}]
    assert tm.load(tmp_path / "run").trials[0].curves()["metrics"]["episode_return_mean"] == [1, 2, 3]


def _values(items):
    return {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in items}
