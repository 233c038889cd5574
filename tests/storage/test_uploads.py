import fsspec
import pyarrow.fs
import pytest

import tune_media as tm
from tune_media.storage.entry import PendingWrite
from tune_media.storage.location import TrialLocation
from tune_media.storage.trial_store import TrialStore


@pytest.fixture
def place(tmp_path):
    (tmp_path / "staging").mkdir()
    far = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(fsspec.filesystem("memory")))
    return TrialLocation(far, f"{tmp_path}/storage/trial", tmp_path / "staging", "t1")


def entry_of(store, medium, key="clip"):
    return store.registry.register(medium, "train", key, 1, 1)[1]


def test_a_file_that_may_be_there_is_not_written_before_its_turn(place):
    store, medium = TrialStore(place), tm.Artifact(b"x", name="x.bin")
    store.load()
    first, second = entry_of(store, medium, "best"), entry_of(store, medium, "last")
    package = PendingWrite("t1", [second])
    store.uploads.write_early(package)
    assert not package.is_on_storage
    store.uploads.write_early(PendingWrite("t1", [first]))
    assert place.filesystem.get_file_info(place.on_storage(first.path)).size == 1


def test_a_medium_of_an_earlier_run_is_not_written_before_its_turn(place):
    medium = tm.Artifact(b"x", name="x.bin")
    for run in range(2):
        store = TrialStore(place)
        if run:
            entry = entry_of(store, medium, "other")  # before the index is read: nobody knows it yet
        store.load()
        entry = entry if run else entry_of(store, medium)
        package = PendingWrite("t1", [entry])
        store.uploads.write_early(package)
        assert package.is_on_storage is not bool(run)
        store.write(package)
        store.finish()


def test_nothing_is_written_before_the_index_of_earlier_runs_is_known(place):
    store = TrialStore(place)
    with pytest.raises(OSError, match="has not been read yet"):
        store.uploads.write_early(PendingWrite("t1", [entry_of(store, tm.Artifact(b"x", name="x.bin"))]))


def test_the_index_is_copied_beside_once_at_a_time(place):
    waiting, errors = [], []
    store = TrialStore(place, report=errors.append, beside=waiting.append)
    store.load()
    for step in range(3):
        store.write(PendingWrite("t1", [entry_of(store, tm.Artifact(bytes([step]), name="x.bin"))]))
    assert len(waiting) == 1
    waiting.pop()()
    assert len(place.filesystem.open_input_stream(place.on_storage("media/index.jsonl")).read().splitlines()) == 3
    assert not store.uploads.is_copying
    assert errors == []


def test_an_index_that_cannot_be_copied_is_told_and_copied_at_the_end(place, monkeypatch):
    waiting, errors = [], []
    store = TrialStore(place, report=errors.append, beside=waiting.append)
    store.load()
    store.write(PendingWrite("t1", [entry_of(store, tm.Artifact(b"x", name="x.bin"))]))
    with monkeypatch.context() as away:
        away.setattr("tune_media.storage.index.write_atomically", lambda *_: (_ for _ in ()).throw(OSError("away")))
        waiting.pop()()
    assert [str(error) for error in errors] == ["away"]
    assert store.uploads.index_is_late
    store.finish()
    assert place.filesystem.get_file_info(place.on_storage("media/index.jsonl")).size > 0


def test_the_index_of_an_ended_trial_is_copied_early_unless_files_wait_to_be_deleted(place):
    store = TrialStore(place, tm.Retention(last=1), beside=lambda work: None)
    store.load()
    store.write(PendingWrite("t1", [entry_of(store, tm.Artifact(b"x", name="x.bin"))]))
    store.uploads.copy_index_early()
    assert not store.uploads.index_is_late
    content = place.filesystem.open_input_stream(place.on_storage("media/index.jsonl")).read()
    assert len(content.splitlines()) == 1
    store.delete(list(store.files.values()))
    store.uploads.copy_index_early()
    assert place.filesystem.open_input_stream(place.on_storage("media/index.jsonl")).read() == content
