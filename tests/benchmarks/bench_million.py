"""Reading a sweep with a million episodes, and one with results without end: python -m tests.benchmarks.bench_million.

100 trials have 100 results of 100 episodes each; ten have 10,000 results. What is measured: ``tune_media.load`` and
``episodes()``, ``tune-media list``, and the server's answers for the page *All episodes*, with the memory of each.
The floor is DuckDB, which reads the same Parquet files. ``--folder`` keeps the experiments for the next run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path

import numpy as np

import tune_media as tm
from tests.benchmarks.bench_viewer import watching
from tests.benchmarks.common import memory_kb, short
from tests.support.recorded import make_trial
from tests.support.stores import StoredTrial
from tune_media.values.episodes import EpisodeBatch, EpisodeData

_LOADS = """
import sys, time
import tune_media as tm
began = time.perf_counter()
catalog = tm.load(sys.argv[1])
loaded = time.perf_counter()
frame = catalog.episodes()
print(len(frame), loaded - began, time.perf_counter() - loaded)
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
"""
_DUCKDB = """
import sys, time
import duckdb
began = time.perf_counter()
duckdb.sql("set enable_progress_bar = false")
files = f"{sys.argv[1]}/*/episode_data/data-*.parquet"
frame = duckdb.sql(f"select episode_return, episode_length, seed, metrics from '{files}'").df()
print(len(frame), time.perf_counter() - began)
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
"""


def make_episodes(folder: Path, trials: int, results: int, episodes: int) -> None:
    """Write a sweep with many episodes."""
    random = np.random.default_rng(1)
    for number in range(trials):
        returns = {results: 1.0}
        trial = make_trial(folder / f"trial_{number:03d}", {"lr": float(random.random()), "seed": number}, returns)
        store = StoredTrial.in_folder(trial)
        for step in range(1, results + 1):
            records = [
                tm.EpisodeRecord(
                    f"{random.integers(2**63):016x}",
                    float(random.normal(number, 5)),
                    int(random.integers(10, 200)),
                    seed=index,
                    metrics={"distance_avg": float(random.normal()), "speed_avg": float(random.normal())},
                )
                for index in range(episodes)
            ]
            data = EpisodeBatch(tuple(EpisodeData(record, {}) for record in records))
            store.add(data, "evaluation", "episodes/data", step)
        store.finish()


def make_results(folder: Path, trials: int, results: int) -> None:
    """Write a sweep whose trials have many results, as RLlib's are: some 2.5 KB each."""
    random = np.random.default_rng(1)
    for number in range(trials):
        trial = make_trial(folder / f"trial_{number}", {"lr": float(random.random())}, {1: 1.0})
        more = {f"learner_{index}": 0.5 for index in range(100)}
        with (trial / "result.json").open("w") as file:
            for iteration in range(1, results + 1):
                mean = {"episode_return_mean": float(random.normal())}
                line = {"training_iteration": iteration, "env_runners": mean, **more}
                file.write(json.dumps(line) + "\n")


def seconds_of(*words: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def told(code: str, folder: Path) -> list[float]:
    """Return the numbers that a script prints."""
    printed = subprocess.run([sys.executable, "-c", code, folder], check=True, capture_output=True, text=True).stdout
    return [float(word) for word in printed.split()]


def page_of_episodes(url: str, **query: str) -> dict:
    """Return a page of *All episodes*: the ``first`` one that has episodes, or the one of all files."""
    while True:
        with urllib.request.urlopen(f"{url}data/episodes.json?{urllib.parse.urlencode(query)}") as answer:
            page = json.load(answer)
        if page["read"] == 1 or ("first" in query and page["rows"]):
            return page
        time.sleep(0.2)


def row(name: str, *cells: object) -> None:
    print(f"| {name} | {' | '.join(map(str, cells))} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", help="keeps the experiments; default: a temporary folder")
    parser.add_argument("--trials", type=int, default=100)
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        place = Path(options.folder or stack.enter_context(tempfile.TemporaryDirectory()))
        many, long = place / "episodes", place / "results"
        if not many.exists():
            make_episodes(many, options.trials, 100, 100)
        if not long.exists():
            make_results(long, 10, 10_000)
        print(f"\n{options.trials * 10_000:,} episodes, and ten trials of 10,000 results\n")
        print("| what | seconds | MB at most |\n|---|---|---|")
        count, read, peak = told(_DUCKDB, many)
        row("DuckDB reads the Parquet files", short(read), short(peak / 1000))
        assert count == options.trials * 10_000
        count, load, frame, peak = told(_LOADS, many)
        assert count == options.trials * 10_000
        row("`tm.load`", short(load), "")
        row("`catalog.episodes()`", short(frame), short(peak / 1000))
        for _ in range(2):
            listed = seconds_of("-m", "tune_media", "list", str(many))
        row("`tune-media list`", short(listed), "")
        with watching(many) as (url, pid):
            began = time.perf_counter()
            page_of_episodes(url, first="")
            row("*All episodes*, first page", short(time.perf_counter() - began), "")
            page_of_episodes(url)
            row(
                "*All episodes*, all files read",
                short(time.perf_counter() - began),
                short(memory_kb("VmHWM", pid) / 1000),
            )
            began = time.perf_counter()
            page_of_episodes(
                url, where="return > 20 and distance_avg > 1", sort="episode_return", histogram="distance_avg"
            )
            row(
                "filtered and sorted, with a histogram",
                short(time.perf_counter() - began),
                short(memory_kb("VmHWM", pid) / 1000),
            )
        for _ in range(2):
            listed = seconds_of("-m", "tune_media", "list", str(long))
        row("`tune-media list`, ten trials of 10,000 results", short(listed), "")


if __name__ == "__main__":
    main()
