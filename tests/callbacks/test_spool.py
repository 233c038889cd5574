"""Messages that memory has no room for wait on disk: in order, none lost, and bounded by what episodes really hold."""

import pickle
import threading

import numpy as np
import pytest

import tune_media as tm
from tune_media.callbacks.spool import Mailbox, Spool
from tune_media.callbacks.work_queue import WorkQueue
from tune_media.results.raw_clips import RawVideo
from tune_media.values.episodes import EpisodeBatch, EpisodeData, Series, Trajectory


class Box:
    """A mailbox whose handler waits until it may go on."""

    def __init__(self, folder, most=100, is_away=lambda error: False, most_on_disk=10_000):
        self.taken, self.given_up, self.spills, self.told, self.lost = [], [], [], [], []
        self.may_go_on, self.has_begun, self.fails = threading.Event(), threading.Event(), 0
        self.queue = WorkQueue("test", is_away, lambda what, error, again: self.told.append(error))
        self.box = Mailbox(
            self.queue,
            self._handle,
            lambda message, error: self.given_up.append(message),
            str,
            lambda: most,
            lambda: self.spills.append(1),
            lambda message, error: self.lost.append((message, error)),
            folder,
            lambda: most_on_disk,
        )

    def wait_for_disk(self):
        """Wait until everything is on the disk that goes there."""
        assert self.box._spool._open().wait(30)

    def _handle(self, message):
        self.has_begun.set()
        self.may_go_on.wait(30)
        if self.fails:
            self.fails -= 1
            raise ConnectionError("away")
        self.taken.append(message)


def test_what_memory_has_no_room_for_waits_on_disk_in_order(tmp_path):
    box = Box(tmp_path)
    for number in range(50):
        box.box.put(number, 30)
    assert box.queue.nbytes <= 100
    box.wait_for_disk()
    assert len(list(tmp_path.glob("*/*"))) == 47
    box.may_go_on.set()
    for number in range(50, 60):
        box.box.put(number, 30)
    assert box.queue.wait(30)
    assert box.taken == list(range(60))
    assert box.queue.close(5) == []
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_is_away_loses_nothing_that_waits_on_disk(tmp_path, monkeypatch):
    monkeypatch.setattr("tune_media.callbacks.work_queue._FIRST_PAUSE", 0.001)
    monkeypatch.setattr("tune_media.callbacks.work_queue._LONGEST_PAUSE", 0.001)
    box = Box(tmp_path, is_away=lambda error: True)
    for number in range(20):
        box.box.put(number, 60)
    box.fails = 10
    box.may_go_on.set()
    assert box.queue.wait(30)
    assert (box.taken, box.given_up) == (list(range(20)), [])
    assert box.queue.close(5) == []


def test_what_is_refused_is_given_up_and_the_rest_delivered(tmp_path):
    box = Box(tmp_path)
    for number in range(10):
        box.box.put(number, 60)
    box.fails = 3
    box.may_go_on.set()
    assert box.queue.wait(30)
    assert (box.given_up, box.taken) == ([0, 1, 2], list(range(3, 10)))


def test_the_end_names_what_still_waits(tmp_path):
    box = Box(tmp_path)
    for number in range(10):
        box.box.put(number, 60)
    left = box.queue.close(0.1)
    for task in left:
        task.give_up(TimeoutError())
    rest = box.box.take_rest()
    assert sorted([*box.given_up, *rest]) == list(range(10))
    assert list(tmp_path.iterdir()) == []
    box.may_go_on.set()


def test_a_disk_that_takes_nothing_costs_that_message_which_is_told(tmp_path):
    box = Box(tmp_path / "is a file" / "not a folder")
    (tmp_path / "is a file").touch()
    box.box.put("fits", 90)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.mkdtemp", lambda **_: (_ for _ in ()).throw(OSError("full")))
        box.box.put("does not", 90)
        box.wait_for_disk()
    ((message, error),) = box.lost
    assert (message, str(error)) == ("does not", "full")
    box.box.put("again", 90)
    box.may_go_on.set()
    assert box.queue.wait(30)
    assert box.taken == ["fits", "again"]


