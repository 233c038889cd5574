"""What is known of a recipe: whether the episodes of its env can be played again, pictures included.

A verdict is held in Ray's own key-value store, so that every env runner of a job reads it: an experiment proves an env
once, not each of its trials.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass

from tune_media.ray_compat import share_value, shared_value

_CLAIM_SECONDS = 600.0  # after which a process that has decided nothing is taken for dead


@dataclass(frozen=True)
class Verdict:
    """Whether the episodes of a recipe's env can be played again.

    Attributes:
        repeats: Whether they can.
        reason: Why not; empty if they can.

    Example:
        >>> Verdict(False, "at step 3, the replay shows another picture").repeats
        False
    """

    repeats: bool
    reason: str = ""


def verdict_on(recipe: str) -> Verdict | None:
    """Return the verdict on a recipe; None if there is none yet.

    Args:
        recipe: The recipe's hash.
    """
    found = shared_value(f"verdict {recipe}")
    return None if found is None else Verdict(**json.loads(found))


def decide(recipe: str, verdict: Verdict) -> bool:
    """Write the verdict on a recipe; return whether it is news. «Cannot be played again» is final.

    Args:
        recipe: The recipe's hash.
        verdict: The verdict.
    """
    before = verdict_on(recipe)
    if before == verdict or (before is not None and not before.repeats):
        return False
    share_value(f"verdict {recipe}", json.dumps(asdict(verdict)), may_replace=True)
    return True


def claim(what: str, recipe: str) -> bool:
    """Say whether this process is the first of the Ray job to do something with a recipe, or the last did not finish.

    Args:
        what: What it does.
        recipe: The recipe's hash.
    """
    name, now = f"{what} {recipe}", time.time()
    before = shared_value(name)
    if before is not None and now - float(before) < _CLAIM_SECONDS:
        return False
    return share_value(name, repr(now), may_replace=before is not None)


def is_first(what: str, recipe: str) -> bool:
    """Say whether this is the only process of the Ray job that does something with a recipe."""
    return share_value(f"{what} {recipe}", "", may_replace=False)
