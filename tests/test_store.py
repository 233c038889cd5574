import dataclasses
import hashlib
import json

import pyarrow.fs
import pytest

import tune_media as tm
from tune_media.entries import NotMadeError, Package, Place, safe_key
from tune_media.episodes import EpisodeBatch, EpisodeData
from tune_media.files import write_atomically
from tune_media.index import parse_index
from tune_media.store import TrialStore


@pytest.fixture
def place(tmp_path):
    (tmp_path / "staging").mkdir()
    return Place(pyarrow.fs.LocalFileSystem(), str(tmp_path / "storage" / "trial"), tmp_path / "staging", "trial_1")


def store_one(store, medium, section="evaluation", key="episodes/best", step=7, iteration=3):
    path, entry = store.register(medium, section, key, step, iteration)
    if entry:
        store.write(Package("trial_1", [entry]))
    return path


def opened(place, **options):
    store = TrialStore(place, **options)
    store.load()
    return store


def lines(folder):
    return [json.loads(line) for line in (folder / "media" / "index.jsonl").read_text().splitlines()]


def test_a_medium_is_written_where_the_design_says_and_listed(place, frames, tmp_path):
    store, video = opened(place), tm.Video(frames(5), fps=12)
    path = store_one(store, video)
    store.finish()
    assert path == f"media/evaluation/episodes/best/step_000000007-{video.id[:12]}.mp4"
    assert (tmp_path / "storage" / "trial" / path).read_bytes() == video.content()
    assert lines(tmp_path / "staging") == lines(tmp_path / "storage" / "trial")
    (line,) = lines(tmp_path / "staging")
    expected = {"v": 1, "id": video.id, "kind": "video", "section": "evaluation", "key": "episodes/best", "path": path}
    expected |= {"bytes": len(video.data), "format": "mp4", "width": 48, "height": 32, "frames": 5, "fps": 12.0}
    expected |= {"training_iteration": 3, "step": 7, "trial_id": "trial_1", "status": "stored"}
    assert expected.items() <= line.items()
    assert set(line) - set(expected) == {"time", "sha256"}


def test_media_do_not_pass_through_the_folder_that_tune_uploads_again(place, frames, tmp_path):
    store_one(opened(place), tm.Video(frames(3)))
    assert [path.name for path in (tmp_path / "staging").rglob("*") if path.is_file()] == [
        ".tune_media.json",
        "index.jsonl",
    ]


def test_the_same_medium_is_written_and_listed_once(place, frames, tmp_path):
    store, video = opened(place), tm.Video(frames(3))
    first = store_one(store, video, step=7)
    assert store_one(store, video, step=8) == first
    assert len(lines(tmp_path / "staging")) == 1


def test_one_episode_under_two_keys_is_one_file_and_two_lines(place, frames, tmp_path):
    store, video = opened(place), tm.Video(frames(3))
    assert store_one(store, video, key="episodes/best") == store_one(store, video, key="episodes/worst")
    assert [line["key"] for line in lines(tmp_path / "staging")] == ["episodes/best", "episodes/worst"]
    assert len(list((tmp_path / "storage").rglob("*.mp4"))) == 1


def test_a_restart_knows_what_is_there_even_where_only_the_storage_survived(place, frames, tmp_path):
    video = tm.Video(frames(3))
    first = opened(place)
    path = store_one(first, video)
    first.finish()
    assert opened(place).register(video, "evaluation", "episodes/best", 9, 9) == (path, None)
    (tmp_path / "staging" / "media" / "index.jsonl").unlink()
    assert opened(place).register(video, "evaluation", "episodes/best", 9, 9) == (path, None)


def test_a_half_written_last_line_is_passed_over(place, frames, tmp_path):
    store_one(opened(place), tm.Video(frames(3)))
    index = tmp_path / "staging" / "media" / "index.jsonl"
    index.write_bytes(index.read_bytes() + b'{"v": 1, "id": "ab')
    assert len(list(parse_index(index.read_bytes()))) == 1
    store_one(opened(place), tm.Video(frames(3)))
    assert len(list(parse_index(index.read_bytes()))) == 2  # and does not swallow the next


class Unmakeable(tm.Artifact):
    def content(self):
        raise RuntimeError("as it was told to")


