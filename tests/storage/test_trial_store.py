import pytest

import tune_media as tm
from tests.support.stores import lines, opened, raw, store_one
from tune_media.storage.entry import NotMadeError, PendingWrite
from tune_media.storage.trial_store import TrialStore
from tune_media.values.episodes import EpisodeBatch, EpisodeData


def test_a_medium_is_written_where_the_design_says_and_listed(place, frames, tmp_path):
    store, video = opened(place), tm.Video(frames(5), fps=12)
    path = store_one(store, video)
    store.finish()
    assert path == f"media/evaluation/episodes/best/step_000000007-{video.id[:12]}.mp4"
    assert (tmp_path / "storage" / "trial" / path).read_bytes() == video.content()
    assert lines(tmp_path / "staging") == lines(tmp_path / "storage" / "trial")
    (line,) = lines(tmp_path / "staging")
    expected = {"v": 2, "id": video.id, "kind": "video", "section": "evaluation", "key": "episodes/best", "path": path}
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


def test_a_restart_knows_what_is_there_even_where_only_the_storage_survived(place, frames, tmp_path):
    video = tm.Video(frames(3))
    first = opened(place)
    path = store_one(first, video)
    first.finish()
    assert opened(place).registry.register(video, "evaluation", "episodes/best", 9, 9) == (path, None)
    (tmp_path / "staging" / "media" / "index.jsonl").unlink()
    assert opened(place).registry.register(video, "evaluation", "episodes/best", 9, 9) == (path, None)


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
    path, entry = store.registry.register(video, "evaluation", "episodes/best", 7, 3)
    package = PendingWrite("trial_1", [entry])
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
        store.rollbacks.goes_on(iteration, iteration)
        path = store_one(store, video, step=iteration, iteration=iteration)
    store.rollbacks.goes_on(3, 3)
    store.mark_rolled_back()
    store.delete([store.files[path]])
    store.finish()
    (line,) = [line for line in lines(tmp_path / "storage/trial") if line["path"] == path]
    assert (line["status"], line["rolled_back"]) == ("deleted", True)
    assert told
    (tmp_path / "staging/media").unlink()
    again = opened(place)
    assert again.registry.register(videos[0], "evaluation", "episodes/best", 9, 9)[1] is None
    store_one(again, tm.Video(frames(2)), step=9)
    again.finish()
    assert len(lines(tmp_path / "storage/trial")) == len(lines(tmp_path / "staging")) == 4


def test_what_neither_takes_is_listed_as_lost(place, frames, tmp_path):
    store = opened(place)
    path, entry = store.registry.register(tm.Video(frames(2)), "evaluation", "episodes/best", 7, 3)
    blocked = tmp_path / "staging/media/evaluation"
    blocked.parent.mkdir(parents=True, exist_ok=True)
    blocked.write_text("a file where a folder should be")
    with pytest.raises(OSError):
        store.keep_here(PendingWrite("trial_1", [entry]), "the storage is away")
    (line,) = lines(tmp_path / "staging")
    assert (line["status"], line["path"]) == ("failed", path)
    assert "the storage is away; and in the driver's folder" in line["note"]


def test_files_that_a_killed_driver_did_not_list_are_found_and_half_files_go(place, frames, tmp_path):
    first = opened(place)
    path, entry = first.registry.register(tm.Video(frames(3)), "evaluation", "episodes/best", 7, 3)
    first.write(PendingWrite("trial_1", [entry]))
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
    _, entry = first.registry.register(batch, "train", "episodes/data", 5, 3, lambda: first.registry.report_path(5))
    first.write(PendingWrite("trial_1", [entry]))
    for index in (tmp_path / "staging/media/index.jsonl", tmp_path / "storage/trial/media/index.jsonl"):
        index.unlink(missing_ok=True)
    broken = tmp_path / "storage/trial/episode_data/data-00000006.json"
    broken.write_text("[]")
    second = opened(place)
    (line,) = lines(tmp_path / "staging")
    assert (line["kind"], line["key"], line["section"], line["path"]) == ("episodes", entry.key, "train", entry.path)
    assert (line["training_iteration"], line["step"], line["trial_id"]) == (3, 5, "trial_1")
    assert second.registry.report_path(5) != entry.path
    assert second.registry.report_path(6) != "episode_data/data-00000006.json"
    third = opened(place)
    third.finish()
    assert len(lines(tmp_path / "staging")) == 1


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


def test_an_index_that_is_read_late_doubles_nothing(place, tmp_path):
    first = opened(place)
    store_one(first, raw(b"clip"))
    first.finish()
    (tmp_path / "staging/media/index.jsonl").unlink()
    second = TrialStore(place)
    _, entry = second.registry.register(raw(b"clip"), "evaluation", "episodes/best", 8, 4)  # nothing is known yet
    second.load()
    second.write(PendingWrite("trial_1", [entry]))
    second.finish()
    assert len(lines(tmp_path / "storage/trial")) == 1
    assert len(list((tmp_path / "storage").rglob("*.bin"))) == 1


def test_what_is_written_when_its_trial_is_over_is_listed_on_the_storage(place, frames, tmp_path):
    store = opened(place)
    store_one(store, tm.Video(frames(2)))
    store.finish()
    store_one(store, tm.Video(frames(2)))
    store.finish()
    assert len(lines(tmp_path / "storage/trial")) == 2


def test_a_policy_that_comes_after_the_index_was_read_knows_what_is_listed(place, frames):
    first = opened(place)
    store_one(first, tm.Video(frames(2)), "train", "rollout")
    first.finish()
    late = opened(place)
    assert not late.files
    late.keep(tm.Retention(last=1))
    assert [file.keys for file in late.files.values()] == [{("train", "rollout")}]
