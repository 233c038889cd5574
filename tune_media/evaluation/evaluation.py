"""What an evaluation has found, and how far it is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow.fs

from tune_media.viewing.catalog import Catalog, load

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class EvaluatedCheckpoint:
    """One checkpoint under one condition: a line of the table.

    Attributes:
        trial: The name of its trial.
        condition: The change of the env as text; empty: the env is that of the training.
        checkpoint: The name of its folder.
        training_iteration: The iteration after which it was saved.
        episodes: The number of episodes that were played.
        return_mean: The mean of their returns; NaN if there are none.
        return_low, return_high: The 95 % interval of the mean: percentile bootstrap over the episodes.
        explored: Whether the policy explored. None: no episode was played.
        connectors: Whose connectors were used: ``evaluation`` or ``training``. None: the policy has none of RLlib's.
        note: Why the trial's own numbers, or the policy as it was trained, may differ, or None.
        error: Why episodes are missing, or None.
        params: The hyperparameters of the trial that differ between the evaluated trials.
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


@dataclass
class Evaluation:
    """What an evaluation has found.

    Attributes:
        name: Its name.
        path: Its folder, ``<experiment>/evaluations/<name>``, on ``filesystem``.
        filesystem: The filesystem of the experiment.
        checkpoints: A line for each checkpoint under each condition, in the order of the trials.
        problems: What is missing besides, such as clips, each in a sentence.
        learning: The paths of the clips and the pictures that show one seed through all checkpoints of a trial.

    Example:
        ``evaluate("~/ray_results/my_sweep", episodes=40).to_pandas()``
    """

    name: str
    path: str
    filesystem: pyarrow.fs.FileSystem
    checkpoints: list[EvaluatedCheckpoint] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    learning: list[str] = field(default_factory=list)

    @property
    def best(self) -> EvaluatedCheckpoint | None:
        """The checkpoint with the highest mean return in the env of the training, or under the first condition."""
        first = self.checkpoints[0].condition if self.checkpoints else ""
        condition = "" if any(not one.condition for one in self.checkpoints) else first
        known = [one for one in self.checkpoints if one.condition == condition and not math.isnan(one.return_mean)]
        return max(known, key=lambda one: one.return_mean, default=None)

    @property
    def catalog(self) -> Catalog:
        """Its episodes and clips, as ``tune_media.load`` reads them."""
        return load(self.path, self.filesystem)

    def to_pandas(self) -> pd.DataFrame:
        """Return the lines of the table as a DataFrame; a hyperparameter has the column ``config/<name>``."""
        import pandas as pd

        rows = []
        for one in self.checkpoints:
            facts = {name: value for name, value in vars(one).items() if name != "params"}
            rows.append({**facts, **{f"config/{name}": value for name, value in one.params.items()}})
        return pd.DataFrame(rows)

    def __repr__(self) -> str:
        return f"Evaluation({self.name!r}, {len(self.checkpoints)} checkpoints in {self.path})"


class Progress:
    """Told how far an evaluation is; this one says nothing."""

    def reads_checkpoints(self, path: str) -> None:
        """Checkpoints of the experiment at this path are read next, which runs code in them."""

    def begin(self, name: str, episodes: int, missing: int) -> None:
        """The evaluation with this name has so many episodes, of which some are missing yet."""

    def played(self, episodes: int) -> None:
        """So many more episodes have been played."""

    def finished(self, checkpoint: EvaluatedCheckpoint) -> None:
        """All episodes of a checkpoint have been played, or there will be no more."""
