"""Errors, power and seeds of `tune-media gate`: python -m tests.benchmarks.bench_gate.

Scores are drawn for pairs whose true difference is known: at the margin, where each verdict is an error; none at all,
where a pass is right; and twice the margin, where «worse» is right. The test was chosen on other families than these.
Beside ours stand a paired t test of a fixed number of seeds, which may be looked at once, and a group-sequential one
(20 looks at a level that holds 5 % over all of them for normal returns). Ours is divided by the fixed test's seeds.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable

import numpy as np
from scipy import special, stats

from tune_media.evaluation import sequential
from tune_media.evaluation.sequential import PASS, WORSE, Margin
from tune_media.viewing.inference import Scores

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


def verdicts(base: Scores, candidate: Scores, margin: float | None, bounds: Bounds) -> tuple[Scores, Scores]:
    """Return for each gate 1, -1 or 0 for pass, worse and undecided, and the seeds that it took."""
    said, seeds = sequential.verdicts(base, candidate, None if margin is None else Margin(margin), bounds)
    numbers = {PASS: 1, WORSE: -1}
    return np.array([numbers.get(one, 0) for one in said]), np.array(seeds)


LOOKS = np.arange(SEEDS // 20, SEEDS + 1, SEEDS // 20)


def t_values(differences: Scores) -> Scores:
    """Return the t statistics of the means after each look."""
    counts = np.arange(1, differences.shape[1] + 1)
    means = np.cumsum(differences, axis=1) / counts
    squares = np.cumsum(differences**2, axis=1) / counts - means**2
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray((means / np.sqrt(np.maximum(squares, 1e-30) / np.maximum(counts - 1, 1)))[:, LOOKS - 1])


@functools.cache
def level_of_a_look() -> float:
    """Return the level of each look that holds 5 % over all of them, for normal returns."""
    values = t_values(np.random.default_rng(9).normal(size=(20_000, SEEDS)))
    return float(np.quantile(stats.t.sf(values, LOOKS - 1).min(axis=1), 0.05))


def by_groups(differences: Scores) -> float:
    """Return how often the group-sequential t test says «not worse», in percent; differences to the margin."""
    passes = t_values(differences) > stats.t.isf(level_of_a_look(), LOOKS - 1)
    return 100 * float(np.mean(np.any(passes, axis=1)))


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
    ours, theirs = draw(-margin)
    fixed = fixed_seeds(float(np.std(candidate - base)), margin) if np.std(candidate - base) > 0 else None
    cells = [
        name,
        f"{100 * np.mean(edge == 1):.1f}",
        f"{100 * np.mean(edge == -1):.1f}",
        f"{by_groups(theirs - ours + margin):.0f}",
        f"{100 * np.mean(equal == 1):.0f} after {np.mean(seeds):.0f}",
        f"{100 * np.mean(worse == -1):.0f} after {np.mean(of_worse):.0f}",
        f"{100 * np.mean(better == 1):.0f} after {np.mean(of_better):.0f}",
        "-" if fixed is None else str(fixed),
        "-" if at_80 == 10**9 else str(at_80),
        "-" if at_80 == 10**9 or fixed is None else f"{100 * np.mean(np.minimum(seeds, at_80)) / fixed:.0f}",
    ]
    return "| " + " | ".join(cells) + " |"


def of_five_percent(gates: int) -> None:
    """Print how many seeds a gate with ``--margin 5%`` takes, which plays at most 200, for returns around 100."""
    print(
        "\n| deviation, in margins | equal: passes, % | after seeds | twice the margin worse: says so, % | after seeds "
        "| at the margin: one of ten gates passes, % |\n|---|---|---|---|---|---|"
    )
    shape, margin = (gates, 200), 5.0
    for deviation in (0.5, 1.0, 2.0, 4.0):
        cells = [f"{deviation:g}"]
        random = np.random.default_rng(0)
        for loss, verdict in ((0.0, 1), (2 * margin, -1), (margin, 1)):
            base, noise = (random.standard_normal(shape) * deviation * margin / 2**0.5 for _ in range(2))
            found, seeds = verdicts(100 + base, 100 + noise - loss, margin, None)
            share = np.mean(found == verdict)
            if loss == margin:
                cells.append(f"{100 * (1 - (1 - share) ** 10):.0f}")
            else:
                cells += [f"{100 * share:.0f}", f"{np.mean(seeds):.0f}"]
        print("| " + " | ".join(cells) + " |", flush=True)


RARE = {  # margin, mean, deviation, and what a failed episode returns
    "Acrobot": (0.1, -80.0, 15.0, -500.0),
    "Acrobot, more": (0.2, -80.0, 15.0, -500.0),  # it never swings up: 500 steps
    "Reach": (0.2, -5.0, 1.0, -50.0),  # it never arrives: the distance of each step is a cost
    "Pendulum": (0.2, -150.0, 80.0, -1400.0),  # it never swings up
    "Walker": (0.05, 300.0, 5.0, -100.0),  # it falls: -100
    "Lander": (0.05, 250.0, 25.0, -250.0),  # a crash at speed, beyond the -100 of a soft one
    "steady": (0.05, 100.0, 1.0, -100.0),  # as far below zero as its returns are above
    "CartPole": (0.05, 500.0, 0.0, 10.0),  # it falls at once; else always the cap
    "Hopper": (0.05, 3000.0, 60.0, 150.0),  # it trips in the first strides
}
EARLIER = (0, 50, 100, 300)  # evaluation episodes of each side


def in_parts(base: Scores, candidate: Scores, margin: Margin | None, lowest: Scores) -> tuple[Scores, Scores]:
    """Return for each gate whether it passes, and the seeds that it took; in parts that fit the processor's cache."""
    parts = [slice(start, start + 500) for start in range(0, len(base), 500)]
    asked = [sequential.verdicts(base[part], candidate[part], margin, lowest=lowest[part]) for part in parts]
    said, seeds = ([one for of_part in column for one in of_part] for column in zip(*asked, strict=True))
    return np.array(said) == PASS, np.array(seeds)


