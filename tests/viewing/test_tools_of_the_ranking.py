"""Success rates on the cards, and folded columns of the run table, in Chromium."""

import re

import numpy as np
import pytest

import tune_media as tm
from tests.support.stores import StoredTrial
from tests.support.viewing import moving_bar, write_run, write_snapshot
from tune_media.values.episodes import success_rate
from tune_media.viewing.comparison import success_of, success_rates

pytestmark = pytest.mark.slow

WINS = {0.1: (18, 19, 20), 0.2: (3, 10, 6), 0.3: (8,)}  # of 20 episodes; only one run of the last


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    experiment = tmp_path_factory.mktemp("success") / "it's mine"
    noise = np.random.default_rng(0)
    for lr, wins in WINS.items():
        for seed, count in enumerate(wins):
            folder = experiment / f"lr={lr}_{seed}"
            record = tm.EpisodeRecord("e", float(count), 5, seed=seed)
            with StoredTrial.in_folder(folder) as store:
                store.add(tm.Video(moving_bar(5), fps=10, episode=record), "evaluation", "episodes/best", 1)
            rate = success_rate([n < count for n in range(20)])
            found = {"custom_metrics": rate, "episode_return_mean": float(count)}
            learner = {name: noise.random() for name in ("policy_loss", "entropy", "kl")}
            result = {"evaluation": {"env_runners": found}, "learners": {"p": learner}}
            write_run(folder, {"lr": lr, "seed": seed}, result)
    write_snapshot(experiment)
    return experiment


def percents(rate, low, high):
    return [pytest.approx(100 * end, abs=0.51) for end in (rate, low, high)]


def shown(viewer):
    """Return the success rates on the cards, [rate, low, high] in percent, by the first trial of each card."""
    found = viewer.all(".card", "[e.dataset.trial, e.querySelector('.success dd')?.innerText]")
    return {trial: [float(number) for number in re.findall(r"[\d.]+", text)] for trial, text in found}


def test_cards_have_the_success_rate_of_list(viewer, sweep):
    catalog = tm.load(sweep)
    viewer.open(viewer.url, "cards=trials")
    viewer.wait("document.querySelectorAll('.card .success').length === 7")
    found = shown(viewer)
    assert found == {trial.name: percents(*success_of(trial)) for trial in catalog.trials}
    viewer.open(viewer.url)
    viewer.wait("document.querySelectorAll('.card.configuration .success').length === 3")
    of_runs = {trial.partition("_")[0]: rate for trial, rate in shown(viewer).items()}
    rates = zip(catalog.judged, success_rates(catalog.trials, catalog.judged), strict=True)
    by_lr = {entry.configuration.params["lr"]: rate for entry, rate in rates}
    for lr in (0.1, 0.2):
        mean = by_lr[lr]
        assert of_runs[f"lr={lr}"] == percents(mean.value, mean.low, mean.high)
    assert of_runs["lr=0.3"] == percents(*success_of(catalog.trials[-1]))  # of one run, Wilson's
    assert viewer.axe_violations() == {}
    viewer.page.set_viewport_size({"width": 390, "height": 800})
    viewer.wait("document.documentElement.scrollWidth <= innerWidth")


def test_columns_whose_names_begin_alike_fold_into_one(viewer):
    heads = "[...document.querySelectorAll('.run-table thead th')].map((th) => th.innerText.trim())"
    names = ("policy_loss", "entropy", "kl")
    viewer.open(viewer.url, "cards=table")
    viewer.wait(f"{heads}.includes('success')")  # as on the cards
    viewer.open(viewer.url, "cards=table&columns=" + "%0A".join(["score", *(f"metric:learners/p/{n}" for n in names)]))
    viewer.wait("document.querySelectorAll('.folds button').length === 1")
    before = viewer.frame.evaluate(heads)
    assert before[-3:] == sorted(names)
    viewer.frame.click(".folds button")
    viewer.wait(f"{heads}.length === 3")
    assert viewer.frame.evaluate(heads)[-1] == "learners/… +3"
    assert "policy_loss 0." in viewer.all("td.fold-cell", "e.title")[0]
    assert viewer.axe_violations() == {}
    with viewer.page.expect_download() as download:
        viewer.frame.click("text=Export CSV")
    assert len(download.value.path().read_text().splitlines()[0].split(",")) == 5  # nothing is lost
    viewer.page.reload()
    viewer.wait("document.querySelector('th.fold-cell')")  # it is in the link
    viewer.frame.click("th.fold-cell button")
    viewer.wait(f"{heads}.length === 5")
    assert viewer.frame.evaluate(heads) == before
