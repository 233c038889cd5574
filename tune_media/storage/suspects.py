"""Clips that may not show their episodes: their env does not repeat its episodes, and no picture of them was compared.

The log says so by an event ``suspect``, with the ``ids`` of the clips and a ``note``. ``tune-media render --episodes
suspect --storage`` plays their tapes again, and logs an event ``settled`` for those of which pictures were compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tune_media.storage.entry import FAILED, STORED
from tune_media.storage.index_lines import Line
from tune_media.values.medium import joined
from tune_media.values.video import has_pictures

SUSPECT, SETTLED = "suspect", "settled"
"""The names of the events; the first is also the field of a line that is marked."""

DOUBT = "may not show its episode, of which no picture was compared"
"""The beginning of the note of a suspect clip."""

_REMEDY = "`tune-media render EXPERIMENT --episodes suspect --storage` plays its tape again"
_MOST_CHARACTERS = 500  # of a note
_OF_THE_REASON = 250


def is_unproven(line: Mapping[str, Any]) -> bool:
    """Return whether a line is of a stored clip that was rendered from a tape, without a picture to compare.

    Example:
        >>> line = {"status": "stored", "recipe": "ab", "compared": "steps"}
        >>> is_unproven(line), is_unproven(line | {"compared": "steps, pictures"}), is_unproven({"status": "stored"})
        (True, False, False)
    """
    is_rendered = line.get("status") == STORED and isinstance(line.get("recipe"), str)
    return is_rendered and not has_pictures(line.get("compared"))


def suspect_note(reason: str) -> str:
    """Return the note of a suspect clip: why it is one, and what to do.

    Args:
        reason: Why the episodes of its env cannot be played again.

    Example:
        >>> suspect_note("at step 3, the replay has another observation").partition(":")[0]
        'may not show its episode, of which no picture was compared'
    """
    reason = reason if len(reason) <= _OF_THE_REASON else f"{reason[:_OF_THE_REASON]}…"
    return f"{DOUBT}: {reason}. {_REMEDY}"


def changes_by(event: Mapping[str, Any], line: Line) -> Line | None:
    """Return how an event ``suspect`` or ``settled`` changes the line of one of its clips; None: not at all.

    Example:
        >>> line = {"status": "stored", "recipe": "ab", "compared": "steps", "note": "cut"}
        >>> changes_by({"event": "suspect", "note": "why"}, line)
        {'suspect': True, 'note': 'why; cut'}
        >>> changes_by({"event": "settled", "compared": "steps, pictures"}, line)
        {'suspect': None, 'note': 'cut', 'compared': 'steps, pictures'}
    """
    if event["event"] == SUSPECT:
        if not is_unproven(line) or line.get(SUSPECT):
            return None
        return {SUSPECT: True, "note": (joined(event.get("note"), line.get("note")) or "")[:_MOST_CHARACTERS]}
    if line.get("status") != STORED:
        return None
    if event.get("status") == FAILED:
        return {SUSPECT: None, "status": FAILED, "note": event.get("note"), "compared": None}  # the recipe is refused
    own = str(line.get("note") or "")
    own = own.partition(f"{_REMEDY}; ")[2] if own.startswith(DOUBT) else own
    return {SUSPECT: None, "note": own or None, "compared": event.get("compared")}
