"""The names of MLflow and of Ray's MLflow callback, and the texts of errors, that are not public and that we need.

``tests/callbacks/mlflow/test_private_names.py`` pins each of them, and says which release a change came with.
"""

from __future__ import annotations

import re

RUN_NAME_TAG = "mlflow.runName"
"""The tag that is a run's name."""

NOTE_TAG = "mlflow.note.content"
"""The tag that is a run's description, in Markdown."""

IMAGES_TAG = "mlflow.loggedImages"
"""The tag of a run that has pictures for MLflow's grid of images."""

NO_ANSWER = "failed with exception"
"""In the text of the ``MlflowException`` for a request that no server answered, which has no type of its own."""


def status_of(error: Exception) -> int | None:
    """Return the HTTP status that the text of an ``MlflowException`` gives; its own status is often another one."""
    match = re.search(r"failed with error code (\d{3}) != 200", str(error))
    return int(match.group(1)) if match else None
