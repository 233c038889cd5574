"""What the benchmarks share: interleaved rounds, medians with their spread, and ratios to the first method."""

from __future__ import annotations

import contextlib
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any


class Timing(float):
    """The median seconds of a method, and all of its rounds; CPU time is that of all threads and ended processes."""

    rounds: tuple[float, ...]
    cpu: float
    cpu_rounds: tuple[float, ...]

    @classmethod
    def of(cls, rounds: list[float], cpu: list[float]) -> Timing:
        timing = cls(statistics.median(rounds))
        timing.rounds, timing.cpu, timing.cpu_rounds = tuple(rounds), statistics.median(cpu), tuple(cpu)
        return timing

    def middle_half(self) -> tuple[float, float]:
        """Return the first and the third quartile, seconds."""
        if len(self.rounds) < 2:
            return float(self), float(self)
        low, _, high = statistics.quantiles(self.rounds, n=4, method="inclusive")
        return low, high

    def ratio(self, first: Timing) -> float:
        """Return the median of its ratios to another method, taken round by round."""
        return statistics.median(own / other for own, other in zip(self.rounds, first.rounds, strict=True))

    def cpu_ratios(self, first: Timing) -> tuple[float, float, float]:
        """Return the quartiles of its ratios of CPU time to another method, taken round by round."""
        ratios = [own / other for own, other in zip(self.cpu_rounds, first.cpu_rounds, strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
        return low, middle, high


def compare(
    methods: Mapping[str, Callable[[], Any]],
    rounds: int = 7,
    pause: float = 0.0,
    times_a_round: Mapping[str, int] = MappingProxyType({}),
    *,
    for_work: float | None = None,
) -> dict[str, Timing]:
    """Run each method once a round, in turn, so that other work on the machine slows all of them alike.

    Each runs once before the first round. ``pause``: seconds before each run. ``times_a_round``: how often a method
    runs in each round, if not once; the mean of these counts. ``for_work``: each method returns how much work it did,
    and the times are those for this much.
    """
    times: dict[str, list[float]] = {name: [] for name in methods}
    cpu: dict[str, list[float]] = {name: [] for name in methods}
    for method in methods.values():
        method()  # warm
    for _ in range(rounds):
        for name, method in methods.items():
            time.sleep(pause)
            count = times_a_round.get(name, 1)
            used, started = _cpu(), time.perf_counter()
            work = [method() for _ in range(count)]
            parts = count if for_work is None else sum(work) / for_work
            times[name].append((time.perf_counter() - started) / parts)
            cpu[name].append((_cpu() - used) / parts)
    return {name: Timing.of(times[name], cpu[name]) for name in methods}


def show(
    title: str,
    seconds: Mapping[str, float],
    unit: float = 1e3,
    name: str = "ms",
    more: Mapping[str, Mapping[str, object]] | None = None,
) -> None:
    """Print medians as a table, with ratios to the first method.

    ``unit``: units in a second, called ``name``. ``more``: further columns, with a cell for each method.
    """
    first = next(iter(seconds.values()))
    extra = list(more or {})
    head = ["method", name, "middle half", "ratio", f"CPU {name}", "CPU ratio", *extra]
    print(f"\n{title}\n\n| {' | '.join(head)} |\n{'|---' * len(head)}|")
    for method, value in seconds.items():
        low = high = cpu = cpu_ratio = ""
        ratio = value / first
        if isinstance(value, Timing) and isinstance(first, Timing):
            low, high = (short(quartile * unit) for quartile in value.middle_half())
            cpu, ratio = short(value.cpu * unit), value.ratio(first)
            cpu_ratio = f"{value.cpu / first.cpu:.3g}"
        cells = [method, short(value * unit), f"{low} to {high}" if low else "", f"{ratio:.3g}", cpu, cpu_ratio]
        cells += [str((more or {})[column].get(method, "")) for column in extra]
        print(f"| {' | '.join(cells)} |", flush=True)


def short(value: float) -> str:
    """Return a number with three digits that count.

    Example:
        >>> short(2704.2), short(0.012345)
        ('2700', '0.0123')
    """
    return f"{float(f'{value:.3g}'):g}"


def copy_of(clip: Any) -> Any:
    """Return a clip that differs in its id alone."""
    from tune_media.values.medium import new_id  # bench_evaluation measures imports

    copy = clip.of_episode(None)
    copy.reidentify(new_id(), None)
    return copy


def memory_kb(name: str, pid: int | str = "self") -> int:
    """Return a size of a process's memory: ``VmRSS`` is what is resident, ``VmHWM`` the most that ever was."""
    return int(Path(f"/proc/{pid}/status").read_text().split(f"{name}:")[1].split()[0])


def cpu_seconds(process: int | str) -> float:
    """Return the CPU time that a process has used, or a thread: ``self/task/ID``."""
    return sum(map(int, _stat(process)[11:13])) / os.sysconf("SC_CLK_TCK")


def family(root: int | None = None) -> set[int]:
    """Return the ids of a process, by default this one, and of all below it."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            parents[int(path.name)] = int(_stat(path.name)[1])
    found = {os.getpid() if root is None else root}
    while more := {process for process, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _stat(process: int | str) -> list[str]:
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


@contextlib.contextmanager
def serving(*arguments: str) -> Iterator[tuple[int, int]]:
    """Run a server with this Python; yield its port, which it prints, and its process id."""
    with subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline()), server.pid
        finally:
            server.kill()


def _cpu() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
