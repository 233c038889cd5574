"""Reading the scalars of a TensorBoard event file: python -m tests.benchmarks.bench_event_files.

A file has 20,000 scalars under 20 tags; a second one also has 20 pictures of 1 MB. TensorBoard's raw loader only parses
the events; most scripts use its accumulator.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
from torch.utils.tensorboard import SummaryWriter

from tests.benchmarks.common import compare
from tests.support.foreign_run import run_in

SCALARS, TAGS, PICTURES = 20_000, 20, 20


def write(folder: Path, pictures: int) -> Path:
    """Write an event file."""
    random = np.random.default_rng(0)
    with SummaryWriter(str(folder)) as writer:
        for step in range(SCALARS // TAGS):
            for number in range(TAGS):
                writer.add_scalar(f"losses/loss_{number}", 1 / (step + 1), step)
        for step in range(pictures):
            writer.add_image("picture", random.integers(0, 255, (3, 600, 600), np.uint8), step)
    return folder


def curves(folder: Path, *, is_kept: bool) -> None:
    """Read the curves of a run with the cache of an earlier read, or with none."""
    if not is_kept:
        shutil.rmtree(os.environ["XDG_CACHE_HOME"], ignore_errors=True)
    assert sum(len(curve.steps) for curve in run_in(folder).curves) == SCALARS


def raw(folder: Path) -> None:
    """Parse all events with TensorBoard's raw loader."""
    (path,) = folder.iterdir()
    assert sum(1 for event in LegacyEventFileLoader(str(path)).Load() if event.summary.value) >= SCALARS


def accumulated(folder: Path) -> None:
    """Read the scalars with TensorBoard's accumulator."""
    accumulator = EventAccumulator(str(folder), {"scalars": 0, "images": 1})
    accumulator.Reload()
    assert sum(len(accumulator.Scalars(tag)) for tag in accumulator.Tags()["scalars"]) == SCALARS


def main() -> None:
    print("| 20,000 scalars | read by | ms | ms of CPU time |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as root:
        os.environ["XDG_CACHE_HOME"] = str(Path(root) / "cache")
        for name, pictures in (("alone", 0), (f"and {PICTURES} pictures", PICTURES)):
            folder = write(Path(root) / name, pictures)
            methods = {
                "tune_media": lambda folder=folder: curves(folder, is_kept=False),
                "tune_media, once more": lambda folder=folder: curves(folder, is_kept=True),
                "TensorBoard's raw loader": lambda folder=folder: raw(folder),
                "TensorBoard's accumulator": lambda folder=folder: accumulated(folder),
            }
            for method, timing in compare(methods, rounds=5).items():
                print(f"| {name} | {method} | {1000 * timing:.0f} | {1000 * timing.cpu:.0f} |", flush=True)


if __name__ == "__main__":
    main()
