"""The storage's thread: all media of a result, in files and in the index, or on the driver if the storage fails."""

import contextlib
import functools
import threading
import time

import pyarrow.fs
import pytest
from fsspec.implementations.local import LocalFileSystem

import tune_media as tm
from tests.support.batches import batch_of
from tests.support.stores import lines
from tune_media.callbacks.faults import Faults
from tune_media.callbacks.summary import Summary
from tune_media.callbacks.work_queue import Task
from tune_media.callbacks.writing import Writer
from tune_media.storage.location import TrialLocation
from tune_media.storage.trial_store import TrialStore


class Told:
    """Notes how far the writing of a trial is."""

    def __init__(self):
        self.stored, self.written = 0, 0

    def prune(self, store):
        self.stored += 1

    def is_written(self, store):
        self.written += 1


class Desk:
    """A writer with all that it needs."""

    def __init__(self, place, folder, **options):
        self.options = tm.MediaOptions(**options)
        self.faults, self.told = Faults(strict=False), Told()
        self.summary = Summary(self.faults)
        self.store = TrialStore(place)
        self.store.load()
        self.writer = Writer(self.faults, self.summary, lambda: self.options, folder, self.told)

    def put(self, *media):
        entries = []
        for medium in media:
            own_path = functools.partial(self.store.registry.report_path, 7)
            is_batch = medium.kind == "episodes"
            key = "episodes/data" if is_batch else "clip"
            _, entry = self.store.registry.register(medium, "train", key, 7, 3, own_path if is_batch else None)
            entries.append(entry)
        self.writer.put(self.store, entries, "/results/sweep")


def artifact(size=1):
    return tm.Artifact(b"x" * size, name="x.bin")


@pytest.fixture
def place(tmp_path):
    (tmp_path / "staging").mkdir()
    return TrialLocation(pyarrow.fs.LocalFileSystem(), str(tmp_path / "storage/trial"), tmp_path / "staging", "t1")


def test_the_media_of_a_result_are_written_and_the_trial_is_told_when_nothing_waits(place, tmp_path):
    desk = Desk(place, tmp_path / "waiting")
    desk.put(artifact(), artifact(), batch_of(({}, {})), batch_of(({}, {})))
    assert desk.writer.close(30) == []
    assert not desk.writer.is_waiting("t1")
    assert (desk.told.stored, desk.told.written >= 1) == (2, True)
    desk.store.finish()
    assert [line["status"] for line in lines(tmp_path / "storage/trial")] == ["stored"] * 4
    assert len(list((tmp_path / "storage").rglob("*.bin"))) == 2
    assert len(list((tmp_path / "storage").rglob("data-*.json"))) == 1  # all episodes of a result are one report


def test_media_beyond_the_bound_wait_on_disk_and_are_written(place, tmp_path, caplog):
    desk = Desk(place, tmp_path / "waiting", max_pending_bytes=3000)
    desk.put(*(artifact(1000) for _ in range(20)))
    assert desk.writer.close(30) == []
    assert len(list((tmp_path / "storage").rglob("*.bin"))) == 20
    assert not list((tmp_path / "waiting").rglob("*.*"))


def test_a_medium_that_cannot_be_made_is_said_with_its_reason_and_not_tried_again(place, tmp_path, caplog):
    class Unmakeable(tm.Artifact):
        def content(self):
            raise RuntimeError("as it was told to")

    desk = Desk(place, tmp_path / "waiting")
    desk.put(Unmakeable(b"x", name="x.bin"), artifact())
    assert desk.writer.close(30) == []
    assert desk.faults.count == 1
    assert "failed (RuntimeError: as it was told to)" in caplog.text
    assert "1 could not be stored" in desk.summary.line()
    assert desk.told.stored == 1


def test_media_that_the_storage_does_not_take_in_time_are_kept_on_the_driver(place, tmp_path):
    desk = Desk(place, tmp_path / "waiting")
    blocked = tmp_path / "storage" / "trial" / "media"
    blocked.parent.mkdir(parents=True, exist_ok=True)
    blocked.write_text("a file where a folder should be")
    medium = artifact()
    desk.put(medium)
    (name,) = desk.writer.close(0.3)
    assert name.startswith("media/train/clip/") or name.startswith("writing media/train/clip/")
    (line,) = lines(tmp_path / "staging")
    assert line["status"] == "failed"
    assert (tmp_path / "staging" / line["path"]).read_bytes() == b"x"


