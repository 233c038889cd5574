"""The names and texts of MLflow 3.17 that are not public and that the MLflow wing needs; a release may change them."""

import importlib.metadata
import inspect
from pathlib import Path

import pytest

from tests.support.faults import server_of_errors
from tune_media.callbacks.mlflow import private_names

mlflow = pytest.importorskip("mlflow")

CHANGED = f"MLflow {importlib.metadata.version('mlflow')} has changed"


def error_of(uri, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(mlflow.exceptions.MlflowException) as caught:
        mlflow.MlflowClient(uri).search_experiments(max_results=1)
    return caught.value


def test_ray_keeps_the_ids_of_runs_by_trial():
    from ray.air.integrations.mlflow import MLflowLoggerCallback

    source = inspect.getsource(MLflowLoggerCallback)
    ray = f"Ray {importlib.metadata.version('ray')} has changed ray.air.integrations.mlflow"
    assert f"self.{private_names.RUN_IDS}[trial] = run.info.run_id" in source, f"{ray}: {private_names.RUN_IDS}"


def test_the_tag_of_a_parent_run():
    from mlflow.utils import mlflow_tags

    assert mlflow_tags.MLFLOW_PARENT_RUN_ID == private_names.PARENT_TAG, f"{CHANGED} the tag of a parent run"


def test_the_tag_of_a_description():
    from mlflow.utils import mlflow_tags

    assert mlflow_tags.MLFLOW_RUN_NOTE == private_names.NOTE_TAG, f"{CHANGED} the tag of a run's description"


def test_the_page_of_an_experiment_reads_saved_views_from_tags():
    scripts = (Path(mlflow.__file__).parent / "server" / "js" / "build" / "static" / "js").glob("main.*.js")
    text = "".join(script.read_text() for script in scripts)
    assert f'"{private_names.VIEW_TAG}"' in text, f"{CHANGED} the tag of a saved view of the runs"
    assert '"viewStateShareKey"' in text, f"{CHANGED} the address of a saved view of the runs"


def test_an_error_says_that_nobody_answered(monkeypatch):
    text = str(error_of("http://127.0.0.1:9", monkeypatch))
    assert private_names.NO_ANSWER in text, f"{CHANGED} the text of the error for a server that is away: {text}"


def test_an_error_says_the_status_of_an_answer(monkeypatch):
    with server_of_errors(401) as uri:
        error = error_of(uri, monkeypatch)
    assert private_names.status_of(error) == 401, f"{CHANGED} the text of the error for a refused request: {error}"
