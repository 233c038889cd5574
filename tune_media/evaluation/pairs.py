"""Plays one policy, or two on the same seeds in turns, until there is a verdict."""

from __future__ import annotations

import itertools
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tune_media.evaluation.decisive import decisive_seeds
from tune_media.evaluation.evaluation_part import EvaluationPart
from tune_media.evaluation.jobs import Played
from tune_media.evaluation.measure import Measure
from tune_media.evaluation.sequential import UNDECIDED, WORSE, Scores, Standing
from tune_media.evaluation.sides import envs_differ
from tune_media.storage import episode_files
from tune_media.storage.filesystem import read_if_there
from tune_media.values.problems import argument, message_of, remedy
from tune_media.values.secrets import error_text
from tune_media.viewing import wording

BASE, CANDIDATE = ROLES = ("base", "candidate")


class Pairs:
    """The episodes of both sides, or of the candidate, under one condition of the env, and how the comparison stands.

    Only the seeds count that come before the first one that a side has not played, in the order of ``seeds``: which
    worker is quick does not matter, nor when one looks. Seeds with copies of the same episodes, of both sides, count
    once, as the first of them. ``scores`` has the score of each side for each seed that counts, the candidate's last; a
    higher one is better. ``standings`` has what they say of the base, False, and of the floor, True.
    """

    def __init__(self, parts: Sequence[EvaluationPart], seeds: Sequence[int], measure: Measure, level: float) -> None:
        self._parts, self._seeds, self._measure, self._level = parts, seeds, measure, level
        asks = [*([False] if len(parts) > 1 else []), *([] if measure.floor is None else [True])]
        self.standings = {of_floor: Standing(UNDECIDED, 0) for of_floor in asks}
        self.scores: dict[int, tuple[float, ...]] = {}
        self.error: str | None = None
        self.note: str | None = None
        self._places: list[int] = []  # of the seeds that count, among all of ``seeds``
        self._played = 0  # the seeds up to the first one that a side has not played
        self._recipes: set[Any] = set()  # of envs that are known to be equal
        self._look()

    def decide(self, played: Iterator[Played]) -> Iterator[None]:
        """Store episodes until it is decided, and yield after each batch."""
        while self.error is None and not self._has_enough:
            batch = next(played, None)
            if batch is None:
                return
            part = self._parts[batch.part]
            part.add(batch)
            self._look()
            if part.error is not None and not self._has_enough:
                role = ROLES[batch.part - len(self._parts)]
                self.error = self.error or f"the {role} cannot be played: " + part.error
            yield

    @property
    def warning(self) -> str:
        """That the first seeds gave one episode, if they did."""
        return wording.copied_at_first(self._played, len(self.scores))

    def copies(self, *, of_floor: bool) -> int:
        """Return how many of the seeds that a verdict took have copies of others' episodes."""
        standing = self.standings[of_floor]
        is_open = standing.verdict == UNDECIDED or standing.seeds == 0
        return (self._played if is_open else self._places[standing.seeds - 1] + 1) - standing.seeds

    def notes(self, *, of_floor: bool) -> list[str]:
        """Return what to know of the episodes that a verdict took."""
        standing = self.standings[of_floor]
        copied = wording.copied(standing.seeds + self.copies(of_floor=of_floor), standing.seeds)
        if copied and standing.verdict == UNDECIDED and standing.seeds > 1:
            copied += f": too few for this {'floor' if of_floor else 'margin'}"
        return list(filter(None, (copied, self.note)))

    @property
    def played(self) -> str:
        """How the policies were played, in words; empty if none was."""
        as_played = [part.played_as for part in self._parts if part.played_as is not None]
        words = {None: "", True: "The policies explored.", False: "The policies did not explore."}
        return words[as_played[-1].explore] if as_played else ""

    def decisive(self, count: int) -> list[int]:
        """Return the seeds on which both differ most; of one policy, those on which it is furthest below the floor."""
        of_floor, standing = next(iter(self.standings.items()))
        scores = dict(sorted(itertools.islice(self.scores.items(), 0 if self.error else standing.seeds)))
        if not of_floor:
            return decisive_seeds({seed: (ours, theirs) for seed, (ours, theirs) in scores.items()})[:count]
        below = [seed for seed, (score,) in scores.items() if score < standing.base]
        return sorted(below, key=lambda seed: scores[seed])[:count]

    @property
    def _has_enough(self) -> bool:
        return all(standing.verdict != UNDECIDED for standing in self.standings.values())

    def _look(self) -> None:
        rows = [{row["seed"]: row for row in part.rows()} for part in self._parts]
        common = list(itertools.takewhile(lambda seed: all(seed in rows_of_side for rows_of_side in rows), self._seeds))
        if not common:
            return
        try:
            self._check_alike([rows_of_side[seed]["recipe"] for seed in common for rows_of_side in rows])
            scores = [tuple(self._measure.value(rows_of_side[seed]) for rows_of_side in rows) for seed in common]
            self._measure.check(scores)
        except ValueError as error:
            self.error = message_of(error)
            return
        before, self._played, self._places = self._places, len(common), self._counting(common, rows)
        every, scores = np.array(scores), [scores[place] for place in self._places]
        was_shorter = before == self._places[: len(before)]  # else, what seemed to be copies were none
        for of_floor, standing in self.standings.items():
            if standing.verdict == UNDECIDED:
                after = standing.seeds if was_shorter else 0
                self.standings[of_floor] = self._asked(scores, every, after, of_floor=of_floor)
        self.scores = dict(zip((common[place] for place in self._places), scores, strict=True))

    def _asked(self, scores: Sequence[tuple[float, ...]], every: Scores, after: int, *, of_floor: bool) -> Standing:
        """Return what the scores that count say, unless those of all seeds say the opposite."""
        standing = self._measure.ask(scores, self._level, after, of_floor=of_floor)
        while standing.verdict != UNDECIDED and not self._is_of_all(standing, every, of_floor=of_floor):
            standing = self._measure.ask(scores, self._level, standing.seeds, of_floor=of_floor)
        return standing

    def _is_of_all(self, standing: Standing, scores: Scores, *, of_floor: bool) -> bool:
        """Return whether a verdict is also true of the means over all seeds, copies as often as they came."""
        *base, candidate = np.mean(scores[: self._places[standing.seeds - 1] + 1], axis=0)
        lead = candidate - (standing.base if of_floor else base[0])
        return standing.seeds == self._places[standing.seeds - 1] + 1 or (
            bool(lead < -standing.margin) == (standing.verdict == WORSE)
        )

    def _counting(self, seeds: Sequence[int], rows: Sequence[Mapping[int, Mapping[str, Any]]]) -> list[int]:
        """Return the places of the seeds that count: the first ones of each pair of episodes that are no copies."""
        looks = {tuple((side[seed]["episode_return"], side[seed]["episode_length"]) for side in rows) for seed in seeds}
        if len(looks) == len(seeds) or not all(copies := [part.copies(set(seeds)) for part in self._parts]):
            return list(range(len(seeds)))
        first = {tuple(of_side[seed] for of_side in copies): place for place, seed in reversed(list(enumerate(seeds)))}
        return sorted(first.values())

    def _check_alike(self, recipes: Sequence[Any]) -> None:
        """Raise ValueError if the policies play in several ways, or in several envs: ``recipes``, of both in turns."""
        base, candidate = self._parts[0].played_as, self._parts[-1].played_as
        for name, words in (("explore", "explore=, or --explore or --no-explore"), ("connectors", "connectors=")):
            ours, theirs = getattr(base, name, None), getattr(candidate, name, None)
            if None not in (ours, theirs) and ours != theirs:
                differ = f"the base plays with {name}={ours!r}, and the candidate with {theirs!r}; "
                raise ValueError(differ + remedy("pass " + argument(words)))
        self._recipes = self._recipes or {recipes[0]}
        for number, hash in enumerate(recipes):
            if hash in self._recipes:
                continue
            sides = len(self._parts)
            contents = [self._recipe(0, recipes[0]), self._recipe(number % sides, hash)]
            why = None
            try:
                if None in contents:
                    raise ValueError("how one of them is made cannot be pickled")
                why = envs_differ(*contents)
            except Exception as error:  # of the user's code in a recipe
                self.note = f"whether both play in equal envs is not known ({error_text(error)})"
            if why is not None and number % sides:
                raise ValueError(f"the base and the candidate play in different envs; they differ in {why}")
            if why is not None:
                what_to_do = remedy("pass another " + argument("output="))
                raise ValueError(f"the env has changed since the first seed was played, in {why}; " + what_to_do)
            self._recipes.add(hash)

    def _recipe(self, side: int, hash: Any) -> Any:
        """Return what makes the env of an episode, or None."""
        if hash is None:
            return None
        part = self._parts[side]
        path = posixpath.normpath(posixpath.join(part.store.folder, episode_files.recipe_name(hash)))
        return read_if_there(part.store.filesystem, path)
