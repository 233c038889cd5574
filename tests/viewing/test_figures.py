"""What decides a sweep is found on its page, and each figure is the one that SciPy computes from the Parquet files."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import tune_media as tm
from tests.support.browser import served, viewer_page
from tests.support.stores import StoredTrial
from tests.support.viewing import moving_bar, write_snapshot
from tune_media.values.episodes import EpisodeBatch, EpisodeData

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
            write_run(experiment / f"{lr}_{gamma}_{seed}", params, height + luck + easy + noise.normal(0, 6, 20))
    failed = experiment / "0.2_0.99_1"  # its episodes count nowhere
    (failed / "error.txt").write_text(f"Failure # 1\nTraceback ...\n{MESSAGE}\n")
    write_snapshot(experiment, **{failed.name: "ERROR"})
    return experiment


def write_run(folder, params, returns):
    folder.mkdir(parents=True)
    (folder / "params.json").write_text(json.dumps(params))
    store = StoredTrial.in_folder(folder)
    results = []
    for step in (1, 2):
        records = [tm.EpisodeRecord(f"{step}-{seed}", step * one / 2, 5, seed=seed) for seed, one in enumerate(returns)]
        store.add(tm.Video(moving_bar(5), fps=10, episode=records[0]), "evaluation", "episodes/best", step)
        batch = EpisodeBatch(tuple(EpisodeData(record, {}) for record in records))
        store.add(batch, "evaluation", "episodes/data", step)
        mean = float(np.mean([record.episode_return for record in records]))
        results.append({"training_iteration": step, "evaluation": {"env_runners": {"episode_return_mean": mean}}})
    (folder / "result.json").write_text("".join(json.dumps(result) + "\n" for result in results))
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


def interval(sample):
    found = stats.ttest_1samp(sample, 0).confidence_interval()
    return found.low, found.high


def parts_of(runs, shared):
    """Return the variance of a configuration's mean, and its degrees of freedom; see ``statistics.differences``."""
    count, variance = len(runs), runs.var(ddof=1)
    if count < 3 or variance > 4 * shared:
        return variance / count, count - 1
    return (shared + (count - 1) * variance) / count / count, count