def test_a_medium_of_which_only_the_index_cannot_be_copied_is_stored(place, tmp_path, monkeypatch):
    """It was counted as lost and kept on the driver, too, when other trials' media were stored."""
    monkeypatch.setattr("tune_media.callbacks.work_queue._FIRST_PAUSE", 0.01)
    monkeypatch.setattr("tune_media.callbacks.work_queue._LONGEST_PAUSE", 0.01)
    desk = Desk(place, tmp_path / "waiting")
    (tmp_path / "storage/trial/media/index.jsonl").mkdir(parents=True)
    desk.put(artifact())
    for step in range(30):
        desk.writer.later(f"work of another trial, {step}", functools.partial(time.sleep, 0.01))
    desk.writer.close(30)
    assert "could not be stored" not in desk.summary.line()
    assert not list((tmp_path / "staging").rglob("*.bin"))
    (line,) = lines(tmp_path / "staging")
    assert line["status"] == "stored"


class Remote(LocalFileSystem):
    """Files that pass for remote; the first clips are written only when four are under way."""

    protocol, cachable, together, met = "far", False, None, False

    def _open(self, path, mode="rb", **keywords):
        if mode != "rb" and ".bin" in path and self.together is not None and not self.met:
            with contextlib.suppress(threading.BrokenBarrierError):
                self.together.wait(30)
                type(self).met = True
        return super()._open(path, mode, **keywords)


@pytest.fixture
def remote_place(tmp_path):
    (tmp_path / "staging").mkdir()
    far = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(Remote()))
    return TrialLocation(far, str(tmp_path / "storage/trial"), tmp_path / "staging", "t1")


def test_several_clips_are_on_their_way_to_a_remote_storage_and_are_listed_in_order(
    remote_place, tmp_path, monkeypatch
):
    desk, begun = Desk(remote_place, tmp_path / "waiting"), threading.Event()
    monkeypatch.setattr(Remote, "together", threading.Barrier(4))
    monkeypatch.setattr(Remote, "met", False)
    desk.writer.later("first", lambda: begun.wait(30))
    media = [artifact(size) for size in range(1, 5)]
    desk.put(*media)
    begun.set()
    assert desk.writer.close(60) == []
    assert Remote.met
    desk.store.finish()
    assert [line["id"] for line in lines(tmp_path / "storage/trial")] == [medium.id for medium in media]
    assert desk.told.stored == 4


def test_clips_that_waited_on_disk_go_to_a_remote_storage_several_at_a_time(remote_place, tmp_path, monkeypatch):
    """One file at a time went to S3 as soon as clips had waited on the driver's disk."""
    desk, begun = Desk(remote_place, tmp_path / "waiting", max_pending_bytes=5000), threading.Event()
    monkeypatch.setattr(Remote, "met", True)
    monkeypatch.setattr(Remote, "together", threading.Barrier(4))
    desk.writer.later("first", lambda: begun.wait(30))
    media = [artifact(4990), *(artifact(100 + number) for number in range(24))]
    desk.put(media[0])
    desk.writer.later("from now on", lambda: setattr(Remote, "met", False))
    desk.put(*media[1:])
    assert len(desk.writer._mailbox._spool) == 24
    begun.set()
    assert desk.writer.close(120) == []
    assert Remote.met
    desk.store.finish()
    assert [line["id"] for line in lines(tmp_path / "storage/trial")] == [medium.id for medium in media]


def test_a_clip_that_was_brought_to_the_storage_and_not_listed_yet_is_no_loss(remote_place, tmp_path):
    """Files that helpers had written in the last seconds were listed as failed, and kept on the driver."""
    desk, begun, hangs = Desk(remote_place, tmp_path / "waiting"), threading.Event(), threading.Event()
    desk.writer.later("hangs", lambda: begun.set() or hangs.wait(30))
    assert begun.wait(30)  # helpers begin only when the next task does
    media = [artifact(1), artifact(2)]
    desk.put(*media)
    waiting = list(desk.writer.queue._waiting)
    desk.store.uploads.write_early(waiting[-1].early.args[0])  # as a helper does
    assert len(desk.writer.close(0)) == 3
    hangs.set()
    status = {line["id"]: line["status"] for line in lines(tmp_path / "staging")}
    assert status == {media[0].id: "failed", media[1].id: "stored"}
    assert "stored 1 media of 1 trial(s)" in desk.summary.line()
    assert "1 could not be stored" in desk.summary.line()
    assert len(list((tmp_path / "staging").rglob("*.bin"))) == 1


