"""What the benchmarks share: interleaved rounds, medians, and ratios to the first of the ways compared."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


def compare(ways: dict[str, Callable[[], object]], rounds: int = 7, pause: float = 0.0) -> dict[str, float]:
    """Run each way once a round, in turn, and return its median seconds; the machine's moods hit all alike."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for way in ways.values():
        way()  # warm
    for _ in range(rounds):
        for name, way in ways.items():
            time.sleep(pause)
            started = time.perf_counter()
            way()
            times[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in times.items()}


def show(title: str, seconds: dict[str, float], unit: float = 1e3, name: str = "ms") -> None:
    """Print medians as a table, with ratios to the first."""
    first = next(iter(seconds.values()))
    print(f"\n{title}\n\n| way | {name} | ratio |\n|---|---|---|")
    for way, value in seconds.items():
        print(f"| {way} | {value * unit:.3g} | {value / first:.3g} |")
