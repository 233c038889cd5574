"""Which of a result's many metrics say how good a trial is."""

from __future__ import annotations

from collections.abc import Iterable

RETURN_NAMES = ("episode_return_mean", "episode_reward_mean")
LENGTH_NAME = "episode_len_mean"

_TUNES_OWN = frozenset(
    (
        *(
            "done",
            "date",
            "timestamp",
            "pid",
            "hostname",
            "node_ip",
            "experiment_tag",
            "trial_id",
            "checkpoint_dir_name",
        ),
        *("config", "iterations_since_restore", "time_since_restore", "time_this_iter_s", "time_total_s"),
        *("training_iteration", "timesteps_total", "episodes_total"),
    )
)
_MAX_METRICS = 10


def main_metrics(names: Iterable[str]) -> list[str]:
    """Return the metrics that a table shows by default: RLlib's returns and lengths, or a trainable's own.

    The evaluation's come first.
    """
    names = list(dict.fromkeys(names))
    of_rllib = [name for name in names if name.rpartition("/")[2] in (*RETURN_NAMES, LENGTH_NAME)]
    if of_rllib:
        return sorted(of_rllib, key=_place)[:_MAX_METRICS]
    return sorted(name for name in names if "/" not in name and name not in _TUNES_OWN)[:_MAX_METRICS]


def _place(name: str) -> tuple[bool, bool, str]:
    return not name.startswith("evaluation/"), name.rpartition("/")[2] == LENGTH_NAME, name