def test_what_cannot_be_made_is_listed_with_the_reason(place, tmp_path):
    store, broken = opened(place), Unmakeable(b"x", name="x.bin")
    with pytest.raises(NotMadeError):
        store_one(store, broken)
    (line,) = lines(tmp_path / "staging")
    assert (line["status"], line["id"], line["note"]) == ("failed", broken.id, "RuntimeError: as it was told to")


def test_what_the_storage_does_not_take_can_be_tried_again_and_kept_on_the_driver(place, frames, tmp_path):
    blocked = tmp_path / "storage" / "trial" / "media"
    blocked.parent.mkdir(parents=True)
    store, video = opened(place), tm.Video(frames(3))
    blocked.write_text("a file where a folder should be")
    path, entry = store.register(video, "evaluation", "episodes/best", 7, 3)
    package = Package("trial_1", [entry])
    with pytest.raises(OSError):
        store.write(package)
    assert not (tmp_path / "staging/media/index.jsonl").exists()
    store.keep_here(package, "OSError: no")
    (line,) = lines(tmp_path / "staging")
    assert (line["status"], line["path"]) == ("failed", path)
    assert "in the driver's folder" in line["note"]
    assert (tmp_path / "staging" / path).read_bytes() == video.data


def test_where_the_drivers_folder_takes_nothing_the_storage_has_all(place, frames, tmp_path):
    (tmp_path / "staging/media").write_text("a file where a folder should be")
    told, videos = [], [tm.Video(frames(2)) for _ in range(3)]
    store = opened(place, retention=tm.Retention(last=1), report=told.append)
    for iteration, video in enumerate(videos, 1):
        store.goes_on(iteration, iteration)
        path = store_one(store, video, step=iteration, iteration=iteration)
    store.goes_on(3, 3)
    store.mark_rolled_back()
    store.delete([path])
    (line,) = [line for line in lines(tmp_path / "storage/trial") if line["path"] == path]
    assert (line["status"], line["rolled_back"]) == ("deleted", True)
    assert told
    (tmp_path / "staging/media").unlink()
    again = opened(place)
    assert again.register(videos[0], "evaluation", "episodes/best", 9, 9)[1] is None
    store_one(again, tm.Video(frames(2)), step=9)
    again.finish()
    assert len(lines(tmp_path / "storage/trial")) == len(lines(tmp_path / "staging")) == 4


def test_what_neither_takes_is_listed_as_lost(place, frames, tmp_path):
    store = opened(place)
    path, entry = store.register(tm.Video(frames(2)), "evaluation", "episodes/best", 7, 3)
    blocked = tmp_path / "staging/media/evaluation"
    blocked.parent.mkdir(parents=True, exist_ok=True)
    blocked.write_text("a file where a folder should be")
    with pytest.raises(OSError):
        store.keep_here(Package("trial_1", [entry]), "the storage is away")
    (line,) = lines(tmp_path / "staging")
    assert (line["status"], line["path"]) == ("failed", path)
    assert "the storage is away; and in the driver's folder" in line["note"]


def test_a_trial_that_goes_back_marks_what_it_had_recorded(place, frames, tmp_path):
    store = opened(place)
    videos = {}
    for iteration in (1, 2, 3, 2, 3):
        if store.goes_on(iteration, 10 * iteration):
            store.mark_rolled_back()
        videos.setdefault(iteration, []).append(video := tm.Video(frames(2)))
        store_one(store, video, step=10 * iteration, iteration=iteration)
    marked = {line["id"] for line in lines(tmp_path / "staging") if line.get("rolled_back")}
    assert marked == {videos[2][0].id, videos[3][0].id}
    assert len(lines(tmp_path / "staging")) == 5
    assert len(list((tmp_path / "storage").rglob("*.mp4"))) == 5  # marked, not deleted


def test_what_is_written_late_is_marked_too(place, frames, tmp_path):
    store = opened(place)
    store.goes_on(5, 50)
    _, late = store.register(tm.Video(frames(2)), "train", "clip", 50, 5)
    store.goes_on(5, 50)
    store.mark_rolled_back()
    _, new = store.register(tm.Video(frames(2)), "train", "clip", 50, 5)
    for entry in (new, late):
        store.write(Package("trial_1", [entry]))
    assert [line.get("rolled_back") for line in lines(tmp_path / "staging")] == [None, True]


