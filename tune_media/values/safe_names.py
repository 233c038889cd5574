"""Turns names that users choose into names that a filesystem or a tracker accepts."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable


def safe_name(name: str, allowed: str = "_.=-", max_length: int | None = None) -> str:
    """Replace all but ASCII letters, digits and ``allowed`` by ``_``; a longer name ends in a digest of the whole."""
    clean = re.sub(rf"[^0-9A-Za-z{re.escape(allowed)}]", "_", name)
    if max_length is None or len(clean) <= max_length:
        return clean
    digest = name_digest(name)[:8]
    return f"{clean[: max_length - len(digest) - 1]}-{digest}"


def name_digest(name: str) -> str:
    """Return twelve hexadecimal digits that depend on the whole name, whatever characters it has."""
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def full_name(name: str, known: Iterable[str]) -> str | None:
    """Return the name that is meant by a name or by its last part, the first one that fits; None if none does.

    >>> full_name("gravity", ["env/gravity", "lr"]), full_name("lr", ["model/lr", "lr"]), full_name("x", ["lr"])
    ('env/gravity', 'lr', None)
    """
    names = list(known)
    return name if name in names else next((candidate for candidate in names if candidate.endswith(f"/{name}")), None)


def shown_names(trial: str) -> tuple[str, str]:
    """Return the names that the page shows of a trial: without hyperparameters and time, and of that the id alone.

    >>> shown_names("sweep/PPO_CartPole_a1b2c_00003_3_lr=0.1_2026-11-26_10-00-00"), shown_names("mine")
    (('PPO_CartPole_a1b2c_00003', 'a1b2c_00003'), ('mine', 'mine'))
    """
    last = trial.rpartition("/")[2]
    match = re.match(r"(.+_[0-9a-f]{5}_\d{5})_\d+_", last)
    name = match[1] if match else last
    id = re.fullmatch(r".+_([0-9a-f]{5}_\d{5})", name)
    return name, id[1] if id else name
