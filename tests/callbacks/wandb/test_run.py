"""The W&B run of a trial, offline and without Ray, and all those of the helper process.

Rows whose step rises have the media of one result each.
"""

import json
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import tune_media as tm
from tests.support.trackers import read_wandb, wandb_records
from tune_media.callbacks.wandb.helper import WandbRuns
from tune_media.callbacks.wandb.run import WandbRun
from tune_media.callbacks.wandb.values import as_item, best_item
from tune_media.storage.entry import MediaEntry

pytest.importorskip("wandb")

BLOCK = 32768


def settings(**init):
    return {
        **{"exclude": [], "to_config": [], "video_kwargs": {}, "image_kwargs": {}, "episodes_artifact": False},
        **{"trial": "the_trial", "searched": {"lr": 0.1}, "trial_log_path": "/trial"},
        "init": {"project": "p", "mode": "offline", "id": "t", "name": "the_trial", **init},
    }


def run_in(folder, **more):
    return WandbRun(folder, {**settings(), **more})


def item_of(iteration, level=1):
    clip = tm.Video(iter(np.full((3, 16, 16, 3), 40 * level, np.uint8)), fps=5)
    path = f"media/train/clip/step_{iteration}_{level}.mp4"
    return as_item(MediaEntry(clip, "train", "clip", path, iteration, iteration))


def test_late_clips_of_several_results_are_each_logged_at_their_own_iteration(tmp_path):
    run = run_in(tmp_path)
    for iteration in range(1, 4):
        run.log({"score": iteration, "training_iteration": iteration}, iteration, None)
    for iteration in range(1, 7):  # more results than rows
        run.show(item_of(iteration))
    run.show(item_of(7, 1))
    run.show(item_of(7, 2))
    run.log({"score": 4, "training_iteration": 4}, 4, None)
    run.end(0)
    held = read_wandb(tmp_path)
    assert sorted(held.clips["train/clip"]) == [1, 2, 3, 4, 5, 6]
    assert {step: len(clips) for step, clips in held.several["train/clip"].items()} == {7: 2}
    assert held.scalars["score"] == {1: 1, 2: 2, 3: 3, 4: 4}
    assert held.status == 0
    assert not list(tmp_path.glob("media-*"))  # its own copies are gone


def test_values_go_to_the_row_or_the_config_or_nowhere(tmp_path):
    run = run_in(tmp_path, exclude=["hidden"], to_config=["pid"])
    row = {"odd": np.zeros((5, 6, 7)), "score": 1, "hidden/a": 2, "pid": 77, "text": "words", "training_iteration": 1}
    problem = run.log(row, 1, {"lr": 0.5})
    assert problem is None or problem.startswith("odd is left out: ")  # wandb may take it
    run.end(1)
    held = read_wandb(tmp_path)
    assert held.scalars["score"] == {1: 1}
    assert not {"hidden/a", "pid", "text"} & held.scalars.keys()
    (file,) = tmp_path.rglob("*.wandb")
    updates = [record.config.update for record in wandb_records(file) if record.WhichOneof("record_type") == "config"]
    config = {item.key or "/".join(item.nested_key): item.value_json for items in updates for item in items}
    assert {"pid": "77", "lr": "0.5", "trial_log_path": '"/trial"'}.items() <= config.items()
    assert held.status == 1


def test_the_name_of_an_artifact_leads_to_no_file_outside_the_run(tmp_path):
    mine = tmp_path / "mine.bin"
    mine.write_bytes(b"precious")
    run = run_in(tmp_path / "run")
    for step, name in enumerate((str(mine), "folder/buffer.bin", "buffer.bin", "buffer.bin"), 1):
        artifact, path = tm.Artifact(bytes([step]), name=name), f"media/x/step_{step}.bin"
        run.show(as_item(MediaEntry(artifact, "train", "buffer", path, step, step)))
    kept = [file.read_bytes() for file in run._kept_files]
    run.end(0)
    assert mine.read_bytes() == b"precious"
    assert kept == [b"\1", b"\2", b"\3", b"\4"]


