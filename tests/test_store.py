import json

import pyarrow.fs
import pytest

import tune_media as tm
from tune_media.store import Place, TrialStore, parse_index, safe_key, write_atomically


@pytest.fixture
def place(tmp_path):
    (tmp_path / "staging").mkdir()
    return Place(pyarrow.fs.LocalFileSystem(), str(tmp_path / "storage" / "trial"), tmp_path / "staging", "trial_1")


def store_one(store, medium, section="evaluation", key="episodes/best", step=7, iteration=3):
    path, entry = store.register(medium, section, key, step, iteration)
    if entry:
        store.write(entry)
    return path


def lines(folder):
    return [json.loads(line) for line in (folder / "media" / "index.jsonl").read_text().splitlines()]


def test_a_medium_is_written_where_the_design_says_and_listed(place, frames, tmp_path):
    store, video = TrialStore(place), tm.Video(frames(5), fps=12)
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
    store_one(TrialStore(place), tm.Video(frames(3)))
    assert [path.name for path in (tmp_path / "staging").rglob("*") if path.is_file()] == ["index.jsonl"]


def test_the_same_medium_is_written_and_listed_once(place, frames, tmp_path):
    store, video = TrialStore(place), tm.Video(frames(3))
    first = store_one(store, video, step=7)
    assert store_one(store, video, step=8) == first
    assert len(lines(tmp_path / "staging")) == 1


def test_one_episode_under_two_keys_is_one_file_and_two_lines(place, frames, tmp_path):
    store, video = TrialStore(place), tm.Video(frames(3))
    assert store_one(store, video, key="episodes/best") == store_one(store, video, key="episodes/worst")
    assert [line["key"] for line in lines(tmp_path / "staging")] == ["episodes/best", "episodes/worst"]
    assert len(list((tmp_path / "storage").rglob("*.mp4"))) == 1


def test_a_restart_knows_what_is_there_even_where_only_the_storage_survived(place, frames, tmp_path):
    video = tm.Video(frames(3))
    first = TrialStore(place)
    path = store_one(first, video)
    first.finish()
    assert TrialStore(place).register(video, "evaluation", "episodes/best", 9, 9) == (path, None)
    (tmp_path / "staging" / "media" / "index.jsonl").unlink()
    assert TrialStore(place).register(video, "evaluation", "episodes/best", 9, 9) == (path, None)


def test_a_half_written_last_line_is_passed_over(place, frames, tmp_path):
    store_one(TrialStore(place), tm.Video(frames(3)))
    index = tmp_path / "staging" / "media" / "index.jsonl"
    index.write_bytes(index.read_bytes() + b'{"v": 1, "id": "ab')
    assert len(list(parse_index(index.read_bytes()))) == 1
    store_one(TrialStore(place), tm.Video(frames(3)))
    assert len(list(parse_index(index.read_bytes()))) == 2  # and does not swallow the next


def test_what_cannot_be_written_is_listed_with_the_reason(place, frames, tmp_path):
    (tmp_path / "storage" / "trial" / "media").mkdir(parents=True)
    (tmp_path / "storage" / "trial" / "media" / "evaluation").write_text("a file where a folder should be")
    store, video = TrialStore(place), tm.Video(frames(3))
    with pytest.raises(OSError):
        store_one(store, video)
    (line,) = lines(tmp_path / "staging")
    assert (line["status"], line["id"]) == ("failed", video.id)
    assert line["note"]


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
    store = TrialStore(place)
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
