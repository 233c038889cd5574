import threading

import pytest

from tune_media.callbacks.helpers import Helpers


@pytest.fixture
def helpers():
    made = Helpers("test of helpers", count=3)
    yield made
    made.close()


def test_as_much_is_under_way_at_once_as_there_are_threads(helpers):
    together, threads = threading.Barrier(3), set()

    def meet():
        threads.add(threading.current_thread())
        together.wait(30)

    done = [helpers.start(meet) for _ in range(9)]
    assert [future.exception(timeout=30) for future in done] == [None] * 9
    assert len(threads) == 3


def test_an_error_is_in_the_future_and_ends_no_thread(helpers):
    def fail():
        raise SystemExit(3)

    assert isinstance(helpers.start(fail).exception(timeout=30), SystemExit)
    assert helpers.start(lambda: None).exception(timeout=30) is None


def test_closed_helpers_end_after_what_they_were_given(helpers):
    done = [helpers.start(lambda: None) for _ in range(5)]
    threads = [thread for thread in threading.enumerate() if thread.name == "tune_media test of helpers"]
    helpers.close()
    for thread in threads:
        thread.join(30)
    assert all(future.done() for future in done)


def test_work_fails_at_once_if_no_thread_can_be_started(monkeypatch):
    """A container with few process ids left."""

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    none = Helpers("test", count=2)
    assert "can't start" in str(none.start(lambda: None).exception(timeout=30))
    monkeypatch.undo()
    assert none.start(lambda: None).exception(timeout=30) is None
    none.close()
