"""The verdicts on recipes, by their hash: whether the episodes of an env can be played again, pictures included.

They are held in Ray's own key-value store, for all env runners of a job: an experiment proves an env once. A refusal is
written once, under another name, and stays.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from tune_media.ray_compat import share_value, shared_value
from tune_media.replay.recipe import differences, facts_of_renderer

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ReplayVerdict:
    """Whether the episodes of a recipe's env can be played again."""

    repeats: bool
    reason: str = ""  # why not; empty if they can
    ages: bool = False  # a frame looks otherwise if other frames were rendered before it
    length: int = 0  # the number of steps that its episodes have, about
    draws: Sequence[str] | None = None  # the global generators that ``render()`` draws from; None: not known

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> ReplayVerdict:
        """Return the verdict with these fields; others, of another version of this package, are passed over."""
        return cls(**{field.name: facts[field.name] for field in fields(cls) if field.name in facts})


_REFUSED: dict[str, int] = {}  # in this process: how many clips could not be made of tapes of a recipe
_SEEN: set[str] = set()
_LOCK = threading.Lock()


def verdict_on(recipe: str) -> ReplayVerdict | None:
    """Return the verdict on a recipe, or None if there is none yet."""
    stored = shared_value(f"refused {recipe}") or shared_value(f"verdict {recipe}")
    return None if stored is None else ReplayVerdict.of(json.loads(stored))


def decide(recipe: str, verdict: ReplayVerdict) -> bool:
    """Write the verdict on a recipe; return whether it is news."""
    if not verdict.repeats:
        return refuse(recipe, verdict.reason)
    is_news = verdict_on(recipe) is None
    if is_news:
        share_value(f"verdict {recipe}", json.dumps(asdict(verdict)), may_replace=True)
    return is_news


def refuse(recipe: str, reason: str, *, lost: int = 0) -> bool:
    """Note, for good, that the episodes of a recipe cannot be played again; return whether that is news.

    All env runners of the job render directly from their next round on; ``lost`` clips are counted in the next result.
    """
    with _LOCK:
        _REFUSED[recipe] = _REFUSED.get(recipe, 0) + lost
        _SEEN.add(recipe)
    return share_value(f"refused {recipe}", json.dumps(asdict(ReplayVerdict(False, reason))), may_replace=False)


def note_draws(recipe: str, names: Sequence[str]) -> None:
    """Note which global generators ``render()`` of a recipe's env draws from."""
    share_value(f"draws {recipe}", json.dumps(list(names)), may_replace=True)


def draws_of(recipe: str) -> list[str] | None:
    """Return what ``note_draws`` has noted, or None if it is not known."""
    stored = shared_value(f"draws {recipe}")
    return None if stored is None else json.loads(stored)


def is_refused_here(recipe: str) -> bool:
    """Return whether this process has refused a recipe; that is known without asking the store."""
    return recipe in _SEEN


def take_refused(recipe: str) -> int:
    """Return how many clips of a recipe were refused in this process since the last call."""
    with _LOCK:
        return _REFUSED.pop(recipe, 0)


def is_first(question: str, recipe: str) -> bool:
    """Return whether this process is the first of the Ray job to do something with a recipe, within ten minutes."""
    return share_value(f"{question} {int(time.time() // 600)} {recipe}", "", may_replace=False)


def note_renderer() -> None:
    """Note the packages, machine and variables that the clips of the Ray job are rendered with, on the driver."""
    try:
        share_value("renderer", json.dumps(facts_of_renderer()), may_replace=True)
    except Exception:  # Ray's store does not answer
        logger.info("the facts of the process that renders cannot be shared", exc_info=True)


def differences_of_renderer() -> list[str]:
    """Return the differences of this process from the driver, which renders; none if no driver does."""
    try:
        stored = shared_value("renderer")
    except Exception:  # Ray's store does not answer; the frames are compared anyway
        logger.info("the facts of the process that renders cannot be read", exc_info=True)
        stored = None
    if stored is None:
        return []
    here, there = facts_of_renderer(), json.loads(stored)
    there["environment"] = {**here["environment"], **there["environment"]}  # its processes set those that are not set
    return differences({**here, "os": there["os"]}, there)
