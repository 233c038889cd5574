"""Clips that may not show their episodes: their env does not repeat its episodes, and no picture of them was compared.

Their lines say so: ``suspect``, with a ``note``. ``tune-media render --episodes suspect --storage`` plays their tapes
again, and logs a line without it for those of which pictures were compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tune_media.storage.entry import FAILED, STORED
from tune_media.storage.index_lines import Line
from tune_media.values.medium import joined
from tune_media.values.video import has_pictures

SUSPECT = "suspect"
"""The field of a line that is marked, and the kind of a row in the outbox."""

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


def as_suspect(line: Line, note: str) -> Line | None:
    """Return the line of a clip as that of a suspect one; None if it is one already, or need not be.

    Example:
        >>> as_suspect({"status": "stored", "recipe": "ab", "compared": "steps", "note": "cut"}, "why")["note"]
        'why; cut'
    """
    if not is_unproven(line) or line.get(SUSPECT):
        return None
    return {**line, SUSPECT: True, "note": (joined(note, line.get("note")) or "")[:_MOST_CHARACTERS]}


def as_settled(line: Line, compared: str) -> Line:
    """Return the line of a suspect clip as that of one whose pictures were compared.

    Example:
        >>> line = as_suspect({"status": "stored", "recipe": "ab", "note": "cut"}, suspect_note("why"))
        >>> as_settled(line, "steps, pictures")
        {'status': 'stored', 'recipe': 'ab', 'note': 'cut', 'compared': 'steps, pictures'}
    """
    own = str(line.get("note") or "")
    own = own.partition(f"{_REMEDY}; ")[2] if own.startswith(DOUBT) else own
    found = {name: value for name, value in line.items() if name not in (SUSPECT, "note")}
    return {**found, **({"note": own} if own else {}), "compared": compared}


def as_failed(line: Line, note: str) -> Line:
    """Return the line of a stored medium whose file is not there, or does not show its episode."""
    found = {name: value for name, value in line.items() if name not in (SUSPECT, "compared")}
    return {**found, "status": FAILED, "note": note[:_MOST_CHARACTERS], "try": int(line.get("try", 0)) + 1}
