"""An MLflow store in plain files: a database takes ten seconds to be made."""

import pytest


@pytest.fixture
def files_uri(tmp_path, monkeypatch):
    """Return the URI of a store in a folder."""
    pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    return (tmp_path / "mlruns").as_uri()
