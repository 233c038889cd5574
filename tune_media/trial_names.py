"""Trial folders, and so TensorBoard's runs, named after the hyperparameters that Tune chose."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tune_media.values.checks import as_shown
from tune_media.values.safe_names import safe_name

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

_MAX_LENGTH = 100


def short_trial_names(trial: Trial) -> str:
    """Name a trial after its own hyperparameters, such as ``gamma=0.98_lr=0.0001_3``.

    Tune's own names start with the trainable and a random id, and end with a date, so that in TensorBoard all runs of a
    sweep look the same. The number at the end is the trial's number in the sweep. It keeps names apart if two trials
    have the same hyperparameters.

    Args:
        trial: The trial that Tune is about to start.

    Example:
        ``tune.TuneConfig(trial_dirname_creator=tune_media.short_trial_names)``

        >>> from types import SimpleNamespace
        >>> short_trial_names(SimpleNamespace(trial_id="9eb5f_00003", evaluated_params={"lr": 1e-4, "env/size": 8}))
        'size=8_lr=0.0001_3'
    """
    if not hasattr(trial, "evaluated_params"):
        raise TypeError(
            "short_trial_names takes a trial of Tune: pass it, without a call, as "
            f"tune.TuneConfig(trial_dirname_creator=tune_media.short_trial_names). It got {as_shown(trial)}."
        )
    params = sorted(trial.evaluated_params.items())
    leaves = Counter(name.rpartition("/")[2] for name, _ in params)
    parts = []
    for name, value in params:
        leaf = name.rpartition("/")[2]
        parts.append(f"{leaf if leaves[leaf] == 1 else name.replace('/', '.')}={_short(value)}")
    number = trial.trial_id.rpartition("_")[2]
    is_number = number.isdecimal() and "_" in trial.trial_id  # else Tune gave it none
    end = str(int(number)) if is_number else trial.trial_id
    return f"{safe_name('_'.join(parts) or 'trial', max_length=_MAX_LENGTH)}_{end}"


def _short(value: Any) -> str:
    if isinstance(value, tuple) and len(value) == 2 and value[0] == "__ref_ph":  # Tune puts the object in later
        return str(value[1])
    return f"{value:.4g}" if isinstance(value, float) else str(value)
