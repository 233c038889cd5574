import contextlib
import functools
import threading
import time

import pyarrow.fs
import pytest
from fsspec.implementations.local import LocalFileSystem

import tune_media as tm
from tests.support.fake_trial import FakeTrial
from tests.support.trial_life import index_lines
from tune_media.storage import filesystem as storage_filesystem
from tune_media.storage.copy_pause import CopyPause


@pytest.fixture
def copies(monkeypatch):
    """The sizes of all copies of an index to the storage, in a time that stands still: no pause after a copy ends."""
    found = []
    write = storage_filesystem.write_atomically

    def counting(filesystem, path, content):
        if "/storage/" in path:
            found.append(len(content))
        write(filesystem, path, content)

    monkeypatch.setattr("tune_media.storage.index.CopyPause", functools.partial(CopyPause, clock=lambda: 0.0))
    monkeypatch.setattr("tune_media.storage.index.write_atomically", counting)
    return found


@pytest.fixture
def is_open(monkeypatch):
    """The storage accepts no file until this is set."""
    event = threading.Event()
    write = storage_filesystem.write_once

    def waiting(filesystem, path, content):
        assert event.wait(60)
        write(filesystem, path, content)

    monkeypatch.setattr("tune_media.storage.uploads.write_once", waiting)
    return event


@pytest.mark.parametrize("most_bytes", [2**20, 5000], ids=["in memory", "on disk"])
def test_a_backlog_at_the_end_of_a_trial_does_not_copy_the_index_for_each_medium(tmp_path, copies, is_open, most_bytes):
    """1,000 clips that waited when their trial ended cost 207 MB of index."""
    trial, count = FakeTrial(tmp_path), 100
    callback = tm.JsonMediaLoggerCallback(tm.MediaOptions(max_pending_bytes=most_bytes, strict=True))
    callback.log_trial_start(trial)
    for step in range(1, count + 1):
        medium = tm.Artifact(step.to_bytes(4, "big") * 250, name="clip.bin")
        callback.log_trial_result(step, trial, {"training_iteration": step, "clip": medium})
    callback.log_trial_end(trial)
    is_open.set()
    callback.on_experiment_end([trial])
    assert len(copies) <= 4
    assert [line["step"] for line in index_lines(tmp_path / "storage/t1")] == list(range(1, count + 1))
    assert (tmp_path / "storage/t1/media/index.jsonl").stat().st_size == copies[-1]


def test_deletions_after_a_trial_ended_leave_one_line_a_key(tmp_path, is_open):
    """The last rewriting of the index was left out if an earlier one, before the deletions, still waited."""
    first, second = FakeTrial(tmp_path, "t1"), FakeTrial(tmp_path, "t2")
    retention = tm.Retention(last=1, best_trial="score")
    callback = tm.JsonMediaLoggerCallback(tm.MediaOptions(retention=retention, strict=True))
    for score, trial in enumerate((first, second)):
        callback.log_trial_start(trial)
        for step in (1, 2, 3):
            medium = tm.Artifact(bytes([score, step]) * 99, name="clip.bin")
            result = {"training_iteration": step, "score": 10 * score + step, "clip": medium}
            callback.log_trial_result(step, trial, result)
        callback.log_trial_end(trial)
    is_open.set()
    callback.on_experiment_end([first, second])
    for name, kept in (("t1", 1), ("t2", 3)):
        lines = index_lines(tmp_path / f"storage/{name}")
        assert len(lines) == 3
        assert [line["status"] for line in lines].count("stored") == kept


def test_a_sync_that_ends_after_the_trial_does_not_leave_an_older_index(tmp_path):
    """Tune's last sync, on a busy machine: 28 lines for 18 keys were left on the storage."""
    trial = FakeTrial(tmp_path)
    callback = tm.JsonMediaLoggerCallback(tm.MediaOptions(strict=True))
    callback.log_trial_start(trial)
    callback.log_trial_result(1, trial, {"training_iteration": 1, "clip": tm.Artifact(b"1", name="clip.bin")})
    callback.log_trial_end(trial)
    index = tmp_path / "storage/t1/media/index.jsonl"
    deadline = time.monotonic() + 60
    while not index.exists():
        assert time.monotonic() < deadline
    index.write_text("")
    callback.on_experiment_end([trial])
    assert [line["step"] for line in index_lines(tmp_path / "storage/t1")] == [1]


def test_a_write_that_hangs_beyond_the_end_is_no_fault_when_it_returns(tmp_path, monkeypatch, caplog):
    """It was given up at the end, so that its trial was unknown: KeyError: 't1'."""
    is_open, write = threading.Event(), storage_filesystem.write_once

    def hanging(filesystem, path, content):
        assert "/storage/" not in path or is_open.wait(60)
        write(filesystem, path, content)

    monkeypatch.setattr("tune_media.storage.uploads.write_once", hanging)
    trial = FakeTrial(tmp_path)
    callback = tm.JsonMediaLoggerCallback(tm.MediaOptions(flush_seconds=0.2))
    callback.log_trial_start(trial)
    for step in (1, 2):
        callback.log_trial_result(step, trial, {"training_iteration": step, "clip": tm.Artifact(b"1", name="c.bin")})
    callback.on_experiment_end([trial])
    threads = [thread for thread in threading.enumerate() if "storage" in thread.name]
    is_open.set()
    for thread in threads:
        thread.join(60)
    assert threads
    assert "KeyError" not in caplog.text


class Far(LocalFileSystem):
    """Files that pass for remote. Indexes arrive when several are on their way at once, from the trials' end on."""

    protocol = "far"
    at_the_end = threading.Event()
    together = threading.Barrier(4)

    def _open(self, path, mode="rb", **keywords):
        if mode != "rb":
            self.makedirs(self._parent(path), exist_ok=True)
            if "index.jsonl" in path and self.at_the_end.is_set():
                with contextlib.suppress(threading.BrokenBarrierError):
                    self.together.wait(20)
        return super()._open(path, mode, **keywords)


def test_the_indexes_of_trials_that_end_together_are_copied_together(tmp_path, copies):
    """Ten trials on S3 took a second at the end of the experiment, one copy after the other."""
    callback = tm.JsonMediaLoggerCallback(tm.MediaOptions(strict=True))
    trials = [FakeTrial(tmp_path, f"t{index}") for index in range(4)]
    for trial in trials:
        trial.storage.storage_filesystem = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(Far()))
        callback.log_trial_start(trial)
    for step in (1, 2):
        for trial in trials:
            medium = tm.Artifact(bytes([step]), name="clip.bin")
            callback.log_trial_result(step, trial, {"training_iteration": step, "clip": medium})
        callback._session.writer.queue.wait(30)  # the first index is copied, and the second line is late
    Far.at_the_end.set()
    have_ended = threading.Event()
    callback._session.writer.later("first", lambda: have_ended.wait(30))
    for trial in trials:
        callback.log_trial_end(trial)
    have_ended.set()
    callback.on_experiment_end(trials)
    assert not Far.together.broken
    for trial in trials:
        assert [line["step"] for line in index_lines(tmp_path / "storage" / trial.trial_id)] == [1, 2]
