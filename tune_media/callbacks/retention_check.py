"""Finds a retention policy that compares by something that no result has, such as a misspelt metric."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ray.tune.utils import flatten_dict

from tune_media.callbacks.pruning import number_at
from tune_media.storage.entry import MediaEntry
from tune_media.storage.retention import value_of_line
from tune_media.values.metric_names import main_metrics
from tune_media.values.options import Retention
from tune_media.values.recording_problems import RecordingProblem

_PATIENCE = 4  # clips, or results, that must lack a metric before it counts as misspelt
_MAX_NAMES = 12


class RetentionCheck:
    """Looks at the first results of an experiment. Tune's loop calls ``look``.

    Args:
        policy: Which files are kept.

    Example:
        >>> check = RetentionCheck(Retention(best_trial_by="scrore"))
        >>> problems = [problem for _ in range(9) for problem in check.look({"score": 1.0}, [])]
        >>> print(problems[0].text)
        Retention(best_trial_by='scrore') finds no best trial: none of the first 4 results has this metric. Their main \
metrics: score
        >>> len(problems)
        1
    """

    def __init__(self, policy: Retention) -> None:
        self._by = policy.by if policy.best is not None else None
        self._best_trial = policy.best_trial_by
        self._clips = self._results = 0  # that lack it

    def look(self, result: Mapping[str, Any], entries: Iterable[MediaEntry]) -> list[RecordingProblem]:
        """Return the problem that this result reveals, once; nothing if there is none."""
        found = []
        if self._best_trial is not None:
            found += self._look_for_trial(self._best_trial, result)
        for entry in entries:
            if self._by is not None:
                found += self._look_for_value(self._by, entry.medium.facts())
        return [RecordingProblem(text) for text in found]

    def _look_for_trial(self, path: str, result: Mapping[str, Any]) -> list[str]:
        self._results += 1
        if number_at(result, path) is not None:
            self._best_trial = None
        elif self._results == _PATIENCE:
            self._best_trial = None
            names = main_metrics(flatten_dict(dict(result), delimiter="/"))
            return [
                f"Retention(best_trial_by={path!r}) finds no best trial: none of the first {_PATIENCE} results has "
                f"this metric. Their main metrics: {_some(names)}"
            ]
        return []

    def _look_for_value(self, name: str, facts: Mapping[str, Any]) -> list[str]:
        if "episode_return" not in facts:
            return []
        self._clips += 1
        if value_of_line(dict(facts), name) is not None:
            self._by = None
        elif self._clips == _PATIENCE:
            self._by = None
            names = [fact for fact in facts if value_of_line(dict(facts), fact) is not None]
            return [
                f"Retention(by={name!r}) keeps no clip as one of the best: none of the first {_PATIENCE} clips "
                f"has this value. They have: {_some([*names, *facts.get('metrics', {})])}"
            ]
        return []


def _some(names: list[str]) -> str:
    more = ", ..." if len(names) > _MAX_NAMES else ""
    return (", ".join(names[:_MAX_NAMES]) or "none") + more
