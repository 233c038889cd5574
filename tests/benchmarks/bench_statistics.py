"""How often «clearly» is wrong, and intervals hold: python -m tests.benchmarks.bench_statistics.

Scores of many sweeps are drawn from configurations whose true means are known. *Wrong*: of 100 sweeps, in how many the
best one is called so clearly although another one is as good: all are equal, or two are and the others far behind.
*Together*: all printed differences to the best hold, of equal ones, and with one ahead by two deviations. *Found*: one
that is ahead by 1, 2, 3 deviations of a run's mean is clearly the best (of policies: of the difference of two; of
success: of a run on the logit). With ``--cells``, each cell has a line; else each group has its worst numbers.
"""

from __future__ import annotations

import argparse
import functools
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tune_media.viewing.configurations import Configuration, Run, judge
from tune_media.viewing.inference import Answer, Sample, Scores, infer

WRONG, TOGETHER = 6.0, 93.0  # percent: at most, at least
Random = np.random.Generator
ALONE, MIXED, SHARED, PLAIN = (1.0, 0.0, 0.0, 0.0), (1.0, 2.0, 1.0, 1.0), (0.3, 2.0, 1.0, 0.5), (1.0, 1.0, 0.0, 1.0)
POLICY, ODDS, COIN = (0.0, 2.0, 1.0, 1.0), (1.0, 1.0, 1.0, 0.0), (0.0, 0.0, 0.0, 0.0)
NOISIER, CAPPED = "noisier", "capped"


@dataclass(frozen=True)
class Cell:
    """One kind of sweep.

    Attributes:
        kind: How runs differ, or a success rate: ``p.8``. ``alike.6``: runs of a configuration solve the same seeds.
        runs: The number of runs of each configuration.
        seeds: The number of evaluation seeds that all share; 0: a run has one score.
        deviations: Of runs, of seeds, of a configuration on a seed, and of the rest; of success on the logit.
        few: How many of the seeds the last configuration has, if not all.
    """

    kind: str
    runs: tuple[int, ...]
    seeds: int = 0
    deviations: tuple[float, float, float, float] = ALONE
    few: int | None = None

    @property
    def is_success(self) -> bool:
        return self.kind[0] == "p" or self.kind.startswith("alike")

    @property
    def can_be_better(self) -> bool:
        """Whether a configuration can be ahead of the others."""
        return not self.kind.startswith("alike") and self.kind != "p1.0"

    @property
    def deviation(self) -> float:
        """The deviation that a better one is ahead by."""
        of_run, _, of_both, rest = self.deviations
        if self.is_success:
            return 1.0
        if max(self.runs) == 1 and self.seeds:
            return math.sqrt(2 * (of_both**2 + rest**2) / self.seeds)
        return math.sqrt(of_run**2 + (rest**2 / self.seeds if self.seeds else 0))

    def __str__(self) -> str:
        runs = f"{len(self.runs)} x {self.runs[0]}" if len(set(self.runs)) == 1 else " + ".join(map(str, self.runs))
        seeds = f"{self.seeds}, the last one {self.few}" if self.few is not None else self.seeds or "-"
        return f"{self.kind} | {runs} | {seeds} | {', '.join(f'{own:g}' for own in self.deviations)}"

    def draw(self, random: Random, gaps: Sequence[float], sweeps: int) -> list[Scores]:
        """Return a table (sweeps, runs, seeds) for each configuration, which is ahead by its gap."""
        of_run, of_seed, of_both, rest = self.deviations
        normal, columns = random.standard_normal, max(self.seeds, 1)
        runs_like, both_like = LIKE.get(self.kind, (normals, normals))
        shared = of_seed * normal((sweeps, 1, columns))
        tables = []
        for number, (count, gap) in enumerate(zip(self.runs, gaps, strict=True)):
            of_runs = of_run * runs_like(random, (sweeps, count, 1))
            of_runs *= 3 if self.kind == NOISIER and number == 0 else 1
            if self.kind == "outlier" and number == len(self.runs) - 1:
                of_runs[:, 0] += 10 * of_run * random.choice([-1, 1], (sweeps, 1))
            scores = gap + of_runs + shared + of_both * both_like(random, (sweeps, 1, columns))
            scores = scores + rest * normal((sweeps, count, columns))
            if self.kind == CAPPED:
                scores = np.minimum(scores, 0.3)
            if self.is_success:
                scores = self._succeeds(random, scores)
            if self.few is not None and number == len(self.runs) - 1:
                scores[..., self.few :] = np.nan
            tables.append(scores)
        return tables

    def _succeeds(self, random: Random, odds: Scores) -> Scores:
        """Return 0 or 1 for each episode."""
        if self.kind[0] == "p":
            rate = float(self.kind[1:])
            odds = np.exp(odds) * rate / (1 - rate) if rate < 1 else np.full(odds.shape, np.inf)
            return (random.random(odds.shape) < 1 - 1 / (1 + odds)).astype(float)
        rate, (sweeps, _, columns) = float(self.kind.removeprefix("alike")), odds.shape
        solved, other = random.random((sweeps, 1, columns)) < rate, random.random(odds.shape) < rate
        return np.where(random.random(odds.shape) < 0.05, other, solved).astype(float)

    def infer(self, tables: Sequence[Scores]) -> Answer:
        """Judge the sweeps as the package does."""
        return infer([Sample(table, self.seeds > 0) for table in tables], (0.0, 1.0) if self.is_success else None)


