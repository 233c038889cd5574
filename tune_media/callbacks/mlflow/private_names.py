"""The names of MLflow and of Ray's MLflow callback, and the texts of errors, that are not public and that we need.

``tests/callbacks/mlflow/test_private_names.py`` pins each of them, and says which release a change came with.
"""

from __future__ import annotations

import re

PARENT_TAG = "mlflow.parentRunId"
"""The tag that puts a run under another one."""

RUN_NAME_TAG = "mlflow.runName"
"""The tag that is a run's name."""

NOTE_TAG = "mlflow.note.content"
"""The tag that is a run's description, in Markdown."""

VIEW_TAG = "mlflow.sharedViewState."
"""The beginning of a tag of an MLflow experiment that is a saved view of its table of runs."""

IMAGES_TAG = "mlflow.loggedImages"
"""The tag of a run that has pictures for MLflow's grid of images."""

TABLES_TAG = "mlflow.loggedArtifacts"
"""The tag of a run that names its tables."""

NO_ANSWER = "failed with exception"
"""In the text of the ``MlflowException`` for a request that no server answered, which has no type of its own."""


def status_of(error: Exception) -> int | None:
    """Return the HTTP status that the text of an ``MlflowException`` gives; its own status is often another one."""
    found = re.search(r"failed with error code (\d{3}) != 200", str(error))
    return int(found.group(1)) if found else None
