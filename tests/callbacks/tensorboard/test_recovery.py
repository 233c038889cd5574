"""After a kill, a restored trial's TensorBoard has the steps that had not been uploaded and are not played again."""

import dataclasses
import functools
import shutil
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow.fs
import pytest
from ray.tune.callback import CallbackList

import tune_media as tm
from tests.support.experiment import image_steps, tensorboard_events
from tests.support.fake_trial import FakeTrial, run
from tests.support.faults import wait_until
from tests.support.reader import PlainContext
from tests.support.taped import taped_clip
from tune_media.callbacks.backend import Report, TrialInfo
from tune_media.callbacks.outbox import FOLDER_VARIABLE
from tune_media.callbacks.readers import BackendReader
from tune_media.callbacks.session import _SESSIONS
from tune_media.callbacks.tensorboard import callback
from tune_media.callbacks.tensorboard.trial_events import TrialEvents
from tune_media.storage.location import TrialLocation
from tune_media.values.episodes import EpisodeBatch, EpisodeData, Series


def a_clip(level):
    return tm.Video((np.full((16, 24, 3), 9 * t + level, np.uint8) for t in range(3)), fps=5)


def results(steps, later=0):
    for step in steps:
        found = {"score": step, "clip": a_clip(step), "pair": [a_clip(step), a_clip(50 + step)]}
        found |= {"weights": tm.Histogram(np.arange(10.0 * step)), "names": [{"a": "b"}]}
        record = tm.EpisodeRecord(f"e{step}", float(step), 5)
        found["episodes"] = {"data": EpisodeBatch((EpisodeData(record, {"speed": Series(np.arange(5.0), 1, 5)}),))}
        yield {**found, "training_iteration": step, "timestamp": 1000 + step + later}


def callbacks():
    strict = tm.MediaOptions(strict=True)
    return [tm.JsonMediaLoggerCallback(media=strict), tm.TBXMediaLoggerCallback(media=strict)]


def restored(folder, last):
    """Return the trial as the next driver has it, on another machine, with Tune's last copy of its results."""
    copy = folder / "storage/t1/result.json"
    (folder / "driver/staging/t1/result.json").replace(copy)
    shutil.rmtree(folder / "driver")
    trial = FakeTrial(folder)
    trial.last_result = {"training_iteration": last}
    return trial


def scores(folder):
    """Return the steps of the score that TensorBoard shows."""
    return [event.step for event in tensorboard_events(folder / "storage/t1").Scalars("ray/tune/score")]


@pytest.mark.parametrize("uploaded", [0.0, 0.6, 1.0])
def test_steps_that_a_killed_driver_had_not_uploaded_are_there_again(tmp_path, uploaded):
    """On S3, TensorBoard lacked four steps of a restored trial."""
    run(callbacks(), FakeTrial(tmp_path), list(results(range(1, 8))))
    storage = tmp_path / "storage/t1"
    (file,) = storage.glob("events.out.tfevents.*")
    file.write_bytes(file.read_bytes()[: round(uploaded * file.stat().st_size)])  # half an event, too
    run(callbacks(), restored(tmp_path, 7), list(results([8, 9])))
    assert image_steps(storage) == {"train/clip": list(range(1, 10)), "train/pair": sorted([*range(1, 10)] * 2)}
    events = tensorboard_events(storage)
    assert [event.step for event in events.Scalars("ray/tune/score")] == list(range(1, 10))
    for name in ("train/weights", "train/episodes/speed"):
        assert [event.step for event in events.Histograms(name)] == list(range(1, 10))
    assert [event.wall_time for event in events.Scalars("ray/tune/score")][6] == 1007


@pytest.mark.parametrize("half", ["storage", "driver"])
def test_results_that_tune_or_ray_is_copying_right_now_are_there_again(tmp_path, half):
    """Tune empties its copy of result.json before it writes it: TensorBoard lacked a result after a kill, once."""
    run(callbacks(), FakeTrial(tmp_path), list(results(range(1, 5))))
    again, storage = restored(tmp_path, 4), tmp_path / "storage/t1"
    next(storage.glob("events.out.tfevents.*")).unlink()
    written = (storage / "result.json").read_bytes()
    for place, folder in (("storage", storage), ("driver", Path(again.local_path))):
        (folder / "result.json").write_bytes(written[:-100] if place == half else written)
    run([tm.TBXMediaLoggerCallback(media=tm.MediaOptions(strict=True))], again, list(results([5])))
    assert scores(tmp_path) == [1, 2, 3, 4, 5]


