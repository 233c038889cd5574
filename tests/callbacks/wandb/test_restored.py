"""Offline W&B runs that are written anew, from the files of a trial that a kill interrupted."""

import dataclasses
import json
import shutil

import numpy as np
import pyarrow.fs
import pytest
from ray.tune.callback import CallbackList

import tune_media as tm
from tests.support.fake_trial import FakeTrial, run
from tests.support.pictures import clip
from tests.support.reader import PlainContext, a_trial, play
from tests.support.stores import StoredTrial
from tests.support.trackers import read_wandb, wandb_records, wandb_runs
from tune_media.callbacks.backend import ROW_KINDS, StorageAwayError
from tune_media.callbacks.finished_trial import FinishedTrial, calls_of
from tune_media.callbacks.session import _SESSIONS
from tune_media.callbacks.wandb.helper import DirectHelper, HelperDiedError, WandbHelper
from tune_media.callbacks.wandb.run import WandbRun
from tune_media.experiment.results import results_of_trial
from tune_media.experiment.trial_files import TrialFiles
from tune_media.storage.location import TrialLocation

wandb = pytest.importorskip("wandb")


@pytest.fixture
def backend_of(monkeypatch):
    """Return a maker of backends, as one process after the other makes them; their runs are in this process."""
    made = []
    for method in ("_call", "close", "_kill"):  # another test's Ray may run in this process
        monkeypatch.setattr(WandbHelper, method, getattr(DirectHelper, method))

    def make(**options):
        backend = tm.WandbMediaLoggerCallback(project="p", mode="offline", **options).backend
        backend.context = PlainContext()
        made.append(backend)
        return backend

    yield make
    for backend in made:
        if backend._helper is not None and backend._helper._actor is not None:
            for run in backend._helper._actor._runs.values():
                run.discard()
            shutil.rmtree(backend._helper.folder)


CHANGES = ("_runtime", "_timestamp", "trials/")  # a table's file has another name each time


def rows_of(trial):
    """Return the values of each row that a trial's runs on the storage have, but for those that a kill may change."""
    for file in wandb_runs(trial):
        for record in wandb_records(file):
            if record.WhichOneof("record_type") == "history":
                row = {item.key or "/".join(item.nested_key): item.value_json for item in record.history.item}
                yield {name: value for name, value in row.items() if not name.startswith(CHANGES) or "nrows" in name}


def restored(folder, *results, **changes):
    """Return a trial that an earlier driver logged, as the next one is told of it; its results are on the storage."""
    reported = FakeTrial(folder)
    run([tm.JsonMediaLoggerCallback()], reported, list(results))
    (folder / "storage/t1").mkdir(parents=True, exist_ok=True)
    shutil.copy(f"{reported.local_path}/result.json", folder / "storage/t1/result.json")
    return dataclasses.replace(a_trial(folder), is_restored=True, **changes)


def test_a_run_is_written_anew_as_the_run_of_a_trial_that_nobody_killed_and_replaces_it(backend_of, tmp_path):
    trial = restored(tmp_path, *({"score": 0.5 * step, "rollout": clip(step)} for step in (1, 2, 3)))
    new = dataclasses.replace(trial, is_restored=False)
    files = TrialFiles("t1", new.location.filesystem, new.location.path).read()
    results = results_of_trial(new.location.filesystem, new.location.path)
    found = calls_of(FinishedTrial(files, results, new, "finished"), [])
    _, *calls, end = [(ROW_KINDS[kind].method, *arguments) for kind, _, *arguments in found]
    for wanted, killed_at in ((3, 3), (6, len(calls))):
        live = [("start", new), *calls[:killed_at], ("end", "interrupted")]
        play(backend_of(), live)
        once = list(rows_of(tmp_path / "storage/t1"))
        assert len(once) <= wanted
    for _ in range(2):  # twice does no harm
        play(backend_of(), [("start", trial), end, ("finish", None)])
        assert len(wandb_runs(tmp_path / "storage/t1")) == 1
        assert list(rows_of(tmp_path / "storage/t1")) == once
    held = read_wandb(tmp_path / "storage/t1")
    assert (list(held.clips["train/rollout"]), held.status) == ([1, 2, 3], 0)


def test_results_that_a_kill_has_cut_off_are_named(backend_of, tmp_path):
    trial = restored(tmp_path, *({"score": 0.5 * step, "rollout": clip(step)} for step in (1, 2, 3)))
    for file in (tmp_path / "storage/t1/result.json", trial.location.local_path / "result.json"):
        content = file.read_bytes() if file.exists() else b""
        file.write_bytes(content[: content.rfind(b"\n", 0, -1) + 1])
    context = play(backend_of(), [("start", trial), ("end", "finished")])
    ((_, error),) = context.faults
    assert "trial t1 had 3 results, and its result.json ends at 2" in str(error)
    assert list(read_wandb(tmp_path / "storage/t1").clips["train/rollout"]) == [1, 2, 3]


