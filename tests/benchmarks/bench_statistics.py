"""Coverage, error and power of what the page says of configurations: python -m tests.benchmarks.bench_statistics.

Scores are drawn from configurations whose true means are known. Beside ours stand the percentile bootstrap of the mean,
which is rliable's, and SciPy's Welch test of each pair, of which ours used to be one.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from scipy import stats

from tune_media.viewing.statistics import Scores, differences, estimate

Draw = Callable[[np.random.Generator, tuple[int, ...]], Scores]
RETURNS: dict[str, Draw] = {
    "normal": lambda random, shape: random.standard_normal(shape),
    "heavy tails (t, 3)": lambda random, shape: random.standard_t(3, shape) / 3**0.5,
    "skewed (exponential)": lambda random, shape: random.exponential(size=shape) - 1,
}


def covers_bootstrap(scores: Scores, random: np.random.Generator) -> bool:
    """Return whether the percentile bootstrap's interval of the mean holds zero."""
    means = scores[random.integers(0, len(scores), (2000, len(scores)))].mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return bool(low <= 0 <= high)


def is_sure(tables: Scores) -> bool:
    """Return whether ours calls the configuration with the highest mean surely the best."""
    ranked = tables[np.argsort(-tables.mean(axis=1))]
    return not any(one.has_zero for one in differences(list(ranked)))


def is_sure_by_welch(tables: Scores) -> bool:
    """Return whether SciPy's Welch test tells the configuration with the highest mean from each other one."""
    best, *others = tables[np.argsort(-tables.mean(axis=1))]
    return all(stats.ttest_ind(best, other, equal_var=False).confidence_interval().low > 0 for other in others)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweeps", type=int, default=1000)
    sweeps = parser.parse_args().sweeps

    print("\n| coverage of a mean's interval, % | runs | ours (t) | percentile bootstrap |\n|---|---|---|---|")
    for name, draw in RETURNS.items():
        for runs in (2, 3, 4, 5, 10):
            random = np.random.default_rng(runs)
            scores = draw(random, (sweeps, runs))
            ours = 100 * np.mean([estimate(own).has_zero for own in scores])
            theirs = 100 * np.mean([covers_bootstrap(own, random) for own in scores])
            print(f"| {name} | {runs} | {ours:.1f} | {theirs:.1f} |", flush=True)

    print("\n| «surely the best», % | sweep | ours | Welch |\n|---|---|---|---|")
    ones = np.ones(4)
    cases = [
        ("error", "normal", (4, 3), [0, 0, 0, 0], ones),
        ("error", "normal", (4, 3), [0, 0, -99, -99], ones),
        ("error", "normal", (2, 3), [0, 0], ones[:2]),
        ("error", "normal", (8, 3), [0, 0, *[-99] * 6], np.ones(8)),
        ("error, the two best are 3 times as noisy", "normal", (4, 3), [0, 0, -99, -99], [3, 3, 1, 1]),
        ("error, one is 5 times as noisy", "normal", (4, 5), [0, 0, -99, -99], [5, 1, 1, 1]),
        ("error", "heavy tails (t, 3)", (4, 4), [0, 0, -99, -99], ones),
        ("error", "skewed (exponential)", (4, 4), [0, 0, -99, -99], ones),
        ("power, two deviations better", "normal", (2, 3), [2, 0], ones[:2]),
        ("power, two deviations better", "normal", (4, 3), [2, 0, 0, 0], ones),
        ("power, two deviations better", "normal", (4, 4), [2, 0, 0, 0], ones),
        ("power, two deviations better", "normal", (4, 5), [2, 0, 0, 0], ones),
        ("power, two deviations better", "normal", (8, 3), [2, *[0] * 7], np.ones(8)),
    ]
    for what, name, (count, runs), means, spread in cases:
        drawn = RETURNS[name](np.random.default_rng(1), (sweeps, count, runs))
        scores = drawn * np.asarray(spread, float)[:, None] + np.asarray(means, float)[:, None]
        found = [100 * np.mean([claim(tables) for tables in scores]) for claim in (is_sure, is_sure_by_welch)]
        print(f"| {what} | {count} x {runs}, {name} | {found[0]:.1f} | {found[1]:.1f} |", flush=True)


if __name__ == "__main__":
    main()
