"""result.json: one line a result, whoever else would write it."""

import json
import logging

import pytest
from ray.tune.logger import JsonLoggerCallback

import tune_media as tm
from tests.support.fake_trial import FakeTrial, run


class Own(JsonLoggerCallback):
    """A user's own JSON logger."""


def scores(folder):
    lines = (folder / "driver/staging/t1/result.json").read_text().splitlines()
    return [json.loads(line)["score"] for line in lines]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: [tm.JsonMediaLoggerCallback(), JsonLoggerCallback()], "JsonLoggerCallback writes them"),
        (lambda: [JsonLoggerCallback(), tm.JsonMediaLoggerCallback()], "JsonLoggerCallback writes them"),
        (lambda: [Own(), tm.JsonMediaLoggerCallback()], "Own writes them"),
        (lambda: [tm.JsonMediaLoggerCallback(), tm.JsonMediaLoggerCallback()], "the first one writes them"),
    ],
    ids=["ours-rays", "rays-ours", "own-ours", "ours-ours"],
)
def test_two_json_loggers_write_each_line_once(tmp_path, caplog, make, says):
    """Ray's JsonLoggerCallback beside ours, or ours twice: result.json had every line twice."""
    with caplog.at_level(logging.WARNING, "tune_media"):
        run(make(), FakeTrial(tmp_path), [{"score": 1}, {"score": 2}])
    assert scores(tmp_path) == [1, 2]
    (said,) = [r.getMessage() for r in caplog.records if "result.json" in r.getMessage()]
    assert says in said
    assert "Pass only JsonMediaLoggerCallback" in said


def test_alone_it_writes_and_says_nothing(tmp_path, caplog):
    run([tm.JsonMediaLoggerCallback()], FakeTrial(tmp_path), [{"score": 1}, {"score": 2}])
    assert scores(tmp_path) == [1, 2]
    assert not caplog.records
