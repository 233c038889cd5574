import enum
import functools
import json
import warnings

import numpy as np
import pytest

import tune_media as tm
from tests.support.experiment import tensorboard_events
from tests.support.fake_trial import FakeTrial, run
from tests.support.pictures import clip


class Kind(enum.Enum):
    LEFT = 1


class NoText:
    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __str__


def shared(levels):
    """A value that is small in memory, and has ten to the power of its levels leaves when it is written."""
    value = [1.0, 2.0]
    for _ in range(levels):
        value = [value] * 10
    return value


def deep(levels):
    value = {"bottom": 1.0}
    for _ in range(levels):
        value = {"down": value}
    return value


CYCLIC_DICT, CYCLIC_LIST = {"inner": 2.0}, [1.0]
CYCLIC_DICT["itself"] = {"again": CYCLIC_DICT}
CYCLIC_LIST.append(CYCLIC_LIST)
ODD = {
    "bytes key": {b"left": 1.0},
    "tuple key": {(1, 2): 1.0},
    "enum key": {Kind.LEFT: 1.0},
    "half of a character in a key": {"na\ud800me": 1.0},
    "key without text": {NoText(): 1.0},
    "dict in itself": CYCLIC_DICT,
    "list in itself": CYCLIC_LIST,
    "no text": NoText(),
    "no text in an array": np.array([NoText(), 1], object),
    "shared": shared(9),
    "deep": deep(900),
    "large number": 10**5000,
}


class Own(tm.Backend):
    def __init__(self):
        self.flat = []

    def metrics(self, trial, report):
        self.flat.append(report.flat)


@pytest.mark.parametrize("name", ODD)
def test_an_odd_value_costs_itself_alone_in_all_loggers_and_is_counted(tmp_path, capsys, caplog, name):
    own = Own()
    callbacks = [tm.JsonMediaLoggerCallback(), tm.TBXMediaLoggerCallback(), tm.MediaLoggerCallback(own)]
    results = [{"before": 1.0, "of": {"odd": ODD[name]}, "score": 2.0, "rollout": clip()}, {"score": 3.0}]
    trial = FakeTrial(tmp_path, lr=0.1)
    run(callbacks, trial, results)
    lines = [json.loads(line) for line in (tmp_path / "driver/staging/t1/result.json").read_text().splitlines()]
    assert [(line.get("before"), line["score"]) for line in lines] == [(1.0, 2.0), (None, 3.0)]
    assert lines[0]["rollout"].endswith(".mp4")
    assert [flat["score"] for flat in own.flat] == [2.0, 3.0]
    events = tensorboard_events(tmp_path / "driver/staging/t1")
    assert [event.value for event in events.Scalars("ray/tune/score")] == [2.0, 3.0]
    assert [event.value for event in events.Scalars("ray/tune/before")] == [1.0]
    assert "fault(s) were met on the way" in capsys.readouterr().out
    assert "of/odd" in caplog.text


def test_a_tensor_becomes_numbers_and_is_not_turned_into_text(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    own = Own()
    monkeypatch.setattr(torch.Tensor, "__repr__", lambda tensor: 1 / 0)  # takes 0.2 ms
    run([tm.MediaLoggerCallback(own)], FakeTrial(tmp_path), [{"loss": torch.tensor(1.5)}])
    assert own.flat[0]["loss"] == 1.5


def test_a_tensor_that_cannot_be_read_at_all_is_replaced_by_its_type(tmp_path):
    methods = {name: lambda tensor: 1 / 0 for name in ("detach", "__str__", "__repr__")}
    own, tensor = Own(), type("Tensor", (), {"__module__": "torch", **methods})()
    run([tm.MediaLoggerCallback(own)], FakeTrial(tmp_path), [{"loss": tensor}])
    assert own.flat[0]["loss"] == "<Tensor>"


def test_whole_numbers_as_keys_and_other_ordinary_results_are_not_counted(tmp_path, capsys, caplog):
    result = {1: 2.0, "of": {np.int64(3): "text", True: [1, "a", None]}, "text": "größer", "list": [1.0] * 300_000}
    result |= {None: 3.0, float("nan"): 4.0, "größe": 5.0}
    run([tm.JsonMediaLoggerCallback(), tm.TBXMediaLoggerCallback()], FakeTrial(tmp_path), [result])
    (line,) = map(json.loads, (tmp_path / "driver/staging/t1/result.json").read_text().splitlines())
    assert (line["1"], line["of"], line["text"]) == (2.0, {"3": "text", "true": [1, "a", None]}, "größer")
    assert (line["null"], line["NaN"], line["größe"]) == (3.0, 4.0, 5.0)
    events = tensorboard_events(tmp_path / "driver/staging/t1")
    assert [events.Scalars(f"ray/tune/{name}")[0].value for name in ("1", "null", "NaN", "größe")] == [2, 3, 4, 5]
    assert "fault" not in capsys.readouterr().out


def test_print_options_and_replaced_functions_of_json_change_nothing_that_is_logged(tmp_path, monkeypatch):
    """result.json held what json_numpy.patch() makes of arrays."""
    replaced = functools.partial(json.dumps, default=lambda value: "replaced")
    monkeypatch.setattr("json.dumps", replaced)
    results = [{"array": np.array([1.25, 2.0])}]
    with np.printoptions(precision=1, suppress=True), warnings.catch_warnings():
        warnings.simplefilter("error")
        run([tm.JsonMediaLoggerCallback()], FakeTrial(tmp_path), results)
    lines = [json.loads(line) for line in (tmp_path / "driver/staging/t1/result.json").read_text().splitlines()]
    assert [line["array"] for line in lines] == [[1.25, 2.0]]
