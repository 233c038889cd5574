"""A backend of one's own: metrics as CSV and media as files, in one folder for each trial.

python examples/own_backend.py --storage ~/ray_results --folder ~/my_logs
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path

import numpy as np
from ray import tune

import tune_media as tm


class FolderBackend(tm.Backend):
    """Writes ``<folder>/<trial>/metrics.csv`` and ``<folder>/<trial>/<section>/<key>/<iteration>-<id>.mp4``."""

    name = "folder"

    def __init__(self, folder):
        self.folder = Path(folder)

    def start(self, trial):
        (self.folder / trial.name).mkdir(parents=True, exist_ok=True)
        (self.folder / trial.name / "config.json").write_text(json.dumps(dict(trial.config), default=str))

    def metrics(self, trial, report):
        numbers = {name: float(value) for name, value in report.flat.items() if isinstance(value, (int, float))}
        with (self.folder / trial.name / "metrics.csv").open("a", newline="") as file:
            csv.writer(file).writerows((report.training_iteration, name, value) for name, value in numbers.items())

    def media(self, trial, entry):
        if entry.medium.kind not in ("histogram", "episodes"):
            name = f"{entry.training_iteration:06d}-{entry.medium.id[:8]}{entry.medium.suffix}"
            self._write(trial, f"{entry.tag}/{name}", entry.content())
        for tag, histogram in entry.histograms().items():  # of a Histogram, or of all values of a batch of episodes
            self._write(trial, f"{tag}/{entry.training_iteration:06d}.json", histogram.content())

    def end(self, trial, status):
        self._write(trial, "status.txt", status.encode())

    def _write(self, trial, path, content):
        file = self.folder / trial.name / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def train(config):
    """Report three results, each with a clip."""
    for step in range(1, 4):
        clip = tm.Video((np.full((64, 96, 3), 20 * step + t, np.uint8) for t in range(20)), fps=10)
        tune.report({"score": config["lr"] * step, "rollout": clip})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--storage", default="~/ray_results")
    parser.add_argument("--folder", default="~/my_logs")
    arguments = parser.parse_args()
    callback = tm.MediaLoggerCallback(FolderBackend(Path(arguments.folder).expanduser()))
    run_config = tune.RunConfig(
        name="own_backend", storage_path=str(Path(arguments.storage).expanduser()), callbacks=[callback]
    )
    tune.Tuner(train, param_space={"lr": tune.grid_search([0.1, 0.2])}, run_config=run_config).fit()
