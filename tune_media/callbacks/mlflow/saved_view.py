"""A saved view of the runs table in MLflow: the trials of a sweep, the best first, with the columns that matter."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from urllib.parse import quote

from tune_media.callbacks.mlflow.private_names import VIEW_TAG

BEST_RETURN = "best_return"
"""The metric of a trial's run: the return of its best clip."""

_MAX_COLUMNS = 20


def view_key(sweep: str) -> str:
    """Return the id of a sweep's view in MLflow.

    Example:
        >>> view_key("my_sweep")
        'tune_media-5249b8ad3d06'
    """
    return f"tune_media-{hashlib.sha256(sweep.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


def view_tag(sweep: str, params: Sequence[str], runs: str, time_ms: int, score: str | None = None) -> tuple[str, str]:
    """Return the tag of the MLflow experiment that is the view: its key and its value.

    Args:
        sweep: The name of the sweep.
        params: The names of the hyperparameters that Tune chose, as MLflow has them.
        runs: A filter of MLflow's that the runs of the sweep match.
        time_ms: When the view was made, milliseconds since 1970.
        score: The metric that ranks the trials. None: the best return of a clip.

    Example:
        >>> key, value = view_tag("my_sweep", ["lr"], "", 0, "score")
        >>> json.loads(value)["selectedColumns"]
        ['metrics.`score`', 'metrics.`best_return`', 'params.`lr`']
    """
    metrics = [f"metrics.`{name}`" for name in (score, BEST_RETURN) if name is not None]
    state = {
        "searchFilter": runs,
        "orderByKey": metrics[0],
        "orderByAsc": False,
        "selectedColumns": [*metrics, *(f"params.`{name}`" for name in params[:_MAX_COLUMNS])],
    }
    saved = {"name": f"Trials of {sweep}", "createdAt": time_ms, "updatedAt": time_ms, "state": json.dumps(state)}
    return f"{VIEW_TAG}{view_key(sweep)}", json.dumps(saved | state)  # older releases of MLflow read the state itself


def view_link(experiment_id: str, sweep: str) -> str:
    """Return the address of the view, relative to MLflow's page.

    Example:
        >>> view_link("1", "my_sweep")
        '#/experiments/1/runs?viewStateShareKey=tune_media-5249b8ad3d06'
    """
    return f"#/experiments/{quote(experiment_id)}/runs?viewStateShareKey={view_key(sweep)}"
