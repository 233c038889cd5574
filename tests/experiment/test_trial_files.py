import json
import math
import os
from pathlib import Path

import pyarrow.fs
import pytest

from tests.support.recorded import make_trial
from tests.support.viewing import write_trial
from tune_media.experiment.params import differing, flat_values, nested_choice, searched_params
from tune_media.experiment.trial_files import TrialFiles, version_of
from tune_media.storage.index_lines import INDEX_PATH
from tune_media.storage.trial_folder import plain_config

LOCAL = pyarrow.fs.LocalFileSystem()


def of(folder):
    return TrialFiles(folder.name, LOCAL, str(folder)).read()


@pytest.fixture
def trial(tmp_path):
    return TrialFiles("trial", LOCAL, str(write_trial(tmp_path / "trial", 1, (10, 20), nested={"size": 3})))


def version(trial):
    return version_of(LOCAL.get_file_info(f"{trial.path}/{INDEX_PATH}"))


def test_the_index_is_read_again_only_if_its_file_has_changed(trial):
    assert trial.refresh(version(trial))
    assert not trial.refresh(version(trial))
    assert (len(trial.lines), len(trial.reports)) == (4, 2)
    assert trial.config == {"lr": 0.1, "env": "E", "nested/size": 3}
    with Path(f"{trial.path}/{INDEX_PATH}").open("ab") as file:
        file.write(json.dumps({**trial.lines[0], "status": "failed", "try": 1}).encode() + b"\n")
    first = trial.lines[0]["path"]
    assert trial.refresh(version(trial))
    assert len(trial.lines) == 3
    assert trial.line(first) is None
    assert trial.media_file(first) is None


def test_an_index_of_the_same_size_that_was_written_later_is_another_one(trial):
    index = Path(f"{trial.path}/{INDEX_PATH}")
    assert trial.refresh(version(trial))
    text = index.read_text()
    index.write_text(text.replace("trial_id", "trial_no"))  # as large as before
    os.utime(index, (0, 1))
    assert trial.refresh(version(trial))
    assert not trial.trial_ids


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
    assert trial.last_metrics == {"training_iteration": 3, "a": pytest.approx(math.nan, nan_ok=True)}
    assert not trial.refresh_metrics((1, 1))


def test_an_evaluation_that_rllib_repeats_until_the_next_one_is_one_point(trial):
    """As RLlib 2.50 and 2.60 write it with evaluation_interval=2; only the workers' state tells what is new."""

    def evaluation(value, **more):
        return {"evaluation": {"env_runners": {"episode_return_mean": value}, **more}}

    fresh = {"num_healthy_workers": 0}
    lines = [{}, evaluation(5.0, **fresh), evaluation(5.0), evaluation(5.0, **fresh), evaluation(float("nan"))]
    lines = [{"training_iteration": number, "loss": 1.0, **line} for number, line in enumerate(lines, 1)]

    def curves():
        Path(trial.path, "result.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return trial.curves()["metrics"]

    name = "evaluation/env_runners/episode_return_mean"
    assert curves()[name] == [None, 5.0, None, 5.0, None]  # two evaluations may have one value
    assert curves()["loss"] == [1.0] * 5
    lines = [{"training_iteration": number, **evaluation(5.0)} for number in (1, 2)]  # of another trainable
    assert curves()[name] == [5.0, 5.0]


def test_a_trial_without_files_is_empty_and_no_error(tmp_path):
    trial = TrialFiles("none", LOCAL, str(tmp_path / "none"))
    assert trial.refresh((0, 0))
    assert trial.refresh_metrics((0, 0))
    assert (trial.lines, trial.config, trial.last_metrics) == ([], {}, {})
    assert trial.curves() == {"step": [], "metrics": {}}
    assert trial.media_file("media/x.mp4") is None


def test_hyperparameters_in_a_table_are_scalars_and_lists():
    values = {"a": [1, 2], "deep": {"b": None, "c": [[1]]}, "object": object()}
    assert dict(flat_values(values)) == {"a": "[1, 2]", "deep/b": None, "deep/c": "[[1]]"}


def test_memory_addresses_are_no_difference_and_missing_values_are_one():
    params = [{"policy": "<f at 0x7f01>", "a": 1, "b": [1]}, {"policy": "<f at 0x7f02>", "b": [1]}]
    params = [{name: str(value) if name == "b" else value for name, value in found.items()} for found in params]
    assert differing(params) == ["a"]
    assert differing(params[:1]) == []


def test_files_of_episodes_are_reports_and_no_media(tmp_path):
    folder = make_trial(tmp_path / "t", {}, {10: 1.0})
    index = folder / "media" / "index.jsonl"
    line = json.loads(index.read_text().splitlines()[0])
    path = "episode_data/data-00000001.json"
    index.write_text(index.read_text() + json.dumps({**line, "id": "e", "kind": "episodes", "path": path}) + "\n")
    trial = of(folder)
    assert trial.report_paths == [f"{folder}/{path}"]
    assert len(trial.media) == 1


def test_objects_are_named_by_tunes_ids_wherever_they_are():
    ids = {"f": ["__ref_ph", "aaaaaaaa"], "pair": [1, ["__ref_ph", "bbbbbbbb"]], "a/b": ["__ref_ph", "cccccccc"]}
    chosen = nested_choice({**ids, "n": ["__ref_ph", "dddddddd"], "l/0": 0.5}, {"s": ["__fn_ph", "eeeeeeee"]})
    texts = {"f": "<function f at 0x7f01>", "pair": [1, "<x.A object at 0x7f02>"], "a": {"b": "<b at 0x7f03>"}}
    config = plain_config({**texts, "n": 3, "l": [0.5, 2], "s": 0.25, "fixed": "<c at 0x7f04>"}, chosen)
    assert config == {
        **{"f": "<function f aaaaaaaa>", "pair": [1, "<x.A object bbbbbbbb>"], "a": {"b": "<b cccccccc>"}},
        **{"n": 3, "l": [0.5, 2], "s": 0.25, "fixed": "<c at 0x7f04>"},
    }
    searched = {"f": config["f"], "pair": config["pair"], "a/b": "<b cccccccc>", "n": 3, "l/0": 0.5, "s": 0.25}
    assert searched_params(config, chosen) == searched
    assert searched_params({}, chosen)["f"] == "<object aaaaaaaa>"  # no params.json
