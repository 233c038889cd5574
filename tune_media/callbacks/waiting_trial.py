"""Says of a sweep whose first trial does not begin what the trial asks for, what there is, and what mends it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tune_media.values.number import counted

PATIENCE = 60.0  # seconds from the beginning of a sweep
_SETTINGS = (  # of RLlib: the resource that each takes, and the method that sets it, in the order of what to lower
    ("CPU", "num_env_runners", "env_runners"),
    ("CPU", "evaluation_num_env_runners", "evaluation"),
    ("GPU", "num_gpus_per_learner", "learners"),
)


def why(trial: str, config: Mapping[str, Any], asked: Mapping[str, float], there: Mapping[str, float]) -> str:
    """Return why a trial with this config waits, if it asks for these resources of those of the cluster.

    >>> print(why("PPO_1", {"num_env_runners": 2}, {"CPU": 3.0}, {"CPU": 2.0, "memory": 9e9}))
    trial PPO_1 asks for 3 CPUs (Ray has 2); it begins with `.env_runners(num_env_runners=1)`
    """
    lacking = {name: number for name, number in asked.items() if number > there.get(name, 0)}
    if not lacking:
        wanted = " and ".join(_amount(name, number) for name, number in asked.items())
        return f"trial {trial} asks for {wanted}, which Ray has: it is starting, or others have them, see `ray status`"
    asks = " and ".join(f"{_amount(name, number)} (Ray has {there.get(name, 0):g})" for name, number in lacking.items())
    return f"trial {trial} asks for {asks}; it begins with `{_remedy(config, asked, there)}`"


def _amount(name: str, number: float) -> str:
    return counted(int(number), name) if number == int(number) else f"{number:g} {name}"


def _remedy(config: Mapping[str, Any], asked: Mapping[str, float], there: Mapping[str, float]) -> str:
    """Return the call that lowers what a trial asks for: RLlib's, if its settings suffice, or else Tune's."""
    over = {name: number - there.get(name, 0) for name, number in asked.items()}
    # a plain dict need not have what is RLlib's default
    settings = {"num_env_runners": asked.get("CPU", 1) - 1 if "env" in config else 0, **config}
    calls = ""
    for resource, setting, method in _SETTINGS:
        has = settings.get(setting) or 0
        each = (settings.get("num_cpus_per_env_runner") or 1) if resource == "CPU" else 1
        if over.get(resource, 0) > 0 and has:
            left = max(0, int(has - math.ceil(over[resource] / each)))
            over[resource] -= (has - left) * each
            calls += f".{method}({setting}={left})"
    if calls and all(number <= 0 for number in over.values()):
        return calls
    fitting = ", ".join(f'"{name.lower()}": {min(number, there.get(name, 0)):g}' for name, number in asked.items())
    return f"tune.with_resources(trainable, {{{fitting}}})"
