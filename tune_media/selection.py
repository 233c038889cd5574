"""Which episodes become clips: triggers decide before the first frame, selectors after the last.

The triggers are in ``triggers.py``.

A selector gets the records of the finished episodes (``EpisodeRecord``), never their frames. It is called twice: on
each env runner after each episode, to drop the candidates that can no longer win, and once at the end of the round, to
choose among the remaining candidates of all env runners.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tune_media.triggers import EPISODES, RenderBudget, Trigger, every, first_episodes, sometimes
from tune_media.values.calls import call_of, call_text, shows_call
from tune_media.values.checks import a_function, a_text, as_shown, did_you_mean, is_number
from tune_media.values.episode_record import EpisodeRecord
from tune_media.values.medium import new_id

__all__ = [
    "RenderBudget",
    "Selector",
    "Trigger",
    "as_selectors",
    "best",
    "every",
    "failures",
    "first",
    "first_episodes",
    "last",
    "median",
    "sometimes",
    "where",
    "winners",
    "worst",
]

_BY = "'episode_return'"


@dataclass(frozen=True)
class Selector:
    """Chooses among finished episodes.

    Attributes:
        name: The name of its clips in the result and on disk.
        choose: A function of the candidates, in the order in which they ended, that returns the chosen ones.
        limit: The largest number of episodes that it chooses. If it is 1, the result holds one clip, else a list.
        local: Whether an env runner may drop the candidates that ``choose`` does not choose there. If not, the env
            runner holds all its candidates until the end of the round.

    Raises:
        TypeError: A name that is not text, a ``choose`` that is no function, or a limit that is not a whole number.
        ValueError: A limit below 1, or an empty name.

    Example:
        >>> longest = Selector("longest", lambda records: sorted(records, key=lambda r: r.episode_length)[-1:])
        >>> longest.limit
        1
    """

    name: str
    choose: Callable[[Sequence[EpisodeRecord]], list[EpisodeRecord]]
    limit: int | None = 1
    local: bool = True

    def __repr__(self) -> str:
        made = self.name, self.choose
        return call_of(self) or call_text("Selector", made, {"limit": self.limit, "local": self.local})

    def __post_init__(self) -> None:
        a_text("'best'").check("Selector(name=...)", self.name)
        if not self.name:
            raise ValueError("Selector(name=...) is empty, and its clips are filed under it.")
        if not callable(self.choose):
            raise TypeError(
                "Selector(name, choose) takes a function of the candidates' records that returns the chosen ones, got "
                f"{as_shown(self.choose)}."
            )
        replace(EPISODES, or_none=True).check("Selector(limit)", self.limit)


@shows_call
def best(k: int = 1, by: str = "episode_return", name: str | None = None) -> Selector:
    """Choose the k episodes with the highest ``by``; if two are equal, the one that ended earlier.

    Args:
        k: The number of episodes.
        by: A field of ``EpisodeRecord``, or a metric of the episode, such as ``"return/agent_0"``.
        name: The name of the clips. None: ``"best"``.

    Raises:
        ValueError: ``k`` is below 1.

    Example:
        >>> from tune_media import EpisodeRecord
        >>> episodes = [EpisodeRecord("a", 3.0, 10), EpisodeRecord("b", 9.0, 10), EpisodeRecord("c", 4.0, 10)]
        >>> [episode.episode_id for episode in best(2).choose(episodes)]
        ['b', 'c']
    """
    EPISODES.check("best(k)", k)
    a_text(_BY).check("best(by=...)", by)
    return Selector("best" if name is None else name, functools.partial(_top, by=by, highest=True, k=k), k)


@shows_call
def worst(k: int = 1, by: str = "episode_return", name: str | None = None) -> Selector:
    """Choose the k episodes with the lowest ``by``; if two are equal, the later, so that it differs from the best.

    NaN is never the lowest value; use ``failures`` for episodes with NaN. The arguments are those of ``best``.

    Example:
        >>> from tune_media import EpisodeRecord
        >>> [episode.episode_id for episode in worst().choose([EpisodeRecord("a", 3.0, 1), EpisodeRecord("b", 9.0, 1)])]
        ['a']
    """
    EPISODES.check("worst(k)", k)
    a_text(_BY).check("worst(by=...)", by)
    return Selector("worst" if name is None else name, functools.partial(_top, by=by, highest=False, k=k), k)


@shows_call
def median(by: str = "episode_return", name: str | None = None) -> Selector:
    """Choose the middle episode by ``by``, the lower one if there are two.

    Example:
        >>> from tune_media import EpisodeRecord
        >>> [episode.episode_return for episode in median().choose([EpisodeRecord("e", r, 1) for r in (5.0, 1.0, 3.0)])]
        [3.0]
    """
    a_text(_BY).check("median(by=...)", by)
    return Selector("median" if name is None else name, functools.partial(_middle, by=by), local=False)


@shows_call
def first(k: int = 1, name: str | None = None) -> Selector:
    """Choose the k episodes that ended first.

    >>> first(2).limit
    2
    """
    EPISODES.check("first(k)", k)
    return Selector("first" if name is None else name, functools.partial(_slice, part=slice(k)), k)


@shows_call
def last(k: int = 1, name: str | None = None) -> Selector:
    """Choose the k episodes that ended last.

    >>> last().name
    'last'
    """
    EPISODES.check("last(k)", k)
    return Selector("last" if name is None else name, functools.partial(_slice, part=slice(-k, None)), k)


@shows_call
def where(predicate: Callable[[EpisodeRecord], bool], name: str, limit: int | None = None) -> Selector:
    """Choose the episodes for which ``predicate(record)`` is true.

    The predicate is asked once for each episode, when it ends, so it may be random or count its calls. If user hooks
    add numbers to the record after that, it is asked again.

    Args:
        predicate: A function of an ``EpisodeRecord``.
        name: The name of the clips.
        limit: The largest number of episodes, the first ones. None: all.

    Raises:
        ValueError: There is no name.
        TypeError: ``predicate`` cannot be called with one argument.

    Example:
        >>> timed_out = where(lambda episode: not episode.terminated, name="timed_out")
        >>> timed_out.limit is None
        True
    """
    a_text("'late'").check("where(predicate, name=...)", name)
    if not name or not callable(predicate):
        raise ValueError("where(predicate, name) needs a callable and a name, which its clips are filed under.")
    a_function("an episode's record").check("where(predicate, ...)", predicate)
    matching = functools.partial(_matching, predicate=predicate, limit=limit, asked_as=new_id())
    return Selector(name, matching, limit)


@shows_call
def failures(below: float, by: str = "episode_return", limit: int | None = None) -> Selector:
    """Choose the episodes whose ``by`` (as for ``best``) is ``below`` a threshold, or is NaN.

    Args:
        limit: The largest number of episodes, the first ones. None: all.

    Example:
        >>> from tune_media import EpisodeRecord
        >>> episodes = [EpisodeRecord("a", -1.0, 1), EpisodeRecord("b", 1.0, 1)]
        >>> [episode.episode_id for episode in failures(below=0).choose(episodes)]
        ['a']
    """
    if not is_number(below) or below != below:
        raise TypeError(f"failures(below=...) takes a number, got {as_shown(below)}.")
    a_text(_BY).check("failures(by=...)", by)
    return where(functools.partial(_fails, below=below, by=by), "failures", limit)


_NAMED: dict[str, Callable[[], Selector]] = {
    "best": best,
    "worst": worst,
    "median": median,
    "first": first,
    "last": last,
    "all": lambda: Selector("all", list, limit=None),  # list() copies
}


def as_selectors(keep: str | Selector | Iterable[str | Selector]) -> tuple[Selector, ...]:
    """Turn the argument ``keep`` into selectors.

    Args:
        keep: A name, as for ``record_episodes(keep=...)``, a selector, or several of these.

    Raises:
        ValueError: The name is unknown, ``keep`` is empty, or two selectors have the same name.
        TypeError: ``keep`` has an item that is neither a name nor a selector.

    Example:
        >>> [selector.name for selector in as_selectors(("best", worst(2)))]
        ['best', 'worst']
    """
    items: Iterable[Any] = [keep]
    if isinstance(keep, Iterable) and not isinstance(keep, (str, Mapping)):
        items = keep
    selectors = []
    for item in items:
        if isinstance(item, Selector):
            selectors.append(item)
        elif isinstance(item, str):
            if item not in _NAMED:
                raise ValueError(f"keep={item!r} is no selector; {did_you_mean(item, _NAMED, 'the names are')}")
            selectors.append(_NAMED[item]())
        else:
            raise TypeError(
                "keep= takes a selector's name such as 'best', a selector such as tune_media.selection.best(3), or "
                f"several of these, got {as_shown(item)}{_remedy(item)}."
            )
    names = [selector.name for selector in selectors]
    if not names:
        raise ValueError("keep is empty: nothing would be recorded. Name a selector, or leave the recorder out.")
    if len(set(names)) < len(names):
        raise ValueError(f"keep names one selector twice ({', '.join(names)}); give one of them another name=.")
    return tuple(selectors)


def winners(records: Iterable[EpisodeRecord], selectors: Sequence[Selector]) -> dict[str, list[EpisodeRecord]]:
    """Return the episodes that each selector chooses among the candidates of all env runners, by the selector's name.

    Selectors that choose nothing are left out.

    Example:
        >>> from tune_media import EpisodeRecord
        >>> chosen = winners([EpisodeRecord("a", 3.0, 1), EpisodeRecord("b", 9.0, 1)], [best(), failures(0)])
        >>> {name: [episode.episode_id for episode in episodes] for name, episodes in chosen.items()}
        {'best': ['b']}
    """
    if isinstance(records, Iterable):
        records = list(records)
    is_known = isinstance(records, list) and all(isinstance(record, EpisodeRecord) for record in records)
    is_chosen = isinstance(selectors, Collection) and all(isinstance(selector, Selector) for selector in selectors)
    if not is_known or not is_chosen:
        raise TypeError("winners(records, selectors) takes several tune_media.EpisodeRecord and several selectors.")
    ordered = sorted(records, key=lambda record: (record.finished_at, record.id))
    chosen = {selector.name: selector.choose(ordered) for selector in selectors}
    return {name: records for name, records in chosen.items() if records}


def as_result(
    selectors: Sequence[Selector], chosen: Mapping[str, Sequence[EpisodeRecord]], taken: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the clips (``taken``, by record id) for a result: by selector, one, or a list if its limit is not 1.

    >>> episode = EpisodeRecord("a", 3.0, 1, id="a")
    >>> as_result([best(), best(3, name="top")], {"best": [episode], "top": [episode]}, {"a": "clip"})
    {'best': 'clip', 'top': ['clip']}
    """
    result: dict[str, Any] = {}
    for selector in selectors:
        clips = [taken[record.id] for record in chosen.get(selector.name, ()) if record.id in taken]
        if clips:
            result[selector.name] = clips[0] if selector.limit == 1 else clips
    return result


