"""The table of a run's episodes in MLflow, which MLflow's page shows and ``mlflow.load_table`` reads."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tune_media.values.strict_json import json_bytes

TABLE = "episodes.json"
"""The artifact."""

MAX_ROWS = 10_000
"""Rows of the table; those of the oldest reports are left out."""

_FIRST = ("clip", "step", "section", "recorder", "episode_id", "episode_return", "episode_length")  # columns
_LEFT_OUT = ("metrics", "values", "series", "series_note", "every", "finished_at", "training_iteration", "late")
_METRIC = "metrics/"


class EpisodesTable:
    """Collects the episodes of a run by the reports that brought them. A report that is added again replaces itself.

    Example:
        >>> table = EpisodesTable()
        >>> table.add("episode_data/data-00000004.json", 4, [{"episode_id": "e1", "episode_return": 2.0}])
        >>> json.loads(table.content())["data"][0][:5]
        [None, 4, None, None, 'e1']
    """

    def __init__(self) -> None:
        self.is_changed = False
        self._reports: dict[tuple[str, str, str], tuple[int, list[dict[str, Any]]]] = {}  # by path and batch
        self._size = 0  # rows
        self._clips: dict[str, str] = {}  # paths by their episodes

    def add(self, path: str, step: int, episodes: Iterable[Mapping[str, Any]]) -> None:
        """Add the episodes of a report.

        Args:
            path: The file of the report's episodes.
            step: Its step.
            episodes: Their facts, with ``section``, ``recorder`` and ``metrics``.
        """
        rows: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
        for episode in episodes:
            key = (path, str(episode.get("section")), str(episode.get("recorder")))
            metrics = {f"{_METRIC}{name}": value for name, value in (episode.get("metrics") or {}).items()}
            facts = {name: value for name, value in episode.items() if name not in _LEFT_OUT}
            rows.setdefault(key, []).append({"step": step, "report": path, **facts, **metrics})
        for key, found in rows.items():
            self._put(key, step, found)
        self.is_changed = True

    def add_clip(self, episode_id: str, path: str) -> None:
        """Add the clip of an episode."""
        self._clips[episode_id] = path
        while len(self._clips) > MAX_ROWS:
            del self._clips[next(iter(self._clips))]

    def read(self, content: bytes) -> None:
        """Add the rows of the table as an earlier process wrote it."""
        table = json.loads(content)
        found: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
        for values in table["data"]:
            row = dict(zip(table["columns"], values, strict=True))
            row = {name: value for name, value in row.items() if value is not None}
            clip, path = row.pop("clip", None), row.get("report")
            if clip is not None:
                self._clips.setdefault(row["episode_id"], clip)
            if path is not None:  # an earlier version named none; the report's own file is read then
                found.setdefault((path, str(row.get("section")), str(row.get("recorder"))), []).append(row)
        for key in found.keys() - self._reports.keys():
            self._put(key, found[key][0]["step"], found[key])

    def missing(self, paths: Iterable[str]) -> set[str]:
        """Return the reports among ``paths`` that the table does not have."""
        return set(paths) - {path for path, *_ in self._reports}

    @property
    def is_full(self) -> bool:
        """Whether there is room for no other episode."""
        return self._size >= MAX_ROWS

    def content(self) -> bytes:
        """Return the table as MLflow's ``log_table`` writes it."""
        rows = [
            {"clip": self._clips.get(row["episode_id"]), **row}
            for _, (_, found) in sorted(self._reports.items(), key=lambda item: (item[1][0], item[0]))
            for row in found
        ]
        others = {name for row in rows for name in row}.difference(_FIRST)
        names = [*_FIRST, *sorted(others, key=lambda name: (name.startswith(_METRIC), name))]
        lines = [json_bytes([row.get(name) for name in names]) for row in rows]
        return b'{"columns": ' + json_bytes(names) + b', "data": [\n' + b",\n".join(lines) + b"\n]}\n"

    def _put(self, key: tuple[str, str, str], step: int, rows: list[dict[str, Any]]) -> None:
        self._size += len(rows) - len(self._reports.get(key, (0, []))[1])
        self._reports[key] = step, rows
        while self._size > MAX_ROWS and len(self._reports) > 1:
            oldest = min(self._reports, key=lambda known: self._reports[known][0])
            self._size -= len(self._reports.pop(oldest)[1])