def of_rare_failures(gates: int, names: list[str]) -> None:
    """Print how often gates pass falsely at the margin if a candidate fails seldom but deeply, and a base never.

    What is known of its depth: earlier episodes of each side, or the true one (``--worst``). Then the same of floors.
    """
    known = " | ".join([*(f"{count} earlier" for count in EARLIER), "--worst"])
    equal = "equal: passes, % | the same with --worst"
    print(f"\n| rare failures | on % of seeds | {known} | {equal} | floor: {known} | {equal} |")
    print("|---|---|" + "---|" * 2 * (len(EARLIER) + 3))
    for name in names or RARE:
        share, mean, deviation, failure = RARE[name]
        random, rate = np.random.default_rng(5), share * abs(mean) / (mean - failure)

        def draw(count: int) -> Scores:
            return random.normal(mean, deviation, (gates, count))  # noqa: B023 - it is called before the next one

        def fails(count: int) -> Scores:
            return np.where(random.random((gates, count)) < rate, failure, draw(count))  # noqa: B023

        base, candidate, of_base, of_candidate = draw(200), fails(200), draw(EARLIER[-1]), fails(EARLIER[-1])
        equal_one, floor = draw(200), np.full((gates, 200), rate * failure + (1 - rate) * mean)
        nothing, worst = np.full(gates, np.inf), np.full(gates, failure)
        cells = [f"{100 * rate:.1f}"]
        for against, margin, sides in ((base, Margin(share, True), 2), (floor, None, 1)):
            earlier = [np.concatenate([of_candidate[:, :n], of_base[:, :n]][:sides], axis=1) for n in EARLIER[1:]]
            for lowest in (nothing, *(np.min(episodes, axis=1) for episodes in earlier), worst):
                passes, _ = in_parts(against, candidate, margin, lowest)
                cells.append(f"{100 * np.mean(passes):.1f}")
            for lowest in (nothing, worst):
                passes, seeds = in_parts(against, equal_one, margin, lowest)
                cells.append(f"{100 * np.mean(passes):.0f} after {np.mean(seeds):.0f}")
        print(f"| {name}, margin {share:.0%} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gates", type=int, default=2000)
    parser.add_argument("--rare", nargs="*", choices=list(RARE), help="only these families of rare failures")
    gates, rare = vars(parser.parse_args()).values()
    if rare is not None:
        of_rare_failures(gates, rare)
        return
    shape = (gates, SEEDS)
    print(
        "| | at the margin: passes, % | says worse, % | a group-sequential t test passes, % | equal: passes, % | twice "
        "the margin worse: says so, % | better by the margin: passes, % | seeds of a fixed test with 80 % | ours with "
        "80 % | mean of ours, % of the fixed test's |\n|---|---|---|---|---|---|---|---|---|---|"
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
    print("\n| floors | passes, % | says below, % | seeds |\n|---|---|---|---|")
    floors: list[tuple[str, Callable[[np.random.Generator], Scores], float, Bounds]] = [
        ("normal, at its mean", lambda random: random.normal(450, 50, shape), 450.0, None),
        ("exponential, at its mean", lambda random: 100 + random.exponential(20, shape), 120.0, None),
        ("less exponential, at its mean", lambda random: 100 - random.exponential(20, shape), 80.0, None),
        ("heavy tails (t, 3), at its mean", lambda random: 30 + random.standard_t(3, shape), 30.0, None),
        ("500, and 0 on one seed in ten, at its mean", lambda r: 500.0 * (r.random(shape) < 0.9), 450.0, None),
        ("half a deviation above", lambda random: random.normal(475, 50, shape), 450.0, None),
        ("half a deviation below", lambda random: random.normal(425, 50, shape), 450.0, None),
        *(
            (f"success {rate}, at least 0.9", lambda r, rate=rate: (r.random(shape) < rate) * 1.0, 0.9, (0.0, 1.0))
            for rate in (0.9, 1.0, 0.97, 0.8)
        ),
    ]
    for name, draw_scores, floor, bounds in floors:
        scores = draw_scores(np.random.default_rng(2))
        found, seeds = verdicts(np.full(shape, floor), scores, None, bounds)
        print(f"| {name} | {100 * np.mean(found == 1):.1f} | {100 * np.mean(found == -1):.1f} | {np.mean(seeds):.0f} |")
    of_five_percent(gates)
    of_rare_failures(gates, [])
    same = RETURNS["normal"](np.random.default_rng(0), shape)[0]
    found, seeds = verdicts(same, same, MARGIN, None)
    print(f"\nA policy against itself: {100 * np.mean(found == 1):.0f} % pass after {np.mean(seeds):.0f} seeds.")


if __name__ == "__main__":
    main()
