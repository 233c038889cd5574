"""Takes named values from the steps of episodes: by ``collect=``, and by the convention of ``info``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tune_media.recording.series import EpisodeValues
from tune_media.steps import FINAL, RUNNING, SERIES, Collect, Named, Rule, StepFacts
from tune_media.values.checks import a_function

COMMON = "__common__"  # the key of RLlib's multi-agent info dict for infos that concern all agents or none
_RUNNING, _FINAL, _SERIES = Rule(None), Rule(None, FINAL, ()), Rule(None, SERIES, ())
_NEITHER = frozenset({int, float, bool, str, type(None), np.ndarray, np.int64, np.float32, np.float64, np.bool_})
_MAX_INFO_NAMES = 12


class Collector:
    """Takes named values from steps, by the argument ``collect=``; without one, by the convention of ``info`` only."""

    def __init__(self, collect: Collect | None) -> None:
        self.is_off = collect is False
        self._function: Callable[[StepFacts], Mapping[str, Any]] | None = None
        self._rules: list[tuple[str | None, Rule]] = []
        if collect is None or collect is False:
            pass
        elif callable(collect):
            a_function("the step").check("collect=", collect)
            self._function = collect
        elif isinstance(collect, Mapping) and collect:
            self._rules = [(str(name), _as_rule(source, collect)) for name, source in collect.items()]
        elif isinstance(collect, (str, Rule)):
            self._rules = [(None, _as_path(collect, collect))]
        elif isinstance(collect, Sequence) and collect:
            self._rules = [(None, _as_path(path, collect)) for path in collect]
        else:
            raise _refused(collect)
        self._unmatched = {rule.source for _, rule in self._rules if isinstance(rule.source, str)}
        self._unmatched -= {rule.source for _, rule in self._rules if rule.default is not None}
        self._info_names: dict[str, None] = {}  # in the order in which they were seen
        self._sources: list[Callable[[StepFacts], Iterator[Named]]] = []
        if not self.is_off:
            self._sources.append(_by_convention)
        if self._function is not None:
            self._sources.append(self._of_function)
        self._sources += [functools.partial(self._of_rule, name, rule) for name, rule in self._rules]

    @property
    def needs_more_than_info(self) -> bool:
        """Whether users' functions look at the step: at its action and its observation, too."""
        return self._function is not None or any(callable(rule.source) for _, rule in self._rules)

    def may_find(self, info: Mapping[str, Any] | None) -> bool:
        """Return whether a step with this info may have values; most have none, and looking costs microseconds."""
        if self.is_off or not (info or len(self._sources) > 1):
            return False
        if len(self._sources) > 1 or type(info) is not dict or "data" in info or "media" in info:
            return True
        return not _NEITHER.issuperset(map(type, info.values()))  # Atari games have no values by convention

    def never_matched(self) -> tuple[frozenset[str], tuple[str, ...]]:
        """Return the paths that no step's info has had so far, and some names that infos have; both may be empty."""
        return frozenset(self._unmatched), tuple(self._info_names)

    def collect(self, facts: StepFacts, values: EpisodeValues) -> Iterator[Exception]:
        """Add the values of a step to those of its episode; yield why a bad value is left out, alone."""
        seen: set[str] = set()
        if self._unmatched:
            self._note_names(facts.info)
        for source in self._sources:
            taken = source(facts)
            while True:
                try:
                    if (named := next(taken, None)) is None:
                        break
                    if named.name in seen:
                        raise ValueError(f"{named.name} is there twice in a step; the first is kept")
                    seen.add(named.name)
                    values.add(named)
                except Exception as error:
                    yield error

    def _of_function(self, facts: StepFacts) -> Iterator[Named]:
        assert self._function is not None
        returned = self._function(facts)
        if not isinstance(returned, Mapping):
            raise TypeError(f"the function returned {type(returned).__name__}, and no dict of values by name")
        for name, value in returned.items():
            rule = value if isinstance(value, Rule) else _RUNNING
            yield from _named(str(name), rule.source if isinstance(value, Rule) else value, rule)

    def _of_rule(self, name: str | None, rule: Rule, facts: StepFacts) -> Iterator[Named]:
        if callable(rule.source):
            yield from _named(name or "value", rule.source(facts), rule)
            return
        matches = list(_matches(facts.info, rule.source.split("/"), ()))
        if matches:
            self._unmatched.discard(rule.source)
        elif "*" not in rule.source:
            yield from _named(name or rule.source, rule.default, rule)
        for path, stars, value in matches:
            yield from _named("/".join(path) if name is None else "/".join((name, *stars)), value, rule)

    def _note_names(self, info: Any) -> None:
        """Note the names that an info has, for the message if a path matches none of them."""
        if not isinstance(info, Mapping):
            return
        for key, value in info.items():
            inner = [f"{key}/{name}" for name in value] if isinstance(value, Mapping) else []
            for name in inner or [str(key)]:
                if len(self._info_names) < _MAX_INFO_NAMES:
                    self._info_names.setdefault(name)


