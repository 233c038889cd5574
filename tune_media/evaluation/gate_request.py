"""What a gate is asked for: who is compared, how both are played, and where the episodes go."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow.fs

from tune_media._version import __version__
from tune_media.evaluation.evaluated_trial import EvaluatedTrial
from tune_media.evaluation.evaluation_part import EvaluationPart
from tune_media.evaluation.jobs import Job, LoadPolicy, Played, played
from tune_media.evaluation.pairs import ROLES
from tune_media.evaluation.request import EnvCondition, Request, code_digest
from tune_media.evaluation.sides import Side, check_same_env
from tune_media.experiment.results import json_file, json_object
from tune_media.ray_compat import ray_version
from tune_media.storage.filesystem import write_atomically
from tune_media.values.checks import name_some
from tune_media.values.safe_names import name_digest, safe_name
from tune_media.values.strict_json import json_bytes
from tune_media.viewing.places import Folder, folder_at

VERSION = 1
FILE = "gate.json"
_SEEDS = "0:200"
_CHUNK = 10  # seeds that one side plays before the other does
_IN_WORDS = {"base": "the base", "candidate": "the candidate", "code": "a function", "versions": "Ray or tune_media"}


@dataclass(frozen=True)
class GateRequest:
    """The base and the candidate, or it alone, and how they are played.

    ``make`` makes the env, ``load`` loads foreign policies.
    """

    sides: tuple[Side, ...]
    request: Request
    make: Callable[[Any], Any] | None
    load: LoadPolicy | None
    success: Any

    def check(self) -> None:
        """Raise ValueError if the sides play in different envs, or if a change of the env is for an evaluation."""
        conditions = self.request.conditions
        if any(side.checkpoint is None for side in self.sides) and conditions != (EnvCondition(),):
            raise ValueError(
                "gate(env_config=...) takes nothing if a side is an evaluation: that has its own conditions."
            )
        for condition in conditions if self.load is None else ():
            check_same_env(self.sides[0], self.sides[-1], dict(condition.overrides), is_given=self.make is not None)

    def facts(self) -> dict[str, Any]:
        """Return it as JSON; two that are equal play the same."""
        return {
            **self.request.facts(),
            "conditions": [condition.label for condition in self.request.conditions],
            "code": [code_digest(function) for function in (self.make, self.load, self.success)],
            "versions": {"ray": ray_version(), "tune_media": __version__},
            **{role: side.facts() for role, side in self.by_role.items()},
        }

    @property
    def by_role(self) -> dict[str, Side]:
        """The sides by what they are: ``base`` and ``candidate``; of one, ``candidate``."""
        return dict(zip(ROLES[-len(self.sides) :], self.sides, strict=True))

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
        """Yield the episodes that are missing, in turns, until the caller closes the generator."""
        seeds, settings = self.request.seeds, self.request.settings(condition, self.make, self.success)
        loads = [None if side.is_rllib else self.load for side in self.sides]
        jobs: list[Job] = []
        for start in (0, *range(1, len(seeds), _CHUNK)):  # a side that cannot be played at all is known after one seed
            for number, part in enumerate(parts):
                jobs += part.jobs(number, seeds[start : start + _CHUNK if start else 1], settings, loads[number])
        return played(jobs, workers)


def default_seeds(sides: Sequence[Side]) -> str | list[int]:
    """Return the seeds that all evaluations among the sides have; if none is an evaluation, 0 to 199."""
    stored = [side.seeds() for side in sides if side.checkpoint is None]
    return [seed for seed in stored[0] if all(seed in other for other in stored)] if stored else _SEEDS


def folder_of(output: str | None, candidate: Any, facts: Mapping[str, Any]) -> Folder:
    """Return where the episodes go: the folder that is given, or ``gates/<candidate>-<digest>`` here."""
    default = f"gates/{safe_name(posixpath.basename(str(candidate).rstrip('/')), max_length=40)}"
    return folder_at(output or f"{default}-{name_digest(str(facts))[:6]}")


def write_request(place: Folder, facts: Mapping[str, Any], verdict: Mapping[str, Any] | None = None) -> None:
    """Write what was asked for, and the verdict, to ``gate.json`` in the folder. Raises ValueError, OSError.

    The folder must be empty, or have the same gate, of which the new one may have more seeds.
    """
    facts = json_object(json_bytes(facts))  # as it is read: a tuple is a list
    path = posixpath.join(place.path, FILE)
    before = json_file(place.filesystem, path).get("request")
    if not isinstance(before, dict):
        there = place.filesystem.get_file_info(pyarrow.fs.FileSelector(place.path, allow_not_found=True))
        others = [info.base_name for info in there if not info.base_name.startswith(f"{FILE}.")]  # of a killed process
        if others:  # an experiment's trials, or episodes of unknown policies
            raise ValueError(
                f"{place.path!r} has files of no gate ({name_some(sorted(others))}); "
                "pass another folder: output=, or -o."
            )
    else:
        seeds = list(before.get("seeds") or [])
        changed = [_IN_WORDS.get(key, key) for key in facts if key != "seeds" and before.get(key) != facts[key]]
        changed += ["seeds"] if seeds != list(facts["seeds"])[: len(seeds)] else []
        if changed:
            raise ValueError(
                f"{place.path!r} has a gate that was asked for something else "
                f"({', '.join(changed)}); pass another folder: output=, or -o."
            )
    written = {"v": VERSION, "request": facts, **(verdict or {})}
    write_atomically(place.filesystem, path, json_bytes(written) + b"\n")
