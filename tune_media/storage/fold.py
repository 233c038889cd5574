"""What is known of a trial's media: the fold of the lines and events that its index and the log hold."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tune_media.storage.entry import DELETED, DROPPED, FAILED, ONLY_TAPE, STORED, WAITING
from tune_media.storage.index_lines import Line, key_of

_RANK = {WAITING: 0, ONLY_TAPE: 1, FAILED: 2, DROPPED: 2, STORED: 3, DELETED: 4}


def fold(lines: Iterable[Line]) -> list[Line]:
    """Return the valid line of each medium and key of a trial, in the order of their rows.

    The result depends only on the set of lines: neither the order nor repeats matter, and folded lines may be folded
    again, with those that they came from, or with later ones. Lines of other trials that used the folder before stay.

    - Of the lines of a medium under one key, the facts are those of the last ``try``, and then of the highest status:
      ``waiting``, ``tape``, ``failed`` or ``dropped``, ``stored``, ``deleted``. A process that finds a stored file
      missing, or stores a medium that was given up, writes a line with one more try.
    - ``row`` is that of its first result. An event ``again`` raises ``again``; an event ``back`` raises ``undone`` if
      its iteration is not above the line's. A line is ``rolled_back`` if ``undone`` is above both.
    - An event ``deleted`` deletes the file of all lines with a lower row that name its path.

    Args:
        lines: The lines, as ``index_lines.parsed`` returns them; they are not changed.

    Example:
        >>> line = {"id": "a", "section": "train", "key": "k", "path": "media/x.mp4", "status": "stored", "row": 3}
        >>> line |= {"trial_id": "t1", "training_iteration": 2}
        >>> back = {"event": "back", "trial_id": "t1", "row": 5, "training_iteration": 2}
        >>> [line["rolled_back"] for line in fold([back, line, line])]
        [True]
    """
    known: dict[tuple[Any, ...], Line] = {}
    backs: dict[Any, set[tuple[int, int]]] = {}
    rows: dict[tuple[Any, ...], int] = {}  # the last row of ``again`` and ``deleted``, by id or path
    for line in lines:
        trial_id = line.get("trial_id")
        if "event" not in line:
            key = (*key_of(line), trial_id)
            known[key] = _joined(known[key], line) if key in known else line
        elif line["event"] == "back":
            backs.setdefault(trial_id, set()).add((line["row"], line["training_iteration"]))
        elif line["event"] in ("again", "deleted"):
            name = line["event"], trial_id, line["id" if line["event"] == "again" else "path"]
            rows[name] = max(rows.get(name, 0), line["row"])
    found = []
    for line in known.values():
        trial_id, reached = line.get("trial_id"), line.get("training_iteration")
        if not rows and trial_id not in backs and not _CHANGING & line.keys():
            found.append(line)
            continue
        own = backs.get(trial_id, ()) if isinstance(reached, int) else ()
        undone = max([line.get("undone", 0), *(row for row, iteration in own if iteration <= (reached or 0))])
        again = max(line.get("again", 0), rows.get(("again", trial_id, line["id"]), 0))
        is_deleted = rows.get(("deleted", trial_id, line["path"]), 0) > line["row"]
        is_back, again = undone > max(line["row"], again), again if again > line["row"] else 0
        new = {**line, "undone": undone if is_back else 0, "again": again, "rolled_back": is_back}
        new |= {"status": DELETED} if is_deleted else {}
        found.append({name: value for name, value in new.items() if name != "trial" and (value or name not in _MARKS)})
    return sorted(found, key=lambda line: int(line["row"]))


def as_failed(line: Line, note: str) -> Line:
    """Return the line of a stored medium whose file is not there; the fold takes it for the later one.

    >>> line = {"id": "a", "section": "train", "key": "k", "path": "media/x.mp4", "status": "stored", "row": 3}
    >>> [(one["status"], one["note"]) for one in fold([as_failed(line, "lost"), line])]
    [('failed', 'lost')]
    """
    return {**line, "status": FAILED, "note": note[:500], "try": int(line.get("try", 0)) + 1}


_MARKS = ("undone", "again", "rolled_back")  # that are left out if they say nothing
_CHANGING = frozenset((*_MARKS, "trial"))


def _joined(one: Line, other: Line) -> Line:
    """Return the join of two lines of one key."""
    best = max(one, other, key=_order)
    row = min(one["row"], other["row"])
    later = max(one["row"], other["row"])
    again = max(one.get("again", 0), other.get("again", 0), later if later > row else 0)
    return {**best, "row": row, "again": again, "undone": max(one.get("undone", 0), other.get("undone", 0))}


def _order(line: Line) -> tuple[int, int, str]:
    tries, status = line.get("try", 0), line.get("status", STORED)
    text = repr(sorted((name, value) for name, value in line.items() if name not in (*_MARKS, "trial", "row")))
    return tries, _RANK.get(status, 0), text
