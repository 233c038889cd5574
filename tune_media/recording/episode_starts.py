"""What is decided when an episode starts: whether it is recorded, and whether its seed is known."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from tune_media.recording.render_clock import RenderClock
from tune_media.selection import RenderBudget, Trigger


class Starts:
    """Counts the episodes of each slot, and remembers their seeds; the trigger gets an episode's index on its slot."""

    def __init__(self, trigger: Trigger | RenderBudget | None, clock: RenderClock) -> None:
        self._trigger, self._clock = trigger, clock
        self._count: dict[Hashable, int] = {}
        self._seeds: dict[Hashable, int | None] = {}

    def is_wanted(self, slot: Hashable) -> bool:
        """Count an episode that starts in ``slot``, and return whether it is recorded."""
        index = self._count.get(slot, 0)
        self._count[slot] = index + 1
        if isinstance(self._trigger, RenderBudget):
            return self._trigger.allows(self._clock.rendering, self._clock.sampling)
        return self._trigger is None or bool(self._trigger(index))

    def counts(self) -> dict[Any, int]:
        """Return the number of episodes that each slot has begun."""
        return dict(self._count)

    def go_on_from(self, counts: Mapping[Any, int]) -> None:
        """Continue to count from a checkpoint; a slot that has begun more episodes continues from these."""
        for slot, count in counts.items():
            self._count[slot] = max(count, self._count.get(slot, 0))

    def own_seed(self, slot: Hashable, seed: int | None) -> int | None:
        """Return the seed that the env's generator was last given, if it is new in ``slot``.

        A reset without a seed continues where the last episode left the generator, so the old seed is not its own.
        """
        is_new = seed != self._seeds.get(slot)
        self._seeds[slot] = seed
        return seed if is_new else None
