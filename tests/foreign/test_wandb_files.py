"""Runs of W&B: the log that the real library writes offline, and the files of a run without one."""

import json
import subprocess
import sys

import pytest

from tests.support.foreign_run import curves_in, run_in
from tune_media.foreign import wandb_files
from tune_media.foreign.wandb_files import parse_wandb

SCRIPT = """
import wandb

config = {"env_id": "CartPole-v1", "seed": 3, "net": {"layers": [64, 64]}, "lr": 1e-4, "old": 1}
run = wandb.init(mode="offline", config=config, settings=wandb.Settings(silent=True, console="off"))
run.config.update({"lr": 1e-3, "text": "x" * 70_000}, allow_val_change=True)
for step in range(300):
    run.log({"charts/episodic_return": float(step), "global_step": 10 * step, "nested": {"loss": float("nan")}})
clips = []
for name in "abc":
    open(f"{name}.mp4", "w").write(name)
    clips.append(wandb.Video(f"{name}.mp4", caption="return -3.5, length 9, " + name, format="mp4"))
run.log({"eval/mean_reward": 5, "done": True, "name": "text", "eval/clip": clips[0]}, step=1000)
run.log({"clips": clips[1:], "media_step": 7}, step=1001)  # as our callback
run.finish()
"""


@pytest.fixture(scope="module")
def offline_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wandb")
    subprocess.run([sys.executable, "-c", SCRIPT, "--lr=2"], cwd=folder, check=True, timeout=300)
    (run,) = folder.glob("wandb/offline-run-*")
    return run


@pytest.mark.slow
def test_an_offline_run_has_its_config_and_its_numbers(offline_run):
    run = run_in(offline_run)
    assert run.config["text"] == "x" * 70_000  # over three blocks of the file
    assert {**run.config, "text": ""} == {
        "env_id": "CartPole-v1",
        "seed": 3,
        "net": {"layers": [64, 64]},
        "lr": 1e-3,
        "old": 1,
        "text": "",
    }
    assert run.env_id == "CartPole-v1"
    assert run.not_understood == []
    curves = curves_in(offline_run)
    assert set(curves) - {"media_step"} == {
        "episode_return_mean",
        "charts/episodic_return",
        "nested/loss",
        "evaluation/episode_return_mean",
    }
    of_training, of_evaluation = curves["charts/episodic_return"], curves["evaluation/episode_return_mean"]
    assert (of_training.steps[:3], of_training.values[-1], of_training.unit) == ([0.0, 10.0, 20.0], 299.0, "env steps")
    assert 1.7e9 < of_training.times[0] <= of_training.times[-1]
    assert (of_evaluation.steps, of_evaluation.values, of_evaluation.unit) == ([1000.0], [5.0], "steps")


@pytest.mark.slow
def test_clips_have_the_steps_of_their_rows_and_what_our_captions_say(offline_run):
    facts = {line.path.rsplit("_", 2)[0]: line.facts for line in run_in(offline_run).lines}
    assert {path: of_clip["step"] for path, of_clip in facts.items()} == {
        "files/media/videos/eval/clip": 1000,  # its name has 300, at which W&B counted before it got the step
        "files/media/videos/clips": 7,
    }
    assert {(of_clip["episode_return"], of_clip["episode_length"]) for of_clip in facts.values()} == {(-3.5, 9)}


@pytest.mark.slow
def test_a_log_that_is_cut_off_or_damaged_is_read_up_to_there(offline_run):
    (path,) = offline_run.glob("*.wandb")
    content = path.read_bytes()
    whole, cut = parse_wandb(content), parse_wandb(content[: len(content) // 2 + 50_000])
    assert 0 < len(cut.rows) < len(whole.rows) == 302
    assert cut.rows == whole.rows[: len(cut.rows)]
    assert cut.config == whole.config
    damaged = bytearray(content)
    damaged[-5_000] ^= 1
    damaged = parse_wandb(bytes(damaged))
    assert 0 < len(damaged.rows) < 302
    assert damaged.rows == whole.rows[: len(damaged.rows)]


def test_the_numbers_of_fields_are_those_of_the_installed_release():
    messages = pytest.importorskip("wandb.proto.wandb_internal_pb2")

    def numbers(message, *names):
        return tuple(getattr(messages, message).DESCRIPTOR.fields_by_name[name].number for name in names)

    names = wandb_files
    assert numbers("Record", "history", "config", "run", "environment") == (
        *(names._HISTORY, names._CONFIG, names._RUN, names._ENVIRONMENT),
    )
    assert numbers("RunRecord", "config") == (names._RUN_CONFIG,)
    assert numbers("EnvironmentRecord", "args") == (names._ARGUMENT,)
    assert numbers("ConfigRecord", "update", "remove") == (names._ITEM, names._REMOVED)
    assert numbers("HistoryRecord", "item", "step") == (names._ITEM, names._STEP)
    assert numbers("HistoryStep", "num") == (names._STEP_NUMBER,)
    for message in ("HistoryItem", "ConfigItem"):
        assert numbers(message, "key", "nested_key", "value_json") == (
            *(names._KEY, names._NESTED_KEY, names._VALUE_JSON),
        )
    assert numbers("HistoryItem", "integer", "number") == (names._INTEGER, names._NUMBER)


def test_without_a_log_the_summary_has_the_last_numbers_and_the_command_the_hyperparameters(tmp_path):
    files = tmp_path / "files"
    files.mkdir()
    summary = {"rollout/ep_rew_mean": 12.5, "_step": 7, "_timestamp": 1.8e9, "_wandb": {"runtime": 3}, "best": "a"}
    (files / "wandb-summary.json").write_text(json.dumps(summary))
    args = ["--env-id", "Ant-v5", "--seed", "3", "--lr=1e-4", "--cuda", "--api-key", "abc"]
    (files / "wandb-metadata.json").write_text(json.dumps({"args": args, "program": "train.py"}))
    run = run_in(tmp_path)
    assert run.config == {"env_id": "Ant-v5", "seed": 3, "lr": 1e-4, "cuda": True, "api_key": "abc"}
    assert run.env_id == "Ant-v5"
    (curve,) = run.curves
    assert (curve.name, curve.steps, curve.values, curve.unit) == ("episode_return_mean", [7.0], [12.5], "steps")
    (files / "config.yaml").write_text("wandb_version: 1\nlr:\n  value: 0.5\n")
    assert run_in(tmp_path).config == {"lr": 0.5}