def test_the_disk_has_a_bound_and_what_is_more_is_told(tmp_path):
    box = Box(tmp_path, most=1, most_on_disk=300_000)
    clips = [f"{number}" * 90_000 for number in range(6)]
    box.box.put("is delivered at once, and hangs", 30)
    assert box.has_begun.wait(30)
    for clip in [*clips, "the end"]:
        box.box.put(clip, 90_000)
        box.wait_for_disk()
    assert [message[0] for message, _ in box.lost] == ["3", "4", "5"]
    assert "0.27 MB wait there, and no more than MediaOptions(max_spilled_bytes=300000) may" in str(box.lost[0][1])
    box.may_go_on.set()
    assert box.queue.wait(30)
    assert [message[:3] for message in box.taken[1:]] == ["000", "111", "222", "the"]
    assert list(tmp_path.iterdir()) == []


def test_who_puts_waits_for_the_disk_only_if_too_much_is_on_its_way_there(tmp_path, monkeypatch):
    """Pickling 9.6 MB in Tune's loop held it for up to 608 ms."""
    writes, may_write, threads = threading.Event(), threading.Event(), []

    def write(message):
        writes.set()
        threads.append(threading.current_thread())
        return may_write.wait(30) and pickle.dumps(message)

    monkeypatch.setattr("tune_media.callbacks.spool._pickled", write)
    box = Box(tmp_path, most=100)
    for number in range(3):  # two have room in memory; the third is on its way to the disk, which takes nothing yet
        box.box.put(number, 40)
    assert writes.wait(30)
    may_write.set()
    for number in range(3, 5):
        box.box.put(number, 40)
    assert threads[0] is not threading.current_thread()
    box.may_go_on.set()
    assert box.queue.wait(30)
    assert box.taken == list(range(5))
    assert box.lost == []


def test_closures_locks_and_what_cannot_be_pickled_wait_too(tmp_path):
    spool = Spool(tmp_path)
    raw = RawVideo(np.zeros((2, 4, 4, 3), np.uint8), *layout_of())
    generator = (step for step in range(3))
    for message in (lambda: 7, raw, generator):
        spool.append(message)
    assert spool._open().wait(30)
    assert len(list(tmp_path.glob("*/*"))) == 2
    assert spool.first()() == 7
    spool.drop_first()
    assert spool.first().facts()["frames"] == 2
    spool.drop_first()
    assert spool.first() is generator


def layout_of():
    from tune_media.results.raw_clips import RawLayout

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


def test_a_handler_that_comes_back_after_the_end_takes_no_message_and_breaks_nothing(tmp_path):
    box = Box(tmp_path, most=1)
    for number in range(4):
        box.box.put(number, 30)
    assert box.has_begun.wait(30)
    for task in box.queue.close(0):
        task.give_up(TimeoutError())
    rest = box.box.take_rest()
    box.may_go_on.set()
    box.queue._thread.join(30)
    assert [*box.given_up, *rest] == [0, 1, 2, 3]
    assert (box.taken, box.told) == ([0], [])


def test_a_message_whose_file_was_deleted_is_told(tmp_path, caplog):
    box = Box(tmp_path, most=1)
    for number in range(3):
        box.box.put(number, 30)
    assert box.has_begun.wait(30)
    box.wait_for_disk()
    for file in tmp_path.glob("*/*2"):
        file.unlink()
    for task in box.queue.close(0):
        task.give_up(TimeoutError())
    assert box.box.take_rest() == [1]
    assert "a message that waited on the driver's disk is lost" in caplog.text
    box.may_go_on.set()


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
    assert spool.first() == "second"
    spool.drop_first()
    assert spool.hold_first() is None
