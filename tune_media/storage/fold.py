"""The valid lines of a trial's media: the fold of the lines and events in its index and in the log."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from tune_media.storage.entry import DROPPED, FAILED, ONLY_TAPE, STORED, WAITING
from tune_media.storage.index_lines import AgainEvent, BackEvent, LogLine, MediumLine

_RANK = {WAITING: 0, ONLY_TAPE: 1, FAILED: 2, DROPPED: 2, STORED: 3}


def fold(lines: Iterable[LogLine]) -> list[MediumLine]:
    """Return the valid line of each medium and key of a trial, in the order of their rows.

    The result depends only on the set of lines: neither the order nor repeats matter, and folded lines may be folded
    again, with those that they came from, or with later ones. Lines of other trials that used the folder before stay.

    - Of the lines of a medium under one key, the facts are those of the last ``try``, and then of the highest status:
      ``waiting``, ``tape``, ``failed`` or ``dropped``, ``stored``. A process that finds a stored file missing, or
      stores a medium that was given up, writes a line with one more try.
    - ``row`` is that of its first result. An event ``again`` raises ``again``; an event ``back`` raises ``undone`` if
      its iteration is not above the line's. A line is ``rolled_back`` if ``undone`` is above both.

    >>> line = MediumLine(id="a", section="train", key="k", path="x", row=3, trial_id="t1", training_iteration=2)
    >>> [line.rolled_back for line in fold([BackEvent("train_0", "t1", 5, training_iteration=2), line, line])]
    [True]
    """
    media: dict[tuple[str, str, str, str | None], MediumLine] = {}
    backs: dict[str | None, set[tuple[int, int]]] = {}
    again: dict[tuple[str | None, str], int] = {}  # the last row of ``again``, by trial and medium
    for line in lines:
        if isinstance(line, MediumLine):
            place = line.id, line.section, line.key, line.trial_id
            media[place] = _joined(media[place], line) if place in media else line
        elif isinstance(line, BackEvent):
            backs.setdefault(line.trial_id, set()).add((line.row, line.training_iteration))
        elif isinstance(line, AgainEvent):
            medium = line.trial_id, line.id
            again[medium] = max(again.get(medium, 0), line.row)
    valid = [
        _marked(line, backs.get(line.trial_id, ()), again.get((line.trial_id, line.id), 0)) for line in media.values()
    ]
    return sorted(valid, key=lambda line: line.row)


def as_failed(line: MediumLine, note: str) -> MediumLine:
    """Return the line of a stored medium whose file is not there; the fold takes it for the later one.

    >>> line = MediumLine(id="a", section="train", key="k", path="media/x.mp4", row=3, status="stored")
    >>> [(valid.status, valid.facts) for valid in fold([as_failed(line, "lost"), line])]
    [('failed', {'note': 'lost'})]
    """
    return replace(line, status=FAILED, tries=line.tries + 1, facts={**line.facts, "note": note[:500]})


def _marked(line: MediumLine, backs: Collection[tuple[int, int]], again: int) -> MediumLine:
    """Return a line with the marks that the events of its trial give it: ``undone``, ``again``, ``rolled_back``."""
    if not (backs or again or line.undone or line.again or line.rolled_back or line.trial):
        return line
    reached = line.training_iteration
    undone = max([line.undone, *(row for row, back in backs if reached is not None and back <= reached)])
    again = max(line.again, again)
    is_back = undone > max(line.row, again)
    again = again if again > line.row else 0
    return replace(line, undone=undone if is_back else 0, again=again, rolled_back=is_back, trial=None)


def _joined(line: MediumLine, other: MediumLine) -> MediumLine:
    """Return the join of two lines of one key."""
    first, last = sorted((line.row, other.row))
    again = max(line.again, other.again, last if last > first else 0)
    return replace(max(line, other, key=_order), row=first, again=again, undone=max(line.undone, other.undone))


def _order(line: MediumLine) -> tuple[int, int, str]:
    facts = replace(line, undone=0, again=0, rolled_back=False, trial=None, row=0)
    return line.tries, _RANK.get(line.status or STORED, 0), repr(sorted(facts.fields().items()))
