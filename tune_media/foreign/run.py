"""A run of another tool, as trials read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tune_media.foreign.told import Curve, Episode, Told
from tune_media.storage.index_lines import MediumLine
from tune_media.values.metric_names import RETURN_NAMES


@dataclass(frozen=True)
class ForeignRun:
    """All that the files of a run tell; its curves are read when they are asked for.

    Attributes:
        lines: An index line for each clip; the paths are those in the run's folder.
        columns: The columns of the tables beside its clips.
        config: Its hyperparameters.
        env_id: Its task; None if no file names it.
        told: What each reader found, in the order in which one is believed more than the next.
        settings: How the policy was played, if its file says so: one that was played otherwise is not compared.
        note: What to know of its episodes.
        has_starts: Whether the file names seeds or starts; else the seeds are places in the file.
        is_unnamed: No known recorder named any of its clips: it may be a folder of anything.
    """

    lines: Sequence[MediumLine] = ()
    columns: frozenset[str] = frozenset()
    config: Mapping[str, Any] = field(default_factory=dict)
    env_id: str | None = None
    told: Sequence[Told] = ()
    is_unnamed: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    has_starts: bool = True

    @cached_property
    def curves(self) -> Sequence[Curve]:
        """Its curves, of two with one name the first."""
        found: dict[str, Curve] = {}
        for part in self.told:
            for curve in part.curves() if part.curves is not None else ():
                found.setdefault(curve.name, curve)
        return list(found.values())

    @property
    def episodes(self) -> Sequence[Episode]:
        """Its episodes, by the first reader that has any."""
        return next((part.episodes for part in self.told if part.episodes), ())

    @property
    def has_results(self) -> bool:
        """Whether it may have curves or episodes; reads no curve."""
        return any(part.curves is not None or part.episodes for part in self.told)

    @property
    def return_from(self) -> tuple[str, str]:
        """The tag of its return and the unit of its steps: runs whose differ are not compared; empty without one."""
        returns = [curve for curve in self.curves if curve.name.rpartition("/")[2] in RETURN_NAMES]
        told = [(part.tag, part.unit) for part in self.told if part.episodes]
        best = sorted(returns, key=lambda curve: not curve.name.startswith("evaluation/"))
        return (best[0].tag, best[0].unit) if best else told[0] if told else ("", "")

    def place_of(self, metric: str) -> tuple[str, str]:
        """Return the tag of a metric and the unit of its steps; of one that no curve has, those of its return."""
        own = [(curve.tag, curve.unit) for curve in self.curves if curve.name == metric]
        if metric in RETURN_NAMES:
            own += [(part.train_tag, part.unit) for part in self.told if part.train_tag]
        return own[0] if own else self.return_from

    @property
    def not_understood(self) -> list[str]:
        """What was seen and could not be read."""
        return [sentence for part in self.told for sentence in part.not_understood]
