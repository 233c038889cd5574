"""An MLflow store in plain files: a database takes ten seconds to be made."""

import pytest


@pytest.fixture
def files_uri(tmp_path, monkeypatch):
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    return (tmp_path / "mlruns").as_uri()


@pytest.fixture
def runs_of(files_uri):
    from tune_media.callbacks.mlflow.runs import MlflowRuns

    def make(sweep="sweep"):
        uris = {"tracking_uri": files_uri, "registry_uri": None}
        return MlflowRuns(uris, {"name": "experiment", "artifact_location": None}, sweep)

    return make


@pytest.fixture
def client(files_uri):
    from mlflow import MlflowClient

    return MlflowClient(files_uri)
