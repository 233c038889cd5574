"""How long ``tune_media.load`` takes and how much memory it holds: python -m tests.benchmarks.bench_catalog.

A million index lines of 1,000 trials, against reading the bytes (the floor) and parsing every line into dicts (the
obvious way); then 1,000 trials of 10 clips on an S3 server that takes 50 ms a request.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from tests.benchmarks.common import serving
from tests.benchmarks.slow_s3 import BUCKET

LINE = {
    "v": 4,
    "row": 1,
    "kind": "video",
    "section": "evaluation",
    "key": "episodes/best",
    "status": "stored",
    "format": "mp4",
    "width": 600,
    "height": 400,
    "fps": 50.0,
    "bytes": 15321,
    "sha256": "0" * 64,
    "episode_length": 200,
    "env_runner": 1,
    "env_index": 0,
    "explored": False,
    "metrics": {"speed_avg": 1.25, "speed_sum": 250.0},
}


def make(folder: Path, trials: int, lines: int) -> None:
    """Write an experiment of so many trials with so many index lines each."""
    params = json.dumps({"lr": 0.1, **{f"setting_{number}": number for number in range(300)}})
    for trial in range(trials):
        media = folder / f"trial_{trial:04d}" / "media"
        media.mkdir(parents=True)
        rows = []
        for step in range(lines):
            id = f"{trial:016x}{step:016x}"
            path = f"media/evaluation/episodes/best/step_{step:09d}-{id[-12:]}.mp4"
            own = {"id": id, "path": path, "step": step, "episode_return": float(step % 97), "trial_id": f"t{trial}"}
            rows.append(json.dumps(LINE | own | {"time": 1.7e9 + step, "training_iteration": step, "frames": 201}))
        (media / "index.jsonl").write_text("\n".join(rows) + "\n")
        (media.parent / "params.json").write_text(params.replace("0.1", str(trial)))


def load_far(folder: str) -> None:
    """Load the experiment, its hyperparameters and its DataFrame from an S3 server that takes 50 ms a request."""
    import tune_media

    os.environ |= {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    with serving("-m", "tests.benchmarks.slow_s3", folder, "0.05") as (port, _):
        address = f"127.0.0.1:{port}"
        began = time.perf_counter()

        def show(name: str) -> None:
            seconds = time.perf_counter() - began
            counts = ast.literal_eval(urllib.request.urlopen(f"http://{address}/").read().decode())
            requests = ", ".join(f"{count} {method}" for method, count in counts.items())
            print(f"| {name} | {seconds:.1f} | {requests} |", flush=True)

        print("\n1,000 trials of 10 clips on S3, 50 ms a request\n\n| until | s | requests |\n|---|---|---|")
        options = f"endpoint_override={address}&scheme=http&region=us-east-1"
        catalog = tune_media.load(f"s3://{BUCKET}?{options}")
        show("loaded")
        assert catalog.differing_params == ["lr"]
        show("with hyperparameters")
        assert len(catalog.to_pandas()) == len(catalog)
        show("with metrics, as a DataFrame")


def read(folder: str) -> None:
    """The floor: read all index files."""
    sum(len(path.read_bytes()) for path in Path(folder).glob("*/media/index.jsonl"))


def parse(folder: str) -> None:
    """The obvious way: a dict a line."""
    held = [json.loads(line) for path in Path(folder).glob("*/media/index.jsonl") for line in path.open()]
    assert held


def load(folder: str) -> None:
    """Ours."""
    import tune_media

    catalog = tune_media.load(folder)
    assert catalog.best() is not None
    assert len(catalog.clips) == len(catalog)


def measure(name: str, folder: str) -> None:
    """Print the CPU seconds, seconds and peak megabytes of one method; run in a process of its own."""
    import tune_media.viewing.catalog  # noqa: F401 - importing is not reading

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began, cpu = time.perf_counter(), time.process_time()
    globals()[name](folder)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps([time.process_time() - cpu, time.perf_counter() - began, (peak - before) / 1000]))


def main() -> None:
    """Make the experiment and run each method three times, in turn."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--lines", type=int, default=1000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), options.trials, options.lines)
        found: dict[str, list[list[float]]] = {"read": [], "parse": [], "load": []}
        for _ in range(3):
            for name, rows in found.items():
                command = [sys.executable, "-m", "tests.benchmarks.bench_catalog", "--method", name, folder]
                rows.append(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
    print(f"{options.trials} trials of {options.lines} lines\n\n| method | CPU s | s | peak MB |\n|---|---|---|---|")
    for name, rows in found.items():
        cpu, wall, peak = (sorted(values)[1] for values in zip(*rows, strict=True))
        print(f"| {name} | {cpu:.1f} | {wall:.1f} | {peak:.0f} |")


def far() -> None:
    """Load 1,000 trials from an S3 server that takes 50 ms a request."""
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), 1000, 10)
        metrics = {"episode_return_mean": 3.0, "episode_len_mean": 10.0}
        results = [{"training_iteration": at, "env_runners": metrics} for at in range(10)]
        for trial in Path(folder).iterdir():
            (trial / "result.json").write_text("".join(json.dumps(result) + "\n" for result in results))
            for line in (trial / "media" / "index.jsonl").read_text().splitlines():
                clip = trial / json.loads(line)["path"]
                clip.parent.mkdir(parents=True, exist_ok=True)
                clip.touch()
        load_far(folder)


if __name__ == "__main__":
    if "--method" in sys.argv:
        measure(*sys.argv[-2:])
    elif "--far" in sys.argv:
        far()
    else:
        main()
        far()
