"""Messages on disk come back as they were, in order; and episodes count by what they really hold."""

import pickle

import numpy as np
import pytest

import tune_media as tm
from tune_media.callbacks.spool import Spool
from tune_media.results.raw_clips import RawLayout, RawVideo
from tune_media.values.episodes import EpisodeBatch, EpisodeData, Series, Trajectory


def test_arrays_come_back_as_they_were(tmp_path):
    spool = Spool(tmp_path)
    given = {"C": np.arange(10.0), "F": np.asfortranarray(np.ones((3, 4))), "none": np.zeros((0, 3)), "text": "x"}
    spool.append(given)
    assert spool._open().wait(30)
    (file,) = tmp_path.glob("*/*")
    assert file.stat().st_size == spool._files._nbytes
    found = spool.read(spool.hold_first())
    assert all(np.array_equal(given[name], found[name]) for name in given)
    assert found["C"].flags.writeable
    spool.clear()


def test_closures_locks_and_what_cannot_be_pickled_wait_too(tmp_path):
    spool = Spool(tmp_path)
    raw = RawVideo(np.zeros((2, 4, 4, 3), np.uint8), *layout_of())
    generator = (step for step in range(3))
    for message in (lambda: 7, raw, generator):
        spool.append(message)
    assert spool._open().wait(30)
    assert len(list(tmp_path.glob("*/*"))) == 2
    assert spool.read(spool.hold_first())() == 7
    spool.drop_first()
    assert spool.read(spool.hold_first()).facts()["frames"] == 2
    spool.drop_first()
    assert spool.read(spool.hold_first()) is generator
    spool.clear()


def layout_of():
    return RawLayout("THWC", 255), 10.0, "0" * 32


def batch_of(kind):
    records = [tm.EpisodeRecord(f"e{index}", 1.0, 100) for index in range(20)]
    if kind == "trajectories":
        steps = {"step": list(range(1000)), "observation": [np.zeros(2400) for _ in range(1000)]}
        return EpisodeBatch((EpisodeData(records[0]),), {records[0].id: Trajectory(steps)})
    if kind == "values":
        grid = [[float(row * column) for column in range(100)] for row in range(100)]
        return EpisodeBatch(tuple(EpisodeData(record, {}, {"grid": [list(row) for row in grid]}) for record in records))
    series = Series(np.zeros(10_000), 1, 10_000)
    return EpisodeBatch(
        tuple(EpisodeData(record, {"speed": Series(series.values.copy(), 1, 10_000)}) for record in records)
    )


@pytest.mark.parametrize("kind", ["trajectories", "values", "series"])
def test_the_size_of_a_batch_is_what_it_holds(kind):
    """A batch of 19.8 MB counted as 6.6 kB, and max_pending_bytes did not see it."""
    batch = batch_of(kind)
    held = len(pickle.dumps(batch))
    assert 0.9 * held < batch.nbytes < 1.2 * held


def test_a_message_that_is_held_is_delivered_and_none_after_it_is_skipped(tmp_path):
    """It was lost between the moment its number was noted and the moment it was read, and delivery stopped for good."""
    lost = []
    spool = Spool(tmp_path, lambda message, error: lost.append(message), most_bytes=lambda: 0)
    for message in ("first", "second"):
        spool.append(message, in_memory=True)
    number = spool.hold_first()
    spool._lose(number, OSError("full"))
    assert (spool.read(number), lost) == ("first", [])
    spool.drop_first()
    assert spool.read(spool.hold_first()) == "second"
    spool.drop_first()
    assert spool.hold_first() is None
