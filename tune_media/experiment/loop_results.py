"""The results of a loop outside Tune, made of the episodes that it recorded."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tune_media.experiment.results import numbers_of
from tune_media.foreign.run import ForeignRun
from tune_media.values.episodes import success_rate, summarized
from tune_media.values.metric_names import LENGTH_NAME, RETURN_NAMES
from tune_media.values.number import whole_number
from tune_media.values.sections import TRAIN

WINDOW = 100
"""The episodes that a result is the mean of: the last ones, as Gymnasium's and Stable-Baselines3's statistics."""
COLUMNS = ["section", "seed", "episode_return", "episode_length", "success", "env_steps", "finished_at", "metrics"]
_SCHEMA = pa.schema(
    [
        ("section", pa.string()),
        *((name, pa.int64()) for name in ("seed", "episode_length")),
        *((name, pa.float64()) for name in ("episode_return", "env_steps", "finished_at")),
        ("success", pa.bool_()),
        ("metrics", pa.map_(pa.string(), pa.float64())),
    ]
)
_MAX_RESULTS = 200  # of a section


@dataclasses.dataclass(frozen=True)
class LoopEpisodes:
    """The episodes of a loop, in the order in which they ended.

    >>> rows = [{"section": "train", "episode_return": float(n), "env_steps": 10 * n} for n in range(3)]
    >>> table = pa.Table.from_pylist([{**dict.fromkeys(COLUMNS), "finished_at": 0.0, **row} for row in rows])
    >>> [result["episode_return_mean"] for result in LoopEpisodes.of([table]).results]
    [0.0, 0.5, 1.0]
    """

    table: pa.Table  # their ``COLUMNS``
    _has_own_steps: ClassVar = True  # without a training, the steps of an evaluation are its own

    @classmethod
    def of(cls, tables: Sequence[pa.Table]) -> LoopEpisodes:
        """Return the episodes of some files; each table has ``COLUMNS``, and there is at least one."""
        return cls(pa.concat_tables(tables, promote_options="permissive").sort_by("finished_at"))

    def last(self, section: str) -> pa.Table:
        """Return the episodes of a section's last result, or the last ``WINDOW`` of all sections if it has none."""
        windows = self._windows(section)
        return self._in_section(section)[slice(*windows[-1])] if windows else self.table[-WINDOW:]

    @functools.cached_property
    def results(self) -> list[dict[str, Any]]:
        """Results as a trainable of Tune's would report them, in the order of their steps.

        Each has the means over the last ``WINDOW`` episodes of a section: ``train`` at the top, others under their
        names. If an evaluation has several episodes at one step of the training, the means are over these.
        """
        results: list[dict[str, Any]] = []
        for section in self._sections:  # the episodes of an evaluation may have one step
            results += {result["timesteps_total"]: result for result in self._results_of(section)}.values()
        return sorted(results, key=lambda result: result["timesteps_total"] or 0)

    def reported(self) -> Iterator[dict[str, Any]]:
        """Yield the results as Tune would report them, with their time."""
        steps, times = (self.table[name].to_pylist() for name in ("env_steps", "finished_at"))
        return _reported(self.results, {step or 0: time for step, time in zip(steps, times, strict=True)})

    def _results_of(self, section: str) -> Iterator[dict[str, Any]]:
        windows = self._windows(section)
        parts = min(len(windows), _MAX_RESULTS)
        for number in sorted(len(windows) - 1 - len(windows) * skipped // parts for skipped in range(parts)):
            window = self._in_section(section)[slice(*windows[number])]
            custom = summarized(dict(row or ()) for row in window["metrics"].to_pylist())
            custom |= success_rate(window["success"].to_pylist())
            told = {RETURN_NAMES[0]: "episode_return", LENGTH_NAME: "episode_length"}
            means = {n: _mean(window, column) for n, column in told.items() if window[column].null_count < len(window)}
            result = {**means, "custom_metrics": custom}
            step = {"timesteps_total": window["env_steps"][-1].as_py()}
            yield {**step, **result} if section == TRAIN else {**step, section: result}

    @functools.cached_property
    def _sections(self) -> list[str]:
        sections: list[str] = self.table["section"].unique().to_pylist()
        return sections

    def _in_section(self, section: str) -> pa.Table:
        return self.table.filter(pc.equal(self.table["section"], section))

    def _windows(self, section: str) -> list[tuple[int, int]]:
        """Return the first episode of each result of a section, and the one after its last."""
        steps = self._in_section(section)["env_steps"].to_pylist()
        windows = [(max(0, end - WINDOW), end) for end in range(1, len(steps) + 1)]
        if section == TRAIN or (self._has_own_steps and TRAIN not in self._sections):
            return windows
        ends = [number for number in range(1, len(steps)) if steps[number] != steps[number - 1]] + [len(steps)]
        evaluations = list(itertools.pairwise([0, *ends])) if steps else []
        return [(first, end) if end - first > 1 else windows[end - 1] for first, end in evaluations]


def _mean(window: pa.Table, name: str) -> float:
    values = np.array([np.nan if value is None else value for value in window[name].to_pylist()], float)
    return float(np.mean(values)) if len(values) else np.nan


class _RunEpisodes(LoopEpisodes):
    """The episodes of a run of another tool, which has evaluations at the steps of the training."""

    _has_own_steps = False


def episodes_of_run(run: ForeignRun) -> LoopEpisodes | None:
    """Return the episodes of a run of another tool; None if it has none."""
    rows = [{**vars(episode), "episode_length": episode.length, "env_steps": episode.step} for episode in run.episodes]
    for number, row in enumerate(rows):  # those without a time keep their order
        row["finished_at"] = float(number) if row["finished_at"] is None else row["finished_at"]
        row["metrics"] = list(row["metrics"].items())
    table = pa.Table.from_pylist(rows, _SCHEMA).sort_by("finished_at")
    return _RunEpisodes(table) if rows else None


def results_of_run(run: ForeignRun, episodes: LoopEpisodes | None) -> list[dict[str, Any]]:
    """Return the results of a run by their steps: its curves, and the numbers of its episodes that they lack."""
    found: dict[float | None, dict[str, Any]] = {}  # None: of an evaluation of unknown step
    for curve in run.curves:
        for step, value in zip(curve.steps, curve.values, strict=True):
            found.setdefault(step, {"timesteps_total": step})[curve.name] = value
    names = {curve.name for curve in run.curves}
    for result in episodes.results if episodes else ():
        numbers = {name: value for name, value in numbers_of(result).items() if name not in names}
        step = result["timesteps_total"]
        found.setdefault(step, {} if step is None else {"timesteps_total": step}).update(numbers)
    return [found[step] for step in sorted(found, key=lambda number: number or 0)]


def reported_of_run(run: ForeignRun, results: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the results of a run as Tune would report them, with their time, if it is known."""
    times = {episode.step or 0: episode.finished_at for episode in run.episodes if episode.finished_at}
    times |= {step: time for curve in run.curves for step, time in zip(curve.steps, curve.times, strict=False)}
    return _reported(results, times)


def _reported(results: Sequence[Mapping[str, Any]], times: Mapping[float, float]) -> Iterator[dict[str, Any]]:
    """Yield results in the order of their steps as Tune would report them: one a step, which is their iteration.

    Those of unknown step are at step 0.

    >>> results = [{"lr": 3}, {"timesteps_total": 0, "eps": 1}, {"timesteps_total": 8.0, "eps": 2}]
    >>> for result in _reported(results, {8: 5.0}):
    ...     print(result)
    {'training_iteration': 0, 'lr': 3, 'timesteps_total': 0, 'eps': 1}
    {'training_iteration': 8, 'timestamp': 5.0, 'timesteps_total': 8, 'eps': 2}
    """
    for iteration, at_step in itertools.groupby(
        results, key=lambda result: whole_number(result.get("timesteps_total"))
    ):
        joined = functools.reduce(operator.or_, map(dict, at_step))
        step = joined.get("timesteps_total") or 0
        time = {"timestamp": times[step]} if step in times else {}
        yield {"training_iteration": iteration, **time, **joined, "timesteps_total": iteration}