def normals(random: Random, shape: tuple[int, ...]) -> Scores:
    return random.standard_normal(shape)


def skewed(random: Random, shape: tuple[int, ...]) -> Scores:
    return (random.lognormal(0, 1, shape) - math.exp(0.5)) / math.sqrt((math.e - 1) * math.e)


def collapsing(random: Random, shape: tuple[int, ...]) -> Scores:
    """Draw runs of which one in five collapses."""
    return np.where(random.random(shape) < 0.2, -2.0, 0.5) + 0.25 * random.standard_normal(shape)


LIKE = {"lognormal": (skewed, skewed), "collapse": (collapsing, normals)}  # runs, and a configuration on a seed


SHARED_SEEDS = [
    *(Cell("normal", (n,) * 2, s, SHARED) for n in (2, 3, 5, 8) for s in (1, 2, 3, 5, 8, 20, 50)),
    *(Cell("normal", (n,) * 2, s, own) for own in (MIXED, PLAIN) for n in (3, 5) for s in (2, 3, 8, 20)),
    *(Cell("normal", n, s, SHARED) for n in ((3,) * 3, (5,) * 3, (5,) * 5, (5,) * 10) for s in (2, 3, 8, 20)),
]
COUNTS = ((2, 8), (2, 20), (3, 10), (2, 8, 8))
RATES = (("p.5", ODDS), ("p.8", ODDS), ("p.95", ODDS), ("p.95", COIN), ("p1.0", COIN), ("alike.6", COIN))
GROUPS: dict[str, list[Cell]] = {
    "2 to 10 configurations of 1 to 8 runs": [Cell("normal", (n,) * k) for k in (2, 3, 5, 10) for n in (1, 2, 3, 5, 8)],
    "skewed or collapsing runs, an outlier": [
        *(Cell(kind, (n,) * 2) for kind in ("lognormal", "collapse", "outlier") for n in (2, 3, 5, 8)),
        *(Cell(kind, (3,) * 3) for kind in ("lognormal", "collapse", "outlier")),
        *(Cell(kind, (5,) * 2, s, MIXED) for kind in ("lognormal", "collapse") for s in (3, 8, 20)),
    ],
    "2 or 3 runs beside 8 to 20": [
        *(Cell(kind, n) for n in COUNTS for kind in ("normal", "lognormal", "collapse")),
        *(Cell("normal", n, s, MIXED) for n in COUNTS[:3] for s in (3, 20)),
    ],
    "one configuration three times noisier": [
        *(Cell(NOISIER, (n,) * 2) for n in (2, 3, 5, 8)),
        *(Cell(NOISIER, n) for n in ((3, 3, 3), *COUNTS)),
    ],
    "returns at a cap": [
        *(Cell(CAPPED, (n,) * 2) for n in (2, 3, 5, 8)),
        Cell(CAPPED, (3,) * 3),
        *(Cell(CAPPED, (5,) * 2, s, MIXED) for s in (3, 8, 20)),
    ],
    "2 to 8 runs on one or two shared seeds": [cell for cell in SHARED_SEEDS if cell.seeds < 3],
    "2 to 8 runs on 3 to 50 shared seeds": [cell for cell in SHARED_SEEDS if cell.seeds > 2],
    "policies: one run each, on 1 to 50 seeds": [
        *(Cell("normal", (1,) * k, s, POLICY) for k in (2, 3, 5, 10) for s in (1, 2, 3, 5, 20, 50)),
        *(Cell("normal", (1,) * k, 40, POLICY) for k in (8, 30)),
        *(Cell(kind, (1, 1), s, (0.0, 1.0, 1.0, 0.0)) for kind in ("p.5", "p.8", "p.95") for s in (8, 20, 50)),
    ],
    "success of runs on 2 to 50 shared seeds": [
        *(Cell(kind, (n,) * 2, s, own) for kind, own in RATES for n in (3, 5) for s in (2, 3, 8, 20, 50)),
        *(Cell(kind, (n,) * 3, 20, own) for kind, own in RATES for n in (3, 5)),
    ],
    "20 seeds, of which the last has 1 to 3": [
        Cell("normal", (n,) * 2, 20, own, few) for n, own in ((1, POLICY), (8, SHARED)) for few in (1, 2, 3)
    ],
}
NAMED = {NOISIER: (8.0, TOGETHER), CAPPED: (WRONG, 80.0)}
"""The exceptions that the docs name: how often «clearly» may be wrong there, and how often intervals hold."""


