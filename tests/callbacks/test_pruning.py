"""The files that retention removes, during a sweep, after it and after a restore."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
from ray import tune

import tune_media as tm
from tests.support.experiment import image_steps
from tests.support.fake_trial import FakeTrial
from tests.support.faults import ITERATIONS, assert_trained, clip
from tests.support.trial_life import index_lines, stored_files
from tune_media.values.options import Retention

RETURNS = dict(zip(ITERATIONS, [3, 9, 1, 4, 5, 2, 6, 0], strict=True))


def played(config):
    """The first two clips are reported under two keys."""
    for iteration in ITERATIONS:
        episode = tm.EpisodeRecord(f"{config['trial']}-{iteration}", float(RETURNS[iteration]), 3)
        video = clip(iteration, 48, episode=episode)
        result = {"twin": video} if iteration < 3 else {}
        result |= {"rollout": video, "weights": tm.Histogram(np.arange(10.0)), "level": float(iteration)}
        tune.report({**result, "score": 10 * config["trial"]})


def stored_at(lines, key):
    return sorted(line["training_iteration"] for line in lines if (line["key"], line["status"]) == (key, "stored"))


def test_a_sweep_keeps_the_last_and_the_best(ray_session, tmp_path):
    options = tm.MediaOptions(retention=Retention(last=2, best=1), strict=True)
    callbacks = [tm.JsonMediaLoggerCallback(), tm.TBXMediaLoggerCallback(options)]  # the second is told the policy
    run_config = tune.RunConfig(name="sweep", storage_path=str(tmp_path), verbose=0, callbacks=callbacks)
    results = tune.Tuner(played, param_space={"trial": tune.grid_search([0, 1])}, run_config=run_config).fit()
    assert_trained(results)
    trials = {}
    for result in results:
        lines = trials[result.config["trial"]] = index_lines(result.path)
        assert len({(line["id"], line["key"]) for line in lines}) == len(lines) == 2 * len(ITERATIONS) + 2
        stored = sorted({line["path"] for line in lines if line["status"] == "stored"})
        assert stored_files(result.path) == stored
        assert sorted({row["path"] for row in tm.load(result.path) if Path(row["file"]).exists()}) == stored
        assert image_steps(result.path)["train/rollout"] == ITERATIONS  # what was shown stays
    for lines in trials.values():
        assert stored_at(lines, "weights") == [7, 8]
        assert stored_at(lines, "twin") == [1, 2]
        assert stored_at(lines, "rollout") == [1, 2, 7, 8]  # the first is there for its twin, the second is the best


@pytest.fixture
def recorded(tmp_path):
    """Return a function that records more clips in a trial, with a driver that has just been started."""

    def record(trial_id, steps, state=None, **policy):
        trial = FakeTrial(tmp_path, trial_id)
        callback = tm.JsonMediaLoggerCallback(tm.MediaOptions(retention=Retention(**policy) if policy else None))
        if state is not None:
            callback.set_state(state)
        callback.log_trial_start(trial)
        for step in steps:
            result = {"training_iteration": step, "rollout": clip(step, 48), "score": float(step)}
            callback.log_trial_result(step, trial, result)
        state = callback.get_state()
        callback.log_trial_end(trial)
        callback.on_experiment_end([trial])
        return state

    return record


def test_trials_that_were_over_before_a_restore_are_within_the_limit_of_bytes(recorded, tmp_path):
    recorded("over", ITERATIONS)
    size = max(path.stat().st_size for path in (tmp_path / "storage" / "over" / "media").rglob("*.mp4"))
    recorded("going_on", [1], experiment_bytes=4 * size + size // 2)
    listed = index_lines(tmp_path / "storage" / "over")
    assert len(stored_files(tmp_path / "storage" / "over")) == 3
    assert stored_at(listed, "rollout") == ITERATIONS[-3:]
    assert len(stored_files(tmp_path / "storage" / "going_on")) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="file names are text there")
def test_a_folder_whose_name_is_no_text_is_none_of_a_trial(recorded, tmp_path):
    recorded("over", ITERATIONS)
    Path(os.fsdecode(os.fsencode(tmp_path / "storage") + b"/\xff")).mkdir()
    recorded("going_on", [1], experiment_bytes=1)
    assert len(stored_files(tmp_path / "storage" / "over")) == 0
