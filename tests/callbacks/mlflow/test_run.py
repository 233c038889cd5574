import math
from pathlib import Path

import numpy as np
import pytest

import tune_media as tm
from tests.support.reader import PlainContext, a_trial, calls_of, play, renewed
from tests.support.stores import StoredTrial
from tests.support.trackers import mlflow_store
from tune_media.callbacks.backend import Report

mlflow = pytest.importorskip("mlflow")


@pytest.fixture
def backend_of(tmp_path, files_uri):
    """Return a maker of backends, as one process after the other makes them; on files, which take less time."""
    before = mlflow.get_tracking_uri()

    def make(name="e", uri=files_uri):
        options = {"experiment_name": name, "artifact_location": f"file://{tmp_path}/{name}"}
        backend = tm.MLflowMediaLoggerCallback(uri, **options).backend
        backend.setup()
        return backend

    yield make
    mlflow.set_tracking_uri(before)


def run_of(name="e"):
    client = mlflow.MlflowClient()
    (run,) = client.search_runs([client.get_experiment_by_name(name).experiment_id])
    return client, run


def files_of(client, run_id, folder=None):
    for info in client.list_artifacts(run_id, folder):
        if info.is_dir:
            yield from files_of(client, run_id, info.path)
        else:
            yield info.path


def held(name="e"):
    client, run = run_of(name)
    points = {
        metric: sorted((p.step, p.timestamp, repr(p.value)) for p in client.get_metric_history(run.info.run_id, metric))
        for metric in run.data.metrics
    }
    files = {
        path: Path(client.download_artifacts(run.info.run_id, path)).read_bytes()
        for path in files_of(client, run.info.run_id)
    }
    info = (run.info.status, run.info.start_time, run.info.end_time)
    tags = {name: value for name, value in run.data.tags.items() if not name.startswith("mlflow.source")}
    return {"info": info, "params": run.data.params, "tags": tags, "points": points, "files": files}


def store(trial, returns, section="evaluation", key="best"):
    """Store a clip of an episode for each result, by its iteration, as the storage's reader has when a trial ends."""
    stored = StoredTrial(trial.location)
    for number, (iteration, episode_return) in enumerate(returns.items()):
        stored.goes_on(iteration)
        frames = np.random.default_rng(number).integers(0, 255, (3, 16, 16, 3), np.uint8)
        record = tm.EpisodeRecord(f"e{number}", episode_return, 3)
        stored.add(tm.Video(iter(frames), fps=5, episode=record), section, key, 100 * iteration, iteration)
    stored.finish()
    return stored


def test_calls_that_are_made_again_after_a_kill_change_nothing(backend_of, tmp_path):
    trial, uri = a_trial(tmp_path, lr=0.5, mode="a"), mlflow_store(tmp_path)
    store(trial, {3: 9.0})
    calls = [*calls_of(trial, [1, 2, 3, 2, 3], {2: 100.0}), ("end", "finished"), ("finish", None)]
    play(backend_of("once", uri), calls)
    for killed_at in range(1, len(calls), 6):
        play(backend_of("again", uri), map(renewed, calls[:killed_at]))
        rest = calls[max(1, killed_at - 7) :]  # the reader had not written down how far it was
        play(backend_of("again", uri), [calls[0], *map(renewed, rest)])
    once, again = held("once"), held("again")
    assert again == once
    assert once["points"]["best_return"] == [(300, 1050000, "9.0")]
    assert once["points"]["score"] == [
        (step, 1000 * (1000 + 10 * n), f"{n}.0") for n, step in ((1, 100), (2, 200), (4, 200), (3, 300), (5, 300))
    ]


def best_of(name="e"):
    _, run = run_of(name)
    return run.data.metrics.get("best_return"), run.data.tags.get("best_return")


def test_the_best_return_at_the_end_is_of_evaluation_and_of_the_results_that_count(backend_of, tmp_path):
    trial = a_trial(tmp_path, lr=0.5)
    stored = StoredTrial(trial.location)
    places = [(1, "train", 900.0), (2, "evaluation", 5.0), (3, "evaluation", 100.0), (3, "evaluation", 8.0)]
    for number, (iteration, section, episode_return) in enumerate([*places, (4, "evaluation", float("nan"))]):
        stored.goes_on(iteration)
        record = tm.EpisodeRecord(f"e{number}", episode_return, 3)
        clip = tm.Video(np.full((3, 16, 16, 3), 20 * number, np.uint8), fps=5, episode=record)
        stored.add(clip, section, "best", 100 * iteration, iteration)
    stored.finish()
    play(backend_of(), calls_of(trial, [1, 2, 3]))  # killed; another process sees no clip
    play(backend_of(), [("start", trial), ("end", "finished")])
    assert best_of() == (8.0, "8")
    note = run_of()[1].data.tags["mlflow.note.content"]
    assert note.startswith("lr = 0.5\n\nBest clip: return 8, step 300 (media/evaluation/best/step_000000300-return_8-")
    assert [point[0] for point in held()["points"]["best_return"]] == [300]