def intervals_behind(tables):
    """Return the intervals of the differences of the first of some frames (seeds, runs) to the others, with SciPy.

    They are of a two-way layout: the runs' part and the seeds' part less the residuals, as ``statsmodels`` would have
    it; first each alone, and if one of these holds zero, all with Sidak's level, from the clearest on.
    """
    runs = [table.mean() for table in tables]
    variances, weights = np.array([own.var(ddof=1) for own in runs]), [len(own) - 1 for own in runs]
    shared = np.average(np.minimum(variances, 3 * np.median(variances)), weights=weights)
    found = []
    for other, own in zip(tables[1:], runs[1:], strict=True):
        parts = [parts_of(each, shared) for each in (runs[0], own)]
        of_runs = sum(variance for variance, _ in parts)
        freedom = min(of_runs**2 / sum(variance**2 / own for variance, own in parts), sum(weights))
        of_seeds = (tables[0].mean(axis=1) - other.mean(axis=1)).sem() ** 2
        rest = [t.sub(t.mean(axis=1), axis=0) - t.mean() + t.to_numpy().mean() for t in (tables[0], other)]
        residual = sum((r.to_numpy() ** 2).sum() / (r.shape[0] - 1) / (r.shape[1] - 1) / r.size for r in rest)
        freedom = (of_runs + of_seeds) ** 2 / (of_runs**2 / freedom + of_seeds**2 / (len(other) - 1))
        error = max(of_runs + of_seeds - residual, of_runs, of_seeds) ** 0.5
        found.append((runs[0].mean() - own.mean(), error, freedom))

    def ends(number, level):
        value, error, freedom = found[number]
        half = error * stats.t.ppf((1 + level) / 2, freedom)
        return value - half, value + half

    if all(ends(number, 0.95)[0] > 0 for number in range(len(found))):
        return [ends(number, 0.95) for number in range(len(found))]
    left, joint = len(tables), {}
    for number in sorted(range(len(found)), key=lambda one: stats.t.sf(found[one][0] / found[one][1], found[one][2])):
        joint[number] = ends(number, 0.95 ** (2 / left / (left - 1)))
        left -= joint[number][0] > 0
    return [joint[number] for number in range(len(found))]


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
    cards = viewer.all(
        ".card.configuration", "[e.querySelector('.name').innerText.trim(), e.querySelector('.score dd').innerText]"
    )
    for key, (title, shown) in zip(ranked, cards, strict=True):
        assert title == " · ".join(f"{name} {value:g}" for name, value in zip(names, key, strict=True))
        assert close(shown, groups[key].mean(), interval(groups[key])), (title, shown)
    viewer.frame.click(".winner-line summary")
    told = viewer.all(".winner-line")[0]
    best, second = groups[ranked[0]], groups[ranked[1]]
    tables = [
        episodes[(episodes[list(names)] == key).all(axis=1)].pivot_table("episode_return", "episode_seed", "trial")
        for key in ranked
    ]
    tables = [table.dropna() for table in tables]
    behind = intervals_behind(tables)
    is_sure = all(low > 0 for low, _ in behind)
    assert f"{'Surely the best' if is_sure else 'Best so far'}: {cards[0][0]}" in told
    shown, shown_behind = re.findall(r"-?[\d.]+\d \[-?[\d.]+, -?[\d.]+\]", told)
    assert close(shown, best.mean(), interval(best))
    assert close(shown_behind, best.mean() - second.mean(), behind[0])
    assert f"over runs and {len(tables[1])} evaluation seeds" in told
    return ranked[0]


def test_wide_intervals_leave_room_for_the_dots_and_do_not_look_like_four_numbers(browser, tmp_path):
    for lr, returns in {0.1: [10, 200], 0.2: [100, 104]}.items():
        for seed, value in enumerate(returns):
            write_run(tmp_path / "exp" / f"{lr}_{seed}", {"lr": lr, "seed": seed}, np.array([value] * 2))
    with served("watch", tmp_path / "exp", tmp_path) as url, viewer_page(browser, "watch") as viewer:
        viewer.open(url)
        viewer.wait("document.querySelectorAll('.card.configuration .ends').length === 2")
        (low, high), _ = viewer.all(".dots", "[...e.querySelectorAll('.dot')].map((dot) => parseFloat(dot.style.left))")
        assert 0 < low < high - 30 < 70  # percent of the axis; Student's interval is 13 times as wide as the runs
        assert viewer.all(".card.configuration .ends")[0] == "[-1102, 1312]"
        first, second = viewer.all(".card.configuration .swatch", "e.style.background")
        assert (first, second) == ("rgb(66, 105, 208)", "rgb(224, 139, 29)")  # not those of the first trial of each
        assert viewer.errors == []


def test_the_page_says_what_decides_and_each_figure_is_scipys(browser, sweep, tmp_path):
    with served("watch", sweep, tmp_path) as url, viewer_page(browser, "watch") as viewer:
        viewer.open(url)
        viewer.wait("document.querySelectorAll('.card.configuration .ends').length === 4")
        viewer.wait("document.querySelector('.winner-line summary')")
        assert assert_figures(viewer, sweep, ("lr", "gamma")) == (0.2, 0.9)
        assert "highest single run is one of #2, gamma 0.99 · lr 0.2, with " in viewer.all(".winner-line")[0]
        assert viewer.all(".failures .reason") == [MESSAGE]
        viewer.frame.click(".failures .link")
        viewer.wait("document.querySelector('.trial-view')")
        assert (viewer.all(".heading .problem")[0], viewer.errors) == (f"Failed: {MESSAGE}", [])
