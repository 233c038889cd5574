"""Finds a retention policy that compares by something that no clip has, such as a misspelt metric."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tune_media.storage.entry import MediaEntry
from tune_media.storage.retention import value_of_line
from tune_media.values.options import Retention
from tune_media.values.recording_problems import RecordingProblem

_PATIENCE = 4  # clips, or results, that must lack a metric before it counts as misspelt
_MAX_NAMES = 12


class RetentionCheck:
    """Looks at the first results of an experiment. Tune's loop calls ``look``.

    Args:
        policy: Which files are kept.
    """

    def __init__(self, policy: Retention) -> None:
        self._by = policy.by if policy.best is not None else None
        self._clips = 0  # that lack it

    def look(self, entries: Iterable[MediaEntry]) -> list[RecordingProblem]:
        """Return the problem that the clips of a result reveal, once; nothing if there is none."""
        texts = [text for entry in entries for text in self._look_for_value(entry.medium.facts())]
        return list(map(RecordingProblem, texts))

    def _look_for_value(self, facts: Mapping[str, Any]) -> list[str]:
        name = self._by
        if name is None or "episode_return" not in facts:
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
