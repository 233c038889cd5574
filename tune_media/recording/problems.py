"""Reasons why episodes are not recorded, each named once, with a count of the clips that it costs."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from tune_media.values.foreign import without_address
from tune_media.values.recording_problems import RecordingProblem
from tune_media.values.secrets import error_text, redacted

logger = logging.getLogger(__name__)

_MAX_KINDS = 50
_NO_CLIP = "no clip"


class FrameError(ValueError):
    """A frame that cannot be recorded. Its message is complete: it names the env, the value and the remedy."""


@dataclass
class _Counted:
    """A problem and the episodes that it has cost since it was last collected."""

    text: str
    lost: int
    is_new: bool = True


class Problems:
    """The problems of one recorder, until somebody collects them.

    Args:
        name: The recorder's name.
        are_collected: Whether somebody collects and tells them. If not, each is a warning here.

    Example:
        >>> problems = Problems("episodes", are_collected=True)
        >>> for _ in range(3):
        ...     problems.report("env 'X' returned None from render()", lost=1)
        >>> problems.take()
        [RecordingProblem(text="no clip: env 'X' returned None from render()", lost=3)]
        >>> problems.take()
        []
    """

    def __init__(self, name: str, *, are_collected: bool = False) -> None:
        self._name, self._are_collected = name, are_collected
        self._kinds: dict[tuple[str, str], _Counted] = {}

    def report(self, reason: str, consequence: str = _NO_CLIP, *, kind: str = "", lost: int = 0) -> None:
        """Count a problem, and name it if it is the first of its kind.

        Args:
            reason: The whole reason, with the remedy.
            consequence: What it costs.
            kind: Reasons with the same kind are one problem, named by its first reason. Empty: the reason itself.
            lost: The number of episodes that get no clip for it.
        """
        reason = redacted(without_address(reason))
        known = self._kinds.get((consequence, kind or reason))
        if known is not None:
            known.lost += lost
        elif len(self._kinds) < _MAX_KINDS:
            text = f"{consequence}: {reason}"
            self._kinds[consequence, kind or reason] = _Counted(text, lost)
            logger.log(logging.INFO if self._are_collected else logging.WARNING, "recording %r: %s", self._name, text)

    def report_error(self, what: str, error: Exception, consequence: str = _NO_CLIP, *, lost: int = 0) -> None:
        """Report an exception of a user's function or env; those of one type raised by one thing are one problem."""
        kind = "" if isinstance(error, FrameError) else f"{what} {type(error).__name__}"
        self.report(explained(what, error), consequence, kind=kind, lost=lost)

    def take(self) -> list[RecordingProblem]:
        """Return the problems that are new or have cost further episodes since the last call."""
        found = [RecordingProblem(one.text, one.lost) for one in self._kinds.values() if one.is_new or one.lost]
        self._kinds = {kind: replace(one, lost=0, is_new=False) for kind, one in self._kinds.items()}
        return found


def explained(what: str, error: Exception) -> str:
    """Return an exception as the reason of a problem.

    Example:
        >>> explained("trigger=", ValueError("no such index"))
        'trigger= raised ValueError: no such index'
        >>> explained("a frame", FrameError("env 'X' returned None from render()"))
        "env 'X' returned None from render()"
    """
    return str(error) if isinstance(error, FrameError) else f"{what} raised {error_text(error)}"
