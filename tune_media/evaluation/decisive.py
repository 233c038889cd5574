"""The seeds on which two policies differ most, and the first step at which they do."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tune_media.replay.tape import Tape, are_equal
from tune_media.values.secrets import error_text
from tune_media.viewing.taped_episodes import TapedEpisode

logger = logging.getLogger("tune_media")

_ROUNDING = 1e-6  # of the largest value of an action's element: steps.js has it, too


def decisive_seeds(scores: Mapping[int, tuple[float, float]]) -> list[int]:
    """Return the seeds on which two scores differ by more than rounding, the largest difference first.

    >>> decisive_seeds({0: (1.0, 1.0), 1: (1.0, 3.0), 2: (9.0, 4.0), 3: (0.3, 0.1 + 0.2)})
    [2, 1]
    """
    differing = [seed for seed, both in scores.items() if not math.isclose(*both, rel_tol=1e-10, abs_tol=1e-12)]
    return sorted(differing, key=lambda seed: -abs(scores[seed][1] - scores[seed][0]))


def differs_at(*episodes: TapedEpisode | None) -> int | None:
    """Return the first step at which two episodes differ, 0 if they begin differently.

    It is None if there are not two, or if a tape cannot be read.
    """
    try:
        tapes = [Tape.unpacked(episode.tape()) for episode in episodes if episode is not None]
    except (OSError, ValueError) as error:
        logger.warning("tune_media: where two episodes begin to differ is not known: %s", error_text(error))
        return None
    if len(tapes) != 2:
        return None
    ours, theirs = tapes
    return first_difference(ours, theirs) if ours.checks[0] == theirs.checks[0] else 0


def first_difference(ours: Tape, theirs: Tape) -> int:
    """Return the first step at which the actions of two tapes differ by more than rounding.

    If no action differs, it is the first step at which their envs returned something else. Of most steps a tape has one
    byte of the checksum, which is the same of two other observations once in 256 times; the next step tells.
    """
    shorter = min(len(ours), len(theirs))
    acted = _differ(*([tape.actions[step] for step in range(shorter)] for tape in (ours, theirs)))
    returned = [bool((ours.checks[step] ^ theirs.checks[step]) & 0xFF) for step in range(shorter + 1)]
    return 1 + acted.index(True) if any(acted) else returned.index(True) if any(returned) else shorter


def _differ(ours: Sequence[Any], theirs: Sequence[Any]) -> list[bool]:
    """Return of each step whether the actions differ: numbers by more than rounding, others at all."""
    try:
        tables = np.array([ours, theirs])
    except ValueError:  # arrays of different lengths
        tables = np.array(None)
    if tables.dtype.kind not in "biuf" or not tables.size:
        return [not are_equal(*both) for both in zip(ours, theirs, strict=True)]
    numbers = tables.astype(float).reshape(2, len(ours), -1)
    most = _ROUNDING * np.nan_to_num(np.abs(numbers), posinf=0).max(axis=(0, 1))
    alike = np.isclose(numbers[0], numbers[1], rtol=0, atol=most, equal_nan=True)
    return [not one for one in alike.all(axis=1)]