@dataclass(frozen=True)
class Row:
    """What was seen in a cell, percent of its sweeps; NaN where there is nothing to see."""

    wrong: float
    wrong_of_two: float  # two equal ones, the others far behind
    together: float
    together_ahead: float  # one is ahead by two deviations
    means: float
    found: tuple[float, float, float]

    def is_as_said(self, cell: Cell) -> bool:
        most, least = NAMED.get(cell.kind, (WRONG, TOGETHER))
        is_rarely_wrong = not max(self.wrong, np.nan_to_num(self.wrong_of_two)) > most
        return is_rarely_wrong and not min(self.together, np.nan_to_num(self.together_ahead, nan=100)) < least


@functools.cache
def true_mean(cell: Cell, gap: float) -> float:
    """Return the true mean of a configuration that is ahead by a gap."""
    if cell.kind.startswith("alike"):
        return float(cell.kind.removeprefix("alike"))
    if not cell.is_success and cell.kind != CAPPED:
        return gap
    one = Cell(cell.kind, (1,), min(cell.seeds, 1), cell.deviations if cell.seeds else ALONE)
    return float(np.mean(one.draw(np.random.default_rng(9), [gap], 400_000)[0]))


def simulate(cell: Cell, number: int, sweeps: int) -> Row:
    """Draw sweeps of a cell and judge them."""
    count = len(cell.runs)

    def judged(gaps: Sequence[float]) -> tuple[float, float, float, float]:
        answer = cell.infer(cell.draw(np.random.default_rng([number, 1]), gaps, sweeps))
        means = np.array([true_mean(cell, gap) for gap in gaps])
        ahead, is_best = means[answer.best][:, None] - means, np.arange(count) == answer.best[:, None]
        together = np.all(_hold(answer.low, answer.high, ahead) | is_best, -1)
        has_means = np.isfinite(answer.mean_low).any()
        hold = np.mean(_hold(answer.mean_low, answer.mean_high, means)) if has_means else np.nan
        is_right = answer.is_clear & (answer.best == 0)
        return tuple(100 * float(np.mean(seen)) for seen in (answer.is_clear, together, hold, is_right))  # type: ignore[return-value]

    nothing = (math.nan,) * 4
    equal, steps = judged([0.0] * count), cell.deviation
    two = judged([0.0, 0.0, *[-4 * steps] * (count - 2)]) if count > 2 and cell.can_be_better else nothing
    better = [judged([by * steps, *[0.0] * (count - 1)]) if cell.can_be_better else nothing for by in (1, 2, 3)]
    return Row(equal[0], two[0], equal[1], better[1][1], equal[2], (better[0][3], better[1][3], better[2][3]))


