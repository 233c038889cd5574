import threading
import time

import pytest

from tune_media.callbacks.helpers import Helpers


@pytest.fixture
def helpers():
    made = Helpers("test of helpers", count=3)
    yield made
    made.close()


def test_an_error_is_returned_and_ends_no_thread(helpers):
    def fail():
        raise SystemExit(3)

    (error,) = helpers.run_all([fail])
    assert isinstance(error, SystemExit)
    assert helpers.run_all([lambda: None] * 4) == [None] * 4


def test_when_one_has_failed_the_others_are_waited_for(helpers):
    """An old index that was still under way replaced a later one, and the index was taken to be complete."""
    failed, done = threading.Event(), []

    def fail():
        failed.set()
        raise OSError("the storage is away")

    def be_slow():
        failed.wait(30)
        time.sleep(0.1)
        done.append("slow")

    assert str(helpers.run_all([fail, be_slow])[0]) == "the storage is away"
    assert done == ["slow"]


def test_work_fails_at_once_if_no_thread_can_be_started(monkeypatch):
    """A container with few process ids left."""

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    none = Helpers("test", count=2)
    assert ["can't start" in str(error) for error in none.run_all([lambda: None] * 2)] == [True] * 2
    monkeypatch.undo()
    assert none.run_all([lambda: None]) == [None]
    none.close()
