"""A trial that a killed driver left before Tune's first snapshot of it: marked in all views, and ranked in none."""

import json
import os
import time

import pytest
from click.testing import CliRunner

import tune_media as tm
from tests.support.recorded import make_trial
from tune_media.cli import main
from tune_media.experiment.trial_folders import LogDirectory, Trials
from tune_media.viewing.gallery import Gallery
from tune_media.viewing.grid_choice import choose_tiles
from tune_media.viewing.pages import TrialPages


def snapshot(experiment, *trials, name="experiment_state-2026-01-01_00-00-00.json"):
    state = [
        [json.dumps({"trial_id": f"id_{trial}", "relative_logdir": trial, "status": "RUNNING"}), "{}"]
        for trial in trials
    ]
    (experiment / name).write_text(json.dumps({"trial_data": state}))
    return experiment / name


@pytest.fixture
def experiment(tmp_path):
    """Trial old has the best clip and no results; it was started again as trial new."""
    make_trial(tmp_path / "old", {"lr": 1}, {10: 99.0})
    (tmp_path / "old" / "result.json").unlink()
    make_trial(tmp_path / "new", {"lr": 1}, {10: 2.0, 20: 3.0})
    make_trial(tmp_path / "other", {"lr": 2}, {10: 5.0})
    return tmp_path


def test_it_is_marked_in_all_views_and_ranked_in_none(experiment):
    snapshot(experiment, "new", "other")
    catalog = tm.load(experiment)
    marked = {"new": False, "old": True, "other": False}
    assert {trial.name: trial.is_abandoned for trial in catalog.trials} == marked
    assert {row["trial"]: row.get("abandoned", False) for row in catalog} == marked
    assert dict(catalog.to_pandas()[["trial", "abandoned"]].values) == marked
    assert catalog.scores.values == [3.0, None, 5.0]
    assert [trial.name for trial, *_ in catalog.best_first()] == ["other", "new", "old"]
    assert catalog.best()["trial"] == catalog.best("episode_return")["trial"] == "other"
    assert [tile.row["trial"] for tile in choose_tiles(catalog)] == ["other", "new", "old"]
    assert "old (abandoned)" in CliRunner().invoke(main, ["list", str(experiment)], env={"COLUMNS": "200"}).output
    page = json.loads(TrialPages(Trials([LogDirectory.of(str(experiment))]), "x").first().content)
    assert {trial["name"]: trial["abandoned"] for trial in page["trials"]} == marked
    assert [trial.is_abandoned for trial in Gallery.of(str(experiment)).trials] == [False, True, False]


def test_a_trial_that_any_snapshot_knows_or_that_has_results_is_not(experiment):
    former = snapshot(experiment, "old", name="experiment_state-2025-01-01_00-00-00.json")
    snapshot(experiment, "new", "other")
    assert not any(trial.is_abandoned for trial in tm.load(experiment).trials)
    former.unlink()
    (experiment / "old" / "result.json").write_text('{"training_iteration": 1}\n')
    assert not any(trial.is_abandoned for trial in tm.load(experiment).trials)


def test_a_trial_that_has_just_begun_is_not_since_the_snapshot_is_older(experiment):
    file = snapshot(experiment, "new", "other")
    os.utime(file, (time.time() - 1000, time.time() - 1000))
    assert not any(trial.is_abandoned for trial in tm.load(experiment).trials)
    trials = Trials([LogDirectory.of(str(experiment))])
    trials.read_ahead()
    assert not any(trial.is_abandoned for trial in trials.all())
    snapshot(experiment, "new", "other")
    trials._pause = -1.0
    before = trials.all()[1].state
    trials.read_ahead()
    assert [trial.is_abandoned for trial in trials.all()] == [False, True, False]
    assert trials.all()[1].state != before  # the pages are made again


def test_without_a_snapshot_or_with_a_broken_one_nobody_knows(experiment):
    assert not any(trial.is_abandoned for trial in tm.load(experiment).trials)
    (experiment / "experiment_state-2026-01-01_00-00-00.json").write_text('{"trial_data": [3, ["x"], [{}], null]')
    catalog = tm.load(experiment)
    assert len(catalog) == 4
