import tune_media as tm
from tests.support.stores import lines, opened, raw, store_one
from tune_media.storage.entry import PendingWrite


def test_a_trial_that_goes_back_marks_what_it_had_recorded(place, frames, tmp_path):
    store = opened(place)
    videos = {}
    for iteration in (1, 2, 3, 2, 3):
        if store.rollbacks.goes_on(iteration, 10 * iteration):
            store.mark_rolled_back()
        videos.setdefault(iteration, []).append(video := tm.Video(frames(2)))
        store_one(store, video, step=10 * iteration, iteration=iteration)
    marked = {line["id"] for line in lines(tmp_path / "staging") if line.get("rolled_back")}
    assert marked == {videos[2][0].id, videos[3][0].id}
    assert len(lines(tmp_path / "staging")) == 5
    assert len(list((tmp_path / "storage").rglob("*.mp4"))) == 5  # marked, not deleted


def test_what_is_written_late_is_marked_too(place, frames, tmp_path):
    store = opened(place)
    store.rollbacks.goes_on(5, 50)
    _, late = store.registry.register(tm.Video(frames(2)), "train", "clip", 50, 5)
    store.rollbacks.goes_on(5, 50)
    store.mark_rolled_back()
    _, new = store.registry.register(tm.Video(frames(2)), "train", "clip", 50, 5)
    for entry in (new, late):
        store.write(PendingWrite("trial_1", [entry]))
    assert [line.get("rolled_back") for line in lines(tmp_path / "staging")] == [None, True]


def test_a_restored_trial_marks_what_its_driver_had_recorded_before_it_was_killed(place, frames, tmp_path):
    first = opened(place)
    for iteration in (1, 2, 3):
        first.rollbacks.goes_on(iteration, iteration)
        store_one(first, tm.Video(frames(2)), step=iteration, iteration=iteration)
    first.finish()
    (tmp_path / "staging/media/index.jsonl").unlink()  # another machine
    second = opened(place)
    assert second.rollbacks.goes_on(3, 3)
    second.mark_rolled_back()
    assert [line.get("rolled_back") for line in lines(tmp_path / "staging")] == [None, None, True]


def test_what_a_trial_that_went_back_records_again_is_not_marked(place, tmp_path):
    store = opened(place, retention=tm.Retention(last=5))
    for iteration in (1, 2, 3, 2, 3):  # the same content each time
        if store.rollbacks.goes_on(iteration, iteration):
            store.mark_rolled_back()
        store_one(store, raw(f"clip {iteration}".encode()), iteration=iteration)
        if store.rollbacks.has_revived:
            store.mark_revived()
    assert [line.get("rolled_back") for line in lines(tmp_path / "staging")] == [None, None, None]
    assert not any(file.rolled_back for file in store.files.values())