def test_a_trial_that_went_back_behind_its_best_clip_after_it_had_ended_has_the_best_of_now(backend_of, tmp_path):
    trial = a_trial(tmp_path)
    stored = store(trial, {1: 5.0, 3: 100.0})
    play(backend_of(), [*calls_of(trial, [1, 2, 3]), ("end", "interrupted")])
    assert best_of() == (100.0, "100")
    stored.goes_on(2)
    stored.finish()
    later = Report(200, 2, {"training_iteration": 2}, time=2000.0)  # its step is lower than before
    play(backend_of(), [("start", trial), ("metrics", later), ("end", "finished")])
    assert best_of() == (5.0, "5")
    stored.goes_on(1)
    stored.finish()
    later = Report(100, 1, {"training_iteration": 1}, time=3000.0)
    play(backend_of(), [("start", trial), ("metrics", later), ("end", "finished")])
    value, _ = best_of()
    assert math.isnan(value)  # nothing is left


def test_a_trial_without_clips_has_no_best_return(backend_of, tmp_path):
    play(backend_of(), [*calls_of(a_trial(tmp_path), [1]), ("end", "finished")])
    assert best_of() == (None, None)


def test_a_storage_that_is_away_at_the_end_costs_the_best_return_alone(backend_of, tmp_path):
    trial, context = a_trial(tmp_path), PlainContext()
    store(trial, {1: 7.0})
    context.is_stored = False
    play(backend_of(), [*calls_of(trial, [1]), ("end", "finished")], context)
    assert [what for what, _ in context.faults] == ["logging the best clip"]
    assert run_of()[1].info.status == "FINISHED"
    assert best_of() == (None, None)


def test_a_parameter_that_mlflow_refuses_costs_itself_only(backend_of, tmp_path):
    trial = a_trial(tmp_path, **{f"p{number}": number for number in range(150)})
    backend = backend_of()
    play(backend, [("start", a_trial(tmp_path))])
    client, run = run_of()
    client.log_param(run.info.run_id, "p7", "of somebody else")
    context = play(backend, [*calls_of(trial, [1]), ("end", "finished")])
    _, run = run_of()
    assert run.data.params == {**{f"p{number}": str(number) for number in range(150)}, "p7": "of somebody else"}
    assert run.data.metrics["score"] == 1.0
    assert run.info.status == "FINISHED"
    ((what, error),) = context.faults
    assert what == "logging hyperparameters"
    assert "refuses 1 of 150 value(s): p7" in str(error)


def test_hyperparameters_are_metrics_from_the_start_and_texts_that_are_numbers_are_numbers(backend_of, tmp_path):
    """As Ray's logger has them."""
    trial, result = a_trial(tmp_path, lr=0.5, deep={"size": "3"}, mode="a"), {"score": 1, "loss": "1e-3", "text": "no"}
    play(backend_of(), [("start", trial), ("metrics", Report(7, 1, result, time=5.0))])
    client, run = run_of()
    assert run.data.params == {"lr": "0.5", "deep/size": "3", "mode": "a"}
    assert run.data.metrics == {"score": 1.0, "loss": 0.001, "config/lr": 0.5, "config/deep/size": 3.0}
    (point,) = client.get_metric_history(run.info.run_id, "config/lr")
    assert (point.step, point.timestamp) == (7, 5000)


def test_a_folder_that_is_uploaded_has_no_file_of_ours(backend_of, tmp_path):
    trial = a_trial(tmp_path)
    (trial.location.local_path / "deep").mkdir()
    for name in ("notes.txt", ".tune_media.json", "deep/more.txt"):
        (trial.location.local_path / name).write_text("x")
    backend = backend_of()
    backend._rays.should_save_artifact = True
    play(backend, [("start", trial), ("end", "finished")])
    assert set(held()["files"]) == {"notes.txt", "deep/more.txt"}


def test_a_picture_is_in_mlflows_grid_at_the_time_of_its_result(backend_of, tmp_path):
    play(backend_of(), calls_of(a_trial(tmp_path), [4]))
    pictures = sorted(path for path in held()["files"] if path.startswith("images/"))
    assert len(pictures) == 2
    assert all(path.startswith("images/train~map+step+400+timestamp+1010000+") for path in pictures)
    assert np.array([path.endswith((".png", "+compressed.webp")) for path in pictures]).all()
