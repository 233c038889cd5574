"""Knows the recipes whose clips may not show their episodes; the storage writer marks the clips."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping

from tune_media.replay.verdicts import Verdict, decide, verdict_on
from tune_media.storage.entry import FAILED
from tune_media.storage.index_lines import Line
from tune_media.storage.suspects import SUSPECT, is_unproven

_LOOK_SECONDS = 1.0  # between two looks at verdicts
_MOST_LOOKS = 16  # recipes in one look; those of the other recipes come with the next ones


class Suspects:
    """The recipes of clips of which no picture was compared, and the verdicts on these recipes.

    All of it is derived from index lines, so that a restored driver knows the same: a clip whose replay differed is
    listed as failed, with its recipe. The storage's reader calls all methods.

    Attributes:
        has_news: Whether lines have come since all verdicts were looked at.
    """

    def __init__(self) -> None:
        self.has_news = False
        self._trials: dict[str, dict[str, str]] = {}  # by recipe: the folders of trials with such clips, by trial
        self._refused: dict[str, str] = {}  # by recipe: why its env does not repeat its episodes
        self._looked_at = float("-inf")

    def note(self, line: Line, folder: str) -> None:
        """Take note of an index line of a trial, whose folder has this name."""
        recipe = line.get("recipe")
        if not isinstance(recipe, str):
            return
        if is_unproven(line) and not line.get(SUSPECT):
            self._trials.setdefault(recipe, {})[str(line.get("trial_id"))] = folder
            self.has_news = True
        elif line.get("status") == FAILED and "compared" not in line:  # not one that was rendered, and not stored
            self._refused.setdefault(recipe, str(line.get("note")))
            self.has_news = True

    def due(self, *, all_verdicts: bool = False) -> dict[str, str]:
        """Return the recipes whose clips are to be marked, and why; this looks at verdicts at most once a second.

        Args:
            all_verdicts: Look at all of them now: the experiment ends.
        """
        if all_verdicts or time.monotonic() - self._looked_at > _LOOK_SECONDS:
            self._looked_at = time.monotonic()
            self.has_news &= not all_verdicts
            recipes = [recipe for recipe in self._trials if recipe not in self._refused]
            for recipe in recipes if all_verdicts else recipes[:_MOST_LOOKS]:
                self._trials[recipe] = self._trials.pop(recipe)  # the next look begins with the others
                with contextlib.suppress(Exception):  # Ray is gone
                    verdict = verdict_on(recipe)
                    if verdict is not None and not verdict.repeats and verdict.differs:
                        self._refused[recipe] = verdict.reason
        return {recipe: self._refused[recipe] for recipe in self._trials if recipe in self._refused}

    def trials_of(self, recipe: str) -> Mapping[str, str]:
        """Return the folders of the trials that may have clips of a recipe to mark, by trial."""
        return dict(self._trials.get(recipe, {}))

    def are_marked(self, recipe: str) -> None:
        """Take note that the clips of a recipe are marked; those that come later are to be marked, too."""
        self._trials.pop(recipe, None)
        with contextlib.suppress(Exception):
            decide(recipe, Verdict(False, self._refused[recipe]))  # a restored job has forgotten what another one knew

    @property
    def may_be(self) -> bool:
        """Whether there are clips that would be suspect."""
        return bool(self._trials)
