"""The hyperparameters of a trial that runs, the same for every tracker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tune_media.experiment.params import nested_choice, searched_params
from tune_media.ray_compat import unresolved_config
from tune_media.storage.trial_folder import plain_config
from tune_media.values.foreign import items_of

if TYPE_CHECKING:
    from ray.tune.experiment import Trial


def hyperparameters(trial: Trial, config: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a trial's hyperparameters as plain data, and those of them that Tune chose, by path.

    Tune's own ``evaluated_params`` hold stand-ins for objects, and no value that a function samples.

    Args:
        config: Its hyperparameters; those of a result, if PBT has changed them.
    """
    chosen = nested_choice(trial.evaluated_params, unresolved_config(trial))
    values = {name: value for name, value in items_of(config or {}) if name != "callbacks"}
    plain: dict[str, Any] = plain_config(values, chosen)
    return plain, searched_params(plain, chosen)
