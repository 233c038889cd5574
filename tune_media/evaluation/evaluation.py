"""The outcome of an evaluation, and its progress."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.fs

from tune_media.experiment import evaluations
from tune_media.values import strict_json
from tune_media.values.number import counted
from tune_media.viewing import inference, score_tables
from tune_media.viewing.catalog import Catalog, load

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class EvaluatedCheckpoint:
    """One checkpoint under one condition: a line of the table.

    Attributes:
        trial: The name of its trial.
        condition: The change of the env as text; empty for the env of the training.
        checkpoint: The name of its folder.
        training_iteration: The iteration after which it was saved.
        episodes: The number of episodes that were played.
        return_mean: The mean of their returns; NaN if there are none.
        return_low, return_high: The 95 % interval of the mean, Student's t over the episodes, copies once.
        explored: Whether the policy explored, or None if no episode was played.
        connectors: Whose connectors were used: ``evaluation`` or ``training``, or None if the policy is not RLlib's.
        note: Why the trial's own numbers, or the policy as it was trained, may differ, how a policy is told that an
            episode begins, or that episodes are copies; or None.
        error: Why episodes are missing, or None.
        params: The hyperparameters of the trial that differ between the evaluated trials.
        behind: How much lower its mean return is than that of the best checkpoint under the same condition, on the
            seeds that both have played; NaN for the best one, and for one without such a seed.
        behind_low, behind_high: The 95 % interval of this difference over the seeds; those of all checkpoints under a
            condition hold together. NaN if nothing is known.
        seeds_compared: The number of these seeds; those with copies of an episode count once.
        why: Why it is not clearly worse than the best one: ``close``, ``equal``, ``one_seed``, ``few_common_seeds`` or
            ``few_equal``; None if it is, of the best one, and of one whose mean is not finite.
        success_rate: The share of its episodes that succeeded; NaN if that is not known.
        success_once_rate, success_at_end_rate: The shares that were a success after any of their steps, and after the
            last one; one of them is ``success_rate``, unless a function says it. NaN if that is not known.
        success_low, success_high: Its 95 % interval, Wilson's.
        success_behind: How much lower it is than that of the best checkpoint, on the seeds that both have played.
        success_behind_low, success_behind_high: The 95 % interval of this difference; they hold together, too.
        success_is_clear: Whether it clearly succeeds less often.
    """

    trial: str
    condition: str
    checkpoint: str
    training_iteration: int
    episodes: int
    return_mean: float = math.nan
    return_low: float = math.nan
    return_high: float = math.nan
    explored: bool | None = None
    connectors: str | None = None
    note: str | None = None
    error: str | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    behind: float = math.nan
    behind_low: float = math.nan
    behind_high: float = math.nan
    seeds_compared: int = 0
    why: str | None = None
    success_rate: float = math.nan
    success_low: float = math.nan
    success_high: float = math.nan
    success_behind: float = math.nan
    success_behind_low: float = math.nan
    success_behind_high: float = math.nan
    success_is_clear: bool = False
    success_once_rate: float = math.nan
    success_at_end_rate: float = math.nan

    @property
    def is_not_clearly_worse(self) -> bool:
        """Whether it may be as good as the best one."""
        return self.why is not None


@dataclass
class Evaluation:
    """The outcome of an evaluation.

    Attributes:
        name: Its name.
        path: Its folder, ``<experiment>/evaluations/<name>``, on ``filesystem``.
        filesystem: The filesystem of the experiment.
        checkpoints: A line for each checkpoint under each condition, in the order of the trials.
        problems: Things that are missing, such as clips, each in a sentence.
        played: The number of episodes that this call has played.
        reused: The number of those that were there before, played with the bytes that their checkpoints have now, or of
            checkpoints that were deleted since.
        reused_from: When the first and the last of these ended, Unix time in seconds, or None if there are none.
        replaced: The number of stored episodes that were deleted: of other bytes, or because of ``anew``.
        fresh: The evaluation of the best one on fresh seeds, or None if it was not asked for.

    Example:
        ``evaluate("~/ray_results/my_sweep", seeds=40).to_pandas()``
    """

    name: str
    path: str
    filesystem: pyarrow.fs.FileSystem
    checkpoints: list[EvaluatedCheckpoint] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    played: int = 0
    reused: int = 0
    reused_from: tuple[float, float] | None = None
    replaced: int = 0
    fresh: Evaluation | None = None

    @property
    def best(self) -> EvaluatedCheckpoint | None:
        """The checkpoint with the highest mean return in the env of the training, or under the first condition.

        Example:
            ``tune_media.evaluate("~/ray_results/my_sweep").best.path``
        """
        condition = evaluations.first_of([row.condition for row in self.checkpoints])
        rows = [row for row in self.checkpoints if row.condition == condition and math.isfinite(row.return_mean)]
        return max(rows, key=lambda row: row.return_mean, default=None)

    @property
    def played_checkpoints(self) -> list[EvaluatedCheckpoint]:
        """The lines of the table, and that of the fresh seeds."""
        return [*self.checkpoints, *(self.fresh.checkpoints if self.fresh else ())]

    @property
    def rivals(self) -> list[EvaluatedCheckpoint]:
        """The checkpoints that the best one is compared with: those under its condition that were played."""
        best = self.best
        if best is None:
            return []
        rows = [row for row in self.checkpoints if row is not best and row.condition == best.condition]
        return [row for row in rows if row.seeds_compared or row.why]

    @property
    def is_clear(self) -> bool | None:
        """Whether the best one is clearly better than all others, or None if there are no others."""
        rivals = self.rivals
        return not any(row.is_not_clearly_worse for row in rivals) if rivals else None

    @property
    def catalog(self) -> Catalog:
        """Its episodes and clips, as ``tune_media.load`` reads them."""
        return load(self.path, self.filesystem)

    def to_pandas(self) -> pd.DataFrame:
        """Return the lines of the table as a DataFrame; a hyperparameter has the column ``config/<name>``."""
        import pandas as pd

        return pd.DataFrame(self._lines())

    def facts(self) -> dict[str, Any]:
        """Return it as JSON.

        ``name``, ``path``, ``problems``, ``played``, ``reused`` and ``replaced`` (numbers of episodes), ``best`` (the
        place of the best in ``checkpoints``, or None), ``is_clear`` (whether all others under its condition are clearly
        worse, or None if there are none), ``fresh`` (the same of the evaluation on fresh seeds), and
        ``checkpoints``, each with the columns of ``to_pandas``.
        """
        best = self.best
        return {
            "name": self.name,
            "path": self.path,
            "problems": self.problems,
            "played": self.played,
            "reused": self.reused,
            "replaced": self.replaced,
            "best": next((number for number, row in enumerate(self.checkpoints) if row is best), None),
            "is_clear": self.is_clear,
            "fresh": None if self.fresh is None else self.fresh.facts(),
            "checkpoints": self._lines(strict_json.told_apart),
        }

    def _lines(self, made: Callable[[Any], Any] = lambda value: value) -> list[dict[str, Any]]:
        lines = []
        for row in self.checkpoints:
            facts = {name: value for name, value in vars(row).items() if name != "params"}
            lines.append({**facts, **{f"config/{name}": made(value) for name, value in row.params.items()}})
        return lines

    def __repr__(self) -> str:
        return f"Evaluation({self.name!r}, {counted(len(self.checkpoints), 'checkpoint')} in {self.path})"


def compared(
    checkpoints: Sequence[EvaluatedCheckpoint],
    returns: Sequence[Mapping[int, float]],
    successes: Sequence[Mapping[int, bool]],
    copies: Sequence[Mapping[int, int]] = (),
) -> list[EvaluatedCheckpoint]:
    """Return the lines with their differences to the best one under the same condition, on equal seeds.

    ``returns``, ``successes`` and ``copies`` (see ``copies_of``) have a mapping by seed for each line.

        >>> means = {"a": 5.0, "b": 3.0}
        >>> lines = [EvaluatedCheckpoint(name, "", "checkpoint_000000", 1, 2, mean) for name, mean in means.items()]
        >>> returns = [{0: 4.0, 1: 6.0}, {0: 2.0, 1: 4.0}]
        >>> [(row.behind, row.seeds_compared) for row in compared(lines, returns, [{}, {}])]
        [(nan, 0), (2.0, 2)]
    """
    rows = list(checkpoints)
    for condition in dict.fromkeys(row.condition for row in checkpoints):
        played = [n for n, row in enumerate(rows) if row.condition == condition and math.isfinite(row.return_mean)]
        played.sort(key=lambda number: -rows[number].return_mean)
        for number, lead in _leads(played, returns, copies).items():
            rows[number] = replace(
                rows[number],
                behind=lead.value,
                behind_low=_finite(lead.low),
                behind_high=_finite(lead.high),
                seeds_compared=lead.seeds,
                why=lead.why,
            )
        known = [n for n in played if successes[n]]
        for number, lead in _leads(known, successes, copies).items() if known[:1] == played[:1] else ():
            rows[number] = replace(
                rows[number],
                success_behind=lead.value,
                success_behind_low=_finite(lead.low),
                success_behind_high=_finite(lead.high),
                success_is_clear=lead.is_clear,
            )
    return rows


def _leads(
    played: Sequence[int], values: Sequence[Mapping[int, float]], copies: Sequence[Mapping[int, int]]
) -> dict[int, inference.Lead]:
    """Return how far the first of some lines is ahead of each other one, by their values on each seed."""
    means = [float(np.mean(list(values[number].values()))) for number in played]
    runs = [
        [score_tables.RunScores.of(list(values[line].items()), mean, copies=copies[line] if copies else None)]
        for line, mean in zip(played, means, strict=True)
    ]
    _, leads = score_tables.leads_of([np.array([[mean]]) for mean in means], runs) if len(played) > 1 else ([], [])
    return {number: lead for number, lead in zip(played, leads, strict=False) if lead is not None}


def _finite(end: float) -> float:
    return end if math.isfinite(end) else math.nan


class Progress:
    """Called while an evaluation plays; this one prints nothing.

    Example:
        ``evaluate(sweep, progress=Bar())``, where ``Bar`` derives from this class and has the methods that it needs.
    """

    def reads_checkpoints(self, path: str) -> None:
        """Checkpoints of the experiment at this path are read next, which runs code in them."""

    def follows(self, name: str, path: str) -> None:
        """The evaluation with this name, in this folder, waits for checkpoints."""

    def begin(self, name: str, episodes: int, missing: int) -> None:
        """An evaluation begins: ``episodes`` in all, ``missing`` still to play."""

    def played(self, episodes: int) -> None:
        """So many more episodes have been played."""

    def tells(self, text: str) -> None:
        """The first seeds gave one episode."""

    def finished(self, checkpoint: EvaluatedCheckpoint) -> None:
        """All episodes of a checkpoint have been played, or there will be no more."""
