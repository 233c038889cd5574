"""Coverage, error and power of what is said of configurations: python -m tests.benchmarks.bench_statistics.

Scores are drawn from configurations whose true means are known. Beside ours stand the percentile bootstrap of the mean,
which is rliable's, SciPy's Welch test of each pair, and Tukey's test, which is of all pairs.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable, Sequence

import numpy as np
from scipy import stats

from tune_media.viewing.inference import Sample, Scores, estimate, infer
from tune_media.viewing.verdict import far_runs

Draw = Callable[[np.random.Generator, tuple[int, ...]], Scores]
FAR = -99


def collapsing(random: np.random.Generator, shape: tuple[int, ...]) -> Scores:
    """Draw runs of which one in five collapses, ten deviations below the others; their mean is zero."""
    return np.where(random.random(shape) < 0.2, -10.0, 0.0) + random.standard_normal(shape) + 2


RETURNS: dict[str, Draw] = {
    "normal": lambda random, shape: random.standard_normal(shape),
    "heavy tails (t, 3)": lambda random, shape: random.standard_t(3, shape) / 3**0.5,
    "skewed (exponential)": lambda random, shape: random.exponential(size=shape) - 1,
    "skewed (less exponential)": lambda random, shape: 1 - random.exponential(size=shape),
    "one in five collapses": collapsing,
}


def covers_bootstrap(scores: Scores, random: np.random.Generator) -> bool:
    """Return whether the percentile bootstrap's interval of the mean holds zero."""
    means = scores[random.integers(0, len(scores), (2000, len(scores)))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return bool(low <= 0 <= high)


def ours(tables: Sequence[Scores]) -> list[bool]:
    """Return which of the others are clearly worse than the first, which has the highest mean."""
    _, leads = infer([Sample(table[None, :, None]) for table in tables], best_one=0).of_one_sweep()
    return [lead.is_clear for lead in leads if lead is not None]


def welch(tables: Sequence[Scores]) -> list[bool]:
    """Return the same by SciPy's Welch test of each pair."""
    best, *others = tables
    return [stats.ttest_ind(best, other, equal_var=False).confidence_interval().low > 0 for other in others]


@functools.cache
def tukey_range(count: int, freedom: int) -> float:
    """Return how many standard errors Tukey's interval of a difference reaches."""
    return float(stats.studentized_range.ppf(0.95, count, freedom)) / 2**0.5


def tukey(tables: Sequence[Scores]) -> list[bool]:
    """Return the same by Tukey's test of all pairs, which takes one variance for all."""
    best, *others = tables
    freedom = len(tables) * (len(best) - 1)
    error = (2 * np.mean([own.var(ddof=1) for own in tables]) / len(best)) ** 0.5
    reach = tukey_range(len(tables), freedom) * error
    return [bool(best.mean() - other.mean() > reach) for other in others]


def by_seeds(tables: Sequence[Scores]) -> list[bool]:
    """Return the same over runs and evaluation seeds, for tables of the shape (runs, seeds)."""
    _, leads = infer([Sample(table[None], has_seeds=True) for table in tables], best_one=0).of_one_sweep()
    return [lead.is_clear for lead in leads if lead is not None]


def over_runs(tables: Sequence[Scores]) -> list[bool]:
    """Return the same over the runs' means alone."""
    return ours([own.mean(axis=1) for own in tables])


def shares(
    draws: Callable[[np.random.Generator], Scores], means: Sequence[float], sweeps: int, how: Sequence[Callable]
) -> list[str]:
    """Return of each method how often it is wrong, «best / worse» in percent; of unequal means, how often right."""
    cells = []
    for method in how:
        random, wrong_best, wrong_worse, right = np.random.default_rng(1), 0, 0, 0
        for _ in range(sweeps):
            tables = draws(random)
            order = sorted(range(len(means)), key=lambda at: -tables[at].mean())
            worse = method([tables[at] for at in order])
            true = [means[at] for at in order]
            wrong_worse += any(said and mean >= true[0] for said, mean in zip(worse, true[1:], strict=True))
            is_best = true[0] > max(true[1:])
            wrong_best += all(worse) and not is_best
            right += all(worse) and is_best
        error = f"{100 * wrong_best / sweeps:.1f} / {100 * wrong_worse / sweeps:.1f}"
        cells.append(f"{100 * right / sweeps:.0f}" if max(means) > sorted(means)[-2] else error)
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweeps", type=int, default=1000)
    sweeps = parser.parse_args().sweeps

    print("\n| coverage of a mean's interval, % | runs | ours (t) | percentile bootstrap | told «two kinds», % |")
    print("|---|---|---|---|---|")
    for name, draw in RETURNS.items():
        for runs in (2, 3, 5, 10):
            random = np.random.default_rng(runs)
            scores = draw(random, (sweeps, runs))
            mean = 100 * np.mean([not (found.low > 0 or found.high < 0) for found in map(estimate, scores)])
            theirs = 100 * np.mean([covers_bootstrap(own, random) for own in scores])
            told = 100 * np.mean([far_runs(own) > 0 for own in scores])
            print(f"| {name} | {runs} | {mean:.1f} | {theirs:.1f} | {told:.1f} |", flush=True)

    print(
        "\n| false «clearly the best» / any false «clearly worse», or right «best», % | sweep | ours | Welch | Tukey |"
    )
    print("|---|---|---|---|---|")
    cases = [
        *(("equal", "normal", (count, runs), [0] * count, 1) for count in (2, 4, 8, 20) for runs in (2, 3, 5)),
        ("equal", "normal", (4, 20), [0] * 4, 1),
        *(("two equal ones ahead", "normal", (4, runs), [0, 0, FAR, FAR], 1) for runs in (2, 3, 5, 10)),
        *(("these two 3 times as noisy", "normal", (4, n), [0, 0, FAR, FAR], [3, 3, 1, 1]) for n in (2, 3, 5)),
        *(("one of these 5 times as noisy", "normal", (4, n), [0, 0, FAR, FAR], [5, 1, 1, 1]) for n in (2, 3, 5)),
        *(("two equal ones ahead", name, (4, 5), [0, 0, FAR, FAR], 1) for name in list(RETURNS)[1:]),
        *(
            (f"{gap} deviations better", "normal", (count, runs), [gap, *[0] * (count - 1)], 1)
            for count, runs in ((2, 3), (4, 2), (4, 3), (4, 5), (8, 3), (20, 5))
            for gap in (2, 3)
        ),
    ]
    for what, name, (count, runs), means, spread in cases:
        scale, middle = np.broadcast_to(spread, count)[:, None], np.array(means, float)[:, None]

        def draw_runs(random, name=name, scale=scale, middle=middle, shape=(count, runs)):
            return RETURNS[name](random, shape) * scale + middle

        most = sweeps if count < 20 else sweeps // 4
        cells = " | ".join(shares(draw_runs, means, most, (ours, welch, tukey)))
        print(f"| {what} | {count} x {runs}, {name} | {cells} |", flush=True)

    print("\n| the same on equal evaluation seeds | runs x seeds | runs and seeds | runs alone |\n|---|---|---|---|")
    for runs, seeds, of_run, of_both, gap in (
        *((5, 10, 0.3, 1, 0), (5, 10, 0.3, 0, 0), (3, 5, 0.3, 1, 0), (5, 10, 1, 0, 0), (3, 10, 1, 1, 0)),
        *((5, 10, 1, 0.3, 2), (5, 40, 1, 0.3, 2), (3, 10, 1, 0.3, 3)),
    ):

        def draw_seeds(random, runs=runs, seeds=seeds, of_run=of_run, of_both=of_both, gap=gap):
            luck, own = 2 * random.standard_normal(seeds), random.standard_normal((2, 1, seeds))
            runs_own, rest = random.standard_normal((2, runs, 1)), random.standard_normal((2, runs, seeds))
            return luck + of_run * runs_own + of_both * own + rest + np.array([gap, 0])[:, None, None]

        cells = " | ".join(shares(draw_seeds, [gap, 0], sweeps, (by_seeds, over_runs)))
        what = f"deviations: runs {of_run}, configuration and seed {of_both}, seeds 2, rest 1; {gap} better"
        print(f"| {what} | {runs} x {seeds} | {cells} |", flush=True)

    print("\n| policies, one run each, on equal seeds: any false «clearly worse», % | seeds | ours |\n|---|---|---|")
    for count in (2, 4, 8, 30):
        for seeds in (10, 40):

            def draw_policies(random, count=count, seeds=seeds):
                return (2 * random.standard_normal(seeds) + random.standard_normal((count, seeds)))[:, None]

            (cell,) = shares(draw_policies, [0] * count, sweeps if count < 30 else sweeps // 2, (by_seeds,))
            print(f"| {count} equal ones | {seeds} | {cell.partition('/')[2].strip()} |", flush=True)


if __name__ == "__main__":
    main()
