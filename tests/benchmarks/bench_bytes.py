"""Bytes that go to the storage for each byte recorded, over many syncs: python -m tests.benchmarks.bench_bytes.

The storage is a folder behind a filesystem that counts what is written to it. Tune syncs every second instead of every
ten, so that a run of 20 s has as many syncs as one of 200 s. Beside the callbacks that are named, Tune adds those of
its own CSV, JSON and TBX loggers that they do not replace. The peer is what people do without this package: a callback
that writes each clip into the trial's local folder. "No clips" is Tune alone, in bytes to the clips of the first row:
that part of each ratio is Tune's own. "On the storage" is the size of all files at the end: the least that must be
uploaded.
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path, PurePosixPath

import numpy as np
import pyarrow.fs
import ray
from fsspec.implementations.local import LocalFileOpener, LocalFileSystem
from ray import tune

import tune_media as tm

SYNC_SECONDS = 1
REPORT_SECONDS = 0.2
TRIALS = 2
FRAMES = 30  # of noise: about 100 kB
NO_CLIPS = "no clips: Tune's own files"
CLASSES = ("clips", "index", "events", "results", "experiment state")


class CountingOpener(LocalFileOpener):
    """A file whose size becomes a line of the counter file when it is closed."""

    def __init__(self, *args, counter, **keywords) -> None:
        super().__init__(*args, **keywords)
        self.counter, self.written = counter, 0

    def write(self, *args, **keywords):
        count = super().write(*args, **keywords)
        self.written += count
        return count

    def close(self):
        if not self.closed:
            line = f"{self.written}\t{self.path}\n".encode()
            descriptor = os.open(self.counter, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(descriptor, line)  # one call appends one line, whatever other processes write
            os.close(descriptor)
        return super().close()


class CountingFileSystem(LocalFileSystem):
    """Files that pass for remote; what is written is counted in a file, whichever process or pickled copy writes."""

    protocol = "counted"

    def __init__(self, counter: str, **keywords) -> None:
        super().__init__(**keywords)
        self.counter = counter

    def _open(self, path, mode="rb", block_size=None, **keywords):
        if mode == "rb":
            return super()._open(path, mode, block_size, **keywords)
        self.makedirs(self._parent(path), exist_ok=True)
        return CountingOpener(path, mode, fs=self, counter=self.counter, **keywords)


class ClipsInTheTrialFolder(tune.Callback):
    """What people do: write the clip into the trial's folder and leave its path in the result."""

    def on_trial_result(self, iteration, trials, trial, result, **info) -> None:
        path = f"clips/step_{result['training_iteration']:09d}.mp4"
        file = Path(trial.local_path) / path
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(result["clip"].content())
        result["clip"] = path


class NoClips(tune.Callback):
    def on_trial_result(self, iteration, trials, trial, result, **info) -> None:
        del result["clip"]


METHODS = {
    "ours: JSON": lambda: [tm.JsonMediaLoggerCallback()],
    "ours: JSON and TensorBoard": lambda: [tm.JsonMediaLoggerCallback(), tm.TBXMediaLoggerCallback()],
    "clips in the trial's folder": lambda: [ClipsInTheTrialFolder()],
    NO_CLIPS: lambda: [NoClips()],
}


def train(config) -> None:
    rng = np.random.default_rng(config["seed"])
    started = time.monotonic()
    for step in range(1, config["reports"] + 1):
        frames = rng.integers(0, 255, (FRAMES, 64, 96, 3), np.uint8)
        tune.report({"score": step, "clip": tm.Video(frames, fps=15)})
        time.sleep(max(0.0, started + step * REPORT_SECONDS - time.monotonic()))


def whole_name(path: str) -> str:
    """Return the path that a file has when it is whole: until then it has another name."""
    return re.sub(r"(\.[0-9a-f]{8})?\.partial$", "", path)


def class_of(path: str) -> str:
    """Return to which class of files a path of the storage belongs."""
    name = PurePosixPath(whole_name(path)).name
    if name.endswith(".mp4"):
        return "clips"
    if name == "index.jsonl" or "/.tune_media_log/" in path:
        return "index"
    if name.startswith("events.out."):  # while it is written, it has no "tfevents" in its name
        return "events"
    return "results" if name.startswith(("result.json", "progress.csv", "params.", "error.")) else "experiment state"


def run(callbacks, folder: Path, reports: int) -> dict[str, float]:
    """Run one sweep; return what was recorded and uploaded, bytes, and the number of syncs."""
    counter = folder / "written"
    storage = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(CountingFileSystem(str(counter))))
    results = tune.Tuner(
        train,
        param_space={"seed": tune.grid_search(list(range(TRIALS))), "reports": reports},
        run_config=tune.RunConfig(
            name="bytes",
            storage_path=str(folder / "storage"),
            storage_filesystem=storage,
            callbacks=callbacks,
            verbose=0,
        ),
    ).fit()
    assert not results.errors
    written: Counter[str] = Counter()
    uploads: dict[str, int] = defaultdict(int)
    for line in counter.read_text().splitlines():
        size, path = line.split("\t")
        written[class_of(path)] += int(size)
        uploads[PurePosixPath(path).name.partition("-")[0]] += 1
    clips = list((folder / "storage").rglob("*.mp4"))
    assert len(clips) in (0, TRIALS * reports)
    if any(isinstance(callback, tm.TBXMediaLoggerCallback) for callback in callbacks):
        events = [path.read_bytes() for path in (folder / "storage").rglob("events.out.tfevents.*")]
        gifs = sum(content.count(b"GIF89a") for content in events)
        assert gifs == len(clips), f"the end did not wait for {len(clips) - gifs} GIFs"
    recorded = sum(path.stat().st_size for path in clips)
    left = sum(path.stat().st_size for path in (folder / "storage").rglob("*") if path.is_file())
    # Each sync writes the file of the experiment's state once.
    syncs = uploads["experiment_state"]
    return {"recorded": recorded, "left": left, "syncs": syncs, **{name: written[name] for name in CLASSES}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reports", type=int, default=100, help="results of each trial")
    reports = parser.parse_args().reports
    os.environ["TUNE_GLOBAL_CHECKPOINT_S"] = str(SYNC_SECONDS)
    os.environ["TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S"] = "0"
    os.environ["RAY_AIR_NEW_OUTPUT"] = "0"  # no boxes around the table
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    rows = {}
    for name, make in METHODS.items():
        with tempfile.TemporaryDirectory() as folder:
            rows[name] = run(make(), Path(folder), reports)
            rows[name]["recorded"] = rows[name]["recorded"] or next(iter(rows.values()))["recorded"]
    classes = " | ".join(CLASSES)
    print(f"\n{TRIALS} trials, {reports} clips each; bytes uploaded to bytes recorded\n")
    print(f"| method | syncs | recorded, MB | uploaded, MB | ratio | on the storage | of the ratio: {classes} |")
    print("|---" * (6 + len(CLASSES)) + "|")
    for name, row in rows.items():
        sizes = [row[kind] for kind in CLASSES]
        shares = " | ".join(f"{size / row['recorded']:.3g}" for size in sizes)
        megabytes = f"{row['recorded'] / 1e6:.1f} | {sum(sizes) / 1e6:.1f}"
        ratio = f"{sum(sizes) / row['recorded']:.3g} | {row['left'] / row['recorded']:.3g}"
        print(f"| {name} | {row['syncs']} | {megabytes} | {ratio} | {shares} |")
    ray.shutdown()


if __name__ == "__main__":
    from tests.benchmarks import bench_bytes  # under its own name, as pickled copies of the filesystem need it

    bench_bytes.main()
