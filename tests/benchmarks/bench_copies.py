"""How often `tune_media.evaluate` says «clearly» of equal policies in an env with few starts: python -m
tests.benchmarks.bench_copies.

Twelve seeds choose among so many starts by chance, or in turn, and the start alone decides an episode. The returns of
each policy on each start are draws of one distribution, so that «clearly the best» is wrong.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

from tune_media.evaluation.evaluation import EvaluatedCheckpoint, compared
from tune_media.viewing.inference import Scores

SEEDS, STARTS = 12, (1, 2, 3, 4, 6, 12)
Draw = Callable[[np.random.Generator, int], Scores]
RETURNS: dict[str, Draw] = {
    "normal": lambda random, starts: random.standard_normal(starts),
    "skewed": lambda random, starts: -random.exponential(size=starts),
    "success": lambda random, starts: np.where(random.random(starts) < 0.5, 1.0, 0.0),
}


def is_wrong(random: np.random.Generator, draw: Draw, starts: int, policies: int, *, in_turn: bool) -> bool:
    """Return whether one of some equal policies is clearly worse than another."""
    start_of = np.arange(SEEDS) % starts if in_turn else random.integers(starts, size=SEEDS)
    has_copies = len(set(start_of)) < SEEDS
    returns = [dict(enumerate(draw(random, starts)[start_of].tolist())) for _ in range(policies)]
    copies = [dict(enumerate(start_of.tolist())) if has_copies else {} for _ in range(policies)]
    means = [float(np.mean(list(values.values()))) for values in returns]
    lines = [EvaluatedCheckpoint(str(n), "", "checkpoint_000000", 1, SEEDS, mean) for n, mean in enumerate(means)]
    rows = compared(lines, returns, [{}] * policies, copies)
    return any(np.isfinite(row.behind) and row.why is None for row in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=4000)
    draws = parser.parse_args().draws
    print(
        "| wrongly clear, %, with so many starts | " + " | ".join(map(str, STARTS)) + " |\n|---|" + "---|" * len(STARTS)
    )
    for name, draw in RETURNS.items():
        for policies in (2, 5):
            for in_turn in (False, True):
                cells = [f"{name}, {policies} policies, starts {'in turn' if in_turn else 'by chance'}"]
                for starts in STARTS:
                    random = np.random.default_rng(starts)
                    wrong = [is_wrong(random, draw, starts, policies, in_turn=in_turn) for _ in range(draws)]
                    cells.append(f"{100 * np.mean(wrong):.1f}")
                print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
