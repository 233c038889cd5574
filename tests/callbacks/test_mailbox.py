"""Messages that memory has no room for wait on disk: in order, none lost, and bounded."""

import gc
import resource
import threading
import weakref

import pytest

from tune_media.callbacks import spool as spool_module
from tune_media.callbacks.helpers import Helpers
from tune_media.callbacks.mailbox import Mailbox
from tune_media.callbacks.spool import SpoolFullError, UnreadableError
from tune_media.callbacks.work_queue import WorkQueue


class Box:
    """A mailbox whose handler waits until it may go on."""

    def __init__(
        self, folder, most=100, is_away=lambda error: False, most_on_disk=10_000, early=lambda message: None, **options
    ):
        self.taken, self.given_up, self.spills, self.told, self.lost = [], [], [], [], []
        self.may_go_on, self.has_begun, self.fails = threading.Event(), threading.Event(), 0
        self.queue = WorkQueue("test", is_away, lambda what, error, again: self.told.append(error), **options)
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
            early,
            lambda message: f"number {message}",
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
    rest = list(box.box.take_rest())
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


@pytest.fixture
def slow_disk(monkeypatch):
    """A disk that takes nothing before it is told to, and the threads that wrote to it."""
    may_write, threads, pickled = threading.Event(), [], spool_module.pickled

    def write(message):
        threads.append(threading.current_thread())
        assert may_write.wait(30)
        return pickled(message)

    monkeypatch.setattr(spool_module, "pickled", write)
    return may_write, threads


def test_who_puts_waits_for_the_disk_if_too_much_is_on_its_way_there(tmp_path, slow_disk, monkeypatch):
    """Pickling 9.6 MB in Tune's loop held it for up to 608 ms."""
    monkeypatch.setattr(spool_module, "_PATIENCE", 30)
    may_write, threads = slow_disk
    box = Box(tmp_path, most=100)
    for number in range(3):  # two have room in memory; the third is on its way to the disk, which takes nothing yet
        box.box.put(number, 40)
    threading.Timer(0.1, may_write.set).start()
    for number in range(3, 5):
        box.box.put(number, 40)
    assert may_write.is_set()
    assert threading.current_thread() not in threads
    box.may_go_on.set()
    assert box.queue.wait(30)
    assert box.taken == list(range(5))
    assert box.lost == []


def test_a_disk_that_is_too_slow_costs_messages_and_not_tunes_loop(tmp_path, slow_disk, monkeypatch):
    """Tune's loop wrote raw clips of 144 MB to a busy disk itself, which held it for 9 s."""
    monkeypatch.setattr(spool_module, "_PATIENCE", 0.01)
    may_write, threads = slow_disk
    box = Box(tmp_path, most=200_000)
    for number in range(4):
        box.box.put(number, 90_000)
    ((message, error),) = box.lost  # we are here, and the disk has taken nothing yet
    assert (message, type(error)) == (3, SpoolFullError)
    assert "0.1 MB are on their way to the disk, which is too slow" in str(error)
    monkeypatch.setattr(spool_module, "_PATIENCE", 1000)
    box.box.put("small", 100)  # it is taken, but that does not show that the disk takes anything
    box.box.put(5, 90_000)  # it was waited for in vain
    assert [message for message, _ in box.lost] == [3, 5]
    may_write.set()
    box.may_go_on.set()
    assert box.queue.wait(30)
    assert box.taken == [0, 1, 2, "small"]
    assert threading.current_thread() not in threads


def test_what_comes_back_from_the_disk_is_brought_early_several_at_a_time(tmp_path):
    """Once messages had waited on disk, one file at a time went to S3, where 32 did before."""
    helpers, together, met = Helpers("test", 4), threading.Barrier(4), threading.Event()

    def bring():
        if not met.is_set():
            together.wait(30)
            met.set()

    box = Box(tmp_path, 200, early=lambda message: bring if message >= 6 else None, helpers=helpers, keeps_order=False)
    for number in range(40):
        box.box.put(number, 30)
    assert len(box.box._spool) == 34
    box.may_go_on.set()
    assert box.queue.wait(60)
    helpers.close()
    assert met.is_set()
    assert box.taken == list(range(40))


