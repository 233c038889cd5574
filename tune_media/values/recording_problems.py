"""Reasons why episodes were not recorded, on their way from the env runners to the last line of an experiment.

A recorder puts a tuple of ``RecordingProblem`` into a result, at ``<section>/<recorder>/problems``. The driver counts
them with ``take_problems``, which leaves their texts behind for the other loggers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

PROBLEMS = "problems"
"""The key under which a recorder reports its problems in a result."""
NUM_PENDING = "num_pending"
"""The key of the number of training episodes that RLlib counts so far and that are to come with a later result."""
NUM_UNANSWERED = "num_unanswered"
"""The key of the number of env runners whose episodes of an evaluation are to come with a later result."""


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


def pending(result: Mapping[Any, Any]) -> dict[str, int]:
    """Return what is to come with a later result, by its key, for each section that a result of RLlib has.

    Example:
        >>> pending({"env_runners": {"episodes": {"num_pending": 3}}, "evaluation": {"env_runners": {}}})
        {'num_pending': 3, 'num_unanswered': 0}
    """
    found = {}
    for key, holder in ((NUM_PENDING, result), (NUM_UNANSWERED, result.get("evaluation"))):
        env_runners = holder.get("env_runners") if isinstance(holder, Mapping) else None
        if isinstance(env_runners, Mapping):
            counts = [one.get(key) for one in env_runners.values() if isinstance(one, Mapping)]
            found[key] = max((count for count in counts if isinstance(count, int)), default=0)
    return found


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
    return merged(_taken(result))


def _taken(result: dict[Any, Any]) -> list[RecordingProblem]:
    found: list[RecordingProblem] = []
    for key, value in result.items():
        if isinstance(value, dict):
            found += _taken(value)
        elif key == PROBLEMS and isinstance(value, tuple):
            own = [problem for problem in value if isinstance(problem, RecordingProblem)]
            if own:
                result[key] = "; ".join(map(str, own))
                found += own
    return found