@pytest.mark.parametrize("at_the_end", [False, True])
def test_a_clip_whose_file_on_the_drivers_disk_is_gone_is_counted_and_listed(place, tmp_path, caplog, at_the_end):
    """It was a warning of its own: the last line and the index said nothing of it."""
    (tmp_path / "waiting").mkdir()
    desk, begun, hangs = Desk(place, tmp_path / "waiting", max_pending_bytes=1000), threading.Event(), threading.Event()
    desk.writer.later("hangs", lambda: begun.set() or hangs.wait(30))
    assert begun.wait(30)
    media = [artifact(900) for _ in range(3)]
    desk.put(*media)
    assert desk.writer._mailbox._spool._open().wait(30)
    for file in (tmp_path / "waiting").glob("*/*1"):
        file.unlink()
    if not at_the_end:
        hangs.set()
    desk.writer.close(0 if at_the_end else 30)
    hangs.set()
    (line,) = (line for line in lines(tmp_path / "staging") if line["id"] == media[2].id)
    assert line["status"] == "failed"
    assert line["note"].startswith("it waited on the driver's disk, and its file cannot be read (FileNotFoundError")
    assert f"{3 if at_the_end else 1} could not be stored" in desk.summary.line()
    assert line["path"] in desk.summary.line()
    assert not desk.writer.is_waiting("t1")
    assert "Nothing may delete the folders tune_media-waiting-*" in caplog.text


def test_a_write_that_returns_just_when_the_end_gives_it_up_is_counted_once(place, tmp_path, monkeypatch):
    """It was counted twice, and the last write of its trial raised a KeyError into Tune."""
    desk, hangs, begun = Desk(place, tmp_path / "waiting"), threading.Event(), threading.Event()
    write = TrialStore.write

    def hanging(store, package):
        begun.set()
        hangs.wait(30)
        return write(store, package)

    monkeypatch.setattr(TrialStore, "write", hanging)
    desk.put(*(artifact() for _ in range(3)))
    assert begun.wait(30)
    close = desk.writer.queue.close

    def closed(seconds):
        left = close(seconds)
        hangs.set()
        desk.writer.queue._thread.join(30)  # the first one returns now
        return left

    monkeypatch.setattr(desk.writer.queue, "close", closed)
    assert len(desk.writer.close(0)) == 3
    assert sorted(line["status"] for line in lines(tmp_path / "staging")) == ["failed", "failed", "stored"]
    assert "2 could not be stored" in desk.summary.line()


@pytest.mark.parametrize("ends_first", [False, True], ids=["in time", "at the end"])
def test_a_clip_without_room_is_listed_by_the_storages_thread(place, tmp_path, ends_first):
    """Tune's loop wrote the index line itself, and waited for a driver's disk that hung."""
    desk, begun, may_go_on = (
        Desk(place, tmp_path / "waiting", max_pending_bytes=2000),
        threading.Event(),
        threading.Event(),
    )
    desk.writer.later("hangs", lambda: begun.set() or may_go_on.wait(30))
    assert begun.wait(30)
    desk.writer._mailbox._spool._patience = 0.0
    desk.writer._mailbox._spool._most_on_the_way = lambda: 0
    media = [artifact(1500), artifact(1000), artifact(1000)]
    desk.writer._mailbox._spool._open().put(Task("hangs", lambda: may_go_on.wait(30), nbytes=1))
    desk.put(*media)  # the first waits in memory
    assert not (tmp_path / "staging/media/index.jsonl").exists()
    if not ends_first:
        may_go_on.set()
    assert len(desk.writer.close(0 if ends_first else 30)) == (2 if ends_first else 0)
    may_go_on.set()
    status = {line["id"]: line["status"] for line in lines(tmp_path / "staging")}
    first = "failed" if ends_first else "stored"
    assert status == {media[0].id: first, media[1].id: "dropped", media[2].id: "dropped"}
    assert not desk.writer.is_waiting("t1")
