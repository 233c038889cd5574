"""What is known of a step, and what users take from it: ``collect=`` and the convention of ``info``.

Values are taken by name, each under a rule: *running* (its statistics over the episode and its full series), *final*
(the last one), or *series* (all of them, and no statistics). Without any option an env's own convention is honoured:
``info["data"]["running"]``, ``info["data"]["final"]`` and ``info["media"]`` (series) are dicts of such values.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

RUNNING: Literal["running"] = "running"
FINAL: Literal["final"] = "final"
SERIES: Literal["series"] = "series"
STATISTICS = ("avg", "sum", "min", "max", "last")


@dataclass(frozen=True)
class StepFacts:
    """A step of an episode.

    Attributes:
        step: Env steps since the reset; 0 at the reset frame.
        reward: Reward of this step, summed over agents; 0 at the reset frame.
        episode_return: Sum of the rewards so far.
        action: The action that led here; None at the reset frame. Of several agents, a dict of these.
        env: The sub-env, where it is in reach.
        info: The step's info dict; of several agents, a dict of these.
        observation: What the step led to, likewise.
        env_index: Index of the sub-env.
        episode: RLlib's episode object, of either API stack; None outside RLlib.
    """

    step: int
    reward: float
    episode_return: float
    action: Any = None
    env: Any = None
    info: Mapping[str, Any] = field(default_factory=dict)
    observation: Any = None
    env_index: int = 0
    episode: Any = None


@dataclass(frozen=True)
class Rule:
    """Where a value comes from, and what becomes of it; made by ``running`` and ``final``.

    Attributes:
        source: A path inside ``info``, a function of the step, or (in what such a function returns) the value.
        kind: ``running``, ``final`` or ``series``.
        statistics: Of a running value: which of ``avg``, ``sum``, ``min``, ``max``, ``last`` become metrics.
        default: What stands for it in steps whose ``info`` does not have it. None: nothing.
    """

    source: Any
    kind: Literal["running", "final", "series"] = RUNNING
    statistics: tuple[str, ...] = STATISTICS
    default: Any = None

    def __post_init__(self) -> None:
        wrong = [name for name in self.statistics if name not in STATISTICS]
        if wrong:
            raise ValueError(f"running(statistics=...) takes any of {', '.join(STATISTICS)}; got {wrong[0]!r}.")


def running(source: Any, *, statistics: Sequence[str] = STATISTICS, default: Any = None) -> Rule:
    """Take a value from each step: statistics over the episode, and the full series.

    Args:
        source: A path inside ``info`` such as ``"data/speed"`` (a part ``*`` stands for every key), a function of a
            ``StepFacts``, or, in what such a function returns, the value itself.
        statistics: Which of ``avg``, ``sum``, ``min``, ``max`` and ``last`` become metrics, as ``<name>_avg``.
        default: What stands for it in steps whose ``info`` does not have the path. By default such steps are left out.
    """
    return Rule(source, RUNNING, (statistics,) if isinstance(statistics, str) else tuple(statistics), default)


def final(source: Any, *, default: Any = None) -> Rule:
    """Take the last value of an episode, for example what an env counts from its reset on; see ``running``."""
    return Rule(source, FINAL, (), default)


Source = str | Callable[[StepFacts], Any] | Rule
Collect = Callable[[StepFacts], Mapping[str, Any]] | str | Rule | Mapping[str, Source] | Sequence[str | Rule] | bool
"""What is taken from each step: a function of the step that returns values by name; paths inside ``info``; a dict of
paths, functions and rules by name. False: nothing, not even what the convention of ``info`` says."""


class Named(NamedTuple):
    """A value of a step."""

    name: str
    value: Any
    rule: Rule


class Collector:
    """Takes named values from steps, by what users pass as ``collect=``.

    Args:
        collect: See ``Collect``. None: only what the convention of ``info`` says.

    Raises:
        TypeError: It is nothing of this kind.
    """

    def __init__(self, collect: Collect | None) -> None:
        self.is_off = collect is False
        self._function: Callable[[StepFacts], Mapping[str, Any]] | None = None
        self._rules: list[tuple[str | None, Rule]] = []
        if collect is None or collect is False:
            pass
        elif callable(collect):
            self._function = collect
        elif isinstance(collect, Mapping) and collect:
            self._rules = [(str(name), _as_rule(source, collect)) for name, source in collect.items()]
        elif isinstance(collect, (str, Rule)):
            self._rules = [(None, _as_path(collect, collect))]
        elif isinstance(collect, Sequence) and collect:
            self._rules = [(None, _as_path(path, collect)) for path in collect]
        else:
            raise _refused(collect)
        self._sources: list[Callable[[StepFacts], Iterator[Named]]] = []
        if not self.is_off:
            self._sources.append(lambda facts: _by_convention(facts.info))
        if self._function is not None:
            self._sources.append(self._of_function)
        self._sources += [functools.partial(_of_rule, name, rule) for name, rule in self._rules]

    @property
    def needs_more_than_info(self) -> bool:
        """Whether users' functions look at the step: at its action and its observation, too."""
        return self._function is not None or any(callable(rule.source) for _, rule in self._rules)

    @property
    def sources(self) -> Sequence[Callable[[StepFacts], Iterator[Named]]]:
        """What yields the values of a step, each for itself: one that raises leaves the others alone."""
        return self._sources

    def take(self, facts: StepFacts) -> Iterator[Named]:
        """Yield the values of a step.

        Raises:
            TypeError: A function returned no dict.
            Exception: Whatever a user's function raises.
        """
        for source in self._sources:
            yield from source(facts)

    def _of_function(self, facts: StepFacts) -> Iterator[Named]:
        assert self._function is not None
        returned = self._function(facts)
        if not isinstance(returned, Mapping):
            raise TypeError(f"the function returned {type(returned).__name__}, and no dict of values by name")
        for name, value in returned.items():
            rule = value if isinstance(value, Rule) else _RUNNING
            yield from _named(str(name), rule.source if isinstance(value, Rule) else value, rule)


