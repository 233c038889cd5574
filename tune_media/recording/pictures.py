"""Checksums of an episode's own frames: those that were rendered while it ran. A replay of it must show the same."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from crc32c import crc32c

from tune_media.encoding.frames import as_rgb

BLOCK = 32  # so many frames of a view have one checksum on a tape
WHOLE, ALONE, SPARSE, STEPS = "whole", "alone", "sparse", "steps"
"""How the frames were rendered: all; single ones, of an env whose pictures do not depend on how often it is rendered;
some that only a replay shows again which renders the same ones; or none, by the user's ``render="replay"``."""
Blocks = dict[
    str, list[list[int]]
]  # by view, for each block: the steps of its first and last frame, and their checksum


@dataclass
class Pictures:
    """The checksums of the frames that were rendered while an episode ran, before they were scaled or drawn on."""

    how: str = WHOLE  # ``whole``, ``alone``, ``sparse`` or ``steps``
    are_all: bool = False  # its clip has no others
    _seen: dict[str, tuple[array[int], array[int]]] = field(default_factory=dict)  # by view: steps, and their checksums
    _blocks: Blocks = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self._seen or self._blocks)

    def add(self, step: int, frames: Mapping[str, Any]) -> None:
        """Add the frames of a step, by view. Raises ValueError."""
        for view, picture in frames.items():
            check = crc32c(np.ascontiguousarray(as_rgb(picture)).data)
            steps, checks = self._seen.setdefault(view, (array("I"), array("I")))
            steps.append(step)
            checks.append(check)

    def at(self, step: int) -> dict[str, int]:
        """Return the checksums of the frames of a step, by view, if they were added here."""
        return {view: checks[steps.index(step)] for view, (steps, checks) in self._seen.items() if step in steps}

    @property
    def views(self) -> set[str]:
        """The names of the views."""
        return set(self._seen) | set(self._blocks)

    def places(self, every: int, length: int) -> set[int]:
        """Return the steps whose frames these are, of an episode of ``length`` steps rendered every ``every`` steps."""
        shown_at: set[int] = set()
        for first, last, _ in (block for blocks in self.blocks().values() for block in blocks):
            shown_at.update((first, last), range(first + -first % every, last, every))
        return {step for step in shown_at if step <= length}

    def blocks(self) -> Blocks:
        """Return them as a tape holds them."""
        by_view, size = dict(self._blocks), BLOCK if self.how == WHOLE else 1
        for view, (steps, checks) in self._seen.items():
            parts = [slice(start, start + size) for start in range(0, len(steps), size)]
            by_view[view] = [[steps[part][0], steps[part][-1], _check_of(checks[part])] for part in parts]
        return by_view

    def packed(self) -> dict[str, Any]:
        """Return them as plain data."""
        return {"how": self.how, "are_all": self.are_all, "blocks": self.blocks()}

    @classmethod
    def unpacked(cls, packed: Mapping[str, Any]) -> Pictures:
        """The inverse of ``packed``; fields that were not stored are None."""
        return cls(str(packed["how"]), bool(packed["are_all"]), _blocks=dict(packed["blocks"]))

    def difference(self, shown: Pictures, places: Collection[int]) -> tuple[int, str] | None:
        """Return the first compared step at which a replay's frames differ, and where as text, or None if nowhere."""
        if places and self.are_all and self.views != shown.views:
            names = [", ".join(map(repr, sorted(views))) for views in (shown.views, self.views)]
            return 0, f"which has the views {names[0]} instead of {names[1]}"
        for view, blocks in self.blocks().items():
            steps, checks = shown._seen.get(view, (array("I"), array("I")))
            for first, last, check in blocks:
                if first not in places or last not in places:
                    continue
                if _check_of(checks[bisect_left(steps, first) : bisect_right(steps, last)]) != check:
                    steps_as_text = f"at step {first}" if first == last else f"from step {first} to step {last}"
                    return first, steps_as_text + (f" of view {view!r}" if view else "")
        return None


def _check_of(checks: array[int]) -> int:
    return int(crc32c(checks.tobytes()))
