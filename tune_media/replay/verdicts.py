"""What is known of a recipe: whether the episodes of its env can be played again, pictures included.

A verdict is held in Ray's own key-value store, so that every env runner of a job reads it: an experiment proves an env
once, not each of its trials. That episodes cannot be played again is written once, under a name of its own, and stays.
All functions here take a recipe by its hash.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from dataclasses import asdict, dataclass

from tune_media.ray_compat import share_value, shared_value


@dataclass(frozen=True)
class Verdict:
    """Whether the episodes of a recipe's env can be played again.

    Attributes:
        reason: Why not; empty if they can.
        shows_alone: Whether a frame looks the same if no other frame was rendered before it.
        frame_seconds: How long rendering takes: the first frame, and another one.
        differs: If they cannot, whether a replay was another episode. If not, the env cannot be made elsewhere, say,
            and clips that were made before are right.
    """

    repeats: bool
    reason: str = ""
    shows_alone: bool = False
    frame_seconds: tuple[float, float] = (0.0, 0.0)
    differs: bool = True


_REFUSED: dict[str, int] = {}  # in this process: how many clips could not be made of tapes of a recipe
_SEEN: set[str] = set()
_UNPROVEN: dict[str, deque[str]] = {}  # in this process: clips whose bytes somebody has, by recipe
_MOST_UNPROVEN = 1000
_LOCK = threading.Lock()


def verdict_on(recipe: str) -> Verdict | None:
    """Return the verdict on a recipe; None if there is none yet."""
    found = shared_value(f"refused {recipe}") or shared_value(f"verdict {recipe}")
    if found is None:
        return None
    facts = json.loads(found)
    return Verdict(**{**facts, "frame_seconds": tuple(facts.get("frame_seconds", (0.0, 0.0)))})


def decide(recipe: str, verdict: Verdict) -> bool:
    """Write the verdict on a recipe; return whether it is news. «Cannot be played again» is final."""
    if not verdict.repeats:
        return share_value(f"refused {recipe}", json.dumps(asdict(verdict)), may_replace=False)
    is_news = verdict_on(recipe) is None
    if is_news:
        share_value(f"verdict {recipe}", json.dumps(asdict(verdict)), may_replace=True)
    return is_news


def refuse(recipe: str, reason: str, *, differs: bool = True) -> bool:
    """Note that a clip was not made of its tape; return whether that is news.

    All env runners of the job render directly from their next round on, and the Algorithm of this process counts the
    clip in the next result.

    Args:
        differs: See ``Verdict``.
    """
    with _LOCK:
        _REFUSED[recipe] = _REFUSED.get(recipe, 0) + 1
        _SEEN.add(recipe)
    return decide(recipe, Verdict(False, reason, differs=differs))


def is_refused_here(recipe: str) -> bool:
    """Return whether this process has refused a clip of a recipe; that is known without asking the store."""
    return recipe in _SEEN


def note_unproven(recipe: str, clip: str) -> None:
    """Note that this process has handed out a clip that was made of a tape, and of which no picture was compared."""
    with _LOCK:
        _UNPROVEN.setdefault(recipe, deque(maxlen=_MOST_UNPROVEN)).append(clip)


def has_unproven(recipe: str) -> bool:
    """Return whether this process has handed out such clips of a recipe."""
    return recipe in _UNPROVEN


def take_suspects(recipe: str) -> str:
    """Return a sentence that names the clips which were handed out before a recipe was refused; empty: there are none.

    >>> note_unproven("a recipe", "0123456789abcdef")
    >>> take_suspects("a recipe")
    '1 clip that was made before, of which no picture was compared, is suspect: 01234567'
    """
    with _LOCK:
        clips = _UNPROVEN.pop(recipe, ())
    if not clips:
        return ""
    count = "1 clip that was" if len(clips) == 1 else f"{len(clips)} clips that were"
    named = ", ".join(clip[:8] for clip in clips)
    return (
        f"{count} made before, of which no picture was compared, {'is' if len(clips) == 1 else 'are'} suspect: {named}"
    )


def take_refused(recipe: str) -> int:
    """Return how many clips of a recipe were refused in this process since the last call."""
    with _LOCK:
        return _REFUSED.pop(recipe, 0)


def is_first(what: str, recipe: str) -> bool:
    """Return whether this process is the first of the Ray job to do something with a recipe, within ten minutes."""
    return share_value(f"{what} {int(time.time() // 600)} {recipe}", "", may_replace=False)
