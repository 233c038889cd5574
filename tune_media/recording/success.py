"""Whether an episode succeeded: as its env says in the info of the last step, or as the user's function does."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tune_media.recording.collector import COMMON
from tune_media.values.checks import a_function, as_shown, did_you_mean
from tune_media.values.episode_record import EpisodeRecord
from tune_media.values.problems import argument

NAMES = ("success", "is_success")  # in infos: of Meta-World, and of Gymnasium-Robotics
_MAX_DEPTH = 5  # of the names in a message; an info may hold itself
Success = str | Callable[[EpisodeRecord], Any]  # the name of a value in ``info``, or a function of the episode's record


def check_success(success: Any) -> None:
    """Check the argument ``success=``. Raises TypeError."""
    if success is None or (isinstance(success, str) and success and success == success.strip("/ ")):
        return
    if not callable(success):
        raise TypeError(
            argument("success=")
            + " takes the name of a value in info, such as 'is_success' or 'data/solved', or a function of the "
            f"episode's record, such as lambda episode: episode.episode_return > 200; got {as_shown(success)}."
        )
    a_function("the episode's record").check("success=", success)


def names_of(success: Success | None) -> tuple[str, ...]:
    """Return the paths inside ``info`` that may tell; none if a function does."""
    return NAMES if success is None else (success,) if isinstance(success, str) else ()


def in_info(info: Any, names: tuple[str, ...], *, of_agents: bool = False) -> bool | None:
    """Return whether an episode succeeded by the info of its last step, or None if that says nothing.

    Of several agents (``of_agents``), the common info decides; else, all agents that say something must have succeeded.
    """
    if not isinstance(info, Mapping):
        return None
    for part in (info, info.get(COMMON) if of_agents else None):
        for name in names:
            success = as_success(_at(part, name))
            if success is not None:
                return success
    of_each = [as_success(_at(part, name)) for part in info.values() for name in names] if of_agents else []
    said = [part for part in of_each if part is not None]
    return all(said) if said else None


def why_unknown(info: Any, name: str, *, of_agents: bool) -> str:
    """Return why an info does not say whether its episode succeeded, with the names in it that could.

    >>> why_unknown({"data": {"solved": True}, "text": "a"}, "data/solvd", of_agents=False)
    "success='data/solvd' is no truth value in the info of an episode's last step; did you mean 'data/solved'?"
    """
    infos = [part for part in info.values() if isinstance(part, Mapping)] if of_agents and info else [info]
    paths = sorted({name for part in infos for name in _paths(part, "")})
    meant = did_you_mean(name, paths, "there are")
    return f"success={name!r} is no truth value in the info of an episode's last step; {meant.rstrip('.')}"


def as_success(value: Any) -> bool | None:
    """Return a truth value or a number of any library as a bool, or None for NaN and for anything else."""
    try:
        plain = value if isinstance(value, (bool, int, float)) else value.item()
        return bool(plain) if isinstance(plain, (bool, int)) or not math.isnan(plain) else None
    except Exception:  # of a foreign type
        return None


def _paths(info: Any, prefix: str) -> Iterator[str]:
    """Yield the paths of the numbers and truth values inside an info."""
    if isinstance(info, Mapping) and prefix.count("/") < _MAX_DEPTH:
        for key, value in info.items():
            yield from _paths(value, f"{prefix}/{key}" if prefix else str(key))
    elif as_success(info) is not None:
        yield prefix


def _at(info: Any, name: str) -> Any:
    for part in name.split("/"):
        if not isinstance(info, Mapping):
            return None
        info = info.get(part)
    return info