def test_a_restored_trial_marks_what_its_driver_had_recorded_before_it_was_killed(place, frames, tmp_path):
    first = opened(place)
    for iteration in (1, 2, 3):
        first.goes_on(iteration, iteration)
        store_one(first, tm.Video(frames(2)), step=iteration, iteration=iteration)
    first.finish()
    (tmp_path / "staging/media/index.jsonl").unlink()  # another machine
    second = opened(place)
    assert second.goes_on(3, 3)
    second.mark_rolled_back()
    assert [line.get("rolled_back") for line in lines(tmp_path / "staging")] == [None, None, True]


def test_files_that_a_killed_driver_did_not_list_are_found_and_half_files_go(place, frames, tmp_path):
    first = opened(place)
    path, entry = first.register(tm.Video(frames(3)), "evaluation", "episodes/best", 7, 3)
    first.write(Package("trial_1", [entry]))
    (tmp_path / "staging/media/index.jsonl").unlink()
    (tmp_path / "storage/trial/media/index.jsonl").unlink(missing_ok=True)
    half = (tmp_path / "storage/trial" / path).with_name("step_000000009-0123456789ab.mp4.partial")
    half.write_bytes(b"half")
    opened(place)
    (line,) = lines(tmp_path / "staging")
    assert (line["path"], line["status"], line["step"], line["kind"]) == (path, "stored", 7, "video")
    assert "killed" in line["note"]
    assert not half.exists()


def test_episodes_that_a_killed_driver_did_not_list_are_found(place, tmp_path):
    first = opened(place)
    batch = EpisodeBatch((EpisodeData(tm.EpisodeRecord("e", 1.0, 2), {}),))
    _, entry = first.register(batch, "train", "episodes/data", 5, 3, lambda: first.report_path(5))
    first.write(Package("trial_1", [entry]))
    for index in (tmp_path / "staging/media/index.jsonl", tmp_path / "storage/trial/media/index.jsonl"):
        index.unlink(missing_ok=True)
    broken = tmp_path / "storage/trial/episode_data/data-00000006.json"
    broken.write_text("[]")
    second = opened(place)
    (line,) = lines(tmp_path / "staging")
    assert (line["kind"], line["key"], line["section"], line["path"]) == ("episodes", entry.key, "train", entry.path)
    assert (line["training_iteration"], line["step"], line["trial_id"]) == (3, 5, "trial_1")
    assert second.report_path(5) != entry.path
    assert second.report_path(6) != "episode_data/data-00000006.json"
    third = opened(place)
    third.finish()
    assert len(lines(tmp_path / "staging")) == 1


def test_a_second_trial_in_the_same_folder_takes_no_name_twice(place, frames, tmp_path):
    first = opened(place)
    assert first.report_path(5) == "episode_data/data-00000005.json"
    batch = EpisodeBatch((EpisodeData(tm.EpisodeRecord("e", 1.0, 2), {}),))
    _, entry = first.register(batch, "train", "episodes/data", 5, 1, lambda: "episode_data/data-00000005.json")
    first.write(Package("trial_1", [entry]))
    second = opened(dataclasses.replace(place, trial_id="trial_2"))
    assert second.report_path(5) != "episode_data/data-00000005.json"


def test_no_index_is_shortened_before_what_is_on_the_storage_is_known(place, frames, tmp_path):
    first = opened(place)
    store_one(first, tm.Video(frames(2)))
    first.finish()
    (tmp_path / "staging/media/index.jsonl").unlink()
    second = TrialStore(place)  # the storage does not answer yet
    store_one(second, tm.Video(frames(2)))
    second.finish()
    assert not (tmp_path / "staging/media/index.jsonl").exists()  # Tune would upload it
    assert len(lines(tmp_path / "storage/trial")) == 1
    second.load()
    second.finish()
    assert len(lines(tmp_path / "storage/trial")) == len(lines(tmp_path / "staging")) == 2


def test_a_clone_says_whose(place, frames, tmp_path):
    store = opened(place)
    store_one(store, tm.Video(frames(2)))
    store.descends_from(["b@4", "c@2"])
    store_one(store, tm.Video(frames(2)))
    assert [line.get("lineage") for line in lines(tmp_path / "staging")] == [None, ["b@4", "c@2"]]
    assert opened(place).lineage == ("b@4", "c@2")


