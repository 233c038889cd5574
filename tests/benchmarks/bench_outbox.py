"""What appending a result to the outbox costs Tune's loop: python -m tests.benchmarks.bench_outbox.

A result has 200 metrics, with and without a clip of 30 kB. 0, 1 or 5 readers do what those of the package do, with a
tracker that takes no time: they read the row, unpack it, and write down their cursor; the first one deletes what all
have passed, and brings SQLite's log into its database. The peer, the least that has to be done, is SQLite without any
reader: one insert of the same bytes, and one file for the clip. The methods take turns. Results come one at a time, as
from a few trials, and twenty at once, as from many; the time is that of the append alone.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tune_media.callbacks.outbox import STORAGE, NewRow, Outbox
from tune_media.callbacks.readers import Reader
from tune_media.values.plain import pack, pack_each, unpack

CLIP = np.random.default_rng(0).bytes(30_000)
DATA = [pack({"packed": pack_each({f"m{m}": float(m * i) for m in range(200)})[0], "step": i}) for i in range(50)]
FACTS = pack({"path": "media/evaluation/episodes/best/step_000000100-0123456789ab.mp4", "step": 100})
CHECKPOINT_SECONDS = 2.0
PATTERNS = (("a result every 10 ms", 1, 0.01, 400), ("20 results at once, every 60 ms", 20, 0.06, 60))

Append = Callable[[int], object]


class Drain(Reader):
    """Reads on, and delivers to nobody."""

    def __init__(self, name: str, outbox: Outbox) -> None:
        super().__init__(name, outbox)
        outbox.add_reader(name)
        self._at = outbox.position(name)
        self._checkpointed_at = time.monotonic()

    def turn(self) -> bool:
        rows = self._outbox.read(self._at)
        for row in rows:
            unpack(row.data)
            row.content()
            self._at = row.seq
            if self.name != STORAGE:
                self._outbox.advance(self.name, row.seq)
        if self.name == STORAGE:
            self._outbox.advance(self.name, self._at)
            while self._outbox.tidy():
                pass
            if time.monotonic() - self._checkpointed_at > CHECKPOINT_SECONDS:
                self._outbox.checkpoint()
                self._checkpointed_at = time.monotonic()
        return bool(rows)

    def failed(self, error: Exception) -> bool:
        raise error

    def finished(self) -> bool:
        return True


def least(folder: Path, with_clip: bool) -> Append:
    """Return what inserts the same bytes into a table without an index, a lock, or anybody who reads it."""
    database = sqlite3.connect(folder / "least.sqlite", isolation_level=None)
    for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "wal_autocheckpoint=0"):
        database.execute(f"PRAGMA {pragma}")
    database.execute("CREATE TABLE rows (seq INTEGER PRIMARY KEY AUTOINCREMENT, trial TEXT, kind TEXT, data BLOB)")

    def append(index: int) -> None:
        values = ["t1", "result", DATA[index % len(DATA)]]
        if with_clip:
            file = os.open(folder / uuid.uuid4().hex, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            os.write(file, CLIP)
            os.close(file)
            values += ["t1", "media", FACTS]
        marks = ",".join(["(?,?,?)"] * (len(values) // 3))
        database.execute(f"INSERT INTO rows (trial, kind, data) VALUES {marks}", values)

    return append


def ours(outbox: Outbox, readers: list[Drain], with_clip: bool) -> Append:
    """Return what appends a result to an outbox."""
    for reader in readers:
        reader.begin()

    def append(index: int) -> int:
        rows = [NewRow("t1", "result", DATA[index % len(DATA)])]
        if with_clip:
            rows.append(NewRow("t1", "media", FACTS, CLIP))
        return outbox.append(rows)

    return append


def measure(methods: dict[str, Append], at_once: int, pause: float, rounds: int) -> dict[str, list[float]]:
    """Append results in turns; return the microseconds of each append."""
    times: dict[str, list[float]] = {name: [] for name in methods}
    for round in range(rounds):
        for name, append in methods.items():
            time.sleep(pause)
            for index in range(at_once):
                started = time.perf_counter()
                append(round * at_once + index)
                times[name].append(1e6 * (time.perf_counter() - started))
    return times


def main() -> None:
    """Print the rows."""
    print("| results | clip | method | us: median | p99 | median, ratio | p99, ratio |\n|---|---|---|---|---|---|---|")
    for title, *pattern in PATTERNS:
        for with_clip in (False, True):
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                methods = {"SQLite alone": least(Path(folder), with_clip)}
                opened: list[tuple[Outbox, list[Drain]]] = []
                for count in (0, 1, 5):
                    outbox = Outbox.open(Path(folder), "/results/sweep", str(count))
                    readers = [Drain(STORAGE if index == 0 else f"tracker {index}", outbox) for index in range(count)]
                    opened.append((outbox, readers))
                    methods[f"the outbox, {count} reader{'' if count == 1 else 's'}"] = ours(outbox, readers, with_clip)
                times = measure(methods, *pattern)
                for outbox, readers in opened:
                    assert all(reader.close(60) for reader in readers)
                    outbox.close(remove=True)
            first = np.percentile(times["SQLite alone"], (50, 99))
            for name, found in times.items():
                median, late = np.percentile(found, (50, 99))
                clip = "30 kB" if with_clip else "none"
                cells = f"{median:.0f} | {late:.0f} | {median / first[0]:.2f} | {late / first[1]:.2f}"
                print(f"| {title} | {clip} | {name} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