def _hold(low: Scores, high: Scores, true: Scores) -> np.ndarray:
    return ~((low > true + 1e-9) | (high < true - 1e-9))


def still_training(sweeps: int, runs: int, least: float, most: float) -> float:
    """Return how often one of two configurations, which only trained longer, is called clearly better, in percent.

    The first has trained to step 1. The runs of the second are at a step between ``least`` and ``most``, all nearly the
    same. Their scores rise with the square root of the step, from 0 to 9, with a deviation of 0.5.
    """
    random = np.random.default_rng(runs)
    groups = [Configuration({"lr": n}, range(n * runs, (n + 1) * runs)) for n in range(2)]
    wrong = 0
    for _ in range(sweeps):
        steps = np.concatenate([np.ones(runs), random.uniform(least, most) * random.uniform(0.95, 1, runs)])
        scores = 9 * np.sqrt(steps) + 0.5 * random.standard_normal(2 * runs)
        _, other = judge(groups, [Run(score, step=step) for score, step in zip(scores, steps, strict=True)])
        wrong += not other.is_not_clearly_worse
    return 100 * wrong / sweeps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweeps", type=int, default=10_000)
    parser.add_argument("--cells", action="store_true", help="a line for each cell")
    options = parser.parse_args()
    number, failures, summary = 0, list[str](), list[str]()
    if options.cells:
        print("| runs | configurations | seeds | deviations | wrong | of two | together | ahead | means | found |")
        print("|---|---|---|---|---|---|---|---|---|---|")
    for name, cells in GROUPS.items():
        rows = []
        for cell in cells:
            number += 1
            rows.append(row := simulate(cell, number, options.sweeps))
            parts = [f"{row.wrong:.1f}", f"{row.wrong_of_two:.1f}"]
            parts += [f"{part:.1f}" for part in (row.together, row.together_ahead, row.means)]
            line = f"| {cell} | {' | '.join(parts)} | {' '.join(f'{part:.1f}' for part in row.found)} |"
            if options.cells:
                print(line.replace("nan", "-"), flush=True)
            if not row.is_as_said(cell):
                failures.append(f"{name}: {line.strip('| ')}")
        wrong = max(max(row.wrong, np.nan_to_num(row.wrong_of_two)) for row in rows)
        together = min(min(row.together, np.nan_to_num(row.together_ahead, nan=100)) for row in rows)
        found = np.nanmedian([row.found for row in rows], 0)
        found_text = " / ".join(f"{part:.0f}" for part in found)
        summary.append(f"| {name} | {len(rows)} | {wrong:.1f} | {together:.1f} | {found_text} |")
    print(f"\n| sweeps | cells | wrong, % | together, % | found, % |\n|---|---|---|---|---|\n{chr(10).join(summary)}")
    print("\n| the same scores after as many steps | runs | called clearly worse, % |\n|---|---|---|")
    for what, least, most in (("a third of the steps", 1 / 3, 1 / 3), ("runs that still go on", 0.0, 1.0)):
        for runs in (3, 5):
            print(f"| {what} | {runs} | {still_training(options.sweeps // 10, runs, least, most):.1f} |", flush=True)
    print("\n".join(["", *failures]) if failures else "\nAll as said.")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
