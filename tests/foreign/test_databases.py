"""Runs whose hyperparameters and numbers are in a database of MLflow or Trackio, above the folders of their clips."""

import contextlib
import shutil
import sqlite3
from pathlib import Path

import pytest

import tune_media as tm
from tests.support.foreign_run import run_in

DATA = Path(__file__).parents[1] / "data" / "foreign"


@pytest.fixture
def trackio(tmp_path):
    return Path(shutil.copytree(DATA / "trackio", tmp_path / "trackio"))


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_trackios_runs_have_their_config_and_their_numbers(trackio):
    catalog = tm.load(trackio)
    assert {trial.name: trial.params for trial in catalog.trials} == {
        "media/toy/toy-0.1-1": {"lr": 0.1, "seed": 1},
        "media/toy/toy-0.1-2": {"lr": 0.1, "seed": 2},
        "media/toy/toy-0.5-1": {"lr": 0.5, "seed": 1},
    }
    run = run_in(trackio / "media/toy/toy-0.1-2")
    assert run.env_id == "Toy-v0"
    (curve,) = run.curves
    assert (curve.name, curve.unit) == ("evaluation/episode_return_mean", "steps")
    assert curve.steps == [8.0, 16.0, 24.0]
    assert curve.values[-1] == pytest.approx(5.7611, abs=1e-3)
    assert curve.times[0] > 1.7e9
    assert names_in(trackio) == ["media", "toy.db"]


def test_clips_of_trackio_have_what_their_rows_say(trackio):
    folder = trackio / "media/toy/toy-0.1-1"
    with sqlite3.connect(trackio / "toy.db") as writer:  # as our callback: its tag, and its caption
        change = "UPDATE metrics SET metrics = replace(replace(CAST(metrics AS TEXT), ?, ?), ?, ?) WHERE step = 16"
        caption = ('"caption":null', '"caption":"return -3.5, length 6, step 16"')
        writer.execute(change, ('"video"', '"evaluation/episodes/best"', *caption))
    writer.close()
    lines = {line.facts["step"]: line for line in run_in(folder).lines}
    assert {step: line.section for step, line in lines.items()} == {8: "train", 16: "evaluation", 24: "train"}
    assert (lines[16].facts["episode_return"], lines[16].facts["episode_length"]) == (-3.5, 6)
    assert "episode_return" not in lines[8].facts


def test_a_run_that_is_being_written_is_read(trackio):
    with sqlite3.connect(trackio / "toy.db") as writer:
        writer.execute("PRAGMA journal_mode = WAL")
        row = ("id", "2026-11-30T14:00:00+00:00", "toy-0.1-1", 99, b'{"eval/episode_return": 12.5}')
        writer.execute("INSERT INTO metrics (run_id, timestamp, run_name, step, metrics) VALUES (?, ?, ?, ?, ?)", row)
        writer.commit()
        (curve,) = run_in(trackio / "media/toy/toy-0.1-1").curves
    writer.close()
    assert (curve.steps[-1], curve.values[-1]) == (99.0, 12.5)


def test_of_a_writer_that_was_killed_the_log_is_read_and_nothing_is_written_beside_it(trackio):
    (database,) = trackio.glob("*.db")
    with contextlib.closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("UPDATE configs SET config = ?", ('{"lr": 7}',))
        connection.commit()
        for file in (database, database.with_name(f"{database.name}-wal")):
            shutil.copy(file, trackio / f"left-{file.name}")
    for file in trackio.glob("left-*"):
        file.replace(trackio / file.name.removeprefix("left-"))
    before = names_in(trackio)
    assert {trial.config["lr"] for trial in tm.load(trackio).trials} == {7}
    assert names_in(trackio) == before


def test_a_database_of_others_or_a_damaged_one_is_passed_over(trackio):
    folder = trackio / "media/toy/toy-0.1-1"
    with sqlite3.connect(trackio / "toy.db") as writer:
        writer.execute("DROP TABLE configs")
        writer.execute("CREATE VIEW configs AS SELECT 1")
    writer.close()
    assert run_in(folder).not_understood == ["toy.db: it has the view 'configs', so it is none of MLflow or Trackio."]
    (trackio / "toy.db").write_bytes(b"no database" * 1000)
    assert run_in(folder).not_understood == ["toy.db: DatabaseError: file is not a database."]
    assert len(run_in(folder).lines) == 3


@pytest.mark.slow
def test_mlflows_runs_have_their_params_and_metrics(tmp_path):
    """By default, MLflow keeps all but the clips in ``mlflow.db``."""
    mlflow = pytest.importorskip("mlflow")
    client = mlflow.MlflowClient(f"sqlite:///{tmp_path}/mlflow.db")
    experiment = client.create_experiment("cartpole", (tmp_path / "mlruns" / "1").as_uri())
    clip = next(DATA.rglob("*.mp4"))
    for seed in (1, 2):
        run = client.create_run(experiment, run_name="ppo").info.run_id
        for name, value in {"env_id": "CartPole-v1", "seed": seed, "lr": 1e-4, "layers": [64, 64]}.items():
            client.log_param(run, name, value)
        for step in range(3):
            client.log_metric(run, "rollout/ep_rew_mean", 1.5 * step, timestamp=1000 * step, step=10 * step)
        client.log_metric(run, "loss", float("nan"))
        client.log_artifact(run, str(clip), "videos")
    folder = tmp_path / "mlruns" / "1" / run
    told = run_in(folder)
    assert told.config == {"env_id": "CartPole-v1", "seed": 2, "lr": 1e-4, "layers": [64, 64]}
    curves = {curve.name: curve for curve in told.curves}
    assert set(curves) == {"episode_return_mean", "loss"}
    curve = curves["episode_return_mean"]
    assert (curve.steps, curve.values, curve.times) == ([0.0, 10.0, 20.0], [0.0, 1.5, 3.0], [0.0, 1.0, 2.0])
    assert sorted(trial.params["seed"] for trial in tm.load(tmp_path).trials) == [1, 2]
