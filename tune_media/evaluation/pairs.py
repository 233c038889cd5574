"""Two policies that play the same seeds in turns, until it is sure which way it goes."""

from __future__ import annotations

import itertools
import posixpath
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tune_media.evaluation.evaluation_part import EvaluationPart
from tune_media.evaluation.jobs import Played
from tune_media.evaluation.measure import Measure
from tune_media.evaluation.sequential import UNDECIDED, Standing, standing
from tune_media.evaluation.sides import envs_differ
from tune_media.storage.episode_files import recipe_name
from tune_media.storage.filesystem import read_if_there
from tune_media.values.secrets import error_text

BASE, CANDIDATE = ROLES = ("base", "candidate")


class Pairs:
    """The episodes of both sides under one condition of the env, and how the comparison stands.

    Only the seeds count that come before the first one that a side has not played, in the order that was given: which
    worker is quick does not matter, nor when one looks. ``scores`` has the base's score and the candidate's for each
    seed that counts; a higher one is better.
    """

    def __init__(
        self,
        parts: Sequence[EvaluationPart],
        seeds: Sequence[int],
        measure: Measure,
        level: float,
    ) -> None:
        self._parts, self._seeds, self._measure, self._level = parts, seeds, measure, level
        self.standing = Standing(UNDECIDED, 0)
        self.scores: dict[int, tuple[float, float]] = {}
        self.error: str | None = None
        self.note: str | None = None
        self._recipes: set[Any] = set()  # of envs that are known to be equal
        self._look()

    def decide(self, played: Iterator[Played]) -> Iterator[None]:
        """Store episodes until it is decided, and yield after each batch."""
        while self.error is None and not self._has_enough:
            batch = next(played, None)
            if batch is None:
                return
            self._parts[batch.part].add(batch)
            self._look()
            if batch.error is not None and not self._has_enough:
                self.error = self.error or f"the {ROLES[batch.part]} cannot be played: {batch.error}"
            yield

    @property
    def _has_enough(self) -> bool:
        return self.standing.verdict != UNDECIDED

    def _look(self) -> None:
        rows = [{row["seed"]: row for row in part.rows()} for part in self._parts]
        common = list(itertools.takewhile(lambda seed: all(seed in of for of in rows), self._seeds))
        if not common:
            return
        try:
            self._check_alike([of[seed]["recipe"] for seed in common for of in rows])
            scores = [(self._measure.value(rows[0][seed]), self._measure.value(rows[1][seed])) for seed in common]
        except ValueError as error:
            self.error = str(error)
            return
        ours, theirs = np.array(scores).T
        self.standing = standing(ours, theirs, self._measure.margin, self._measure.bounds, self._level)
        self.scores = dict(zip(common[: self.standing.seeds], scores, strict=False))

    def _check_alike(self, recipes: Sequence[Any]) -> None:
        """Raise ValueError if the policies play in several ways, or in several envs.

        ``recipes`` are hashes of what makes the envs, the base's and the candidate's for each seed.
        """
        base, candidate = (part.played_as for part in self._parts)
        for name, how in (("explore", "explore=False, or --no-explore"), ("connectors", "connectors=")):
            ours, theirs = getattr(base, name, None), getattr(candidate, name, None)
            if None not in (ours, theirs) and ours != theirs:
                raise ValueError(f"the base plays with {name}={ours!r}, and the candidate with {theirs!r}; pass {how}")
        self._recipes = self._recipes or {recipes[0]}
        for number, hash in enumerate(recipes):
            if hash in self._recipes:
                continue
            contents = [self._recipe(BASE, recipes[0]), self._recipe(ROLES[number % 2], hash)]
            why = None
            try:
                if None in contents:
                    raise ValueError("how one of them is made cannot be pickled")
                why = envs_differ(*contents)
            except Exception as error:  # of the user's code in a recipe
                self.note = f"whether both play in equal envs is not known ({error_text(error)})"
            if why is not None and number % 2:
                raise ValueError(f"the base and the candidate play in different envs; they differ in {why}")
            if why is not None:
                raise ValueError(f"the env has changed since the first seed was played, in {why}; pass another output=")
            self._recipes.add(hash)

    def _recipe(self, role: str, hash: Any) -> Any:
        """Return what makes the env of an episode, or None."""
        if hash is None:
            return None
        part = self._parts[ROLES.index(role)]
        path = posixpath.normpath(posixpath.join(part.store.folder, recipe_name(hash)))
        return read_if_there(part.store.filesystem, path)
