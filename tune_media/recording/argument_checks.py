"""Checks of arguments that recorders have in common; an impossible one fails when it is given."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Mapping
from typing import Any

from tune_media.selection import RenderBudget, every, first_episodes, sometimes
from tune_media.values.checks import a_function, an_instance, as_shown
from tune_media.values.options import VideoOptions

MAX_SEEDS = 100_000


def check_recording(trigger: Any, video: Any, frame: Any) -> None:
    """Check which episodes are recorded and how."""
    if trigger is not None and not callable(trigger) and not isinstance(trigger, RenderBudget):
        raise TypeError(
            "a trigger is a callable or a RenderBudget, for example tune_media.selection.every(10); "
            f"got {as_shown(trigger)}."
        )
    if any(trigger is maker for maker in (every, first_episodes, sometimes, RenderBudget)):
        raise TypeError(f"a trigger is made by a call, for example tune_media.selection.{trigger.__name__}(...).")
    if callable(trigger):
        a_function("the index of an episode").check("a trigger argument", trigger)
    an_instance("a tune_media.VideoOptions(fps=..., height=..., ...)", VideoOptions).check("video=", video)
    if frame is not None:
        _check_frame(frame, video)


def _check_frame(frame: Any, video: VideoOptions | None) -> None:
    if video is None:
        raise ValueError("frame= makes frames and video=None wants none; leave one of them out.")
    if isinstance(frame, Mapping) and not frame:
        raise ValueError("frame= is an empty dict: name at least one view, or leave it out for env.render().")
    for name in frame if isinstance(frame, Mapping) else ():
        if not (isinstance(name, str) and name):
            raise TypeError(f"frame= takes a dict of views by their names, for example 'top', got {as_shown(name)}.")
    for view in frame.values() if isinstance(frame, Mapping) else [frame]:
        if not (isinstance(view, str) and view) and not callable(view):
            got = as_shown(view)
            raise TypeError(f"frame= takes a callable, the name of a method, or a dict of these, got {got}.")
        if callable(view):
            a_function("the env").check("frame=", view)


def as_indices(argument: str, values: Iterable[int] | int | None, count: int | None = None) -> frozenset[int] | None:
    """Return indices as a set, or None for all. Raises ValueError if there is none, or an impossible one."""
    if values is None:
        return None
    try:
        items = values if isinstance(values, Iterable) else [values]
        indices = frozenset(map(_index, itertools.islice(items, MAX_SEEDS + 1)))
    except TypeError:
        indices = frozenset()
    if not 0 < len(indices) <= MAX_SEEDS or min(indices) < 0 or (count is not None and max(indices) >= count):
        which = "0, 1, ..." if count is None else f"from 0 to {count - 1}" if count > 1 else "of one sub-env: 0"
        raise ValueError(f"{argument}= takes indices {which}, or None for all; got {as_shown(values)}.")
    return indices


def as_seeds(seeds: Iterable[int] | int | None) -> tuple[int, ...]:
    """Return seeds as a tuple; n stands for 0, ..., n-1, None for none. Raises ValueError above ``MAX_SEEDS``."""
    if seeds is None:
        return ()
    try:
        items = seeds if isinstance(seeds, Iterable) else range(_index(seeds))
        chosen = tuple(map(_index, itertools.islice(items, MAX_SEEDS + 1)))
    except TypeError:
        chosen = ()
    if len(chosen) > MAX_SEEDS:
        raise ValueError(
            f"seeds= takes at most {MAX_SEEDS:,} seeds, got {as_shown(seeds)}. A number n stands for the seeds 0, ..., "
            "n-1; the seed n alone is seeds=[n]."
        )
    if not chosen or min(chosen) < 0:
        raise ValueError(f"seeds= takes a positive number or seeds 0, 1, ...; got {as_shown(seeds)}.")
    return chosen


def _index(value: Any) -> int:
    """Return a whole number of any kind, but no truth value."""
    if isinstance(value, bool):
        raise TypeError
    return operator.index(value)
