import json
import math

import pyarrow.fs

from tune_media.experiment import results as metrics
from tune_media.experiment.results import Metric, counting, read_metrics
from tune_media.experiment.trial_files import TrialFiles

LOCAL = pyarrow.fs.LocalFileSystem()


def results(folder, *lines):
    (folder / "result.json").write_text("".join(line + "\n" for line in lines))
    return LOCAL, str(folder)


def test_last_largest_and_smallest_of_each_metric(tmp_path):
    assert read_metrics(LOCAL, str(tmp_path)) == ({}, False)  # no results yet
    folder = results(
        tmp_path,
        json.dumps({"score": 3, "deep": {"loss": 1.0}, "config": {"lr": 9}, "done": False, "name": "x"}),
        json.dumps({"score": 1, "deep": {"loss": 2.5}}),
        '{"score": 2',
    )
    assert read_metrics(*folder)[0] == {"score": Metric(1, 3, 1), "deep/loss": Metric(2.5, 2.5, 1.0)}


def test_a_metric_that_is_not_finite_is_the_last_value_and_never_the_best(tmp_path):
    folder = results(tmp_path, '{"score": 1, "gap": NaN}', '{"score": 5}', '{"score": Infinity, "timer": NaN}')
    found, _ = read_metrics(*folder)
    assert found["score"] == Metric(math.inf, 5, 1)
    assert all(map(math.isnan, (found["gap"].last, found["timer"].largest, found["timer"].smallest)))
    assert metrics.last_metrics(*folder)[0]["score"] == math.inf
    assert TrialFiles("x", *folder).metrics.keys() == {"score", "gap", "timer"}


def test_of_a_large_file_only_the_end_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(metrics, "_MAX_BYTES", 40)
    folder = results(tmp_path, *(json.dumps({"score": number}) for number in range(100)))
    assert read_metrics(*folder)[0]["score"].smallest > 90


def test_the_last_metrics_have_the_numbers_of_the_last_evaluation(tmp_path, monkeypatch):
    monkeypatch.setattr(metrics, "_TAIL", 60)
    evaluated = [{"evaluation": {"score": number}, "loss": number, "old": number} for number in range(2)]
    results(tmp_path, *map(json.dumps, [*evaluated, {"loss": 8}, {"loss": 9, "gap": float("-inf")}]), '{"loss": 10')
    found, _ = metrics.last_metrics(LOCAL, str(tmp_path))
    assert found == {"evaluation/score": 1, "old": 1, "loss": 9, "gap": -math.inf}


def test_a_number_that_no_float_holds_is_left_out(tmp_path):
    folder = results(tmp_path, '{"score": 1}', f'{{"score": 2, "steps": {10**400}, "timesteps_total": {10**400}}}')
    assert read_metrics(*folder)[0] == {"score": Metric(2, 2, 1)}
    assert metrics.last_metrics(*folder)[0] == {"score": 2}
    assert TrialFiles("x", *folder).curves() == {"step": [], "metrics": {}}


def test_results_that_were_rolled_back_count_nowhere(tmp_path):
    rows = [(1, 5), (2, 99), (3, -99), (2, 6), (3, 7)]  # the trial went back to iteration 1
    texts = [json.dumps({"training_iteration": at, "score": score}) for at, score in rows]
    folder = results(tmp_path, *texts)
    assert read_metrics(*folder)[0]["score"] == Metric(7, 7, 5)
    assert TrialFiles("x", *folder).curves() == {
        "step": [1, 2, 3],
        "metrics": {"training_iteration": [1, 2, 3], "score": [5, 6, 7]},
    }
    assert metrics.results_of_trial(*folder) == [text.encode() for text in (texts[0], *texts[3:])]


def test_the_last_evaluation_is_not_one_that_was_rolled_back(tmp_path):
    first, abandoned = ({"training_iteration": at, "evaluation": {"score": at}} for at in (2, 4))
    later = [{"training_iteration": at} for at in (5, 3, 4, 5)]
    folder = results(tmp_path, *map(json.dumps, [first, abandoned, *later]))
    assert metrics.last_metrics(*folder)[0] == {"evaluation/score": 2, "training_iteration": 5}


def test_counting_ignores_results_without_an_iteration():
    assert counting([1, None, 2, 2, "x", True]) == [True, True, False, True, True, True]
