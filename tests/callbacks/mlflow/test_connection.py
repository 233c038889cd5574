import os
import sqlite3

import pytest
from ray import cloudpickle

import tune_media as tm
from tests.support.faults import server_of_errors, server_of_silence
from tests.support.trackers import mlflow_store
from tune_media.callbacks.mlflow import backend
from tune_media.callbacks.mlflow.connection import check

pytest.importorskip("mlflow")


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    """Ask a server once, and wait for the answer, on a busy machine, too: none in time is no error."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setattr(backend, "_CHECK_SECONDS", 120.0)


def set_up(uri, **options):
    import mlflow

    before = mlflow.get_tracking_uri()
    try:
        tm.MLflowMediaLoggerCallback(tracking_uri=uri, **options).setup()
    finally:
        mlflow.set_tracking_uri(before)


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("htp://localhost", "cannot use this URI: it has no store for htp://. Did you mean .http.[?]"),
        ("http://no-such-host.invalid:5000", "there is no host named 'no-such-host.invalid'"),
        ("http://127.0.0.1:99999", "[Ii]nvalid"),
        ("postgresql://me:hunter2@127.0.0.1/x", "Install the Python package 'psycopg"),
        ("sqlite:////proc/x.db", "Pass the address of a server"),
        ("sqlite:///half_made.db", "If a process was ended while it made this database, .* delete the file if"),
    ],
)
def test_a_uri_that_cannot_work_is_an_error_at_setup(uri, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with sqlite3.connect("half_made.db") as database:
        database.execute("create table metrics (key text)")
    with pytest.raises(ValueError, match=message) as caught:
        set_up(uri)
    assert str(caught.value).startswith("MLflowMediaLoggerCallback(tracking_uri='")
    assert any(f". {remedy}" in str(caught.value) for remedy in ("Pass ", "Install ", "If ", "Did "))
    assert "hunter2" not in str(caught.value)
    assert "be retried" not in capsys.readouterr().err  # by MLflow, for much longer than the start of a sweep waits


def test_the_path_of_a_sqlite_file_is_decoded_and_no_other_file_is_made(tmp_path):
    set_up(mlflow_store(tmp_path, "my runs.db").replace(" ", "%20"), experiment_name="walkers")
    assert [file.name for file in tmp_path.iterdir()] == ["my runs.db"]


@pytest.mark.parametrize(("status", "message"), [(401, "Pass tracking_token="), (404, "Pass the address of a server")])
def test_a_server_that_refuses_or_is_not_mlflow_is_an_error_at_setup(status, message):
    with server_of_errors(status) as uri, pytest.raises(ValueError, match=message):
        set_up(uri)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_server_that_is_ill_is_no_error(status):
    with server_of_errors(status) as uri:
        check(uri, None, 30)


def test_a_server_that_is_away_or_silent_is_no_error():
    check("http://127.0.0.1:9", None, 30)
    with server_of_silence() as uri:
        check(uri, None, 0.2)


def test_an_experiment_id_that_does_not_exist_is_an_error_at_setup_unless_there_is_a_name(files_uri, monkeypatch):
    monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", "500")
    with pytest.raises(ValueError, match=r"no experiment with the id 500 .*Pass experiment_name="):
        set_up(files_uri)
    set_up(files_uri, experiment_name="walkers")  # as with Ray's own logger, the name counts then
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "walkers")
    set_up(files_uri)


def test_a_deleted_experiment_is_an_error_at_setup(files_uri, monkeypatch):
    from mlflow import MlflowClient

    client = MlflowClient(files_uri)
    id = client.create_experiment("walkers")
    set_up(files_uri, experiment_name="walkers")
    client.delete_experiment(id)
    says = f"'walkers' .id {id}. is deleted.*mlflow experiments restore --experiment-id {id}"
    with pytest.raises(ValueError, match=says):
        set_up(files_uri, experiment_name="walkers")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", id)
    with pytest.raises(ValueError, match=says):
        set_up(files_uri)


def test_a_password_and_a_token_are_not_pickled_and_the_password_is_asked_for_in_another_process(monkeypatch):
    from tune_media.callbacks.mlflow import connection

    monkeypatch.setenv("MLFLOW_TRACKING_URI", "")
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "")
    uri = "http://me:hunter2@127.0.0.1:9"
    more = {"artifact_location": "s3://me:hunter2@bucket/runs", "tags": {"team": "a", "db_password": "hunter2"}}
    more["experiment_name"] = "walkers?token=a_b_c_d_1"  # else a restore logs to another one
    pickled = cloudpickle.dumps(tm.MLflowMediaLoggerCallback(tracking_uri=uri, tracking_token="t0psecret", **more))
    assert os.environ["MLFLOW_TRACKING_TOKEN"] == "t0psecret"  # MLflow looks for it there
    assert b"hunter2" not in pickled
    assert b"t0psecret" not in pickled
    restored = cloudpickle.loads(pickled)
    restored.setup()
    assert restored.tracking_uri == uri
    assert connection.whole_uri(restored.artifact_location) == more["artifact_location"]
    assert restored.tags == {"team": "a", "db_password": "***"} and restored.experiment_name == more["experiment_name"]
    monkeypatch.setattr(connection, "_HIDDEN", {})
    monkeypatch.delenv("MLFLOW_TRACKING_URI")  # MLflow sets it
    restored = cloudpickle.loads(pickled)
    assert connection.whole_uri(restored.artifact_location) is None  # MLflow's default, if the experiment is gone
    with pytest.raises(ValueError, match=r"Set MLFLOW_TRACKING_URI to the whole URI before Tuner.restore"):
        restored.setup()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    restored.setup()
    assert restored.tracking_uri == uri
