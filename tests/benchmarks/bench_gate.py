"""Errors, power and seeds of `tune-media gate`: python -m tests.benchmarks.bench_gate.

Scores are drawn for pairs whose true difference is known: at the margin, where each verdict is an error; none at all,
where a pass is right; and twice the margin, where «worse» is right. The families from «heavy tails» on were not looked
at while the bets were chosen. Beside ours stands the paired t test of a fixed number of seeds, which may be looked at
once; and the same test looked at after each seed, which is what a loop around it does.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from scipy import special, stats

from tune_media.evaluation.sequential import PASS, WORSE, Margin, standing
from tune_media.viewing.statistics import Scores

SEEDS, MARGIN = 300, 1.0
Bounds = tuple[float, float] | None
Draw = Callable[[np.random.Generator, tuple[int, int]], tuple[Scores, Scores]]


def alike(one: Callable[[np.random.Generator, tuple[int, int]], Scores], common: float = 0.0) -> Draw:
    """Return pairs of draws, with something in common on each seed, of differences with deviation 5."""

    def draw(random: np.random.Generator, shape: tuple[int, int]) -> tuple[Scores, Scores]:
        seed = common * random.standard_normal(shape)
        return tuple(30 + seed + 5 / 2**0.5 * one(random, shape) for _ in range(2))  # type: ignore[return-value]

    return draw


RETURNS: dict[str, Draw] = {
    "normal": alike(lambda random, shape: random.standard_normal(shape)),
    "normal, equal seeds (correlation 0.5)": alike(lambda random, shape: random.standard_normal(shape), 3.5),
    "heavy tails (t, 3)": alike(lambda random, shape: random.standard_t(3, shape) / 3**0.5),
    "skewed (exponential)": alike(lambda random, shape: random.exponential(size=shape) - 1),
    "skewed the other way": alike(lambda random, shape: 1 - random.exponential(size=shape)),
    "bounded (uniform)": alike(lambda random, shape: 12**0.5 * (random.random(shape) - 0.5)),
    "two heights": alike(lambda random, shape: 2.0 * (random.random(shape) < 0.5) - 1),
}
RATES = (0.05, 0.5, 0.95, 1.0)


def verdicts(
    base: Scores, candidate: Scores, margin: float, bounds: tuple[float, float] | None
) -> tuple[Scores, Scores]:
    """Return for each gate 1, -1 or 0 for pass, worse and undecided, and the seeds that it took."""
    found = [standing(*pair, Margin(margin), bounds) for pair in zip(base, candidate, strict=True)]
    numbers = {PASS: 1, WORSE: -1}
    return np.array([numbers.get(one.verdict, 0) for one in found]), np.array([one.seeds for one in found])


def looked_at_each_seed(differences: Scores, margin: float) -> float:
    """Return how often a t test at 5 % says «not worse» after some seed, from the fifth on."""
    counts = np.arange(1, differences.shape[1] + 1)
    means = np.cumsum(differences, axis=1) / counts
    squares = np.cumsum(differences**2, axis=1) / counts - means**2
    with np.errstate(divide="ignore", invalid="ignore"):
        values = (means + margin) / np.sqrt(np.maximum(squares, 0) / np.maximum(counts - 1, 1))
    return float(np.mean(np.any(values[:, 4:] > stats.t.ppf(0.95, counts[4:] - 1), axis=1)))


def fixed_seeds(deviation: float, margin: float, power: float = 0.8) -> int:
    """Return the seeds of a t test at 5 % that passes an equal candidate with this power."""
    seeds = 5
    while stats.nct.sf(stats.t.ppf(0.95, seeds - 1), seeds - 1, margin / deviation * seeds**0.5) < power:
        seeds += 1
    return seeds


def row(
    name: str, draw: Callable[[float], tuple[Scores, Scores]], margin: float, bounds: tuple[float, float] | None
) -> str:
    """Return a line of the table; ``draw`` takes the candidate's true difference."""
    edge, _ = verdicts(*draw(-margin), margin, bounds)
    base, candidate = draw(0.0)
    equal, seeds = verdicts(base, candidate, margin, bounds)
    worse, of_worse = verdicts(*draw(-2 * margin), margin, bounds)
    better, of_better = verdicts(*draw(margin), margin, bounds)
    passes = np.sort(np.where(equal == 1, seeds, 10**9))
    at_80 = passes[int(0.8 * len(passes)) - 1]
    share = "-" if at_80 == 10**9 else f"{100 * np.mean(np.minimum(seeds, at_80)) / at_80:.0f}"
    ours, theirs = draw(-margin)
    cells = [
        name,
        f"{100 * np.mean(edge == 1):.1f}",
        f"{100 * np.mean(edge == -1):.1f}",
        f"{100 * looked_at_each_seed(theirs - ours, margin):.0f}",
        f"{100 * np.mean(equal == 1):.0f} after {np.mean(seeds):.0f}",
        f"{100 * np.mean(worse == -1):.0f} after {np.mean(of_worse):.0f}",
        f"{100 * np.mean(better == 1):.0f} after {np.mean(of_better):.0f}",
        f"{fixed_seeds(float(np.std(candidate - base)), margin)}" if np.std(candidate - base) > 0 else "-",
        "-" if at_80 == 10**9 else str(at_80),
        share,
    ]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gates", type=int, default=2000)
    gates = parser.parse_args().gates
    shape = (gates, SEEDS)
    print(
        "| | at the margin: passes, % | says worse, % | a t test at each seed passes, % | equal: passes, % | twice the "
        "margin worse: says so, % | better by the margin: passes, % | seeds of a fixed test with 80 % | ours with 80 % "
        "| mean of ours, % of these |\n|---|---|---|---|---|---|---|---|---|---|"
    )
    for name, draw in RETURNS.items():
        random = np.random.default_rng(0)

        def returns(difference: float) -> tuple[Scores, Scores]:
            base, candidate = draw(random, shape)  # noqa: B023 - it is called before the next one
            return base, candidate + difference

        print(row(name, returns, MARGIN, None), flush=True)
    for rate in RATES:
        for correlation in (0.0, 0.7):
            random = np.random.default_rng(0)

            def successes(difference: float) -> tuple[Scores, Scores]:
                seed = correlation**0.5 * random.standard_normal(shape)  # noqa: B023
                own = (1 - correlation) ** 0.5  # noqa: B023
                rates = (rate, min(1.0, max(0.0, rate + difference)))  # noqa: B023
                found = [seed + own * random.standard_normal(shape) < special.ndtri(one) for one in rates]  # noqa: B023
                return found[0].astype(float), found[1].astype(float)

            print(row(f"success {rate}, correlation {correlation}", successes, 0.05, (0.0, 1.0)), flush=True)
    same = RETURNS["normal"](np.random.default_rng(0), shape)[0]
    found, seeds = verdicts(same, same, MARGIN, None)
    print(f"\nA policy against itself: {100 * np.mean(found == 1):.0f} % pass after {np.mean(seeds):.0f} seeds.")


if __name__ == "__main__":
    main()
