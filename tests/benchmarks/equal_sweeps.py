"""Sweeps of equal configurations, written, read and judged end to end: how many are called clearly best.

``python -m tests.benchmarks.equal_sweeps [SWEEPS]``. Each configuration is lucky on some evaluation seeds, which its
runs share, so that the runs alone seem to tell it from another one.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import tune_media as tm
from tests.support import quiet_ray

NETS, RUNS, SEEDS = 2, 3, 6
BOX = gym.spaces.Box(-1, 1, (1,))


class Lucky(gym.Env):
    """An episode of one step, whose return is the luck of the configuration on a seed, and a little of the run's."""

    observation_space, action_space, render_mode = BOX, gym.spaces.Discrete(2), None

    def __init__(self, sweep: int, net: int, run: int, is_binary: bool) -> None:
        self.key, self.run, self.is_binary, self.value = [sweep, net], run, is_binary, 0.0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        shared = np.random.default_rng([*self.key, seed or 0]).normal()
        own = np.random.default_rng([*self.key, seed or 0, self.run + 1]).normal()
        luck = np.random.default_rng([*self.key, 999, self.run]).normal()
        value = shared + 0.05 * own + 0.05 * luck
        self.value = float(value > 0) if self.is_binary else 10 + float(value)
        return BOX.low, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        info = {"is_success": bool(self.value)} if self.is_binary else {}
        return BOX.low, self.value, True, False, info


def play(env: Any) -> list[float]:
    """Play each evaluation seed once; return the returns."""
    returns = []
    for seed in range(SEEDS):
        env.reset(seed=seed)
        returns.append(env.step(0)[1])
    return returns


def train(config: dict[str, Any]) -> None:
    """A function trainable, as the docs show it."""
    from ray import tune

    env = tm.gym.RecordEpisodes(Lucky(config["sweep"], config["net"], config["seed"], False), video=None)
    for _ in range(2):
        returns = play(env)
        tune.report({"episode_return_mean": float(np.mean(returns)), **env.take()})


def of_tune(folder: Path, sweeps: int) -> list[tm.Catalog]:
    """Run all sweeps as one of Tune; return each one's trials."""
    from ray import tune

    grid = {"sweep": range(sweeps), "net": range(NETS), "seed": range(RUNS)}
    quiet_ray.init(num_cpus=2, has_rllib=False)
    tune.Tuner(
        train,
        param_space={name: tune.grid_search(list(values)) for name, values in grid.items()},
        tune_config=tune.TuneConfig(reuse_actors=True),
        run_config=tune.RunConfig(
            name="equal", storage_path=str(folder), verbose=0, callbacks=[tm.JsonMediaLoggerCallback()]
        ),
    ).fit()
    catalog = tm.load(folder / "equal")
    by_sweep = [[trial.name for trial in catalog.trials if trial.config["sweep"] == sweep] for sweep in range(sweeps)]
    return [catalog.of_trials(names) for names in by_sweep]


def of_loops(folder: Path, sweeps: int, *, is_binary: bool) -> list[tm.Catalog]:
    """Write all sweeps with loops of one's own; return each one's trials."""
    for sweep in range(sweeps):
        for net in range(NETS):
            for run in range(RUNS):
                env = tm.gym.RecordEpisodes(
                    Lucky(sweep, net, run, is_binary),
                    folder / str(sweep) / f"{net}_{run}",
                    params={"net": net, "seed": run},
                    name_prefix="eval",
                    video=None,
                )
                play(env)
                env.close()
    return [tm.load(folder / str(sweep)) for sweep in range(sweeps)]


def main(sweeps: int) -> None:
    """Print how many sweeps of each kind have a clearly best configuration."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        kinds = {
            "own loops, by return": of_loops(folder / "loops", sweeps, is_binary=False),
            "success rates": of_loops(folder / "rates", sweeps, is_binary=True),
            "function trainables": of_tune(folder / "tune", sweeps),
        }
        for kind, catalogs in kinds.items():
            metric = "success_rate" if kind == "success rates" else None
            tables = [catalog.compare(metric=metric) for catalog in catalogs]
            clear = sum(not table["not_clearly_worse"].any() for table in tables)
            alone = [catalog.scores_by_configuration(metric=metric) for catalog in catalogs]
            apart = sum(_apart(*(scores[:, 0] for scores in of_sweep.values())) for of_sweep in alone)
            print(f"{kind}: {clear} of {len(tables)} are clearly best; over runs alone {apart} would be")


def _apart(first: Any, other: Any) -> bool:
    """Return whether Welch's test tells two configurations apart by their runs."""
    from scipy import stats

    return bool(stats.ttest_ind(first, other, equal_var=False).pvalue < 0.05)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
