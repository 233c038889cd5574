"""W&B runs whose calls are made again: online the run says what it has, offline it is written anew."""

import dataclasses
import functools
import json
import shutil

import numpy as np
import pyarrow.fs
import pytest
from ray.tune.callback import CallbackList

import tune_media as tm
from tests.support.fake_trial import FakeTrial, run
from tests.support.pictures import clip
from tests.support.reader import PlainContext, a_trial, calls_of, play, renewed
from tests.support.stores import StoredTrial
from tests.support.trackers import read_wandb, wandb_records, wandb_runs
from tune_media.callbacks.backend import StorageAwayError
from tune_media.callbacks.session import _SESSIONS
from tune_media.callbacks.wandb.helper import DirectHelper, HelperDiedError, WandbHelper
from tune_media.callbacks.wandb.run import MEDIA_ROW, NUMBERS_ROW
from tune_media.callbacks.wandb.runs import WandbRuns
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


CHANGES = ("_runtime", "_timestamp", "episodes/", "trials/")  # a table's file has another name each time


def rows_of(trial):
    """Return the values of each row that a trial's runs on the storage have, but for those that a kill may change."""
    for file in wandb_runs(trial):
        for record in wandb_records(file):
            if record.WhichOneof("record_type") == "history":
                row = {item.key or "/".join(item.nested_key): item.value_json for item in record.history.item}
                yield {name: value for name, value in row.items() if not name.startswith(CHANGES) or "nrows" in name}


def summary_of(trial):
    found = {}
    for file in wandb_runs(trial):
        for record in wandb_records(file):
            if record.WhichOneof("record_type") == "summary":
                found |= {item.key: json.loads(item.value_json) for item in record.summary.update}
    return found


ITERATIONS, RETURNS = [1, 2, 3, 2, 3], {1: 5.0, 2: 100.0, 3: 7.0, 4: 6.0, 5: 8.0}


def test_an_offline_run_that_is_written_anew_is_whole_and_replaces_the_unfinished_one(backend_of, tmp_path):
    """After a kill and a restore, the run on the storage had 8 or 21 of 45 rows, and nothing was said."""
    once, again = a_trial(tmp_path / "once", lr=0.5), a_trial(tmp_path / "again", lr=0.5)
    calls = calls_of(once, ITERATIONS, RETURNS)
    play(backend_of(), [*calls, ("end", "finished")])
    killed = backend_of()
    play(killed, [("start", again), *calls[1:13]])
    killed.end(again, "interrupted")
    assert len(list(rows_of(tmp_path / "again/storage/t1"))) < len(list(rows_of(tmp_path / "once/storage/t1")))
    backend = backend_of()
    for _ in range(2):  # twice does no harm
        backend.write_anew(again, [argument for _, argument in map(renewed, calls[1:])], "finished")
    assert len(wandb_runs(tmp_path / "again/storage/t1")) == 1
    assert list(rows_of(tmp_path / "again/storage/t1")) == list(rows_of(tmp_path / "once/storage/t1"))
    held, wanted = read_wandb(tmp_path / "again/storage/t1"), read_wandb(tmp_path / "once/storage/t1")
    assert (held.clips, held.images, held.config["lr"], held.status) == (wanted.clips, wanted.images, 0.5, 0)


def restored(folder, *results, **changes):
    """Return a trial that an earlier driver logged, as the next one is told of it; its results are on the storage."""
    reported = FakeTrial(folder)
    run([tm.JsonMediaLoggerCallback()], reported, list(results))
    (folder / "storage/t1").mkdir(parents=True, exist_ok=True)
    shutil.copy(f"{reported.local_path}/result.json", folder / "storage/t1/result.json")
    return dataclasses.replace(a_trial(folder), is_restored=True, **changes)


def test_a_run_is_written_anew_from_the_storage_and_not_before_it_has_everything(backend_of, tmp_path):
    """Its results are in the folder of another Ray session: a run without rows replaced what there was."""
    trial = restored(tmp_path, *({"score": 0.5 * step} for step in (1, 2, 3)))
    backend = backend_of()
    backend.context.wait_for_storage = lambda: False
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
    """On an S3 server of one's own, the run was lost: the address of the bucket alone does not lead there."""
    storage = pyarrow.fs.SubTreeFileSystem(str(tmp_path), pyarrow.fs.LocalFileSystem())
    place = TrialLocation(storage, "storage/t1", tmp_path / "driver/t1", "t1")
    trial = restored(tmp_path, {"score": 0.5, "rollout": clip()}, location=place)
    play(backend_of(), [("start", trial), ("end", "finished")])
    held = read_wandb(tmp_path / "storage/t1")
    assert held.scalars["score"] == {1: 0.5}
    assert list(held.clips["train/rollout"]) == [1]


