import json

import pytest

from tests.support.viewing import write_snapshot, write_trial
from tune_media.experiment.trial_folders import LogDirectory, Trials
from tune_media.viewing import score_tables
from tune_media.viewing.inference import infer
from tune_media.viewing.pages import TrialPages


@pytest.fixture
def pages(tmp_path, monkeypatch):
    for number in range(2):
        write_trial(tmp_path / f"trial_{number}", number, steps=(10, 20, 30))
    trials = Trials([LogDirectory.of(str(tmp_path))])
    monkeypatch.setattr(trials, "_pause", -1.0)  # files are looked at for each page
    return TrialPages(trials, "sweep")


def test_the_first_page_has_the_last_and_the_best_clip_of_each_key_and_the_scores(pages):
    first = json.loads(pages.first().content)
    assert first["clips"]["count"] == 4  # of each trial and key one: the last clip has the highest return
    assert json.loads(pages.index().content)["clips"]["count"] == 12
    assert first["metrics"].pop("newest") > 1e9
    facts = {"metrics": {"episode_return_mean": [30, 31]}, "main": ["episode_return_mean"], "params": ["lr"]}
    assert first["metrics"] == {"trials": [trial["id"] for trial in first["trials"]], **facts}


def test_a_page_is_made_again_only_if_what_it_shows_has_changed(pages, tmp_path):
    first, index, metrics = pages.first(), pages.index(), pages.metrics()
    assert (pages.first(), pages.index(), pages.metrics()) == (first, index, metrics)
    results = tmp_path / "trial_1" / "result.json"
    results.write_text(results.read_text() + '{"training_iteration": 40, "episode_return_mean": 7.0}\n')
    assert json.loads(pages.metrics().content)["metrics"]["episode_return_mean"] == [30, 7]
    assert pages.metrics() is not metrics
    assert pages.first() is not first
    assert pages.index() is index
    write_trial(tmp_path / "trial_2", 2)
    assert len(json.loads(pages.first().content)["trials"]) == 2  # it waits for no look at the files
    assert json.loads(pages.index().content)["clips"]["count"] == 16
    assert len(json.loads(pages.first().content)["trials"]) == 3


def test_configurations_are_judged_once_for_all_pages_and_without_failed_ones_from_the_first(
    pages, tmp_path, monkeypatch
):
    judged = []
    monkeypatch.setattr(score_tables, "infer", lambda *samples, **more: judged.append(1) or infer(*samples, **more))
    write_snapshot(tmp_path, trial_0="TERMINATED", trial_1="ERROR")
    (first,) = json.loads(pages.first().content)["judged"].values()
    best, failed = first["configurations"]
    assert (best["mean"][0], failed["n"]) == (30, 0)  # though that one has 31
    assert json.loads(pages.configurations("episode_return_mean", "", 1).content) == first
    pages.curves("episode_return_mean")
    assert judged == [1]
