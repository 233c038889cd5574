"""How long the table of a million episodes takes: python -m tests.benchmarks.bench_episodes.

100 trials have 100 reports each, of 100 episodes with 40 metrics: 10,000 Parquet files, which are hard links to a few.
The server runs in a process of its own; the table is asked for by HTTP, as the page asks.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.bench_viewer import watching
from tests.benchmarks.common import cpu_seconds, memory_kb

METRICS = 40
QUESTIONS = {
    "first page": {},
    "filter": {"where": "return < 20 and distance_3 > 1"},
    "filter and sort": {"where": "return < 20 and distance_3 > 1", "sort": "length", "histogram": "length"},
    "sort all": {"sort": "return", "descending": 1, "histogram": "return"},
    "sort by trial": {"sort": "trial"},
    "words": {"where": "trial_0007 or lr=0.001..0.01"},
}


def make(folder: Path, trials: int, reports: int, episodes: int) -> None:
    """Write the experiment."""
    import tune_media as tm
    from tests.support.stores import StoredTrial
    from tune_media.values.episodes import EpisodeBatch, EpisodeData

    noise = np.random.default_rng(0)
    for trial in range(trials):
        path = folder / f"trial_{trial:04d}"
        path.mkdir(parents=True)
        (path / "params.json").write_text(json.dumps({"lr": 10.0 ** -noise.uniform(1, 5), "seed": trial % 5}))
        (path / "result.json").write_text(json.dumps({"training_iteration": 1, "episode_return_mean": trial}) + "\n")
        if trial:
            source, text = folder / "trial_0000", (folder / "trial_0000" / "media" / "index.jsonl").read_text()
            (path / "media").mkdir()
            (path / "episode_data").mkdir()
            (path / "media" / "index.jsonl").write_text(text.replace("id_trial_0000", f"id_{path.name}"))
            for file in (source / "episode_data").iterdir():
                os.link(file, path / "episode_data" / file.name)
            continue
        store = StoredTrial.in_folder(path)
        for step in range(1, reports + 1):
            records = [
                tm.EpisodeRecord(
                    f"{step:03d}{number:03d}",
                    float(noise.normal(50, 30)),
                    int(noise.integers(10, 500)),
                    seed=number,
                    metrics={f"distance_{name}": float(noise.normal()) for name in range(METRICS)},
                )
                for number in range(episodes)
            ]
            store.add(EpisodeBatch(tuple(EpisodeData(record, {}) for record in records)), "evaluation", "x/data", step)
        store.finish()


def ask(url: str, pid: int, question: dict[str, Any]) -> tuple[dict[str, Any], float, float, int]:
    """Return the answer, its wall time and the server's CPU time in ms, and its size in kB."""
    began, before = time.perf_counter(), cpu_seconds(pid)
    content = urllib.request.urlopen(f"{url}data/episodes.json?{urllib.parse.urlencode(question)}").read()
    wall, used = time.perf_counter() - began, cpu_seconds(pid) - before
    return json.loads(content), wall * 1e3, used * 1e3, len(content) // 1000


def main() -> None:
    """Make the experiment and ask."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--reports", type=int, default=100)
    parser.add_argument("--episodes", type=int, default=100)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        if not list(folder.glob("trial_*")):
            make(folder, options.trials, options.reports, options.episodes)
        with watching(folder) as (url, pid):
            urllib.request.urlopen(url + "data/index.json").read()
            began = time.perf_counter()
            found, wall, used, size = ask(url, pid, {})
            print(f"first answer: {wall:.0f} ms, {len(found['rows'])} rows of {found['total']} read so far, {size} kB")
            while found["read"] < 1:
                found = ask(url, pid, {})[0]
            print(
                f"all {found['total']} read after {time.perf_counter() - began:.1f} s, {cpu_seconds(pid):.1f} s of CPU"
            )
            print(memory_kb("VmRSS", pid), "kB resident")
            print("\n| question | ms | least | CPU ms of the server | kB |\n|---|---|---|---|---|")
            for name, question in QUESTIONS.items():
                answers = [ask(url, pid, question) for _ in range(5)]
                walls = sorted(wall for _, wall, _, _ in answers)
                _, _, used, size = answers[-1]
                print(f"| {name} | {walls[len(walls) // 2]:.0f} | {walls[0]:.0f} | {used:.0f} | {size} |")


if __name__ == "__main__":
    main()
