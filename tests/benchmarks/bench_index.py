"""Bytes that go to the storage besides the media, with many small media: python -m tests.benchmarks.bench_index.

One trial reports 2,000 media of 1 kB as fast as it can. The storage is a folder behind a filesystem that counts what is
written to it; it reports itself as remote. In the backlog, it takes nothing until the trial has ended.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import pyarrow.fs
from fsspec.implementations.local import LocalFileSystem

import tune_media as tm
from tests.benchmarks.bench_bytes import CountingFileSystem, class_of, whole_name
from tests.support.fake_trial import FakeTrial

MEDIA, BACKLOG = 2000, 1000
METHODS = {
    "one after the other": (MEDIA, False),
    "a backlog at the trial's end": (BACKLOG, True),
}


class ClosedAtFirst(CountingFileSystem):
    """Writes wait until the storage is open."""

    is_open = threading.Event()

    def _open(self, path, mode="rb", block_size=None, **keywords):
        if mode != "rb":
            self.is_open.wait()
        return super()._open(path, mode, block_size, **keywords)


def run(count: int, closed: bool, folder: Path, local: bool) -> tuple[Counter, float]:
    """Log ``count`` results, each with a medium; return the bytes written by class of file, and seconds."""
    counter = folder / "written"
    ClosedAtFirst.is_open = threading.Event()
    if not closed:
        ClosedAtFirst.is_open.set()
    handler = pyarrow.fs.FSSpecHandler(ClosedAtFirst(str(counter)))
    trial = FakeTrial(folder, filesystem=pyarrow.fs.PyFileSystem(handler))
    ClosedAtFirst.protocol = LocalFileSystem.protocol if local else "counted"  # by which the storage is told
    callback = tm.JsonMediaLoggerCallback()
    started = time.perf_counter()
    callback.log_trial_start(trial)
    for step in range(1, count + 1):
        medium = tm.Artifact(step.to_bytes(4, "big") * 250, name="clip.bin")
        callback.log_trial_result(step, trial, {"training_iteration": step, "timesteps_total": step, "clip": medium})
    callback.log_trial_end(trial)
    ClosedAtFirst.is_open.set()
    callback.on_experiment_end([trial])
    seconds = time.perf_counter() - started
    written: Counter[str] = Counter()
    for line in counter.read_text().splitlines():
        size, path = line.split("\t")
        written["media" if whole_name(path).endswith(".bin") else class_of(path)] += int(size)
    return written, seconds


def main() -> None:
    print("| method | storage | media, MB | index, MB | index to media | seconds |\n|---|---|---|---|---|---|")
    for local in (False, True):
        for name, (count, closed) in METHODS.items():
            with tempfile.TemporaryDirectory() as folder:
                written, seconds = run(count, closed, Path(folder), local)
            media, index = written["media"] / 1e6, written["index"] / 1e6
            where = "this machine" if local else "remote"
            print(f"| {name} | {where} | {media:.2f} | {index:.2f} | {index / media:.2f} | {seconds:.1f} |")


if __name__ == "__main__":
    main()
