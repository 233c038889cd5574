"""The step of an episode, and the rules for taking values from it (``collect=``).

A value is taken by name, under one of three rules: *running* (statistics over the episode, and the whole series),
*final* (the last value), or *series* (all values, without statistics). An env can also put values into its info, and
needs no option for that: ``info["data"]["running"]``, ``info["data"]["final"]`` and ``info["media"]`` (series).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from tune_media.values.checks import as_shown
from tune_media.values.episodes import STATISTICS

RUNNING: Literal["running"] = "running"
FINAL: Literal["final"] = "final"
SERIES: Literal["series"] = "series"


@dataclass(frozen=True)
class StepFacts:
    """One step of an episode, as ``collect=`` functions and overlays get it.

    >>> step = StepFacts(step=3, reward=1.0, episode_return=6.0, info={"speed": 2.0})
    >>> step.episode_return, step.info["speed"]
    (6.0, 2.0)

    Attributes:
        step: Env steps since the reset; 0 at the reset frame.
        reward: Reward of this step, summed over agents; 0 at the reset frame.
        episode_return: Sum of the rewards so far.
        action: The action that led to this step; None at the reset frame. In a multi-agent env, a dict by agent.
        env: The sub-env, if it is in this process.
        info: The step's info dict. In a multi-agent env, a dict of these by agent.
        observation: The observation after the step. In a multi-agent env, a dict by agent.
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
    """The source of a value and the rule for it; made by ``running`` and ``final``.

    >>> Rule("speed").kind
    'running'

    Attributes:
        source: A path inside ``info``, a function of the step, or the value itself in a dict that such a function
            returns.
        kind: ``running``, ``final`` or ``series``.
        statistics: The statistics of a running value that become metrics: any of ``avg``, ``sum``, ``min``, ``max``,
            ``last``.
        default: The value of steps whose ``info`` does not have the path. None: such steps are skipped.

    Raises:
        ValueError: An unknown statistic.
    """

    source: Any
    kind: Literal["running", "final", "series"] = RUNNING
    statistics: tuple[str, ...] = STATISTICS
    default: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.statistics, tuple):
            raise TypeError(f"running(statistics=...) takes a sequence of names, got {as_shown(self.statistics)}.")
        wrong = [name for name in self.statistics if name not in STATISTICS]
        if wrong:
            raise ValueError(f"running(statistics=...) takes any of {', '.join(STATISTICS)}; got {wrong[0]!r}.")


def running(source: Any, *, statistics: Sequence[str] = STATISTICS, default: Any = None) -> Rule:
    """Take a value from each step, for statistics over the episode and the whole series.

    >>> running("data/speed", statistics=("avg", "max")).statistics
    ('avg', 'max')

    Args:
        source: A path inside ``info`` such as ``"data/speed"`` (``*`` matches every key), a function of a
            ``StepFacts``, or the value itself in a dict that such a function returns.
        statistics: The statistics that become metrics, as ``<name>_avg``: any of ``avg``, ``sum``, ``min``, ``max``
            and ``last``.
        default: The value of steps whose ``info`` does not have the path. None: such steps are skipped.

    Raises:
        ValueError: An unknown statistic.
    """
    is_text = isinstance(statistics, str)
    several = (statistics,) if is_text else tuple(statistics) if isinstance(statistics, Iterable) else statistics
    return Rule(source, RUNNING, several, default)  # type: ignore[arg-type]  # it refuses what is no tuple


def final(source: Any, *, default: Any = None) -> Rule:
    """Take the last value of an episode, for example a count that the env keeps from its reset on.

    The arguments are those of ``running``.

    >>> final("data/goals", default=0).kind
    'final'
    """
    return Rule(source, FINAL, (), default)


Source = str | Callable[[StepFacts], Any] | Rule
Collect = Callable[[StepFacts], Mapping[str, Any]] | str | Rule | Mapping[str, Source] | Sequence[str | Rule] | bool
"""The argument ``collect=``: a function of the step that returns values by name; paths inside ``info``; or a dict of
paths, functions and rules by name. False: no values at all, not even those that the env puts into its info."""


class Named(NamedTuple):
    """A value of a step.

    >>> Named("speed", 2.0, running("speed")).name
    'speed'
    """

    name: str
    value: Any
    rule: Rule
