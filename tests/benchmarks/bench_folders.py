"""Five thousand runs of other tools in 20,000 folders, found and listed: python -m tests.benchmarks.bench_folders.

Each run has an event file, the hyperparameters in two YAML files as Isaac Lab writes them, and a folder of clips. No
score is read: the runs are 50 experiments, and are listed by name and time.
"""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
from pathlib import Path

from tests.benchmarks.common import compare, show
from tune_media.cli import main as tune_media
from tune_media.experiment.experiments import TrialFinder
from tune_media.experiment.places import folder_at

EXPERIMENTS, RUNS = 50, 100
AGENT = "".join(f"value_{number}: {number / 10}\n" for number in range(60))
ENV = "sim:\n" + "".join(f"  term_{number}:\n    func: isaaclab.x:y\n    weight: [1.0, 2.0]\n" for number in range(200))
FILES = {
    "events.out.tfevents.1700000000.host.1.0": "",
    "model_0.pt": "",
    "params/agent.yaml": AGENT,
    "params/env.yaml": ENV,
    "videos/rl-video-step-0.mp4": "",
}


def make(root: Path) -> None:
    """Write the folders."""
    for experiment in range(EXPERIMENTS):
        for run in range(RUNS):
            folder = root / f"task_{experiment}" / f"2026-01-01_{run:03}"
            for name, content in FILES.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(content)
            if run < RUNS * 0.98:
                (folder / "exported").mkdir()


def walked(root: Path) -> int:
    """Return how many files there are, with the size of each: the least that a search costs."""
    return sum(os.stat(os.path.join(path, name)).st_size >= 0 for path, _, names in os.walk(root) for name in names)  # noqa: PTH116, PTH118


def listed(root: Path) -> None:
    """List the experiments as the command does."""
    with contextlib.redirect_stdout(io.StringIO()):
        tune_media(["list", str(root)], standalone_mode=False)


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory) / "logs"
        make(root)
        folder = folder_at(root)
        folders = sum(1 for _ in os.walk(root))
        assert len(TrialFinder().find(folder).trials) == EXPERIMENTS * RUNS
        finder = TrialFinder()
        times = compare(
            {
                "os.walk, and the size of each file": lambda: walked(root),
                "runs found, with their tasks": lambda: TrialFinder().find(folder),
                "`tune-media list`": lambda: listed(root),
                "found again, as the viewer does": lambda: finder.find(folder),
            },
            rounds=5,
        )
        show(f"{EXPERIMENTS * RUNS:,} runs in {folders:,} folders", times, 1.0, "s")


if __name__ == "__main__":
    main()
