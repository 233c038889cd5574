"""Messages on disk come back as they were, in order; and episodes count by what they really hold."""

import pickle
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import tune_media as tm
from tune_media.callbacks.mailbox import Mailbox
from tune_media.callbacks.spool import Spool
from tune_media.callbacks.work_queue import WorkQueue
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


class Hang:
    """Lets calls of a function begin, and end when it is told to."""

    def __init__(self, monkeypatch, owner, name):
        self.may_go_on, self.begun, self._do = threading.Event(), threading.Event(), getattr(owner, name)
        monkeypatch.setattr(owner, name, lambda *arguments, **keywords: self._call(*arguments, **keywords))

    def _call(self, *arguments, **keywords):
        self.begun.set()
        assert self.may_go_on.wait(60)
        return self._do(*arguments, **keywords)


def append_at_once(spool, message):
    started = time.monotonic()
    spool.append(message, 1)
    assert time.monotonic() - started < 10


def test_a_disk_that_hangs_as_the_folder_is_made_holds_no_message_up(tmp_path, monkeypatch):
    """Tune's loop waited for the lock that was held while the folder was made."""
    hang, spool = Hang(monkeypatch, tempfile, "mkdtemp"), Spool(tmp_path)
    spool.append("first", 1)
    assert hang.begun.wait(30)
    append_at_once(spool, "second")
    hang.may_go_on.set()
    assert spool._open().wait(30)
    assert len(list(tmp_path.glob("*/*"))) == 2


def test_a_folder_that_is_made_after_the_end_is_removed(tmp_path, monkeypatch):
    hang, spool = Hang(monkeypatch, tempfile, "mkdtemp"), Spool(tmp_path)
    spool.append("first", 1)
    assert hang.begun.wait(30)
    writers = spool._writers
    spool.clear()
    hang.may_go_on.set()
    assert writers.wait(30)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_hangs_as_a_file_is_removed_holds_no_message_up(tmp_path, monkeypatch):
    """Tune's loop waited for the lock that was held while a delivered message's file was removed."""
    lost, taken, queue = [], threading.Event(), WorkQueue("test", lambda error: False, lambda *told: None)
    box = Mailbox(
        queue, lambda message: taken.wait(30), lambda *given: None, str, lambda: 10, lambda: None, lost.append, tmp_path
    )
    for message in ("first", "second"):
        box.put(message, 10)
    assert box._spool._open().wait(30)
    hang = Hang(monkeypatch, Path, "unlink")
    taken.set()
    assert hang.begun.wait(30)
    started = time.monotonic()
    box.put("third", 10)
    assert time.monotonic() - started < 10
    writers = box._spool._writers
    hang.may_go_on.set()
    assert queue.wait(30)
    assert writers.wait(30)
    assert (len(box._spool), lost, list(tmp_path.iterdir())) == (0, [], [])
    queue.close(0)
