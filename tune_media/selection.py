"""Which episodes become clips: triggers decide before the first frame, selectors after the last.

A selector sees what is known of the finished episodes (``EpisodeRecord``), never their frames. It is asked twice: on
each env runner, which of the candidates so far may still win (the rest is dropped there), and once over the remaining
candidates of all env runners, which ones did.
"""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tune_media.values import EpisodeRecord

Trigger = Callable[[int], bool]
"""Told the index of an episode that is about to start on its sub-env (0, 1, ...), says whether to record it."""


@dataclass(frozen=True)
class Selector:
    """Chooses among finished episodes.

    Attributes:
        name: What its choice is called in the result and on disk.
        choose: Candidates in the order in which they ended -> the chosen ones.
        limit: Most episodes it chooses. 1: the result holds one clip, else a list.
        local: Whether what it would choose on one env runner includes whatever it can choose there of all; if not,
            the env runner holds all its candidates.
    """

    name: str
    choose: Callable[[Sequence[EpisodeRecord]], list[EpisodeRecord]]
    limit: int | None = 1
    local: bool = True


def best(k: int = 1, by: str = "episode_return", name: str | None = None) -> Selector:
    """Choose the k episodes with the highest ``by``; of equals, the earlier."""
    _positive("best", k)
    return Selector(name or "best", functools.partial(_top, by=by, highest=True, k=k), k)


def worst(k: int = 1, by: str = "episode_return", name: str | None = None) -> Selector:
    """Choose the k episodes with the lowest ``by``; of equals, the later, so that it differs from the best.

    A value that is not a number is never the lowest; ``failures`` has those.
    """
    _positive("worst", k)
    return Selector(name or "worst", functools.partial(_top, by=by, highest=False, k=k), k)


def median(by: str = "episode_return", name: str | None = None) -> Selector:
    """Choose the middle episode by ``by`` (the lower one of two middles)."""

    return Selector(name or "median", functools.partial(_middle, by=by), local=False)


def first(k: int = 1, name: str | None = None) -> Selector:
    """Choose the k episodes that ended first."""
    _positive("first", k)
    return Selector(name or "first", functools.partial(_slice, part=slice(k)), k)


def last(k: int = 1, name: str | None = None) -> Selector:
    """Choose the k episodes that ended last."""
    _positive("last", k)
    return Selector(name or "last", functools.partial(_slice, part=slice(-k, None)), k)


def where(predicate: Callable[[EpisodeRecord], bool], name: str, limit: int | None = None) -> Selector:
    """Choose the episodes for which ``predicate(record)`` holds, the first ``limit`` of them."""
    if not name or not callable(predicate):
        raise ValueError("where(predicate, name) needs a callable and a name, which its clips are filed under.")

    return Selector(name, functools.partial(_matching, predicate=predicate, limit=limit), limit)


def failures(below: float, by: str = "episode_return", limit: int | None = None) -> Selector:
    """Choose the episodes whose ``by`` is below a threshold or no number, the first ``limit`` of them."""
    return where(functools.partial(_fails, below=below, by=by), "failures", limit)


def every(n: int, start: int = 0) -> Trigger:
    """Make a trigger for each n-th episode of a sub-env, the one with index ``start`` being the first."""
    if n < 1:
        raise ValueError(f"every(n) needs n >= 1, got {n!r}.")
    return lambda index: index >= start and (index - start) % n == 0


def first_episodes(n: int) -> Trigger:
    """Make a trigger for the first n episodes of a sub-env."""
    _positive("first_episodes", n)
    return lambda index: index < n


def sometimes(probability: float, seed: int | None = None) -> Trigger:
    """Make a trigger for a random share of the episodes; ``seed`` makes it the same share in every process."""
    if not 0 <= probability <= 1:
        raise ValueError(f"sometimes(probability) needs a probability in 0..1, got {probability!r}.")
    return _Sometimes(probability, seed)


@dataclass(frozen=True)
class RenderBudget:
    """A trigger that records as long as rendering and encoding take at most a share of the sampling time.

    Attributes:
        share: The share, above 0 and at most 1; 0.05 is 5 %.
    """

    share: float

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ValueError(f"RenderBudget(share) needs a share in 0..1, got {self.share!r}.")

    def allows(self, rendering_seconds: float, sampling_seconds: float) -> bool:
        """Say whether one more episode may be recorded. The first may: nobody knows yet what it costs."""
        return rendering_seconds <= self.share * sampling_seconds


_NAMED: dict[str, Callable[[], Selector]] = {
    "best": best,
    "worst": worst,
    "median": median,
    "first": first,
    "last": last,
    "all": lambda: Selector("all", list, limit=None),  # list() copies
}


