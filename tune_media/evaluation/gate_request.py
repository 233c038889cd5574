"""What a gate is asked for: who is compared, how both are played, and where the episodes go."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tune_media.evaluation.evaluated_trial import EvaluatedTrial
from tune_media.evaluation.evaluation_part import EvaluationPart
from tune_media.evaluation.jobs import Job, Played, played
from tune_media.evaluation.memory import PROBED, PolicyLoader
from tune_media.evaluation.pairs import ROLES
from tune_media.evaluation.request import EnvCondition, Request
from tune_media.evaluation.sides import Side, are_same, check_same_env
from tune_media.experiment.places import Folder
from tune_media.values.problems import argument, remedy
from tune_media.values.safe_names import name_digest

_SEEDS = "0:200"
CHUNK = 10  # seeds that one side plays before the other does


@dataclass(frozen=True)
class GateRequest:
    """The base and the candidate, or it alone, and how they are played."""

    sides: tuple[Side, ...]
    request: Request
    success: Any
    make: Callable[[Any], Any] | None = None  # makes the env
    loaders: Sequence[PolicyLoader | None] = ()  # of each side; None: its policy is RLlib's
    video: Any = None  # how clips are made, see ``VideoOptions``

    def check(self) -> None:
        """Raise ValueError if the sides play in different envs, or if a change of the env is for an evaluation."""
        conditions = self.request.conditions
        if any(side.checkpoint is None for side in self.sides) and conditions != (EnvCondition(),):
            nothing = " takes nothing if a side is an evaluation: that has its own conditions."
            raise ValueError(argument("gate(env_config=...)") + nothing)
        is_given = self.request.env is not None
        for condition in conditions if self.request.policy is None else ():
            check_same_env(self.sides[0], self.sides[-1], dict(condition.overrides), is_given=is_given)

    def problems(self, facts: Mapping[str, Any], *, allow_same: bool) -> list[str]:
        """Return what ``facts`` say against the comparison; raise ValueError if both sides are one checkpoint."""
        if len(self.sides) == 1 or not are_same(*(facts[role] for role in ROLES)):
            return []
        told = "the base and the candidate are one and the same checkpoint"
        if not allow_same:
            what_to_do = remedy("name another one, or pass " + argument("allow_same=True, or --allow-same") + ".")
            raise ValueError(f"{told}, which passes whatever it does; " + what_to_do)
        return [told]

    def facts(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            **self.request.facts(),
            "seeds": sorted(self.request.seeds),
            "conditions": [condition.label for condition in self.request.conditions],
            **{role: side.facts() for role, side in self.by_role.items()},
        }

    @property
    def by_role(self) -> dict[str, Side]:
        """The sides by what they are: ``base`` and ``candidate``; of one, ``candidate``."""
        return dict(zip(ROLES[-len(self.sides) :], self.sides, strict=True))

    @property
    def notes(self) -> list[str]:
        """What to know of how the policies were told that an episode begins."""
        loaders = zip(self.by_role, self.loaders, strict=True)
        return [f"the {role}: {loader.note}" for role, loader in loaders if loader is not None and loader.note]

    def parts(self, condition: EnvCondition, place: Folder) -> list[EvaluationPart]:
        """Return the parts of both sides under a condition; episodes of an evaluation are copied to the folder."""
        parts = []
        for role, side in self.by_role.items():
            folder = posixpath.join(place.path, f"{role}{condition.suffix}")
            checkpoint = side.checkpoint or side.copied_to(place, folder)
            store = EvaluatedTrial(place.filesystem, folder, f"{role}-{name_digest(f'{folder} {condition.label}')[:6]}")
            parts.append(EvaluationPart(side.trial, condition, checkpoint, store))
        return parts

    def play(
        self, parts: Sequence[EvaluationPart], condition: EnvCondition, workers: int
    ) -> Generator[Played, None, None]:
        """Yield the episodes of both, in turns, until the caller closes the generator."""
        seeds = self.request.seeds
        settings = self.request.settings(condition, self.make, self.success, self.video)
        jobs: list[Job] = []
        for start in (0, *range(PROBED, len(seeds), CHUNK)):  # a side that cannot be played at all is known soon
            for number, part in enumerate(parts):
                jobs += part.jobs(
                    number, seeds[start : start + CHUNK if start else PROBED], settings, self.loaders[number]
                )
        return played(jobs, workers)


def default_seeds(sides: Sequence[Side]) -> str | list[int]:
    """Return the seeds that all evaluations among the sides have; if none is an evaluation, 0 to 199."""
    stored = [side.seeds() for side in sides if side.checkpoint is None]
    return [seed for seed in stored[0] if all(seed in other for other in stored)] if stored else _SEEDS
