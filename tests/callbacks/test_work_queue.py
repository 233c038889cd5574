"""The thread that talks to a tracker: what is worth trying again, and what is not."""

import errno
import math
import os
import sys
import threading
import time

import pytest
import requests

from tune_media.callbacks.helpers import Helpers
from tune_media.callbacks.mlflow.connection import is_away
from tune_media.callbacks.work_queue import Task, WorkQueue


def answer(status):
    response = requests.Response()
    response.status_code = status
    return requests.exceptions.HTTPError(response=response)


MADE = []


def outbox_of(is_away, **options):
    """Return what an outbox tells, and the outbox."""
    told = []
    MADE.append(WorkQueue("test", is_away, lambda what, error, again: told.append((what, again)), **options))
    return told, MADE[-1]


@pytest.fixture(autouse=True)
def _no_thread_is_left():
    yield
    while MADE:
        MADE.pop().close(0)


@pytest.mark.parametrize(("status", "away"), [(413, False), (403, False), (429, True), (503, True)])
def test_a_refusal_is_no_absence(status, away):
    assert is_away(answer(status)) is away
    assert is_away(requests.exceptions.ConnectionError())


def test_what_is_refused_does_not_hold_up_what_comes_after_it():
    done = []

    def refused():
        raise answer(413)

    told, outbox = outbox_of(is_away)
    outbox.put(Task("a clip", refused, nbytes=10))
    outbox.put(Task("metrics", lambda: done.append(1)))
    assert outbox.close(5) == []
    assert (done, told, outbox.nbytes) == ([1], [("a clip", False)], 0)


def test_what_fails_because_the_tracker_is_away_is_tried_until_it_is_back(monkeypatch):
    monkeypatch.setattr("tune_media.callbacks.work_queue._FIRST_PAUSE", 0.01)
    tries, done = [], []

    def away_at_first():
        tries.append(1)
        if len(tries) < 4:
            raise requests.exceptions.ConnectionError

    told, outbox = outbox_of(is_away)
    outbox.put(Task("first", away_at_first))
    outbox.put(Task("second", lambda: done.append(len(tries))))
    assert outbox.close(5) == []
    assert (done, told) == ([4], [("first", True)])


def test_what_only_some_of_the_work_meets_holds_up_no_other(monkeypatch):
    monkeypatch.setattr("tune_media.callbacks.work_queue._FIRST_PAUSE", 0.01)
    done, given_up = [], []

    def bad():
        raise OSError("a folder is in its place")

    _, outbox = outbox_of(lambda error: True, keeps_order=False)
    outbox.put(Task("bad", bad, give_up=given_up.append))
    for number in range(20):
        outbox.put(Task("good", lambda number=number: done.append(number)))
    assert outbox.wait(10)
    assert done == list(range(20))
    assert str(given_up[0]) == "a folder is in its place"


def test_a_full_disk_takes_small_things_and_is_waited_for(monkeypatch):
    monkeypatch.setattr("tune_media.callbacks.work_queue._FIRST_PAUSE", 0.01)
    monkeypatch.setattr("tune_media.callbacks.work_queue._LONGEST_PAUSE", 0.01)
    done, tries = [], []

    def large():
        tries.append(1)
        if len(tries) < 15:
            outbox.put(Task("small", lambda: done.append("small")))
            raise OSError(errno.ENOSPC, "No space left on device")
        done.append("large")

    _, outbox = outbox_of(lambda error: True, keeps_order=False)
    outbox.put(Task("large", large))
    assert outbox.wait(10)
    assert done == ["small"] * 14 + ["large"]


def test_the_end_does_not_sleep_through_the_time_that_it_has(monkeypatch):
    monkeypatch.setattr("tune_media.callbacks.work_queue._FIRST_PAUSE", 30)
    tries = []

    def away_at_first():
        tries.append(1)
        if len(tries) < 2:
            raise OSError

    _, outbox = outbox_of(lambda error: True)
    outbox.put(Task("away", away_at_first))
    assert not outbox.wait(20, patiently=False)
    assert outbox.close(20) == []


def test_too_much_is_refused_and_numbers_never_are():
    held = threading.Event()
    _, outbox = outbox_of(lambda error: False)
    outbox.put(Task("slow", held.wait, nbytes=80))
    assert not outbox.put(Task("a clip", print, nbytes=30), most_bytes=100)
    assert outbox.put(Task("a clip", str, nbytes=20), most_bytes=100)
    assert outbox.put(Task("metrics", str), most_bytes=100)
    held.set()
    assert outbox.wait(5)
    assert outbox.nbytes == 0


def test_what_hangs_keeps_nobody_waiting_and_is_named():
    held = threading.Event()
    _, outbox = outbox_of(lambda error: False)
    outbox.put(Task("hangs", held.wait))
    outbox.put(Task("comes after it", print))
    assert [work.what for work in outbox.close(0.1)] == ["hangs", "comes after it"]
    held.set()


def test_what_fails_after_the_end_is_not_tried_again():
    held, tries = threading.Event(), []

    def hangs_and_fails():
        tries.append(1)
        held.wait()
        raise OSError

    _, outbox = outbox_of(lambda error: True)
    outbox.put(Task("hangs", hangs_and_fails))
    assert len(outbox.close(0.1)) == 1
    held.set()
    outbox._thread.join(5)
    assert not outbox._thread.is_alive()
    assert len(tries) == 1


