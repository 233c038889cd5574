"""The index lines of a trial, held so that a million of them fit into memory: a few columns, and the lines packed."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tune_media.values.number import as_number
from tune_media.values.strict_json import parse_json, parsed_bytes
from tune_media.values.video import Video

_CODEC = "lz4"

Rows = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class MediaColumns:
    """Index lines ordered by step, section and key: hot fields as columns, the full line packed.

    >>> line = b'{"section": "train", "key": "k", "kind": "video", "step": 3, "episode_return": 1.5}'
    >>> columns = MediaColumns.of_lines([parse_json(line)])
    >>> columns.step, next(columns.lines([0]))["episode_return"]
    (array([3.]), 1.5)
    """

    section: list[str]
    key: list[str]
    kind: list[str]
    step: Numbers  # NaN: none
    episode_return: Numbers  # NaN: none
    rolled_back: npt.NDArray[np.bool_]  # the trial went back to a checkpoint before it
    packed: bytes  # the lines as JSON, compressed
    _ends: Rows  # the end of each line in the unpacked bytes

    def __len__(self) -> int:
        return len(self.step)

    @classmethod
    def of_lines(cls, lines: Sequence[dict[str, Any]]) -> MediaColumns:
        """Make columns of index lines."""
        places = [(line["section"], line["key"]) for line in lines]
        rank = {place: number for number, place in enumerate(sorted(set(places)))}
        names = [(sys.intern(section), sys.intern(key)) for section, key in rank]
        ranks = np.array([rank[place] for place in places], np.int64)
        steps = np.array([as_number(line.get("step")) for line in lines], float)
        order = np.lexsort((ranks, np.where(np.isnan(steps), 0.0, steps)))  # it keeps the order of equal ones
        ordered = order.tolist()
        returns = np.array([as_number(line.get("episode_return")) for line in lines], float)
        kinds = [sys.intern(str(line.get("kind", ""))) for line in lines]
        content, ends = bytearray(), []
        for number in ordered:
            content += parsed_bytes(lines[number])  # not kept as bytes: orjson leaves room at the end of each
            ends.append(len(content))
        return cls(
            [names[number][0] for number in ranks[order].tolist()],
            [names[number][1] for number in ranks[order].tolist()],
            [kinds[number] for number in ordered],
            steps[order],
            returns[order],
            np.array([bool(line.get("rolled_back")) for line in lines], bool)[order],
            pa.compress(content, codec=_CODEC, asbytes=True) if content else b"",  # a buffer would keep its spare room
            np.array(ends, np.int64),
        )

    def best(self, rows: Rows | None = None, sign: int = 1) -> int | None:
        """Return the row of the best clip by ``clip_rank``, or of the lowest return (``sign`` -1), or None."""
        rows = np.arange(len(self)) if rows is None else rows
        rows = rows[~np.isnan(self.episode_return[rows])]
        counts = rows[~self.rolled_back[rows]]
        rows = counts if len(counts) else rows
        of_evaluation = rows[np.array([self.section[row] == "evaluation" for row in rows], bool)]
        rows = of_evaluation if len(of_evaluation) else rows
        return int(rows[np.argmax(sign * self.episode_return[rows])]) if len(rows) else None

    def shown(self) -> list[int]:
        """Return the rows of the last and of the best clip under each section and key, the best by ``clip_rank``."""
        steps = np.where(np.isfinite(self.step), self.step, -np.inf).tolist()
        returns = np.where(np.isnan(self.episode_return), -np.inf, self.episode_return).tolist()
        places, counts = list(zip(self.section, self.key, strict=True)), (~self.rolled_back).tolist()
        ties = [row if value == -np.inf else -row for row, value in enumerate(returns)]  # the first, or the newest
        ranks = list(zip(counts, returns, ties, strict=True))
        last, best = dict(zip(places, steps, strict=True)), dict(zip(places, ranks, strict=True))
        for place, step, rank in zip(places, steps, ranks, strict=True):
            last[place], best[place] = max(last[place], step), max(best[place], rank)
        shown = enumerate(zip(places, steps, ranks, strict=True))
        return [row for row, (place, step, rank) in shown if step == last[place] or rank == best[place]]

    def newest(self, rows: Rows) -> int | None:
        """Return the row of the clip that was recorded last; of equal times the last step."""
        clips = rows[np.array([self.kind[row] == Video.kind for row in rows], bool)]
        counts = clips[~self.rolled_back[clips]]
        ordered = (counts if len(counts) else clips).tolist()  # by step
        times = [as_number(line.get("time") or 0.0) for line in self.lines(ordered)]
        return max(zip(times, ordered, strict=True), default=(0.0, None))[1]

    def lines(self, rows: Sequence[int] | Rows | None = None) -> Iterator[dict[str, Any]]:
        """Yield the whole index lines of some rows, or of all."""
        rows = range(len(self)) if rows is None else rows
        if not self.packed or not len(rows):
            return
        content = memoryview(pa.decompress(self.packed, int(self._ends[-1]), codec=_CODEC))
        for row in rows:
            begin = int(self._ends[row - 1]) if row else 0
            yield parse_json(content[begin : int(self._ends[row])])