def test_a_medium_that_only_a_lost_driver_had_logged_is_in_the_run_if_it_comes_again(backend_of, tmp_path):
    """Tune's snapshot did not say that the trial had begun: its run never got what was known already."""
    raw = np.random.default_rng(0).integers(0, 255, (4, 16, 24, 3), np.uint8)
    run([tm.JsonMediaLoggerCallback()], FakeTrial(tmp_path), [{"clip": raw.copy()}])
    trial = FakeTrial(tmp_path)
    every = CallbackList([tm.JsonMediaLoggerCallback(), tm.WandbMediaLoggerCallback(project="p", mode="offline")])
    every.on_trial_start(iteration=0, trials=[trial], trial=trial)
    session = _SESSIONS[trial.storage.experiment_driver_staging_path]
    assert session.known_of(trial).wait_until_complete(60)
    for iteration, result in enumerate([{"clip": raw.copy()}, {"score": 2.0}], 1):
        result["training_iteration"] = iteration
        every.on_trial_result(iteration=iteration, trials=[trial], trial=trial, result=result)
    every.on_trial_complete(iteration=2, trials=[trial], trial=trial)
    every.on_experiment_end(trials=[trial])
    assert len(wandb_runs(tmp_path / "storage/t1")) == 1
    held = read_wandb(tmp_path / "storage/t1")
    assert (list(held.clips["train/clip"]), held.scalars["score"]) == ([1], {2: 2.0})


def test_a_helper_that_dies_while_a_run_is_written_anew_replaces_nothing(backend_of, tmp_path, monkeypatch):
    trial = a_trial(tmp_path)
    calls = calls_of(trial, [1, 2])
    backend = backend_of()
    play(backend, [*calls, ("end", "finished")])
    before = list(rows_of(tmp_path / "storage/t1"))
    show = WandbRuns.show
    monkeypatch.setattr(WandbRuns, "show", lambda *arguments: (_ for _ in ()).throw(HelperDiedError()))
    with pytest.raises(HelperDiedError):
        backend.write_anew(trial, [argument for _, argument in calls[1:]], "finished")
    assert list(rows_of(tmp_path / "storage/t1")) == before
    monkeypatch.setattr(WandbRuns, "show", show)
    backend.write_anew(trial, [argument for _, argument in calls[1:]], "failed")  # is_away: it is tried again
    assert list(rows_of(tmp_path / "storage/t1")) == before
    assert read_wandb(tmp_path / "storage/t1").status == 1


@pytest.fixture
def resumes(monkeypatch):
    """Have runs begin with a summary, as an online run that is resumed begins with that of W&B's server."""
    init = wandb.init

    def resume(summary):
        @functools.wraps(init)
        def begin(**arguments):
            run = init(**arguments)
            run.summary.update(summary)
            return run

        monkeypatch.setattr(wandb, "init", begin)

    return resume


@pytest.mark.parametrize("killed_at", [2, 4, 8, 14, 19])
def test_a_run_that_is_resumed_has_no_row_twice(backend_of, tmp_path, resumes, killed_at):
    first, second, once = (a_trial(tmp_path / name) for name in ("first", "second", "once"))
    calls = [*calls_of(once, ITERATIONS, RETURNS), ("end", "finished")]
    play(backend_of(), calls)
    play(backend_of(), [("start", first), *calls[1:killed_at], ("end", "interrupted")])
    before = list(rows_of(tmp_path / "first/storage/t1"))
    known = [row for row in before if NUMBERS_ROW in row or MEDIA_ROW in row]
    marks = {name: json.loads(value) for row in known for name, value in row.items() if name.startswith("_tune_media")}
    resumes({**summary_of(tmp_path / "first/storage/t1"), **marks})
    backend = backend_of()
    play(backend, [("start", second)])
    assert backend.last_rows("t1")[NUMBERS_ROW] == 10 * ((killed_at + 3) // 5)
    play(backend, [("start", second), *map(renewed, calls[1:])])  # from the first call on
    after = list(rows_of(tmp_path / "second/storage/t1"))
    logged = {
        name: [row[name] for rows in (before, after) for row in rows if name in row]
        for name in ("score", "train/rollout/sha256", "train/map/sha256", "train/weights/values")
    }
    assert logged == {
        name: [row[name] for row in rows_of(tmp_path / "once/storage/t1") if name in row] for name in logged
    }
    assert all(logged.values())


def test_rows_of_an_outbox_that_begins_anew_are_not_taken_for_known_ones(backend_of, tmp_path, resumes):
    trial = a_trial(tmp_path)
    resumes({NUMBERS_ROW: 500, f"{NUMBERS_ROW}_time": 900.0, MEDIA_ROW: 500, f"{MEDIA_ROW}_time": 900.0})
    play(backend_of(), [*calls_of(trial, [1, 2]), ("end", "finished")])
    assert read_wandb(tmp_path / "storage/t1").scalars["score"] == {1: 1.0, 2: 2.0}


@pytest.mark.parametrize("excludes", [[], ["train/best"]])
def test_the_best_clip_at_the_end_is_that_of_the_trials_lines_whoever_logged_it(backend_of, tmp_path, excludes):
    """The best return began anew after a restore: 5 over 100."""
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
    assert summary_of(tmp_path / "storage/t1")["best_return"] == wanted
    (file,) = (tmp_path / "storage/t1").rglob("trials_*.table.json")
    (row,) = json.loads(file.read_text())["data"]
    assert {wanted, "Video"} <= set(row)
    assert len(list((tmp_path / "storage/t1").rglob("trials_*.table.json"))) == 1
