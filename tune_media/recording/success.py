"""Whether an episode succeeded: as its env says in the infos of its steps, or as the user's function does."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tune_media.recording.collector import COMMON
from tune_media.values.checks import a_function, as_shown, did_you_mean, one_of
from tune_media.values.episode_record import EpisodeRecord
from tune_media.values.problems import Message, Problems, argument, remedy

NAMES = ("success", "is_success")  # in infos: of Meta-World, and of Gymnasium-Robotics
END, ONCE = WHEN = ("end", "once")
"""When an env's value counts: at the end of the episode, or after any of its steps."""
_MAX_DEPTH = 5  # of the names in a message; an info may hold itself
_UNKNOWN = "it is not known whether episodes succeeded"
_SHARE_EARLY = 0.01  # of the episodes that may succeed before the policy can have done it
EARLY = "success is true at the reset or after the first step in more than 1 of 100 episodes"
Success = str | Callable[[EpisodeRecord], Any]  # the name of a value in ``info``, or a function of the episode's record


class Unclear(Exception):
    """A value that says neither that an episode succeeded nor that it did not; the message names it."""


def check_success(success: Any, when: Any = None) -> None:
    """Check the arguments ``success=`` and ``success_when=``. Raises TypeError, ValueError."""
    if when is not None:
        one_of(*WHEN).check("success_when=", when)
    if success is None or (isinstance(success, str) and success and success == success.strip("/ ")):
        return
    if not callable(success):
        raise TypeError(
            argument("success=")
            + " takes the name of a value in info, such as 'is_success' or 'data/solved', or a function of the "
            f"episode's record, such as lambda episode: episode.episode_return > 200; got {as_shown(success)}."
        )
    a_function("the episode's record").check("success=", success)
    if when is not None:
        why = f" is for a value in info, got {when!r}, and a function gets the whole record: "
        raise ValueError(argument("success_when=") + why + remedy("leave it out."))


def names_of(success: Success | None) -> tuple[str, ...]:
    """Return the paths inside ``info`` that may tell; none if a function does."""
    return NAMES if success is None else (success,) if isinstance(success, str) else ()


@dataclass
class SuccessSoFar:
    """What the infos of a running episode have said."""

    is_read: bool  # whether the info of the next step is read
    reset_info: Any = None  # until the first step
    has_stepped: bool = False
    once: bool | None = None  # whether it succeeded after one of the steps that were read
    is_early: bool = False  # it was a success at the reset, or after the first step
    is_unclear: bool = False