def test_a_trial_that_goes_back_again_and_again_shows_what_counts(tmp_path):
    """What one driver had written, and another one played again, was shown twice or not at all."""
    storage = tmp_path / "storage/t1"
    for number, (last, steps) in enumerate([(0, range(1, 6)), (3, range(4, 7)), (6, range(7, 9)), (5, range(6, 10))]):
        trial = FakeTrial(tmp_path)
        if last:
            trial = restored(tmp_path, last)
            shutil.copy(storage / "result.json", f"{trial.local_path}/result.json")
        run(callbacks(), trial, [{**result, "life": number} for result in results(steps, 100 * number)])
        if number == 1:  # this driver had uploaded nothing of its own
            max(storage.glob("events.out.tfevents.*")).unlink()
    events = tensorboard_events(storage)
    shown = [(event.step, event.value) for event in events.Scalars("ray/tune/life")]
    assert shown == [(1, 0), (2, 0), (3, 0), (4, 1), (5, 1), (6, 3), (7, 3), (8, 3), (9, 3)]
    assert image_steps(storage) == {"train/clip": list(range(1, 10)), "train/pair": sorted([*range(1, 10)] * 2)}


def test_clips_that_come_after_a_recovery_that_failed_are_shown(tmp_path, monkeypatch, caplog):
    """All later clips of the trial were skipped, and not counted."""

    def fails(events, found, missing):
        raise ValueError("what was found is odd")

    monkeypatch.setattr(TrialEvents, "add_missing", fails)
    trial = FakeTrial(tmp_path)
    trial.last_result = {"training_iteration": 7}
    run([tm.TBXMediaLoggerCallback()], trial, list(results([8, 9])))
    assert image_steps(tmp_path / "storage/t1")["train/clip"] == [8, 9]
    assert "what was found is odd" in caplog.text


def test_a_clip_that_a_trial_records_again_after_it_went_back_is_shown_again(tmp_path):
    """TensorBoard forgets what a trial leaves behind, and a raw array that came again is known already."""
    frames = [np.random.default_rng(step).integers(0, 255, (3, 16, 24, 3), np.uint8) for step in range(5)]
    played = [{"raw": frames[step], "training_iteration": step} for step in (1, 2, 3, 2, 3, 4)]
    run(callbacks(), FakeTrial(tmp_path), played)
    assert image_steps(tmp_path / "storage/t1") == {"train/raw": [1, 2, 3, 4]}


@pytest.fixture
def left(tmp_path, monkeypatch):
    """Return what runs a driver that ends before the tape of its first step is rendered; it returns the next one's."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "outbox"))

    def end_after(steps):
        trial, first = FakeTrial(tmp_path), CallbackList(callbacks())
        first.on_trial_start(iteration=0, trials=[trial], trial=trial)
        for step in range(1, steps + 1):
            clip = taped_clip(1, gate=str(tmp_path / "gate")) if step == 1 else a_clip(step)
            report(first, trial, step, clip)
        state = first.get_state()
        _SESSIONS[trial.storage.experiment_driver_staging_path].end_now()
        second, again = CallbackList(callbacks()), FakeTrial(tmp_path)
        second.set_state(state)
        again.last_result = {"training_iteration": steps}
        return second, again, FakeTrial(tmp_path, "t2")

    return end_after


def report(callbacks, trial, step, clip):
    result = {"best": clip, "training_iteration": step}
    callbacks.on_trial_result(iteration=step, trials=[trial], trial=trial, result=result)


def end(callbacks, trial, other):
    callbacks.on_trial_complete(iteration=9, trials=[trial, other], trial=trial)
    callbacks.on_experiment_end(trials=[trial, other])


def shown_steps(folder):
    """Return the steps whose clips TensorBoard's fast reader shows: it forgets those that are not before a new one."""
    shown: list[int] = []
    for event in tensorboard_events(folder).Images("train/best"):
        shown = [*(step for step in shown if step < event.step), event.step]
    return shown