_RUNNING, _FINAL, _SERIES = Rule(None), Rule(None, FINAL, ()), Rule(None, SERIES, ())


def _by_convention(info: Any, prefix: str = "") -> Iterator[Named]:
    """Yield what ``info["data"]`` and ``info["media"]`` say; those of several agents as ``<agent>/<name>``."""
    if not isinstance(info, Mapping):
        return
    data, media = info.get("data"), info.get("media")
    if isinstance(data, Mapping):
        for rule in (_RUNNING, _FINAL):
            values = data.get(rule.kind)
            if isinstance(values, Mapping):
                yield from _named(prefix, values, rule)
    if isinstance(media, Mapping):
        yield from _named(prefix, media, _SERIES)
    if not prefix and data is None and media is None:
        for agent, own in info.items():
            if isinstance(own, Mapping) and ("data" in own or "media" in own):
                yield from _by_convention(own, str(agent))


def _named(name: str, value: Any, rule: Rule) -> Iterator[Named]:
    """Yield a value, or those of a dict as ``<name>/<key>``; nothing for None."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _named(f"{name}/{key}" if name else str(key), item, rule)
    elif value is not None:
        yield Named(name, value, rule)


def _of_rule(name: str | None, rule: Rule, facts: StepFacts) -> Iterator[Named]:
    if callable(rule.source):
        yield from _named(name or "value", rule.source(facts), rule)
    else:
        yield from _at_path(facts.info, name, rule)


def _at_path(info: Any, name: str | None, rule: Rule) -> Iterator[Named]:
    found = list(_matches(info, rule.source.split("/"), ()))
    if not found and "*" not in rule.source:
        yield from _named(name or rule.source, rule.default, rule)
    for path, stars, value in found:
        own = "/".join(path) if name is None else "/".join((name, *stars))
        yield from _named(own, value, rule)


def _matches(
    info: Any, parts: Sequence[str], path: tuple[str, ...], stars: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...], Any]]:
    """Yield where a path leads: the whole path, the keys that its stars stand for, and the value there."""
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
    if not callable(rule.source) and not (isinstance(rule.source, str) and rule.source):
        raise _refused(collect)
    return rule


def _as_path(source: Any, collect: Any) -> Rule:
    rule = _as_rule(source, collect)
    if callable(rule.source):
        raise TypeError(f"collect= needs a name for a function: collect={{'name': ...}}; got {collect!r}.")
    return replace(rule)


def _refused(collect: Any) -> TypeError:
    return TypeError(
        "collect= takes a function of the step that returns values by name; paths inside info such as 'data/speed'; or "
        f"a dict of paths, functions, tune_media.steps.running(...) and final(...) by name; got {collect!r}."
    )
