"""YAML of other tools becomes plain values; it runs nothing, and cannot fill the memory."""

import collections
import sys

import numpy as np
import pytest
import yaml

from tune_media.foreign import yaml_text
from tune_media.foreign.yaml_text import parse_yaml


def test_a_tag_runs_nothing_and_its_content_is_plain(tmp_path):
    mark = tmp_path / "ran"
    content = f"""
call: !!python/object/apply:os.system ["touch {mark}"]
new: !!python/object/new:subprocess.Popen [["touch", "{mark}"]]
object: !!python/object:argparse.Namespace {{lr: 1e-4}}
name: !!python/name:torch.nn.modules.activation.Tanh ''
tuple: !!python/tuple [64, 64]
own: [!theirs 5, !theirs '5']
"""
    assert parse_yaml(content.encode()) == {
        "call": [f"touch {mark}"],
        "new": [["touch", str(mark)]],
        "object": {"lr": 1e-4},
        "name": "torch.nn.modules.activation.Tanh",
        "tuple": [64, 64],
        "own": [5, "5"],
    }
    assert not mark.exists()


def test_what_pyyaml_dumps_of_python_objects_is_read():
    values = {
        "ordered": collections.OrderedDict(a=1, b=(2, 3)),
        "one": collections.OrderedDict(a=1),
        "layers": (64, 64),
        "bytes": b"abc",
        "set": {"x"},
        **{"number": np.float64(0.1), "truth": np.bool_(True), "half": np.float32(0.5), "count": np.int64(-3)},
    }
    assert parse_yaml(yaml.dump(values).encode()) == {
        "ordered": {"a": 1, "b": [2, 3]},
        "one": {"a": 1},
        "layers": [64, 64],
        "bytes": "616263",
        "set": {"x": None},
        **{"number": 0.1, "truth": True, "half": 0.5, "count": -3},
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [("1e-4", 1e-4), ("1E5", 1e5), ("-2.5e+3", -2.5e3), (".5e1", 5.0), ("3", 3), ("0x10", 16), (".inf", float("inf"))]
    + [(text, text) for text in ("12:30:00", "007", "1234e567", "e5", "1e", "v1e-4", "2026-01-31", "=")],
)
def test_a_number_is_one_and_nothing_else_is(text, value):
    assert parse_yaml(f"x: {text}".encode()) == {"x": value}


def test_a_merged_mapping_gives_what_the_own_one_lacks():
    content = b"base: &b {lr: 1, gamma: 2}\nother: &o {lr: 3, tau: 4}\nrun: {<<: [*b, *o], gamma: 5}"
    assert parse_yaml(content)["run"] == {"lr": 1, "gamma": 5, "tau": 4}


def nested(first, item):
    lines = [f"a{i}: &a{i} {item.format(', '.join([f'*a{i - 1}'] * 10))}" for i in range(1, 12)]
    return "\n".join([f"a0: &a0 {first}", *lines]).encode()


@pytest.mark.parametrize("base", ["CSafeLoader", "SafeLoader"])
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (nested("[x, x]", "[{}]"), "it has too many values"),
        (nested("{x: 1, y: 2}", "{{<<: [{}]}}"), "it has too many values"),
        (b"a: &a [*a]", "its values are nested too deep"),
        (b"[" * 900 + b"]" * 900, "its values are nested too deep"),
        (b"x: " + b"y" * 2_000_001, "it has 2.0 MB, which is too much for YAML"),
        (b"a: 1\nb: [2,\nc: 3", "it is no YAML from its line [34] on"),
        (b"a: 1\n---\nb: 2", "it is no YAML from its line 2 on"),
        (b"a: \xff\xfe", "it is no YAML"),
    ],
    ids=["aliases", "merges", "itself", "deep", "large", "damaged", "two documents", "no text"],
)
def test_what_cannot_be_read_is_a_value_error(content, reason, base, monkeypatch):
    monkeypatch.setattr(yaml, "CSafeLoader", getattr(yaml, base))
    yaml_text._loader_class.cache_clear()
    with pytest.raises(ValueError, match=f"^{reason}"):
        parse_yaml(content)
    yaml_text._loader_class.cache_clear()


def test_without_pyyaml_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ImportError, match=r"pip install .*\[folders\]"):
        parse_yaml(b"a: 1")
