"""What decides a sweep is found on its page, and each figure is the one that SciPy computes from the Parquet files."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import tune_media as tm
from tests.support.batches import episodes_of
from tests.support.browser import opened
from tests.support.stores import StoredTrial
from tests.support.viewing import moving_bar, write_run, write_snapshot

pytestmark = pytest.mark.slow

stats = pytest.importorskip("scipy.stats")

HEIGHTS = {(0.1, 0.9): 20, (0.1, 0.99): 40, (0.2, 0.9): 60, (0.2, 0.99): 45}
LUCKY = (0.2, 0.99, 3)  # the best run is of a configuration that is not the best
MESSAGE = "FloatingPointError: the loss is not finite; lower lr"


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """Four configurations of five seeds, evaluated on 20 seeds; one trial has failed."""
    experiment = tmp_path_factory.mktemp("figures") / "exp"
    noise = np.random.default_rng(0)
    easy = noise.normal(0, 8, 20)  # of each evaluation seed
    for (lr, gamma), height in HEIGHTS.items():
        for seed in range(5):
            luck = 40 if (lr, gamma, seed) == LUCKY else noise.normal(0, 4)
            params = {"lr": lr, "gamma": gamma, "seed": seed}
            write_returns(experiment / f"{lr}_{gamma}_{seed}", params, height + luck + easy + noise.normal(0, 6, 20))
    failed = experiment / "0.2_0.99_1"  # its episodes count nowhere
    (failed / "error.txt").write_text(f"Failure # 1\nTraceback ...\n{MESSAGE}\n")
    write_snapshot(experiment, **{failed.name: "ERROR"})
    return experiment


def write_returns(folder, params, returns):
    store = StoredTrial.in_folder(folder)
    results = []
    for step in (1, 2):
        records = [tm.EpisodeRecord(f"{step}-{seed}", step * one / 2, 5, seed=seed) for seed, one in enumerate(returns)]
        store.add(tm.Video(moving_bar(5), fps=10, episode=records[0]), "evaluation", "episodes/best", step)
        store.add(episodes_of(*records), "evaluation", "episodes/data", step)
        mean = float(np.mean([record.episode_return for record in records]))
        results.append({"evaluation": {"env_runners": {"episode_return_mean": mean}}})
    write_run(folder, params, *results)
    store.finish()


def last_evaluations(experiment):
    """Return the episodes of the last evaluation of each trial that has not failed, from the Parquet files."""
    frames = []
    for folder in sorted(path.parent for path in experiment.glob("*/params.json")):
        if (folder / "error.txt").exists():
            continue
        params = json.loads((folder / "params.json").read_text())
        files = [path for path in folder.glob("episode_data/*.parquet") if not path.name.startswith("steps")]
        episodes = pd.concat([pd.read_parquet(path) for path in files])
        frames.append(episodes[episodes["step"] == episodes["step"].max()].rename(columns={"seed": "episode_seed"}))
        frames[-1] = frames[-1].assign(trial=folder.name, **params)
    return pd.concat(frames)


def critical(freedom, compared=2):
    return stats.t.ppf((1 + 0.95 ** (2 / compared / (compared - 1))) / 2, freedom)


def residual(table):
    rest = table.sub(table.mean(axis=1), axis=0) - table.mean() + table.to_numpy().mean()
    return (rest.to_numpy() ** 2).sum() / (rest.shape[0] - 1) / (rest.shape[1] - 1) / rest.size


def half(of_runs, freedom, of_seeds, seeds, rest, compared=2):
    """Return half of the interval over runs and seeds: two legs, less what is in both, and at least each of them."""
    one, other = critical(freedom, compared) ** 2 * of_runs, critical(seeds - 1, compared) ** 2 * of_seeds
    both = one + other - min(critical(freedom, compared), critical(seeds - 1, compared)) ** 2 * rest
    return max(both, one, other) ** 0.5


def interval(table):
    """Return the interval of the mean of a frame (seeds, runs)."""
    runs, seeds = table.mean(), table.mean(axis=1)
    width = half(runs.sem() ** 2, len(runs) - 1, seeds.sem() ** 2, len(seeds), residual(table))
    return runs.mean() - width, runs.mean() + width


def intervals_behind(tables):
    """Return the intervals that hold at once of the differences of the first of some frames (seeds, runs) to the
    others, with SciPy, and whether the first is clearly the best.
    """
    runs = [table.mean() for table in tables]
    middle = np.median([own.var(ddof=1) for own in runs])
    variances = [max(own.var(ddof=1), (middle + (len(own) - 1) * own.var(ddof=1)) / len(own)) for own in runs]
    parts = [(variance / len(own), len(own)) for variance, own in zip(variances, runs, strict=True)]
    found, is_clear = [], []
    for other, own, (variance, count) in zip(tables[1:], runs[1:], parts[1:], strict=True):
        (first, n), lead = parts[0], runs[0].mean() - own.mean()
        freedom = (first + variance) ** 2 / (first**2 / n + variance**2 / count)  # each has one more than its runs
        freedom = min(freedom, (1 / n + 1 / count) ** 2 / (1 / n**3 + 1 / count**3), n + count - 1)
        of_seeds = (tables[0].mean(axis=1) - other.mean(axis=1)).sem() ** 2
        args = first + variance, freedom, of_seeds, len(other), residual(tables[0]) + residual(other)
        is_clear.append(lead > half(*args))
        found.append((lead - half(*args, len(tables)), lead + half(*args, len(tables))))
    if all(is_clear):
        found = [(max(low, 0), high) for low, high in found]
    return found, all(is_clear)


def close(shown, value, ends):
    """Return whether "1.2 [0.9, 1.5]" is a value and its interval, up to the digits that are shown and the draws."""
    numbers = [float(text) for text in re.findall(r"-?[\d.]+\d", shown)]
    digits = 10.0 ** -min(len(text.partition(".")[2]) for text in re.findall(r"-?[\d.]+\d", shown))
    width = ends[1] - ends[0]
    return numbers[0] == pytest.approx(value, abs=digits) and numbers[1:3] == pytest.approx(
        ends, abs=0.06 * width + digits
    )


def assert_figures(viewer, experiment, names):
    """Compare the page with SciPy; return the hyperparameters of the best configuration, as the page says it."""
    episodes = last_evaluations(experiment)
    runs = episodes.groupby([*names, "trial"])["episode_return"].mean()
    groups = {key: own.to_numpy() for key, own in runs.groupby(list(names))}
    ranked = sorted(groups, key=lambda key: -groups[key].mean())
    tables = {
        key: episodes[(episodes[list(names)] == key).all(axis=1)].pivot_table("episode_return", "episode_seed", "trial")
        for key in ranked
    }
    cards = viewer.all(
        ".card.configuration", "[e.querySelector('.name').innerText.trim(), e.querySelector('.score dd').innerText]"
    )
    for key, (title, shown) in zip(ranked, cards, strict=True):
        assert title == " · ".join(f"{name} {value:g}" for name, value in zip(names, key, strict=True))
        assert close(shown, groups[key].mean(), interval(tables[key])), (title, shown)
    viewer.frame.click(".winner-line summary")
    told = viewer.all(".winner-line")[0]
    best, second = groups[ranked[0]], groups[ranked[1]]
    behind, is_clear = intervals_behind([tables[key].dropna() for key in ranked])
    assert f"{'Clearly the best' if is_clear else 'Best so far'}: {cards[0][0]}" in told
    shown, shown_behind = re.findall(r"-?[\d.]+\d \[-?[\d.]+, -?[\d.]+\]", told)
    assert close(shown, best.mean(), interval(tables[ranked[0]]))
    assert close(shown_behind, best.mean() - second.mean(), behind[0])
    assert f"over runs and {len(tables[ranked[1]])} evaluation seeds" in told
    return ranked[0]


def test_wide_intervals_leave_room_for_the_dots_and_do_not_look_like_four_numbers(browser, tmp_path):
    for lr, returns in {0.1: [10, 200], 0.2: [100, 104]}.items():
        for seed, value in enumerate(returns):
            write_returns(tmp_path / "exp" / f"{lr}_{seed}", {"lr": lr, "seed": seed}, np.array([value] * 2))
    with opened(browser, tmp_path / "exp", tmp_path) as viewer:
        viewer.wait("document.querySelectorAll('.card.configuration .ends').length === 2")
        (low, high), _ = viewer.all(
            "li.verdict-row", "[...e.querySelectorAll('.dot svg')].map((dot) => parseFloat(dot.getAttribute('x')))"
        )
        assert 0 < low < high - 29 < 70  # percent of the axis; Student's interval is 13 times as wide as the runs
        assert viewer.all(".card.configuration .ends")[0] == "[-1102, 1312]"
        first, second = viewer.all(".card.configuration .swatch", "e.style.background")
        assert (first, second) == ("rgb(66, 105, 208)", "rgb(224, 139, 29)")  # not those of the first trial of each
        dots = viewer.all(".verdict-row .dot circle", "getComputedStyle(e).fill")
        assert sorted(dots) == sorted([first, first, second, second])


def test_the_page_says_what_decides_and_each_figure_is_scipys(browser, sweep, tmp_path):
    with opened(browser, sweep, tmp_path) as viewer:
        viewer.wait("document.querySelectorAll('.card.configuration .ends').length === 4")
        viewer.wait("document.querySelector('.winner-line summary')")
        assert assert_figures(viewer, sweep, ("lr", "gamma")) == (0.2, 0.9)
        assert "highest single run is one of #2, gamma 0.99 · lr 0.2, with " in viewer.all(".winner-line")[0]
        assert viewer.all(".failures .reason") == [MESSAGE]
        viewer.frame.click(".failures .link")
        viewer.wait("document.querySelector('.trial-view')")
        assert viewer.all(".heading .problem")[0] == f"Failed: {MESSAGE}"