def test_a_run_has_ended_when_its_file_is_whole(tmp_path, monkeypatch):
    """wandb 0.31 finishes before its file is whole: 2 of 16 trials under load had a file of exactly 131072 bytes."""
    import wandb

    finish, threads = wandb.Run.finish, []

    def finish_early(run, *args, **kwargs):
        finish(run, *args, **kwargs)
        time.sleep(0.3)
        (file,) = tmp_path.rglob("*.wandb")
        content = file.read_bytes()
        file.write_bytes(content[: 4 * BLOCK])
        threads.append(threading.Timer(0.3, file.write_bytes, [content]))
        threads[0].start()

    monkeypatch.setattr(wandb.Run, "finish", finish_early)
    runs = WandbRuns(str(tmp_path))
    runs.begin("t", settings())
    for step in range(100):
        runs.call("log", "t", {f"metric_{index}": step for index in range(50)}, step, None)
    runs.call("end", "t", 0)
    (file,) = tmp_path.rglob("*.wandb")
    assert file.stat().st_size > 4 * BLOCK
    assert [record.WhichOneof("record_type") for record in wandb_records(file)][-1] == "exit"
    threads[0].join()


def test_the_trial_is_a_line_of_a_table_with_its_best_clip_and_settings_reach_the_run(tmp_path):
    runs = WandbRuns(str(tmp_path))
    runs.begin("t", settings(settings={"run_notes": "from the settings"}))
    evaluation = "evaluation/env_runners/episode_return_mean"
    rows = [{evaluation: 7.0}, {evaluation: 6.0}, {"env_runners/episode_return_mean": 99.0}]
    for step, row in enumerate(rows, 1):
        runs.call("log", "t", row, step, None)
    video = tm.Video(iter(np.full((3, 16, 16, 3), 40, np.uint8)), fps=5)
    line = {"section": "evaluation", "training_iteration": 2, "episode_return": 9.5, "episode_length": 3}
    runs.call("end", "t", 0, best_item({**line, "path": "media/step_2.mp4"}, video.content()))
    (file,) = tmp_path.rglob("trials_*.table.json")
    table = json.loads(file.read_text())
    (row,) = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
    assert row.pop("clip") == "Video"  # the clip itself is in the table's artifact
    assert row == {
        **{"trial": "the_trial", "score": 6.0, "score_is": "mean evaluation return"},
        **{"section": "evaluation", "best_return": 9.5},
        **{"episode_length": 3, "step": 2, "lr": 0.1},
    }
    (file,) = tmp_path.rglob("*.wandb")
    records = list(wandb_records(file))
    summaries = [record.summary for record in records if record.WhichOneof("record_type") == "summary"]
    updates = {item.key: item.value_json for summary in summaries for item in summary.update}
    assert updates["best_return"] == "9.5"
    assert [one.run.notes for one in records if one.WhichOneof("record_type") == "run"] == ["from the settings"]


@pytest.mark.parametrize("ends", [True, False])
def test_wandbs_process_may_end_before_the_helper(tmp_path, ends):
    script = f"""
import os, signal, time
from pathlib import Path
from tune_media.callbacks.wandb.helper import WandbRuns
runs = WandbRuns({str(tmp_path)!r})
runs.begin("t", {settings()!r})
runs.call("end", "t", 0)
{"runs.close()" if ends else ""}
for file in Path("/proc").glob("[0-9]*/cmdline"):
    words = file.read_bytes().split(b"\\0")
    if any(b"wandb-core" in word for word in words) and str(os.getpid()).encode() in words:
        os.kill(int(file.parent.name), signal.SIGKILL)
        print("killed")
time.sleep(1)
"""
    own = {name: value for name, value in os.environ.items() if not name.startswith("WANDB")}  # a process of its own
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, env=own)
    assert done.returncode == 0
    assert ("Traceback" in done.stderr, "killed" in done.stdout) == (not ends, not ends), done.stderr
