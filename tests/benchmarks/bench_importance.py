"""How often the importance of hyperparameters errs, and how often it finds one that matters.

    python -m tests.benchmarks.bench_importance

Each sweep has a learning rate that matters or does not, and five other hyperparameters that do not: texts, sizes, flags
and numbers, of which one may follow the learning rate, as after a search that goes where scores are high.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from tune_media.viewing.importance import importances

EFFECTS = {"nothing": 0.0, "a trend": 0.3, "a strong trend": 0.6, "a strong peak": 0.6}  # share of the variance


def sweep(
    random: np.random.Generator, count: int, effect: str, *, follows: bool, tails: bool
) -> tuple[list[dict[str, Any]], list[float]]:
    lr = random.uniform(size=count)
    others = {
        "act": random.choice(["relu", "tanh", "elu"], count),
        "size": random.choice([32, 64, 128, 256], count),
        "norm": random.random(count) < 0.5,
        "clip": lr + 0.5 * random.uniform(size=count) if follows else random.uniform(size=count),
        "decay": random.uniform(size=count),
    }
    share = EFFECTS[effect]
    shape = 1 / 3 - (2 * lr - 1) ** 2 if "peak" in effect else lr - 0.5
    size = np.sqrt(share / (1 - share)) / np.sqrt(4 / 45 if "peak" in effect else 1 / 12)
    noise = random.standard_t(3, count) / 3**0.5 if tails else random.normal(size=count)
    params = [{"lr": lr[at], **{name: values[at].item() for name, values in others.items()}} for at in range(count)]
    return params, (size * shape + noise).tolist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sweeps", type=int, default=400)
    sweeps = parser.parse_args().sweeps
    print(
        "| configurations | the learning rate explains | the others | one of these called important, % | lr found, % |"
    )
    print("|---|---|---|---|---|")
    for count in (20, 60):
        for effect in EFFECTS:
            for name, options in {
                "independent": {"follows": False, "tails": False},
                "one follows lr": {"follows": True, "tails": False},
                "independent; heavy tails": {"follows": False, "tails": True},
            }.items():
                wrong = found = 0
                for seed in range(sweeps):
                    params, scores = sweep(np.random.default_rng([seed, count]), count, effect, **options)
                    matters = {one.name for one in importances(params, scores) if one.matters}
                    found += "lr" in matters
                    wrong += bool(matters - {"lr"}) or (effect == "nothing" and "lr" in matters)
                told = "" if effect == "nothing" else f"{100 * found / sweeps:.1f}"
                explains = f"{effect}, {100 * EFFECTS[effect]:.0f} %" if EFFECTS[effect] else effect
                print(f"| {count} | {explains} | {name} | {100 * wrong / sweeps:.1f} | {told} |", flush=True)


if __name__ == "__main__":
    main()