@pytest.mark.parametrize("is_first", [True, False])
def test_a_clip_that_the_restored_driver_renders_hides_none_of_the_newer_ones(tmp_path, left, is_first):
    """TensorBoard's fast reader forgets the clips that are not before it, which the killed driver had written."""
    second, again, other = left(3)
    if is_first:  # it is rendered before the trial starts
        (tmp_path / "gate").touch()
        second.on_trial_start(iteration=0, trials=[again, other], trial=other)
        wait_until(lambda: list((tmp_path / "storage/t1/media/train/best").glob("step_000000001-*.mp4")))
    second.on_trial_start(iteration=0, trials=[again, other], trial=again)
    (tmp_path / "gate").touch()
    report(second, again, 4, a_clip(4))
    end(second, again, other)
    assert shown_steps(tmp_path / "storage/t1") == [1, 2, 3, 4]


def test_a_trial_that_starts_while_its_end_in_the_killed_driver_is_delivered_goes_on(tmp_path, left, monkeypatch):
    """On a busy machine its event file was closed, and its next result raised."""
    second, again, other = left(1)
    is_delivered, has_started, start = threading.Event(), threading.Event(), BackendReader._start

    def starts_late(self, trial_id, facts):
        if trial_id == again.trial_id and self.name == "TensorBoard":
            is_delivered.set()
            assert has_started.wait(60)
        return start(self, trial_id, facts)

    monkeypatch.setattr(BackendReader, "_start", starts_late)
    second.on_trial_start(iteration=0, trials=[again, other], trial=other)
    assert is_delivered.wait(60)
    second.on_trial_start(iteration=0, trials=[again, other], trial=again)
    has_started.set()
    (tmp_path / "gate").touch()
    for step in (2, 3):
        time.sleep(0.5)
        report(second, again, step, a_clip(step))
    end(second, again, other)
    assert shown_steps(tmp_path / "storage/t1") == [1, 2, 3]


def test_what_is_played_again_is_shown_once_even_if_it_is_stored_before_the_recovery(tmp_path, monkeypatch):
    """It was taken for what the killed driver had stored, came before the restart, and was not added again."""
    run(callbacks(), FakeTrial(tmp_path), list(results(range(1, 8))))
    storage, wait = tmp_path / "storage/t1", callback.wait_for_storage
    again = restored(tmp_path, 7)

    def wait_long(context):
        wait_until(lambda: len(list((storage / "media/train/clip").glob("step_000000007-*"))) == 2)
        wait(context)

    monkeypatch.setattr(callback, "wait_for_storage", wait_long)
    run(callbacks(), again, list(results([6, 7, 8])))
    assert image_steps(storage) == {"train/clip": list(range(1, 9)), "train/pair": sorted([*range(1, 9)] * 2)}
    assert scores(tmp_path) == list(range(1, 9))


class StartsMeanwhile(PlainContext):
    """Has something happen in Tune's loop while the backend's thread waits for the storage."""

    def __init__(self):
        super().__init__()
        self.happens, self.waiting = None, []

    def later(self, what, work, key=None):
        self.waiting.append(work)

    def do_what_waits(self):
        waiting, self.waiting = self.waiting, []
        for work in waiting:
            work()

    def wait_for_storage(self):
        happens, self.happens = self.happens, None
        if happens is not None:
            happens()
        return True


def test_a_trial_that_starts_again_while_its_former_end_is_handled_shows_its_results(tmp_path):
    """All scalars of the trial were lost: what the killed driver had not said of its end took its event file away."""
    run(callbacks(), FakeTrial(tmp_path), list(results(range(1, 8))))
    again = restored(tmp_path, 5)
    place = TrialLocation(pyarrow.fs.LocalFileSystem(), str(tmp_path / "storage/t1"), Path(again.local_path), "t1")
    backend, context = tm.TBXMediaLoggerCallback().backend, StartsMeanwhile()
    backend.context, trial = context, TrialInfo("t1", "train_t1", "experiment", {}, place, again)
    context.happens = functools.partial(backend.start, trial)
    backend.end(dataclasses.replace(trial, ray=None), "finished")
    for step in (6, 7, 8):
        backend.metrics(trial, Report(step, step, {"score": step, "training_iteration": step}, row=10**15 + step))
    context.do_what_waits()
    backend.end(trial, "finished")
    assert scores(tmp_path) == list(range(1, 9))
