"""The W&B run of a trial, offline: rows whose step rises, with the media of one result each."""

import numpy as np
import pytest

import tune_media as tm
from tests.support.trackers import read_wandb, wandb_records
from tune_media.callbacks.wandb.run import WandbRun
from tune_media.callbacks.wandb.values import as_item
from tune_media.storage.entry import MediaEntry

pytest.importorskip("wandb")


def run_in(folder, **more):
    nothing = {"exclude": [], "to_config": [], "video_kwargs": {}, "image_kwargs": {}, "searched": {}}
    init = {"project": "p", "mode": "offline", "id": "t", "name": "the_trial"}
    settings = {"episodes_artifact": False, "trial": "the_trial", "trial_log_path": "/trial", "init": init}
    return WandbRun(folder, {**nothing, **settings, **more})


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


def test_values_go_to_the_row_or_the_config_or_nowhere(tmp_path):
    run = run_in(tmp_path, exclude=["hidden"], to_config=["pid"])
    row = {"score": 1, "hidden/a": 2, "pid": 77, "text": "words", "training_iteration": 1}
    assert run.log(row, 1, {"lr": 0.5}) is None
    run.end(1)
    held = read_wandb(tmp_path)
    assert held.scalars["score"] == {1: 1}
    assert not {"hidden/a", "pid", "text"} & held.scalars.keys()
    (file,) = tmp_path.rglob("*.wandb")
    updates = [record.config.update for record in wandb_records(file) if record.WhichOneof("record_type") == "config"]
    config = {item.key or "/".join(item.nested_key): item.value_json for items in updates for item in items}
    assert {"pid": "77", "lr": "0.5", "trial_log_path": '"/trial"'}.items() <= config.items()
    assert held.status == 1


def test_a_value_that_wandb_does_not_take_is_named_and_costs_no_other(tmp_path):
    run = run_in(tmp_path)
    problem = run.log({"odd": np.zeros((5, 6, 7)), "score": 1, "training_iteration": 1}, 1, None)
    run.end(0)
    assert problem is None or problem.startswith("odd is left out: ")
    assert read_wandb(tmp_path).scalars["score"] == {1: 1}


def test_clips_are_an_artifact_of_their_own_if_the_user_wants_it(tmp_path):
    run = run_in(tmp_path, episodes_artifact=True)
    run.show(item_of(1))
    run.end(0)
    (file,) = tmp_path.rglob("*.wandb")
    kinds = [record.artifact.type for record in wandb_records(file) if record.WhichOneof("record_type") == "artifact"]
    assert kinds == ["episodes"]
    assert not list(tmp_path.glob("media-*"))  # its own copies are gone


def test_the_name_of_an_artifact_leads_to_no_file_outside_the_run(tmp_path):
    mine = tmp_path / "mine.bin"
    mine.write_bytes(b"precious")
    run = run_in(tmp_path / "run")
    for step, name in enumerate((str(mine), "folder/buffer.bin", "buffer.bin", "buffer.bin"), 1):
        entry = MediaEntry(
            tm.Artifact(bytes([step]), name=name), "train", "buffer", f"media/x/step_{step}.bin", step, step
        )
        run.show(as_item(entry))
    kept = [file.read_bytes() for file in run._kept_files]
    run.end(0)
    assert mine.read_bytes() == b"precious"
    assert kept == [b"\1", b"\2", b"\3", b"\4"]
