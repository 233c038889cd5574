"""What decides a sweep is found on its page, and each figure is the one that SciPy computes from the Parquet files."""

import json
import re

import numpy as np
import pandas as pd
import pytest

import tune_media as tm
from tests.support.browser import chromium, served, viewer_page
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


def interval_between(first, second, groups):
    """Return the t interval of the difference of two means, each variance mixed with the mean one of all groups."""
    freedoms = [len(group) - 1 for group in groups]
    shared = np.average([group.var(ddof=1) for group in groups], weights=freedoms)
    parts = [(shared + (len(own) - 1) * own.var(ddof=1)) / len(own) / len(own) for own in (first, second)]
    freedom = sum(parts) ** 2 / sum(part**2 / len(own) for part, own in zip(parts, (first, second), strict=True))
    half = stats.t.ppf(0.975, min(freedom, sum(freedoms))) * sum(parts) ** 0.5
    return first.mean() - second.mean() - half, first.mean() - second.mean() + half


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
    told = viewer.all(".winner-line")[0]
    best, second = groups[ranked[0]], groups[ranked[1]]
    assert f"Best configuration: {cards[0][0]}" in told
    shown, behind, paired = re.findall(r"-?[\d.]+\d \[-?[\d.]+, -?[\d.]+\]", told)
    assert close(shown, best.mean(), interval(best))
    assert close(behind, best.mean() - second.mean(), interval_between(best, second, groups.values()))
    others = [interval_between(best, groups[key], groups.values())[0] for key in ranked[1:]]
    assert ("Surely the best: " in told) == (min(others) > 0)
    by_seed = (
        episodes.groupby([*names, "episode_seed", "trial"])["episode_return"]
        .mean()
        .groupby([*names, "episode_seed"])
        .mean()
    )
    differences = (by_seed.loc[ranked[0]] - by_seed.loc[ranked[1]]).dropna()
    assert f"On the {len(differences)} evaluation seeds" in told
    of_pairs = stats.ttest_1samp(differences, 0).confidence_interval()
    assert close(paired, differences.mean(), (of_pairs.low, of_pairs.high))
    return ranked[0]


def test_the_page_says_what_decides_and_each_figure_is_scipys(sweep, tmp_path):
    with chromium() as browser, served("watch", sweep, tmp_path) as url, viewer_page(browser, "watch") as viewer:
        viewer.open(url)
        viewer.wait("document.querySelectorAll('.card.configuration .ends').length === 4")
        viewer.wait("document.querySelector('.winner-line')?.innerText.includes('evaluation seeds')")
        assert assert_figures(viewer, sweep, ("lr", "gamma")) == (0.2, 0.9)
        assert "seed 3 of lr 0.2 · gamma 0.99" in viewer.all(".winner-line .muted")[0]
        assert viewer.all(".failures .reason") == [MESSAGE]
        viewer.frame.click(".failures .link")
        viewer.wait("document.querySelector('.trial-view')")
        assert (viewer.all(".heading .problem")[0], viewer.errors) == (f"Failed: {MESSAGE}", [])
