"""What is known of a recipe: whether the episodes of its env can be played again, pictures included.

A verdict is held in Ray's own key-value store, so that every env runner of a job reads it: an experiment proves an env
once, not each of its trials.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass

import ray
from ray.experimental import internal_kv

_NAMESPACE = b"tune_media"
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
    """Return the verdict on a recipe; None if there is none yet, or no Ray.

    Args:
        recipe: The recipe's hash.
    """
    found = internal_kv._internal_kv_get(_key("verdict", recipe), namespace=_NAMESPACE) if _is_there() else None
    return Verdict(**json.loads(found)) if found else None


def decide(recipe: str, verdict: Verdict) -> bool:
    """Write the verdict on a recipe; return whether it is news. «Cannot be played again» is final.

    Args:
        recipe: The recipe's hash.
        verdict: The verdict.
    """
    before = verdict_on(recipe)
    if before == verdict or (before is not None and not before.repeats) or not _is_there():
        return False
    internal_kv._internal_kv_put(_key("verdict", recipe), json.dumps(asdict(verdict)), True, namespace=_NAMESPACE)
    return True


def claim(what: str, recipe: str) -> bool:
    """Say whether this process is the first of the Ray job to do something with a recipe, or the last did not finish.

    Args:
        what: What it does.
        recipe: The recipe's hash.
    """
    if not _is_there():
        return True
    key, now = _key(what, recipe), time.time()
    before = internal_kv._internal_kv_get(key, namespace=_NAMESPACE)
    if before is not None and now - float(before) < _CLAIM_SECONDS:
        return False
    return not internal_kv._internal_kv_put(key, repr(now), before is not None, namespace=_NAMESPACE) or (
        before is not None
    )


def _is_there() -> bool:
    return bool(ray.is_initialized() and internal_kv._internal_kv_initialized())


def _key(kind: str, recipe: str) -> bytes:
    return f"{kind} {recipe}".encode()
