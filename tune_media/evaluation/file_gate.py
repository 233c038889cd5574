"""A gate of files of results: nothing is played, and there is one look at all the starts that both sides have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.fs

from tune_media.evaluation.measure import LENGTH, RETURN, SUCCESS, Measure
from tune_media.evaluation.request import evaluation_seeds, in_order
from tune_media.evaluation.sequential import Standing
from tune_media.experiment.policy_files import policy_named
from tune_media.experiment.trial_files import TrialFiles
from tune_media.values import checks
from tune_media.values.number import counted
from tune_media.values.problems import argument, remedy


def file_sides(
    sources: Sequence[Any],
    policy: Any,
    filesystem: pyarrow.fs.FileSystem | None,
    columns: Mapping[str, str] | None,
) -> list[TrialFiles]:
    """Return the sides of a gate if they are files of results, or policies in these, ``FILE:POLICY``; else none.

    They are none if a function loads a ``policy`` from each file. Raises ValueError if one side alone is a file, or has
    not just the one policy, OSError if it cannot be read.
    """
    sides = [] if policy is not None else [policy_named(source, filesystem, columns) for source in sources]
    found = [side for side in sides if side is not None]
    if found and len(found) < len(sides):
        text = f"gate() cannot play {checks.as_shown(sources[sides.index(None)])} on the starts of a file of results: "
        raise ValueError(text + remedy("pass two such files, or two checkpoints."))
    return found


@dataclass(frozen=True)
class FilePairs:
    """The scores on the starts that count, by their seeds, and how the comparison stands, as ``Pairs`` has them."""

    scores: Mapping[int, tuple[float, ...]]
    standings: Mapping[bool, Standing]
    noted: Sequence[str]
    error: str | None = None
    played: str = ""

    def copies(self, *, of_floor: bool) -> int:
        """Return 0: without tapes nobody knows which episodes are copies of others."""
        del of_floor
        return 0

    def notes(self, *, of_floor: bool) -> list[str]:
        """Return what to know of the episodes."""
        del of_floor
        return list(self.noted)


def compared(
    sides: Sequence[TrialFiles], measure: Measure, seeds: Any, level: float, *, allow_same: bool = False
) -> FilePairs:
    """Return how two sides compare, or one with a floor. Raises ValueError if they cannot be compared."""
    notes = list(dict.fromkeys(note.rstrip(".") for side in sides if (note := _run(side).note)))
    in_their_order = not all(_run(side).has_starts for side in sides)
    scores = [_by_start(side, measure, in_their_order=in_their_order) for side in sides]
    if len(sides) > 1:
        notes += _check_comparable(sides[0], sides[1], allow_same=allow_same)
    wanted = scores[0].keys() if seeds is None else evaluation_seeds(seeds)
    pairs = {start: tuple(own[start] for own in scores) for start in in_order(_common(wanted, scores))}
    if left_out := sum(map(len, scores)) - len(sides) * len(pairs):
        notes.append(f"{counted(left_out, 'start')} of one side alone, or that you did not ask for, do not count")
    measure.check([*pairs.values()])
    asks = [*([False] if len(sides) > 1 else []), *([] if measure.floor is None else [True])]
    return FilePairs(
        pairs, {asked: measure.ask([*pairs.values()], level, len(pairs) - 1, of_floor=asked) for asked in asks}, notes
    )


def _common(wanted: Iterable[int], scores: Sequence[Mapping[int, float]]) -> list[int]:
    """Return the starts that all sides have. Raises ValueError if there are none."""
    common = [start for start in wanted if all(start in own for own in scores)]
    if not common:
        raise ValueError("not comparable: the sides have no start in common.")
    return common


def refuse_playing(arguments: Mapping[str, Any]) -> None:
    """Raise ValueError if an argument says how policies are played, or where to: nothing is."""
    for name in (name for name, value in arguments.items() if value):
        nothing = " takes nothing if a side is a file of results: nothing is played. "
        raise ValueError(argument(f"gate({name}=...)") + nothing + remedy("Leave it out."))


def _check_comparable(base: TrialFiles, candidate: TrialFiles, *, allow_same: bool) -> list[str]:
    """Return notes. Raises ValueError if a setting that both name differs, or if both are one policy of one file."""
    for name, ours in _run(base).settings.items():
        theirs = _run(candidate).settings.get(name, ours)
        if str(ours) != str(theirs):
            raise ValueError(f"not comparable: the base was played with {name}={ours}, the candidate with {theirs}.")
    if base.path == candidate.path and not allow_same:
        what_to_do = remedy("name another one, or pass " + argument("allow_same=True, or --allow-same") + ".")
        raise ValueError(
            "the base and the candidate are the same episodes, which pass whatever they are; " + what_to_do
        )
    is_same = _run(base).episodes == _run(candidate).episodes
    return ["the base and the candidate have the very same episodes"] if is_same else []


def _run(side: TrialFiles) -> Any:
    """Return the run of a policy, which it has as soon as it is read."""
    return side.run


def _by_start(side: TrialFiles, measure: Measure, *, in_their_order: bool) -> dict[int, float]:
    """Return the mean score on each start; a higher one is better. Raises ValueError."""
    values: dict[int, list[float]] = {}
    for place, episode in enumerate(_run(side).episodes):
        start = place if in_their_order else episode.seed
        row = {**vars(episode), "episode_length": episode.length}
        known = {RETURN: row["episode_return"], SUCCESS: row["success"], LENGTH: episode.length, **episode.metrics}
        if known.get(measure.metric, 0) is None:
            there = checks.first_names([name for name, value in known.items() if value is not None])
            lacks = f"an episode of {side.path!r} has no {measure.metric}, but {there}; "
            raise ValueError(lacks + remedy("pass another " + argument("metric=, or --metric") + "."))
        if start is not None:
            values.setdefault(start, []).append(measure.value(row))
    return {start: float(np.mean(on_start)) for start, on_start in values.items()}
