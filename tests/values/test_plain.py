"""Plain data: what is written comes back, and no pickle is ever read."""

import subprocess
import sys
from collections import OrderedDict
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

import msgpack
import msgpack_numpy
import numpy as np
import pytest
from hypothesis import given

import tune_media as tm
from tests.support.batches import batch_of
from tests.support.faults import episodes
from tests.support.properties import EXACT, PLAIN, assert_same, many
from tune_media.values.episodes import LEFT_OUT, EpisodeBatch
from tune_media.values.plain import MEDIA, pack, pack_each, pack_exactly, unpack


class Point(NamedTuple):
    x: int
    y: float


class Text(str):
    """A text of a user's own."""


@many
@given(PLAIN)
def test_plain_values_come_back_as_they_were(value):
    assert_same(unpack(pack(value)), value)


@many
@given(EXACT)
def test_exactly_packed_values_keep_their_types(value):
    packed = pack_exactly(value)
    assert_same(unpack(packed), value)
    assert pack_exactly(unpack(packed)) == packed


def test_exactly_packed_arrays_can_be_written_to():
    array = unpack(pack_exactly({"state": np.zeros(3)}))["state"]
    array += 1
    assert array.tolist() == [1, 1, 1]


@pytest.mark.parametrize("value", [Point(1, 2.0), Text("x"), 1j, np.zeros(2, "i4,f8"), len], ids=repr)
def test_values_that_would_come_back_as_something_else_are_not_packed_exactly(value):
    with pytest.raises(TypeError, match="is no plain data"):
        pack_exactly([value])


def test_values_of_other_classes_become_the_plain_ones_that_they_are():
    given = {"point": Point(1, 2.5), "text": Text("x"), "map": MappingProxyType({"a": np.float32(1)}), "n": np.int64(7)}
    assert_same(
        unpack(pack(OrderedDict(given))), {"point": (1, 2.5), "text": "x", "map": {"a": 1.0}, "n": 7}
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["video", "image", "histogram", "artifact", "episodes"])
def test_our_media_come_back_with_their_files_and_facts(kind, frames):
    record = tm.EpisodeRecord("e1", 1.5, 3, metrics={"speed": 2.0})
    medium = {
        "video": lambda: tm.Video(iter(frames(3)), fps=5, episode=record),
        "image": lambda: tm.Image(frames(1)[0]),
        "histogram": lambda: tm.Histogram(np.arange(10.0)),
        "artifact": lambda: tm.Artifact(b"x", name="x.bin"),
        "episodes": lambda: episodes("e", 2),
    }[kind]()
    assert type(medium) in MEDIA
    back = unpack(pack(medium))
    assert (back.id, back.kind, back.note) == (medium.id, medium.kind, medium.note)
    assert_same(back, medium)
    if kind == "episodes":
        assert [one.record for one in back.episodes] == [one.record for one in medium.episodes]
    else:
        assert back.content() == medium.content()
        assert back.facts() == medium.facts()


class Runs:
    """An object whose pickle would run code."""

    def __reduce__(self):
        return exec, ("raise SystemExit",)


@pytest.mark.parametrize(
    ("value", "error"),
    [(Runs(), TypeError), (np.array([Runs()]), TypeError), ({1, 2}, TypeError)],
    ids=["object", "array of objects", "set"],
)
def test_what_is_no_plain_data_is_refused_and_never_pickled(value, error):
    with pytest.raises(error):
        pack({"deep": [value]})


def test_a_value_that_contains_itself_is_refused():
    value = {}
    value["self"] = value
    with pytest.raises((ValueError, RecursionError)):
        pack(value)
    kept, rest = pack_each({"score": 1.0, "loop": value})
    assert unpack(kept) == {"score": 1.0}
    assert rest == {"loop": value} or list(rest) == ["loop"]


def test_tuples_that_are_nested_too_deep_are_refused_before_reading_them_takes_the_whole_stack():
    value, written = (), b""
    for _ in range(300):
        value, written = (value,), msgpack.packb(msgpack.ExtType(1, written))
    for work in (lambda: pack({"config": value}), lambda: pack_exactly(value), lambda: unpack(written)):
        with pytest.raises(ValueError, match="more than 32 tuples"):
            work()


def test_bytes_that_are_not_whole_are_named():
    data = pack({"score": [1.0] * 10})
    with pytest.raises(ValueError, match=r".*"):
        unpack(data[:-3])


def test_episodes_keep_their_tapes_and_recipes():
    first, second, third = batch_of(({"speed": 1.0}, {"speed": [1.0, 2.0]}), ({}, {}), ({}, {})).episodes
    first, second = replace(first, tape=b"TMT\x01\xff\x00", recipe="ab"), replace(second, tape=LEFT_OUT)
    batch = EpisodeBatch((first, second, third), recipes={"ab": b"\x80\x05opaque\x00"})
    read = unpack(pack(batch))
    assert_same(batch, read)
    assert read.recipes == {"ab": b"\x80\x05opaque\x00"}
    assert [(e.tape, e.recipe) for e in read.episodes] == [(b"TMT\x01\xff\x00", "ab"), (LEFT_OUT, None), (None, None)]


@pytest.mark.parametrize("lines", [(0, 1), (1, 0)], ids=["patched before", "patched after"])
def test_a_package_that_patches_msgpack_at_import_changes_nothing(lines):
    """As flatland-rl does, and RLlib for checkpoints in msgpack."""
    name = msgpack_numpy.__name__
    both = (f"import {name}; {name}.patch()", "from tune_media.values import plain")
    code = [both[line] for line in lines]
    code += ["import numpy as np", "back = plain.unpack(plain.pack({'a': (np.ones(2), 3), 5: 'x'}))"]
    code += ["assert type(back['a']) is tuple and back['a'][0].tolist() == [1, 1] and back[5] == 'x', back"]
    subprocess.run([sys.executable, "-c", "\n".join(code)], check=True, timeout=60)
