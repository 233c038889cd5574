"""What waits on the driver's disk is read back as it was written."""

from dataclasses import fields, replace

import numpy as np

from tests.support.batches import batch_of
from tune_media.values.episodes import LEFT_OUT, EpisodeBatch, Trajectory
from tune_media.values.plain import pack, unpack


def test_episodes_keep_their_tapes_and_recipes():
    first, second, third = batch_of(({"speed": 1.0}, {"speed": [1.0, 2.0]}), ({}, {}), ({}, {})).episodes
    first, second = replace(first, tape=b"TMT\x01\xff\x00", recipe="ab"), replace(second, tape=LEFT_OUT)
    steps = Trajectory({"step": [0, 1], "reward": [None, 1.0], "action": [None, np.zeros(2)]})
    batch = EpisodeBatch((first, second, third), {first.record.id: steps}, {"ab": b"\x80\x05opaque\x00"}, note="a note")
    read = unpack(pack(batch))
    assert type(read) is EpisodeBatch
    assert read.recipes == {"ab": b"\x80\x05opaque\x00"}
    assert type(read.recipes["ab"]) is bytes
    assert [(e.tape, e.recipe) for e in read.episodes] == [(b"TMT\x01\xff\x00", "ab"), (LEFT_OUT, None), (None, None)]
    assert [e.record for e in read.episodes] == [e.record for e in batch.episodes]
    assert read.episodes[0].series["speed"].values.tolist() == [1.0, 2.0]
    assert {field.name for field in fields(batch)} <= vars(read).keys()
    assert (read.id, read.note, read.nbytes) == (batch.id, batch.note, batch.nbytes)
    assert read.trajectories[first.record.id].columns["action"][1].tolist() == [0.0, 0.0]
