import pytest

import tune_media as tm
from tests.support.stores import lines, opened, store_one


def test_deleting_is_listed_and_takes_no_file_that_is_known_again(place, frames, tmp_path):
    store, video = opened(place, retention=tm.Retention(last=1)), tm.Video(frames(2))
    path = store_one(store, video, key="episodes/best")
    store_one(store, video, key="episodes/worst")
    store.delete([store.files[path]])
    store.finish()
    assert [line["status"] for line in lines(tmp_path / "storage/trial")] == ["deleted", "deleted"]
    assert not (tmp_path / "storage/trial" / path).exists()
    assert opened(place).registry.register(video, "evaluation", "episodes/best", 9, 9) == (path, None)


def test_a_file_that_could_not_be_deleted_is_tried_again_and_again_after_a_restore(place, frames, tmp_path):
    store = opened(place, retention=tm.Retention(last=1))
    path = store_one(store, tm.Video(frames(2)))
    file = tmp_path / "storage/trial" / path
    content = file.read_bytes()
    file.unlink()
    file.mkdir()  # which is no file to delete
    store.delete([store.files[path]])
    for _ in range(2):
        with pytest.raises(OSError):
            store.uploads.copy_index()
    file.rmdir()
    file.write_bytes(content)  # as if the driver had been killed before it came to that
    opened(place)
    assert not file.exists()


def test_a_clip_that_is_stored_again_under_another_key_stays(place, frames, tmp_path):
    """Neither a deletion that waits takes it, nor the next start after one that has been carried out."""
    store, folder = opened(place, retention=tm.Retention(last=1)), tmp_path / "storage/trial"
    clips = [tm.Video(frames(count)) for count in (2, 3, 4)]

    def record(clip, key, step):
        path = store_one(store, clip, key=key, step=step, iteration=step)
        store.delete(store.files.take_surplus(is_best=False))
        return path

    deleted, waiting = record(clips[0], "latest", 1), record(clips[1], "latest", 2)
    store.uploads.copy_index()
    assert not (folder / deleted).exists()
    record(clips[2], "latest", 3)
    record(clips[0], "favourite", 3)
    record(clips[1], "runner-up", 3)
    store.finish()
    opened(place)
    assert {line["path"] for line in lines(folder) if line["key"] != "latest"} == {deleted, waiting}
    assert all((folder / line["path"]).exists() for line in lines(folder) if line["status"] == "stored")
    assert {line["status"] for line in lines(folder) if line["key"] != "latest"} == {"stored"}