def as_selectors(keep: str | Selector | Iterable[str | Selector]) -> tuple[Selector, ...]:
    """Turn what a user passes as ``keep`` into selectors.

    Raises:
        ValueError: A name that is none of "best", "worst", "median", "first", "last", "all"; none; or one twice.
        TypeError: Something else than names and selectors.
    """
    items = [keep] if isinstance(keep, (str, Selector)) else list(keep)
    selectors = []
    for item in items:
        if isinstance(item, Selector):
            selectors.append(item)
        elif not isinstance(item, str):
            raise TypeError(
                f"keep takes names and selectors such as tune_media.selection.best(3), got {item!r}. "
                "For a predicate: tune_media.selection.where(predicate, name='failures')."
            )
        elif item not in _NAMED:
            raise ValueError(f"keep={item!r} is no selector; take one of {', '.join(map(repr, _NAMED))}.")
        else:
            selectors.append(_NAMED[item]())
    names = [selector.name for selector in selectors]
    if not names:
        raise ValueError("keep is empty: nothing would be recorded. Leave record_episodes out, or name a selector.")
    if len(set(names)) < len(names):
        raise ValueError(f"keep names one selector twice ({', '.join(names)}); give one of them another name=.")
    return tuple(selectors)


def survivors(records: Sequence[EpisodeRecord], selectors: Sequence[Selector]) -> set[str]:
    """Return the ids of the candidates of one env runner that may still win over all env runners."""
    ids: set[str] = set()
    for selector in selectors:
        ids |= {record.id for record in (selector.choose(records) if selector.local else records)}
    return ids


def winners(records: Iterable[EpisodeRecord], selectors: Sequence[Selector]) -> dict[str, list[EpisodeRecord]]:
    """Return what each selector chooses of the candidates of all env runners, by its name, where it chooses any."""
    ordered = sorted(records, key=lambda record: (record.finished_at, record.id))
    chosen = {selector.name: selector.choose(ordered) for selector in selectors}
    return {name: records for name, records in chosen.items() if records}


def as_result(
    selectors: Sequence[Selector], chosen: Mapping[str, Sequence[EpisodeRecord]], taken: Mapping[str, Any]
) -> dict[str, Any]:
    """Lay out what selectors chose: by name, one thing, or a list where a selector may choose several.

    Args:
        selectors: The selectors.
        chosen: What ``winners`` returned.
        taken: What stands for an episode, by the id of its record. What is missing here is left out.
    """
    result: dict[str, Any] = {}
    for selector in selectors:
        found = [taken[record.id] for record in chosen.get(selector.name, ()) if record.id in taken]
        if found:
            result[selector.name] = found[0] if selector.limit == 1 else found
    return result


class _Sometimes:
    """Decides by chance; without a seed, by another chance in every process that it is sent to."""

    def __init__(self, probability: float, seed: int | None) -> None:
        self._probability, self._seed = probability, seed
        self._generator = random.Random(seed)

    def __call__(self, index: int) -> bool:
        return self._generator.random() < self._probability

    def __reduce__(self) -> tuple[Any, ...]:
        return _Sometimes, (self._probability, self._seed)


def _top(records: Sequence[EpisodeRecord], by: str, highest: bool, k: int) -> list[EpisodeRecord]:
    return _ranked(records, by, highest=highest)[:k]


def _middle(records: Sequence[EpisodeRecord], by: str) -> list[EpisodeRecord]:
    ranked = _ranked(records, by, highest=False)
    return ranked[(len(ranked) - 1) // 2 :][:1]


def _slice(records: Sequence[EpisodeRecord], part: slice) -> list[EpisodeRecord]:
    return list(records[part])


def _matching(
    records: Sequence[EpisodeRecord], predicate: Callable[[EpisodeRecord], bool], limit: int | None
) -> list[EpisodeRecord]:
    return [record for record in records if predicate(record)][:limit]


def _fails(record: EpisodeRecord, below: float, by: str) -> bool:
    return not _value(record, by, highest=True) >= below


def _ranked(records: Sequence[EpisodeRecord], by: str, *, highest: bool) -> list[EpisodeRecord]:
    if records and not any(by in record.metrics or hasattr(record, by) for record in records):
        raise ValueError(f"by={by!r} is no number of any of these episodes, such as episode_return or episode_length.")
    # Sorting is stable: of equals, the highest ranks the earlier first and the lowest the later.
    in_order = records if highest else reversed(records)
    return sorted(in_order, key=lambda record: _value(record, by, highest), reverse=highest)


def _value(record: EpisodeRecord, by: str, highest: bool) -> float:
    value = record.metrics[by] if by in record.metrics else getattr(record, by, None)
    if isinstance(value, str):
        raise ValueError(f"by={by!r} is no number of an episode.")
    if value is None or math.isnan(value):
        return -math.inf if highest else math.inf
    return float(value)


def _positive(name: str, k: int) -> None:
    if k < 1:
        raise ValueError(f"{name}(k) needs k >= 1, got {k!r}.")