def _remedy(item: Any) -> str:
    """Return the ``keep`` to pass instead of a function, as the end of a message; empty for other values."""
    if any(item is maker for maker in (*_NAMED.values(), where, failures)):
        return f"; call it: tune_media.selection.{item.__name__}(...)"
    return "; a predicate needs tune_media.selection.where(predicate, name='chosen')" if callable(item) else ""


def _top(records: Sequence[EpisodeRecord], by: str, highest: bool, k: int) -> list[EpisodeRecord]:
    return _ranked(records, by, highest=highest)[:k]


def _middle(records: Sequence[EpisodeRecord], by: str) -> list[EpisodeRecord]:
    ranked = _ranked(records, by, highest=False)
    return ranked[(len(ranked) - 1) // 2 :][:1]


def _slice(records: Sequence[EpisodeRecord], part: slice) -> list[EpisodeRecord]:
    return list(records[part])


def _matching(
    records: Sequence[EpisodeRecord], predicate: Callable[[EpisodeRecord], bool], limit: int | None, asked_as: str
) -> list[EpisodeRecord]:
    """Return the records for which a predicate is true.

    Selectors choose again after each episode, and once more in the Algorithm's process. The answers travel with the
    records, under the id that the predicate is asked as.
    """
    for record in records:
        if asked_as not in record.answers:
            record.answers[asked_as] = bool(predicate(record))
    return [record for record in records if record.answers[asked_as]][:limit]


def _fails(record: EpisodeRecord, below: float, by: str) -> bool:
    return not _value(record, by, highest=True) >= below


def _ranked(records: Sequence[EpisodeRecord], by: str, *, highest: bool) -> list[EpisodeRecord]:
    if records and not any(by in record.metrics or hasattr(record, by) for record in records):
        metrics = [name for record in records for name in record.metrics]
        hint = did_you_mean(by, ["episode_return", "episode_length", *metrics], "their numbers are")
        raise ValueError(f"by={by!r} is no number of any of these episodes; {hint}")
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
