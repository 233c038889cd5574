from pathlib import Path

import pyarrow.fs

from tune_media.storage.final_copy import copy_index_again
from tune_media.storage.location import TrialLocation


def location(folder):
    for name in ("storage", "driver"):
        (folder / name / "media").mkdir(parents=True, exist_ok=True)
        (folder / name / "media" / "index.jsonl").write_text("complete\n")
    return TrialLocation(pyarrow.fs.LocalFileSystem(), str(folder / "storage"), folder / "driver", "t1")


def test_an_index_that_a_late_sync_replaced_comes_back(tmp_path):
    place, index = location(tmp_path), tmp_path / "storage" / "media" / "index.jsonl"
    assert not copy_index_again(place)
    index.write_text("older\n")
    assert copy_index_again(place)
    assert index.read_text() == "complete\n"


def test_a_driver_without_an_index_changes_nothing(tmp_path):
    place = location(tmp_path)
    Path(tmp_path / "driver" / "media" / "index.jsonl").unlink()
    assert not copy_index_again(place)