def test_a_run_is_written_anew_from_the_storage_and_not_before_it_has_everything(backend_of, tmp_path):
    trial = restored(tmp_path, *({"score": 0.5 * step} for step in (1, 2, 3)))
    backend = backend_of()
    backend.context.is_stored = False
    backend.start(trial)
    with pytest.raises(StorageAwayError) as raised:
        backend.end(trial, "finished")
    assert backend.is_away(raised.value)  # so that the row is delivered again
    assert wandb_runs(tmp_path / "storage/t1") == []
    backend.context = PlainContext()
    backend.end(trial, "finished")
    backend.finish()
    assert read_wandb(tmp_path / "storage/t1").scalars["score"] == {1: 0.5, 2: 1.0, 3: 1.5}


def test_a_run_is_written_anew_with_media_of_a_storage_that_only_its_filesystem_finds(backend_of, tmp_path):
    storage = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    place = TrialLocation(storage, "storage/t1", tmp_path / "driver/t1", "t1")
    trial = restored(tmp_path, {"score": 0.5, "rollout": clip()}, location=place)
    play(backend_of(), [("start", trial), ("end", "finished")])
    held = read_wandb(tmp_path / "storage/t1")
    assert held.scalars["score"] == {1: 0.5}
    assert list(held.clips["train/rollout"]) == [1]


def test_a_medium_that_only_a_lost_driver_had_logged_is_in_the_run_if_it_comes_again(backend_of, tmp_path):
    raw = np.random.default_rng(0).integers(0, 255, (4, 16, 24, 3), np.uint8)
    run([tm.JsonMediaLoggerCallback()], FakeTrial(tmp_path), [{"clip": raw.copy()}])
    trial = FakeTrial(tmp_path)
    every = CallbackList([tm.JsonMediaLoggerCallback(), tm.WandbMediaLoggerCallback(project="p", mode="offline")])
    every.on_trial_start(iteration=0, trials=[trial], trial=trial)
    session = _SESSIONS[trial.storage.experiment_driver_staging_path]
    assert session._intakes[trial.trial_id].known.wait_until_complete(60)
    for iteration, result in enumerate([{"clip": raw.copy()}, {"score": 2.0}], 1):
        result["training_iteration"] = iteration
        every.on_trial_result(iteration=iteration, trials=[trial], trial=trial, result=result)
    every.on_trial_complete(iteration=2, trials=[trial], trial=trial)
    every.on_experiment_end(trials=[trial])
    assert len(wandb_runs(tmp_path / "storage/t1")) == 1
    held = read_wandb(tmp_path / "storage/t1")
    assert (list(held.clips["train/clip"]), held.scalars["score"]) == ([1], {2: 2.0})


def test_a_helper_that_dies_while_a_run_is_written_anew_replaces_nothing(backend_of, tmp_path, monkeypatch):
    trial = restored(tmp_path, *({"score": 0.5 * step, "rollout": clip(step)} for step in (1, 2)))
    play(backend_of(), [("start", trial), ("end", "finished"), ("finish", None)])
    before = list(rows_of(tmp_path / "storage/t1"))
    assert len(before) == 3
    backend = backend_of()
    show = WandbRun.show
    monkeypatch.setattr(WandbRun, "show", lambda *arguments: (_ for _ in ()).throw(HelperDiedError()))
    with pytest.raises(HelperDiedError):
        play(backend, [("start", trial), ("end", "failed")])
    assert list(rows_of(tmp_path / "storage/t1")) == before
    monkeypatch.setattr(WandbRun, "show", show)
    play(backend, [("start", trial), ("end", "failed"), ("finish", None)])  # is_away: it is tried again
    assert list(rows_of(tmp_path / "storage/t1")) == before
    assert read_wandb(tmp_path / "storage/t1").status == 1


@pytest.mark.parametrize("excludes", [[], ["train/best"]])
def test_the_best_clip_at_the_end_is_that_of_the_trials_lines_whoever_logged_it(backend_of, tmp_path, excludes):
    trial = a_trial(tmp_path)
    stored = StoredTrial(trial.location)
    for iteration, key, episode_return in [(1, "best", 100.0), (2, "worst", 5.0), (4, "best", 200.0)]:
        stored.goes_on(iteration)
        frames = np.full((3, 16, 16, 3), iteration, np.uint8)
        record = tm.EpisodeRecord(f"{iteration} {key}", episode_return, 3)
        stored.add(tm.Video(iter(frames), fps=5, episode=record), "train", key, iteration)
    stored.goes_on(3)
    stored.finish()
    play(backend_of(excludes=excludes), [("start", trial), ("end", "finished")])
    wanted = 5.0 if excludes else 100.0
    assert read_wandb(tmp_path / "storage/t1").summary["best_return"] == wanted
    (file,) = (tmp_path / "storage/t1").rglob("trials_*.table.json")
    (row,) = json.loads(file.read_text())["data"]
    assert {wanted, "Video"} <= set(row)
    assert len(list((tmp_path / "storage/t1").rglob("trials_*.table.json"))) == 1


def test_runs_that_the_storage_has_not_taken_stay_and_their_folder_is_named(backend_of, tmp_path, caplog):
    backend = backend_of()
    play(backend, [("start", a_trial(tmp_path))])
    helper, backend.context.is_stored = backend._helper, False
    helper._actor._runs["t1"].discard()
    backend.finish()
    assert str(helper.folder) in caplog.text
    assert list(helper.folder.glob("t1/wandb/offline-run-*"))
    shutil.rmtree(helper.folder)
