"""After a kill, a restored trial's TensorBoard has the steps that had not been uploaded and are not played again."""

import shutil

import numpy as np
import pytest

import tune_media as tm
from tests.support.experiment import image_steps, tensorboard_events
from tests.support.fake_trial import FakeTrial, run
from tune_media.callbacks.tensorboard.event_file import _record, read_events


def results(steps):
    for step in steps:
        clip = tm.Video((np.full((16, 24, 3), 9 * t + step, np.uint8) for t in range(3)), fps=5)
        found = {"score": step, "clip": clip, "weights": tm.Histogram(np.arange(10.0 * step)), "names": [{"a": "b"}]}
        yield {**found, "training_iteration": step, "timestamp": 1000 + step}


def older(storage):
    """Rename a trial's event file: within a second, its name would not say that it is the older one."""
    (file,) = storage.glob("events.out.tfevents.*")
    return file.rename(file.with_name(f"events.out.tfevents.1000000000.{file.name.partition('tfevents.')[2]}"))


def callbacks():
    strict = tm.MediaOptions(strict=True)
    return [tm.JsonMediaLoggerCallback(media=strict), tm.TBXMediaLoggerCallback(media=strict)]


@pytest.mark.parametrize("uploaded", [0, 4, 7])
def test_steps_that_a_killed_driver_had_not_uploaded_are_there_again(tmp_path, uploaded):
    """On S3, TensorBoard lacked four steps of a restored trial."""
    trial = FakeTrial(tmp_path)
    run(callbacks(), trial, list(results(range(1, 8))))
    storage = tmp_path / "storage/t1"
    file = older(storage)
    kept = [event for event in read_events(file.open("rb")) if event.step <= uploaded]
    file.write_bytes(b"".join(_record(event.SerializeToString()) for event in kept))
    shutil.copy(f"{trial.local_path}/result.json", storage / "result.json")
    shutil.rmtree(tmp_path / "driver")

    again = FakeTrial(tmp_path)
    again.last_result = {"training_iteration": 7}
    run(callbacks(), again, list(results([8, 9])))
    assert image_steps(storage) == {"train/clip": list(range(1, 10))}
    events = tensorboard_events(storage)
    assert [event.step for event in events.Scalars("ray/tune/score")] == list(range(1, 10))
    assert [event.step for event in events.Histograms("train/weights")] == list(range(1, 10))
    if uploaded == 4:
        assert [event.wall_time for event in events.Scalars("ray/tune/score")][4:7] == [1005, 1006, 1007]


def test_a_step_that_is_played_again_is_shown_once(tmp_path):
    run(callbacks(), FakeTrial(tmp_path), list(results(range(1, 8))))
    older(tmp_path / "storage/t1")
    shutil.copy(tmp_path / "driver/staging/t1/result.json", tmp_path / "storage/t1/result.json")
    shutil.rmtree(tmp_path / "driver")
    again = FakeTrial(tmp_path)
    again.last_result = {"training_iteration": 7}
    run(callbacks(), again, list(results([6, 7, 8])))
    events = tensorboard_events(tmp_path / "storage/t1")
    assert [event.step for event in events.Scalars("ray/tune/score")] == list(range(1, 9))
