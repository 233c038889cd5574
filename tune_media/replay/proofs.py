"""Finds out whether an env repeats its episodes: plays some again whose frames were all rendered."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from tune_media.ray_compat import share_value, shared_value
from tune_media.replay.player import RenderError
from tune_media.replay.render_pool import RenderPool
from tune_media.replay.tape import Tape
from tune_media.replay.taped_clip import TapedClip
from tune_media.replay.verdicts import ReplayVerdict

NEEDED, MOST_FAULTS = 3, 3  # episodes proven before clips are made of tapes; faults after which none will be
_SECONDS = 30.0  # of playing, after which fewer are enough


@dataclass
class Proofs:
    """The proofs of one recipe so far, until there is a verdict."""

    count: int = 0  # how many episodes were played
    seconds: float = 0.0  # how long that took
    is_later: bool = False  # one was not the first of its env: state that leaks shows only in the second episode
    ages: bool = False
    length: int = 0
    draws: list[str] | None = field(default_factory=list)  # None: not known
    faults: int = 0  # plays that ended without an answer, because the process ended for example

    def add(
        self, samples: Sequence[TapedClip], pool: RenderPool, views: set[str] | None = None
    ) -> ReplayVerdict | None:
        """Play some episodes, those late on their env first; return the verdict, if it is known. Raises RenderError."""
        tapes = [(Tape.unpacked(sample.tape), sample) for sample in samples]
        for tape, sample in sorted(tapes, key=lambda item: -item[0].number):
            if not tape.pictures.are_all:
                continue
            began = time.monotonic()
            facts = compare(sample, pool, is_first=True, views=views)
            self.seconds += time.monotonic() - began
            self.count += 1
            self.is_later |= tape.number > 0
            self.ages |= facts["ages"]
            self.length = max(self.length, facts["length"])
            drawn = facts["draws"]
            self.draws = None if self.draws is None or drawn is None else sorted({*self.draws, *drawn})
            if self.seconds > _SECONDS or (self.count >= NEEDED and self.is_later):
                return ReplayVerdict(True, ages=self.ages, length=self.length, draws=self.draws)
        return None


def proofs_of(recipe: str) -> Proofs:
    """Return the proofs that the trials of this Ray job have made of a recipe."""
    stored = shared_value(f"proofs {recipe}")
    return Proofs() if stored is None else Proofs(**json.loads(stored))


def note_proofs(recipe: str, proofs: Proofs) -> None:
    """Let the other trials continue from here."""
    share_value(f"proofs {recipe}", json.dumps(asdict(proofs)), may_replace=True)


def compare(
    sample: TapedClip, pool: RenderPool, *, is_first: bool = False, views: set[str] | None = None
) -> dict[str, Any]:
    """Play an episode of which all frames were rendered again; return what ``RenderProcess.prove`` does.

    ``views`` are names that must be known before the first frame, if any. Raises RenderError also for other views.
    """
    shown = Tape.unpacked(sample.tape).pictures.views
    if views is not None and shown != views:
        names = ", ".join(sorted(shown))
        raise RenderError(
            f"shows several views ({names}); if they are always the same, name them: frame={{'front': ...}}"
        )
    return sample.compared_by(pool, is_first=is_first)
