import functools
import json

import pyarrow.fs
import pytest

import tune_media as tm
from tune_media.storage.copy_pause import CopyPause
from tune_media.storage.index import Index
from tune_media.storage.index_lines import INDEX_PATH, valid_lines
from tune_media.storage.location import TrialLocation


@pytest.fixture
def location(tmp_path):
    return TrialLocation(pyarrow.fs.LocalFileSystem(), str(tmp_path / "storage"), tmp_path / "driver", "trial")


@pytest.fixture
def no_pause_ends(monkeypatch):
    """Time stands still: after its first copy, an index is copied when it is closed and not before."""
    pause = functools.partial(CopyPause, clock=lambda: 0.0)
    monkeypatch.setattr("tune_media.storage.index.CopyPause", pause)


def line(number, **more):
    name = f"media/train/clip/step_{number:09d}-{number:012x}.mp4"
    return {"v": 2, "id": f"{number:032x}", "section": "train", "key": "clip", "path": name, "status": "stored", **more}


def opened(location, count=0):
    index = Index(location)
    index.load()
    for number in range(count):
        index.append(line(number))
    return index


def raw_lines(folder):
    return [json.loads(raw) for raw in (folder / INDEX_PATH).read_bytes().splitlines()]


def test_a_change_is_one_more_line_and_the_last_line_of_a_key_is_valid(location, tmp_path):
    index = opened(location, 3)
    before = (tmp_path / "driver" / INDEX_PATH).read_bytes()
    assert index.amend([line(1)["path"]], {"status": "deleted"}) == 1
    assert index.amend([line(1)["path"]], {"status": "deleted"}) == 0  # it says so already
    after = (tmp_path / "driver" / INDEX_PATH).read_bytes()
    assert after.startswith(before)
    assert raw_lines(tmp_path / "driver")[3:] == [line(1, status="deleted")]
    assert valid_lines(after) == index.lines() == [line(0), line(1, status="deleted"), line(2)]


def test_when_the_trial_ends_the_index_has_one_line_a_key(location, tmp_path):
    index = opened(location, 3)
    index.amend([line(0)["path"]], {"rolled_back": True})
    index.amend([line(0)["path"]], {"rolled_back": None})
    assert len(raw_lines(tmp_path / "driver")) == 5
    index.close()
    assert raw_lines(tmp_path / "driver") == raw_lines(tmp_path / "storage") == [line(0), line(1), line(2)]


def test_a_change_reads_and_writes_nothing_else(location, tmp_path):
    index = opened(location, 500)
    file = tmp_path / "driver" / INDEX_PATH
    size, inode = file.stat().st_size, file.stat().st_ino
    index.amend([line(7)["path"]], {"status": "deleted"})
    assert file.stat().st_ino == inode
    assert file.stat().st_size - size < 2 * size / 500


def test_the_storage_gets_one_line_a_key_after_each_pause(location, tmp_path, no_pause_ends):
    index = opened(location, 1)
    assert index.is_stale
    assert index.may_copy
    index.copy()
    for number in range(100):
        index.append(line(number))
        index.amend([line(number)["path"]], {"status": "deleted"})
        assert not index.may_copy
    assert len(raw_lines(tmp_path / "storage")) == 1
    index.close()
    assert raw_lines(tmp_path / "storage") == [line(number, status="deleted") for number in range(100)]


def test_an_index_of_version_1_is_continued(location, tmp_path):
    for folder in ("storage", "driver"):
        (tmp_path / folder / "media").mkdir(parents=True)
    old = [line(number) | {"v": 1} for number in range(2)]
    content = "".join(json.dumps(one) + "\n" for one in old)
    (tmp_path / "storage" / INDEX_PATH).write_text(content)
    index = opened(location)
    assert index.lines() == old
    index.amend([old[1]["path"]], {"status": "deleted"})
    index.close()
    assert raw_lines(tmp_path / "storage") == [old[0], {**old[1], "v": 2, "status": "deleted"}]
    assert [row["path"] for row in tm.load(tmp_path / "storage")] == [old[0]["path"]]


def test_foreign_lines_and_half_lines_are_kept_and_skipped(location, tmp_path):
    (tmp_path / "driver/media").mkdir(parents=True)
    whole = json.dumps(line(0)).encode()
    (tmp_path / "driver" / INDEX_PATH).write_bytes(b'[1]\n{"a": 2}\n' + whole + b"\n" + whole[:40])
    index = opened(location)
    index.append(line(1))
    index.close()
    content = (tmp_path / "storage" / INDEX_PATH).read_bytes()
    assert content == (tmp_path / "driver" / INDEX_PATH).read_bytes()
    assert content.splitlines()[:3] == [b"[1]", b'{"a": 2}', whole[:40]]
    assert valid_lines(content) == [line(0), line(1)]


def test_lines_of_the_driver_that_the_storage_lacks_are_copied_after_a_restart(location, tmp_path):
    opened(location, 2)  # killed before any copy
    index = opened(location)
    assert index.is_stale
    assert index.may_copy
    index.copy()
    assert raw_lines(tmp_path / "storage") == [line(0), line(1)]