class SuccessReader:
    """Tells of each episode of a recorder whether it succeeded.

    Infos of all steps are read if they decide, if the first one has the value, or if the last one of an earlier episode
    had it; and until an episode has ended. Else the last one is read, and ``success_once`` is true or not known.
    """

    def __init__(self, success: Success | None, when: str | None, names: tuple[str, ...], problems: Problems) -> None:
        self.names = names  # the paths inside infos that may tell; none: no info is read
        self._success, self._is_once, self._problems = success, when == ONCE, problems
        self.unclear: Message | None = None  # why one is unknown: the first value that is neither true nor false
        self.early: str | None = None  # the warning that episodes succeed before the policy can have done it
        self._has_seen_end = self._last_infos_tell = False
        self._number_early = self._number = 0  # of the episodes with more than one step

    def step(self, so_far: SuccessSoFar, info: Any, *, of_agents: bool = False) -> None:
        """Read the info of a step, if ``is_read``."""
        success = self._read(so_far, info, of_agents)
        if not so_far.has_stepped:
            so_far.has_stepped = True
            so_far.is_read = success is not None or self._is_once or self._last_infos_tell or not self._has_seen_end
            so_far.is_early = bool(success or self._read(so_far, so_far.reset_info, of_agents))
            so_far.reset_info = None
        if success is not None:
            so_far.once = so_far.once or success

    def end(self, so_far: SuccessSoFar, info: Any, length: int, *, of_agents: bool) -> dict[str, bool | None]:
        """Return the facts of an episode's record, by the info of its last step; report why the first has none."""
        at_end = self._read(so_far, info, of_agents)
        self._last_infos_tell = self._last_infos_tell or at_end is not None
        once = so_far.once if at_end is None else bool(so_far.once or at_end)
        if not (once or so_far.is_read or length == 1):
            once = None  # nobody looked
        if so_far.is_unclear:
            once = at_end = None
        success = once if self._is_once else at_end
        if success is None and isinstance(self._success, str) and not (self._has_seen_end or self.unclear):
            self._problems.report(why_unknown(info, self._success, of_agents=of_agents), _UNKNOWN)
        self._has_seen_end = True
        self._number += length > 1
        if so_far.is_early and length > 1:
            self._is_early()
        return {"success": success, "success_once": once, "success_at_end": at_end}

    def of_function(self, record: EpisodeRecord, *, strict: bool) -> bool | None:
        """Return whether an episode succeeded by the user's function; the fault of one that raises is reported."""
        assert callable(self._success)
        try:
            answer = self._success(record)
            try:
                return as_success(answer)
            except Unclear:
                returned = f" returned {as_shown(answer)}, which is neither true nor false"
                self._is_unclear(argument("success=") + returned)
        except Exception as error:
            if strict:
                raise
            self._problems.report_error("success=", error, _UNKNOWN)
        return None

    def _read(self, so_far: SuccessSoFar, info: Any, of_agents: bool) -> bool | None:
        try:
            return in_info(info, self.names, of_agents=of_agents)
        except Unclear as error:
            so_far.is_unclear = True
            name = argument("success=, or --success")
            what_to_do = remedy("pass the name of another value, or a function of the episode's record: " + name)
            self._is_unclear(Message() + str(error) + ", which is no boolean, 0 or 1; " + what_to_do)
            return None

    def _is_unclear(self, why: Message) -> None:
        self.unclear = self.unclear or why
        self._problems.report(self.unclear, _UNKNOWN)

    def _is_early(self) -> None:
        """Count an episode, and warn once if more than one of a hundred succeed too early."""
        self._number_early += 1
        if self.early is None and self._number_early > max(1, _SHARE_EARLY * self._number):
            self.early = EARLY
            self._problems.report(EARLY, "success may say little of the policy")


def in_info(info: Any, names: tuple[str, ...], *, of_agents: bool = False) -> bool | None:
    """Return whether an episode succeeded by the info of a step, or None if that says nothing.

    Of several agents (``of_agents``), the common info decides; else, all agents that say something must have succeeded.
    Raises Unclear for a value that is neither true nor false.
    """
    if not info or not isinstance(info, Mapping):
        return None
    for part in (info, info.get(COMMON)) if of_agents else (info,):
        for name in names:
            success = _value(part, name)
            if success is not None:
                return success
    said = [_value(part, name) for part in info.values() for name in names] if of_agents else []
    said = [success for success in said if success is not None]
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
    """Return a boolean, 0 or 1 of any library as a bool, or None for None and NaN. Raises Unclear."""
    if value is None or value is True or value is False:
        return value
    try:
        plain = value.item() if hasattr(value, "item") else value
    except Exception as error:  # of a foreign type
        raise Unclear(as_shown(value)) from error
    if isinstance(plain, float) and math.isnan(plain):
        return None
    if isinstance(plain, (bool, int, float)) and plain in (0, 1):
        return bool(plain)
    raise Unclear(as_shown(plain))


def _value(info: Any, name: str) -> bool | None:
    """Return what the value at a path inside an info says. Raises Unclear, with the name."""
    value = _at(info, name) if "/" in name else info.get(name) if isinstance(info, Mapping) else None
    if value is None:
        return None
    try:
        return as_success(value)
    except Unclear as error:
        raise Unclear(f"{name!r} in an info is {error}") from error


def _paths(info: Any, prefix: str) -> Iterator[str]:
    """Yield the paths of the values inside an info that say whether an episode succeeded."""
    if isinstance(info, Mapping):
        for key, value in info.items() if prefix.count("/") < _MAX_DEPTH else ():
            yield from _paths(value, f"{prefix}/{key}" if prefix else str(key))
        return
    try:
        if as_success(info) is not None:
            yield prefix
    except Unclear:
        pass


def _at(info: Any, name: str) -> Any:
    for part in name.split("/"):
        if not isinstance(info, Mapping):
            return None
        info = info.get(part)
    return info
