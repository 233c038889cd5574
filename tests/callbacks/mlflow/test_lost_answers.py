"""A server that does what it is asked, and whose answer is lost: the request is repeated, nothing is there twice."""

import os
import threading
from wsgiref.simple_server import WSGIRequestHandler, make_server

import pytest

import tune_media as tm
from tune_media.callbacks.mlflow.connection import is_away
from tune_media.callbacks.mlflow.runs import MlflowRuns


class Cuts(WSGIRequestHandler):
    def handle(self):
        super().handle()
        self.connection.close()

    def log_message(self, *args):
        """Print nothing."""


@pytest.fixture
def serve(files_uri, monkeypatch):
    """Return what starts MLflow's own server, which does the first request for a path, and gives no answer."""
    monkeypatch.setenv("_MLFLOW_SERVER_FILE_STORE", files_uri)
    monkeypatch.setenv("_MLFLOW_SERVER_ARTIFACT_ROOT", files_uri)
    monkeypatch.delenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", raising=False)
    from mlflow.server import app

    servers = []

    def make(lost):
        left = {lost}

        def loses(environ, start_response):
            answer = list(app(environ, start_response))
            if any(environ["PATH_INFO"].endswith(path) for path in left):
                left.clear()
                raise ConnectionAbortedError
            return answer

        servers.append(make_server("127.0.0.1", 0, loses, handler_class=Cuts))
        threading.Thread(target=servers[0].serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{servers[0].server_port}", left

    yield make
    for server in servers:
        server.shutdown()
        server.server_close()


def start(uri, experiment="e"):
    runs = MlflowRuns({"tracking_uri": uri, "registry_uri": None}, {"name": experiment, "artifact_location": None}, "s")
    for _ in range(2):
        try:
            return runs.start("t1", "train_t1", {})
        except Exception as error:
            assert is_away(error)
    raise AssertionError("it did not start")


def test_a_trial_whose_start_was_not_answered_has_one_run(serve, monkeypatch):
    """MLflow's own retry made a second run of a trial if a server did the first request, and hung before its answer."""
    from mlflow import MlflowClient

    uri, lost = serve("runs/create")
    tm.MLflowMediaLoggerCallback(uri, experiment_name="e").setup()
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"])
    run = start(uri)
    assert not lost
    client = MlflowClient(uri)
    (found,) = client.search_runs([client.get_experiment_by_name("e").experiment_id])
    assert found.info.run_id == run.run_id


def test_an_experiment_that_another_request_has_made_in_the_meantime_is_used(serve, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")  # a user's
    uri, lost = serve("experiments/create")
    assert start(uri, "another").run_id  # the server keeps its store
    assert not lost
