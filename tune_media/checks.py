"""Checks of arguments that recorders have in common: what cannot work fails where it is given."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

from tune_media.selection import RenderBudget
from tune_media.values import VideoOptions


def check_recording(trigger: Any, video: Any, frame: Any) -> None:
    """Check which episodes are recorded and how.

    Raises:
        TypeError: Something is of another kind.
        ValueError: Arguments contradict each other.
    """
    if trigger is not None and not callable(trigger) and not isinstance(trigger, RenderBudget):
        raise TypeError(f"a trigger is a callable or a RenderBudget, got {trigger!r}.")
    if video is not None and not isinstance(video, VideoOptions):
        raise TypeError(f"video= takes a tune_media.VideoOptions(fps=..., height=..., ...) or None, got {video!r}.")
    if frame is None:
        return
    if video is None:
        raise ValueError("frame= makes frames and video=None wants none; leave one of them out.")
    if isinstance(frame, Mapping) and not frame:
        raise ValueError("frame= is an empty dict: name at least one view, or leave it out for env.render().")
    for view in frame.values() if isinstance(frame, Mapping) else [frame]:
        if not isinstance(view, str) and not callable(view):
            raise TypeError(f"frame= takes a callable, the name of a method, or a dict of these, got {view!r}.")


def as_indices(argument: str, values: Iterable[int] | int | None, count: int | None = None) -> frozenset[int] | None:
    """Return indices as a set; None stands for all.

    Args:
        argument: Its name.
        values: One index or several.
        count: How many there are, where it is known.

    Raises:
        ValueError: There is none, or one that cannot be.
    """
    if values is None:
        return None
    try:
        indices = frozenset(map(_index, values if isinstance(values, Iterable) else [values]))
    except TypeError:
        indices = frozenset()
    if not indices or min(indices) < 0 or (count is not None and max(indices) >= count):
        last = "..." if count is None else f"..., {count - 1}"
        raise ValueError(f"{argument}= takes indices 0, 1, {last}, or None for all; got {values!r}.")
    return indices


def as_seeds(seeds: Iterable[int] | int | None) -> tuple[int, ...]:
    """Return seeds as a tuple; a number n stands for 0, ..., n-1, None for none.

    Raises:
        ValueError: They are no seeds.
    """
    if seeds is None:
        return ()
    try:
        chosen = tuple(map(_index, seeds if isinstance(seeds, Iterable) else range(_index(seeds))))
    except TypeError:
        chosen = ()
    if not chosen or min(chosen) < 0:
        raise ValueError(f"seeds= takes a positive number or seeds 0, 1, ...; got {seeds!r}.")
    return chosen


def _index(value: Any) -> int:
    """Return a whole number of any kind, but no truth value."""
    if isinstance(value, bool):
        raise TypeError
    return operator.index(value)
