"""The names and texts of MLflow 3.17 that are not public and that the MLflow wing needs; a release may change them."""

import importlib.metadata
from pathlib import Path

import pytest
from packaging.version import Version

from tests.support.faults import server_of_errors
from tune_media.callbacks.mlflow import private_names
from tune_media.callbacks.mlflow.valid_names import image_file

mlflow = pytest.importorskip("mlflow")

CHANGED = f"MLflow {importlib.metadata.version('mlflow')} has changed"


def error_of(uri, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(mlflow.exceptions.MlflowException) as caught:
        mlflow.MlflowClient(uri).search_experiments(max_results=1)
    return caught.value


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("MLFLOW_RUN_NAME", private_names.RUN_NAME_TAG),
        ("MLFLOW_RUN_NOTE", private_names.NOTE_TAG),
        ("MLFLOW_LOGGED_IMAGES", private_names.IMAGES_TAG),
    ],
)
def test_the_tags_of_mlflow_have_these_names(theirs, ours):
    from mlflow.utils import mlflow_tags

    assert getattr(mlflow_tags, theirs) == ours, f"{CHANGED} mlflow_tags.{theirs}"


def test_the_name_of_a_picture_is_one_that_mlflow_gives_or_reads(files_uri, tmp_path):
    import re

    import numpy as np

    client = mlflow.MlflowClient(files_uri)
    run = client.create_run(client.create_experiment("pictures")).info.run_id
    client.log_image(run, np.zeros((8, 8, 3), np.uint8), key="train/map", step=7, timestamp=1000)
    named = {re.sub(r"[0-9a-f-]{36}", "ID", file.path) for file in client.list_artifacts(run, "images")}
    ours = image_file("train/map", 7, 1000, "ID")
    if Version(mlflow.__version__) >= Version("3.11"):
        assert named == {f"{ours}.png", f"{ours}+compressed.webp"}, f"{CHANGED} the names of logged images"
    else:  # with % and #; the page of MLflow 2.18 takes the first of these that is in a name as its separator
        theirs = ours.replace("~", "#").replace("+", "%")
        assert named == {f"{theirs}.png", f"{theirs}%compressed.webp"}
        scripts = (Path(mlflow.__file__).parent / "server" / "js" / "build" / "static" / "js").glob("main.*.js")
        assert any('["%","+"]' in script.read_text() for script in scripts), (
            f"{CHANGED} the names of images that its page reads"
        )


def test_an_error_says_that_nobody_answered(monkeypatch):
    text = str(error_of("http://127.0.0.1:9", monkeypatch))
    assert private_names.NO_ANSWER in text, f"{CHANGED} the text of the error for a server that is away: {text}"


def test_an_error_says_the_status_of_an_answer(monkeypatch):
    with server_of_errors(401) as uri:
        error = error_of(uri, monkeypatch)
    assert private_names.status_of(error) == 401, f"{CHANGED} the text of the error for a refused request: {error}"