def unmatched(paths: Iterable[str], names: Iterable[str], episodes: int) -> Iterator[str]:
    """Yield the message about the paths of ``collect=`` that no step has had."""
    has = f"Infos have: {', '.join(names)}." if names else "These infos are empty."
    first = "the first episode" if episodes == 1 else f"the first {episodes} episodes"
    for path in sorted(paths):
        yield (
            f"collect={path!r} takes nothing: no info of {first} has it. {has} If it is rare, give it a default: "
            f"tune_media.steps.running({path!r}, default=0)."
        )


def strays(info: Any) -> Iterator[str]:
    """Yield the places in ``info["data"]`` that are beside the convention: no values by name, running or final."""
    for agent, part in _parts(info):
        if isinstance(data := part.get("data"), Mapping):
            place = "info" if agent is None else f"info[{agent!r}]"
            for name, values in data.items():
                if name not in (RUNNING, FINAL) or not (values is None or isinstance(values, Mapping)):
                    yield f"{place}['data'][{name!r}]"


def _by_convention(facts: StepFacts) -> Iterator[Named]:
    """Yield the values of ``info["data"]`` and ``info["media"]``; those of several agents as ``<agent>/<name>``."""
    for agent, part in _parts(facts.info):
        prefix = "" if agent is None or agent == COMMON else str(agent)
        data, media = part.get("data"), part.get("media")
        if isinstance(data, Mapping):
            for rule in (_RUNNING, _FINAL):
                values = data.get(rule.kind)
                if isinstance(values, Mapping):
                    yield from _named(prefix, values, rule)
        if isinstance(media, Mapping):
            yield from _named(prefix, media, _SERIES)


def _parts(info: Any) -> Iterator[tuple[Any, Mapping[Any, Any]]]:
    """Yield the info with None if it follows the convention itself, or else those in it that do, with their agents."""
    if not isinstance(info, Mapping):
        return
    if info.get("data") is not None or info.get("media") is not None:
        yield None, info
        return
    for agent, part in info.items():
        if isinstance(part, Mapping) and ("data" in part or "media" in part):
            yield agent, part


def _named(name: str, value: Any, rule: Rule) -> Iterator[Named]:
    """Yield a value, or those of a dict as ``<name>/<key>``; nothing for None."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _named(f"{name}/{key}" if name else str(key), item, rule)
    elif value is not None:
        yield Named(name, value, rule)


def _matches(
    info: Any, parts: Sequence[str], path: tuple[str, ...], stars: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...], Any]]:
    """Yield each match of a path: the whole path, the keys that its stars stand for, and the value there."""
    if not parts:
        yield path, stars, info
        return
    if not isinstance(info, Mapping):
        return
    part, rest = parts[0], parts[1:]
    if part == "*":
        for key, value in info.items():
            yield from _matches(value, rest, (*path, str(key)), (*stars, str(key)))
    elif part in info:
        yield from _matches(info[part], rest, (*path, part), stars)


def _as_rule(source: Any, collect: Any) -> Rule:
    rule = source if isinstance(source, Rule) else Rule(source)
    if callable(rule.source):
        a_function("the step").check("collect=", rule.source)
    elif not (isinstance(rule.source, str) and rule.source):
        raise _refused(collect)
    return rule


def _as_path(source: Any, collect: Any) -> Rule:
    rule = _as_rule(source, collect)
    if callable(rule.source):
        raise TypeError(f"collect= needs a name for a function: collect={{'name': ...}}; got {collect!r}.")
    return rule


def _refused(collect: Any) -> TypeError:
    return TypeError(
        "collect= takes a function of the step that returns values by name; paths inside info such as 'data/speed'; or "
        f"a dict of paths, functions, tune_media.steps.running(...) and final(...) by name; got {collect!r}."
    )
