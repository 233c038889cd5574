"""What the clips of a round cost, rendered while all candidates ran or in a replay of the winners."""

from __future__ import annotations

from typing import NamedTuple

WORTH = 0.8
"""A replay is worth its second env, and the tape of each step, if it takes at most this share of the time."""


class RenderCost(NamedTuple):
    """What the clips of the same episodes cost either way.

    Attributes:
        direct: The time in which all candidates were rendered and encoded, seconds.
        replay: The time in which the winners alone are played again, rendered and encoded, seconds.

    Example:
        >>> cost = RenderCost.of(rendering=10.0, steps=1000, stepping=0.5, replayed=200)
        >>> print(cost)
        2.5 s for a replay of the winners, 10 s for rendering all candidates
        >>> cost.is_replay_worth_it
        True
    """

    direct: float
    replay: float

    @classmethod
    def of(cls, rendering: float, steps: int, stepping: float, replayed: int) -> RenderCost:
        """Return the cost of a round that was rendered directly, and whose winners were replayed without rendering.

        Args:
            rendering: The time in which its candidates were rendered and encoded, seconds.
            steps: The number of their steps.
            stepping: The time in which the winners were stepped again, seconds.
            replayed: The number of the winners' steps.
        """
        return cls(rendering, stepping + rendering * replayed / max(1, steps))

    @property
    def is_replay_worth_it(self) -> bool:
        """Whether a replay saves enough time."""
        return self.replay <= WORTH * self.direct

    def __str__(self) -> str:
        return f"{self.replay:.2g} s for a replay of the winners, {self.direct:.2g} s for rendering all candidates"
