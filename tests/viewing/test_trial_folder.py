"""A trial's folder as the viewer reads it: again only if the index has changed."""

import json
from pathlib import Path

import pyarrow.fs
import pytest

from tests.support.viewing import write_trial
from tune_media.viewing.trial_folder import TrialFolder, flat_values, index_path, version_of

LOCAL = pyarrow.fs.LocalFileSystem()


@pytest.fixture
def trial(tmp_path):
    return TrialFolder("trial", LOCAL, str(write_trial(tmp_path / "trial", 1, (10, 20), nested={"size": 3})))


def version(trial):
    return version_of(LOCAL.get_file_info(index_path(trial.path)))


def test_the_index_is_read_again_only_if_its_file_has_changed(trial):
    assert trial.refresh(version(trial))
    assert not trial.refresh(version(trial))
    assert (len(trial.lines), len(trial.reports)) == (4, 2)
    assert trial.params == {"lr": 0.1, "env": "E", "nested/size": 3}
    with Path(index_path(trial.path)).open("ab") as file:
        file.write(json.dumps({**trial.lines[0], "status": "deleted"}).encode() + b"\n")
    first = trial.lines[0]["path"]
    assert trial.refresh(version(trial))
    assert len(trial.lines) == 3
    assert trial.line(first) is None
    assert trial.media_file(first) is None


def test_curves_have_null_where_a_result_lacks_a_metric_and_no_broken_line(trial):
    lines = [
        {"training_iteration": 1, "a": 1.0, "config": {"lr": 9}},
        {"timesteps_total": 50, "training_iteration": 2, "b": {"c": 2}, "flag": True},
        {"training_iteration": 3, "a": float("nan"), "b": {"c": "text"}},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines) + '{"training_iteration": 4, "a"'
    Path(trial.path, "result.json").write_text(text)
    curves = trial.curves()
    assert curves["step"] == [1, 50, 3]
    assert curves["metrics"]["a"] == [1.0, None, None]
    assert curves["metrics"]["b/c"] == [None, 2, None]
    assert not {"flag", "config/lr"} & curves["metrics"].keys()
    assert trial.refresh_metrics((1, 1))
    assert trial.metrics == {"training_iteration": 3}
    assert not trial.refresh_metrics((1, 1))


def test_a_trial_without_files_is_empty_and_no_error(tmp_path):
    trial = TrialFolder("none", LOCAL, str(tmp_path / "none"))
    assert trial.refresh((0, 0))
    assert trial.refresh_metrics((0, 0))
    assert (trial.lines, trial.params, trial.metrics) == ([], {}, {})
    assert trial.curves() == {"step": [], "metrics": {}}
    assert trial.media_file("media/x.mp4") is None


def test_hyperparameters_in_a_table_are_scalars_and_short_lists():
    values = {"a": [1, 2], "long": list(range(9)), "deep": {"b": None, "c": [[1]]}, "object": object()}
    assert dict(flat_values(values)) == {"a": "[1, 2]", "deep/b": None}