def test_no_more_comes_back_from_the_disk_than_memory_may_hold(tmp_path, monkeypatch):
    monkeypatch.setattr("tune_media.callbacks.work_queue._FIRST_PAUSE", 0.001)
    monkeypatch.setattr("tune_media.callbacks.work_queue._LONGEST_PAUSE", 0.001)
    box, most = Box(tmp_path, is_away=lambda error: True, keeps_order=False), []
    handle = box.box._handle

    def handled(message):
        most.append(box.queue.nbytes)
        handle(message)

    box.box._handle = handled
    for number in range(30):
        box.box.put(number, 30)
    box.fails = 60  # with nothing that succeeds, nothing is given up
    box.may_go_on.set()
    assert box.queue.wait(60)
    assert sorted(box.taken) == list(range(30))
    assert box.given_up == []
    assert max(most) <= 100


def test_a_handler_that_comes_back_after_the_end_takes_no_message_and_breaks_nothing(tmp_path):
    box = Box(tmp_path, most=1)
    for number in range(4):
        box.box.put(number, 30)
    assert box.has_begun.wait(30)
    for task in box.queue.close(0):
        task.give_up(TimeoutError())
    rest = list(box.box.take_rest())
    box.may_go_on.set()
    box.queue._thread.join(30)
    assert [*box.given_up, *rest] == [0, 1, 2, 3]
    assert (box.taken, box.told) == ([0], [])


def test_a_message_whose_file_was_deleted_or_cut_off_is_told(tmp_path):
    box = Box(tmp_path, most=1)
    for number in range(6):
        box.box.put(number, 30)
    assert box.has_begun.wait(30)
    box.wait_for_disk()
    files = {int(file.name): file for file in tmp_path.glob("*/*")}
    for number in (2, 4):  # the next one, 1, may have stayed in memory
        files[number].unlink()
    files[3].write_bytes(files[3].read_bytes()[:-3])
    box.may_go_on.set()
    assert box.queue.wait(30)
    assert box.taken == [0, 1, 5]
    assert [message for message, _ in box.lost] == ["number 2", "number 3", "number 4"]
    assert {type(error) for _, error in box.lost} == {UnreadableError}
    assert "its file cannot be read (FileNotFoundError" in str(box.lost[0][1])
    assert list(tmp_path.iterdir()) == []


def test_the_end_tells_of_a_message_whose_file_was_deleted(tmp_path):
    box = Box(tmp_path, most=1)
    for number in range(3):
        box.box.put(number, 30)
    assert box.has_begun.wait(30)
    box.wait_for_disk()
    for file in tmp_path.glob("*/*2"):
        file.unlink()
    for task in box.queue.close(0):
        task.give_up(TimeoutError())
    assert list(box.box.take_rest()) == [1]
    assert [message for message, _ in box.lost] == ["number 2"]
    assert list(tmp_path.iterdir()) == []
    box.may_go_on.set()


ALIVE = weakref.WeakSet()


class Weighty:
    """A message of which one can tell how many there are."""

    def __init__(self, number):
        self.number = number
        ALIVE.add(self)

    def __reduce__(self):
        return Weighty, (self.number,)


def test_the_end_holds_one_message_at_a_time(tmp_path):
    box = Box(tmp_path, most=1)
    for number in range(20):
        box.box.put(Weighty(number), 30)
    assert box.has_begun.wait(30)
    box.wait_for_disk()
    for task in box.queue.close(0):
        task.give_up(TimeoutError())
    gc.collect()
    before, numbers = len(ALIVE), []
    for message in box.box.take_rest():
        numbers.append(message.number)
        assert len(ALIVE) <= before + 2
    assert numbers == list(range(1, 20))
    box.may_go_on.set()


def test_a_file_that_a_full_disk_cut_off_does_not_stay(tmp_path):
    box = Box(tmp_path, most=1, most_on_disk=1e9)
    box.box.put("is delivered at once, and hangs", 30)
    assert box.has_begun.wait(30)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))  # as a full disk: a file is written in part
    try:
        box.box.put("x" * 500_000, 500_000)
        box.box.put("fits", 30)
        box.wait_for_disk()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [message[0] for message, _ in box.lost] == ["x"]
    assert [file.name[-1] for file in tmp_path.glob("*/*")] == ["2"]
    box.may_go_on.set()
    assert box.queue.wait(30)
    assert box.taken[1:] == ["fits"]
