"""A trial starts again while its storage is away for a while."""

import contextlib
import dataclasses
import threading

import pyarrow.fs
import pytest
from fsspec.implementations.local import LocalFileSystem

import tune_media as tm
from tests.support.stores import lines, opened, raw, store_one
from tune_media.storage import recovery
from tune_media.storage.entry import PendingWrite
from tune_media.storage.trial_store import TrialStore
from tune_media.values.episodes import EpisodeBatch, EpisodeData


class Failing(LocalFileSystem):
    """A storage at which the next requests fail that have this in their names."""

    protocol, cachable = "failing", False
    name, failures = "", 0

    def _ask(self, request):
        if self.name in request and self.failures:
            self.failures -= 1
            raise OSError("the storage is away")

    def _open(self, path, mode="rb", **options):
        self._ask(f"open {path}")
        return super()._open(path, mode, **options)

    def find(self, path, *more, **options):
        self._ask(f"list {path}")
        return super().find(path, *more, **options)


@pytest.mark.parametrize("name", ["list", ".parquet"])
def test_a_storage_that_is_away_while_unlisted_files_are_looked_for_is_asked_again(place, tmp_path, name):
    """Recovery was off for the whole run, and the report of the killed run was overwritten."""
    first = opened(place)
    batch = EpisodeBatch((EpisodeData(tm.EpisodeRecord("e", 1.0, 2), {}),))
    _, entry = first.registry.register(batch, "train", "episodes/data", 5, 3, lambda: first.registry.report_path(5))
    first.write(PendingWrite("trial_1", [entry]))
    (tmp_path / "staging/media/index.jsonl").unlink()
    (tmp_path / "storage/trial/media/index.jsonl").unlink()
    storage = Failing()
    told, storage.name, storage.failures = [], name, 1
    second = TrialStore(
        dataclasses.replace(place, filesystem=pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(storage))),
        report=told.append,
    )
    with pytest.raises(OSError):
        second.load()
    assert not second.registry.is_complete
    assert second.registry.report_path(5) != entry.path
    second.load()
    assert second.registry.is_complete
    assert second.registry.report_path(5) != entry.path
    assert [line["path"] for line in lines(tmp_path / "staging")] == [entry.path]
    assert not told


def test_a_file_that_never_can_be_read_does_not_keep_a_trial_from_its_index(place, frames, tmp_path):
    first = opened(place)
    path = store_one(first, tm.Video(frames(2)))
    first.finish()
    unlisted = (tmp_path / "storage/trial" / path).with_name("step_000000009-0123456789ab.mp4")
    unlisted.write_bytes(b"?")
    storage = Failing()
    told, storage.name, storage.failures = [], unlisted.name, 1000
    second = TrialStore(
        dataclasses.replace(place, filesystem=pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(storage))),
        report=told.append,
    )
    for _ in range(10):
        with contextlib.suppress(OSError):
            second.load()
    assert second.registry.is_complete
    assert [str(error) for error in told] == ["the storage is away"]
    assert second.registry.path_of(lines(tmp_path / "staging")[0]["id"]) == path


def test_a_medium_that_is_written_while_the_index_cannot_be_read_is_listed_once(place, tmp_path):
    first = opened(place)
    store_one(first, raw(b"clip"))
    first.finish()
    storage = Failing()
    storage.name, storage.failures = "list", 1
    second = TrialStore(
        dataclasses.replace(place, filesystem=pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(storage)))
    )
    with pytest.raises(OSError):
        second.load()
    for content, step in ((b"clip", 8), (b"other", 8)):
        store_one(second, raw(content), step=step)
    second.load()
    second.finish()
    listed = lines(tmp_path / "storage/trial")
    assert len(listed) == len({line["id"] for line in listed}) == 2
    assert len(list((tmp_path / "storage").rglob("*.bin"))) == 2


def test_a_file_that_is_written_while_unlisted_files_are_looked_for_is_listed_once(place, tmp_path, monkeypatch):
    """A helper of the storage reads an index again while the storage's thread writes."""
    store, list_files = TrialStore(place), recovery.list_files
    writing = threading.Thread(target=store_one, args=(store, raw(b"clip")))

    def slow(*arguments):
        writing.start()
        writing.join(0.5)
        return list_files(*arguments)

    monkeypatch.setattr("tune_media.storage.unlisted_files.list_files", slow)
    store.load()
    writing.join(30)
    assert [line["id"] for line in lines(tmp_path / "staging")] == [raw(b"clip").id]