def test_to_wait_is_not_to_wait_for_what_is_away(monkeypatch):
    monkeypatch.setattr("tune_media.callbacks.work_queue._FIRST_PAUSE", 30)

    def away():
        raise OSError

    _, outbox = outbox_of(lambda error: True)
    outbox.put(Task("away", away))
    assert outbox.wait(20, patiently=False) is False
    assert outbox.is_away
    assert len(outbox.close(0.1)) == 1


def test_of_work_with_one_key_no_more_than_one_waits(monkeypatch):
    monkeypatch.setattr("tune_media.callbacks.work_queue._FIRST_PAUSE", 0.001)
    monkeypatch.setattr("tune_media.callbacks.work_queue._LONGEST_PAUSE", 0.001)

    def away():
        raise OSError

    _, outbox = outbox_of(lambda error: True, keeps_order=False)
    for _ in range(500):
        outbox.put(Task("copying", away, key="a"))
        time.sleep(0.0005)
    assert len(outbox.close(0)) <= 2


def test_early_parts_are_done_together_and_the_work_in_order():
    helpers, together, done, begun = Helpers("test", 4), threading.Barrier(4), [], threading.Event()
    _, outbox = outbox_of(lambda error: False, helpers=helpers)
    outbox.put(Task("first", lambda: begun.wait(30)))
    outbox.put(Task("second", lambda: None))  # when this one begins, all that come after it wait
    for number in range(4):
        outbox.put(Task("a file", lambda number=number: done.append(number), early=lambda: together.wait(30)))
    begun.set()
    assert outbox.wait(30)
    assert done == [0, 1, 2, 3]
    assert together.n_waiting == 0
    helpers.close()


def test_work_whose_early_part_failed_is_done_in_its_turn():
    helpers, done, begun = Helpers("test", 2), [], threading.Event()

    def fail():
        raise ConnectionError("away")

    told, outbox = outbox_of(lambda error: True, helpers=helpers)
    outbox.put(Task("first", lambda: begun.wait(30)))
    for number in range(3):
        outbox.put(Task("a file", lambda number=number: done.append(number), early=fail))
    begun.set()
    assert outbox.wait(30)
    assert (done, told) == ([0, 1, 2], [])
    helpers.close()


def test_work_may_wait_for_room():
    held = threading.Event()
    _, outbox = outbox_of(lambda error: False)
    outbox.put(Task("slow", held.wait, nbytes=80))
    threading.Timer(0.1, held.set).start()
    assert outbox.put(Task("a clip", str, nbytes=30), most_bytes=100, seconds=30)
    assert held.is_set()


def test_local_work_does_not_say_that_the_storage_is_back(monkeypatch):
    monkeypatch.setattr("tune_media.callbacks.work_queue._FIRST_PAUSE", 0.001)
    monkeypatch.setattr("tune_media.callbacks.work_queue._LONGEST_PAUSE", 0.001)
    tries, given_up = [], []

    def away():
        tries.append(1)
        if len(tries) < 20:
            outbox.put(Task("reading a file of the driver's", str, is_local=True))
            raise OSError

    _, outbox = outbox_of(lambda error: True, keeps_order=False)
    outbox.put(Task("a clip", away, give_up=given_up.append))
    assert outbox.wait(30)
    assert (len(tries), given_up) == (20, [])


def test_a_closed_queue_takes_no_work_that_is_bounded():
    _, outbox = outbox_of(lambda error: False)
    outbox.close(0)
    assert outbox.is_closed
    assert not outbox.put(Task("a clip", str, nbytes=1), most_bytes=100)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process has one niceness")
def test_a_thread_may_stand_back_behind_all_others():
    found = []
    before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    for niceness in (0, 15):
        _, queue = outbox_of(lambda error: False, niceness=niceness)
        queue.put(Task("look", lambda: found.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))))
        assert queue.wait(30)
    assert found == [before, max(before, 15)]
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before


def test_a_wait_without_end_ends_when_all_is_done():
    """``Condition.wait_for`` raises if it is given infinity: the end of the experiment did."""
    _, queue = outbox_of(is_away)
    go_on = threading.Event()
    queue.put(Task("a clip", lambda: go_on.wait(30), nbytes=10))
    threading.Timer(0.2, go_on.set).start()
    assert queue.put(Task("another", lambda: None, nbytes=10), 10, seconds=math.inf)
    assert queue.wait(math.inf)
    queue.put(Task("the last", lambda: time.sleep(0.1)))
    assert queue.close(math.inf) == []


def test_a_thread_that_the_system_refuses_is_started_with_the_next_task(monkeypatch):
    done, start = [], threading.Thread.start

    def refused(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    told, queue = outbox_of(is_away)
    queue.put(Task("first", lambda: done.append(1)))
    assert told == [("starting a thread", True)]
    monkeypatch.setattr(threading.Thread, "start", start)
    queue.put(Task("second", lambda: done.append(2)))
    assert queue.close(5) == []
    assert done == [1, 2]
