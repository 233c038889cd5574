"""The kinds of rows that a backend gets: which of its methods takes one, and what messages call it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tune_media.callbacks.backend import Backend, TrialInfo
from tune_media.storage.suspects import SUSPECT


class RowKind(NamedTuple):
    """How rows of one kind reach a backend.

    Attributes:
        method: The backend's method.
        doing: A name for the call, for warnings.
        noun: What a tracker lacks without the row; empty if that is nothing worth a warning.
    """

    method: str
    doing: str
    noun: str = ""

    def call(self, backend: Backend, trial: TrialInfo, *arguments: Any) -> None:
        """Call the backend's method with a trial and more arguments."""
        getattr(backend, self.method)(trial, *arguments)


ROW_KINDS: Mapping[str, RowKind] = {
    "start": RowKind("start", "starting a trial", "start(s)"),
    "result": RowKind("metrics", "logging metrics", "result(s)"),
    "media": RowKind("media", "logging media", "media"),
    "episodes": RowKind("media", "logging episodes", "media"),
    "again": RowKind("media_again", "logging a medium again"),
    "checkpoint": RowKind("checkpoint", "logging a checkpoint"),
    SUSPECT: RowKind("suspect", "marking clips as suspect", "mark(s) of suspect clips"),
    "end": RowKind("end", "ending a trial", "end(s)"),
}
"""All kinds of rows of the outbox that a backend gets, by their names there."""