def test_deleting_is_listed_and_takes_no_file_that_is_known_again(place, frames, tmp_path):
    store, video = opened(place, retention=tm.Retention(last=1)), tm.Video(frames(2))
    path = store_one(store, video, key="episodes/best")
    store_one(store, video, key="episodes/worst")
    store.delete([path])
    assert [line["status"] for line in lines(tmp_path / "storage/trial")] == ["deleted", "deleted"]
    assert not (tmp_path / "storage/trial" / path).exists()
    assert opened(place).register(video, "evaluation", "episodes/best", 9, 9) == (path, None)


def test_writing_leaves_no_half_files(tmp_path):
    filesystem, path = pyarrow.fs.LocalFileSystem(), str(tmp_path / "a" / "b.mp4")
    for content in (b"one", b"two"):
        write_atomically(filesystem, path, content)
    assert [file.name for file in (tmp_path / "a").iterdir()] == ["b.mp4"]
    assert (tmp_path / "a" / "b.mp4").read_bytes() == b"two"


@pytest.mark.parametrize("key", ["a/../../etc/passwd", "..", "", "/", "x" * 500, "ключ/😀", "a\x00b\nc", "con:*?<>|"])
def test_keys_become_safe_path_parts(key):
    parts = safe_key(key).split("/")
    assert all(part and part not in (".", "..") and len(part) <= 60 and part.isascii() for part in parts)
    assert all(part.isprintable() and not set(part) & set('\\:*?"<>|') for part in parts)


def test_every_kind_of_value_has_a_file(place, frames, tmp_path):
    store = opened(place)
    values = [
        tm.Video(frames(2)),
        tm.Image(frames()[0]),
        tm.Histogram([1, 2, 3]),
        tm.Artifact(b"x", name="buffer.msgpack"),
        tm.EpisodeRecord("e", 1.0, 2),
    ]
    suffixes = [store_one(store, value, key=value.kind).rsplit(".")[-1] for value in values]
    assert suffixes == ["mp4", "png", "json", "msgpack", "json"]
    assert [line["kind"] for line in lines(tmp_path / "staging")] == [value.kind for value in values]


def raw(content):
    """Return what comes as an array, known by its content alone."""
    medium = tm.Artifact(content, name="clip.bin")
    object.__setattr__(medium, "id", hashlib.sha256(content).hexdigest()[:32])
    return medium


def test_what_a_trial_that_went_back_records_again_is_not_marked(place, tmp_path):
    store = opened(place, retention=tm.Retention(last=5))
    for iteration in (1, 2, 3, 2, 3):  # the same content each time
        if store.goes_on(iteration, iteration):
            store.mark_rolled_back()
        store_one(store, raw(f"clip {iteration}".encode()), iteration=iteration)
        if store.has_revived:
            store.mark_rolled_back()
    assert [line.get("rolled_back") for line in lines(tmp_path / "staging")] == [None, None, None]
    assert not any(file.rolled_back for file in store.files.values())


def test_a_file_that_could_not_be_deleted_is_tried_again_and_again_after_a_restore(place, frames, tmp_path):
    store = opened(place, retention=tm.Retention(last=1))
    path = store_one(store, tm.Video(frames(2)))
    file = tmp_path / "storage/trial" / path
    content = file.read_bytes()
    file.unlink()
    file.mkdir()  # which is no file to delete
    with pytest.raises(OSError):
        store.delete([path])
    assert path in store.files
    file.rmdir()
    file.write_bytes(content)  # as if the driver had been killed before it came to that
    opened(place)
    assert not file.exists()


def test_an_index_that_is_read_late_doubles_nothing(place, tmp_path):
    first = opened(place)
    store_one(first, raw(b"clip"))
    first.finish()
    (tmp_path / "staging/media/index.jsonl").unlink()
    second = TrialStore(place)
    _, entry = second.register(raw(b"clip"), "evaluation", "episodes/best", 8, 4)  # nothing is known yet
    second.load()
    second.write(Package("trial_1", [entry]))
    second.finish()
    assert len(lines(tmp_path / "storage/trial")) == 1
    assert len(list((tmp_path / "storage").rglob("*.bin"))) == 1


def test_what_is_written_when_its_trial_is_over_is_listed_on_the_storage(place, frames, tmp_path):
    store = opened(place)
    store_one(store, tm.Video(frames(2)))
    store.finish()
    store.is_over = True
    store_one(store, tm.Video(frames(2)))
    assert len(lines(tmp_path / "storage/trial")) == 2
