"""Checksums of the frames of an episode: those that were rendered while it ran prove the frames of its replay."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from crc32c import crc32c

from tune_media.encoding.frames import as_rgb

BLOCK = 32
"""So many frames of a view have one checksum on a tape."""
WHOLE, ALONE, SPARSE = "whole", "alone", "sparse"
"""How the frames were rendered: all from the reset on; single ones, of an env whose pictures do not depend on how often
it was rendered; or single ones of another env, which only a replay that renders the same ones can show again."""

Blocks = dict[str, list[list[int]]]
"""By view, for each block: the step of its first frame, that of its last one, and their checksum."""


@dataclass
class Pictures:
    """The checksums of the frames that were rendered while an episode ran, before they were scaled or drawn on.

    Attributes:
        how: ``whole``, ``alone`` or ``sparse``.
        are_all: Whether the episode has no others.
    """

    how: str = WHOLE
    are_all: bool = False
    _seen: dict[str, tuple[array[int], array[int]]] = field(default_factory=dict)  # by view: steps, and their checksums
    _blocks: Blocks = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self._seen or self._blocks)

    def add(self, step: int, frames: Mapping[str, Any]) -> None:
        """Add the frames of a step, by view.

        Raises:
            ValueError: One is not a picture.
        """
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

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """The first and the last step of each block."""
        return [(first, last) for blocks in self.blocks().values() for first, last, _ in blocks]

    def wants(self, step: int) -> bool:
        """Return whether the frame of a step is among them, if the step is one at which frames are rendered."""
        return any(first <= step <= last for first, last in self.ranges)

    def blocks(self) -> Blocks:
        """Return what a tape holds of them."""
        found, size = dict(self._blocks), BLOCK if self.how == WHOLE else 1
        for view, (steps, checks) in self._seen.items():
            parts = [slice(at, at + size) for at in range(0, len(steps), size)]
            found[view] = [[steps[part][0], steps[part][-1], _check_of(checks[part])] for part in parts]
        return found

    def packed(self) -> dict[str, Any]:
        """Return them as plain data."""
        return {"how": self.how, "are_all": self.are_all, "blocks": self.blocks()}

    @classmethod
    def unpacked(cls, packed: Mapping[str, Any]) -> Pictures:
        """Return what ``packed`` was called on, as far as it was stored."""
        return cls(str(packed["how"]), bool(packed["are_all"]), _blocks=dict(packed["blocks"]))

    def difference(self, shown: Pictures) -> str | None:
        """Return where the frames of a replay are others than these; None: nowhere.

        Args:
            shown: The frames of the replay, at least at the same steps.
        """
        if self.are_all and self.views != shown.views:
            names = [", ".join(map(repr, sorted(views))) for views in (shown.views, self.views)]
            return f"which has the views {names[0]} instead of {names[1]}"
        for view, blocks in self.blocks().items():
            steps, checks = shown._seen.get(view, (array("I"), array("I")))
            for first, last, check in blocks:
                if _check_of(checks[bisect_left(steps, first) : bisect_right(steps, last)]) != check:
                    of_view = f" of view {view!r}" if view else ""
                    return (
                        f"at step {first}{of_view}" if first == last else f"from step {first} to step {last}{of_view}"
                    )
        return None


def _check_of(checks: array[int]) -> int:
    return int(crc32c(checks.tobytes()))
