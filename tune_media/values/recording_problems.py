"""Reasons why episodes were not recorded, on their way from the env runners to the last line of an experiment.

A recorder puts a tuple of ``RecordingProblem`` into a result, at ``<section>/<recorder>/problems``. The driver counts
them with ``take_problems``, which leaves their texts behind for the other loggers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

PROBLEMS = "problems"
"""The key under which a recorder reports its problems in a result."""


@dataclass(frozen=True)
class RecordingProblem:
    """One reason why something was not recorded.

    Attributes:
        text: The whole message: the recorder or argument, the value that is wrong, and how to mend it.
        lost: The number of episodes that got no clip for this reason, in this result.

    Example:
        >>> str(RecordingProblem("record_episodes: env 'X' has no render_mode.", lost=4))
        "record_episodes: env 'X' has no render_mode. (4 episodes without a clip)"
    """

    text: str
    lost: int = 0

    def __str__(self) -> str:
        return f"{self.text} ({counted(self.lost)} without a clip)" if self.lost else self.text


def counted(episodes: int) -> str:
    """Return a number of episodes as text.

    Example:
        >>> counted(1), counted(2)
        ('1 episode', '2 episodes')
    """
    return f"{episodes} episode" + ("" if episodes == 1 else "s")


def merged(problems: Iterable[RecordingProblem]) -> tuple[RecordingProblem, ...]:
    """Return each text once, with the sum of the episodes lost to it.

    Example:
        >>> merged([RecordingProblem("a", 1), RecordingProblem("b"), RecordingProblem("a", 2)])
        (RecordingProblem(text='a', lost=3), RecordingProblem(text='b', lost=0))
    """
    lost: dict[str, int] = {}
    for problem in problems:
        lost[problem.text] = lost.get(problem.text, 0) + problem.lost
    return tuple(RecordingProblem(text, count) for text, count in lost.items())


def take_problems(result: dict[Any, Any]) -> tuple[RecordingProblem, ...]:
    """Return the problems that a result reports, at any depth, and put their texts (one string) in their place.

    Args:
        result: A result of Tune or RLlib; changed in place. Reading it again finds nothing.

    Example:
        >>> result = {"env_runners": {"episodes": {"problems": (RecordingProblem("no render_mode", 2),)}}}
        >>> take_problems(result)
        (RecordingProblem(text='no render_mode', lost=2),)
        >>> result
        {'env_runners': {'episodes': {'problems': 'no render_mode (2 episodes without a clip)'}}}
    """
    found: list[RecordingProblem] = []
    for key, value in result.items():
        if isinstance(value, dict):
            found += take_problems(value)
        elif key == PROBLEMS and isinstance(value, tuple):
            own = [problem for problem in value if isinstance(problem, RecordingProblem)]
            if own:
                result[key] = "; ".join(map(str, own))
                found += own
    return merged(found)
