import json

import pyarrow.fs
import pytest

import tune_media as tm
from tests.support.index_lines import parse_index, valid_lines
from tests.support.stores import StoredTrial
from tune_media.storage.fold import fold
from tune_media.storage.index_lines import parsed, read_index


def test_a_half_written_last_line_is_passed_over(frames, tmp_path):
    index = tmp_path / "media" / "index.jsonl"
    for count in (1, 2):  # and it does not swallow the next
        trial = StoredTrial.in_folder(tmp_path)
        trial.add(tm.Video(frames(3)))
        trial.finish()
        index.write_bytes(index.read_bytes() + b'{"v": 1, "id": "ab')
        assert len(list(parse_index(index.read_bytes()))) == count


@pytest.mark.parametrize(
    "path", ["../x.mp4", "media/../../x", "/etc/passwd", "media//x", "media/./x", "media\\x", "a\nb", "", 3, None]
)
def test_a_line_that_names_no_file_inside_its_trial_is_no_line(path):
    line = {"id": "a", "section": "train", "key": "k", "path": path}
    assert valid_lines(json.dumps(line).encode()) == []


def test_a_line_whose_nesting_ends_the_parser_costs_only_itself():
    good = json.dumps({"id": "a", "section": "train", "key": "k", "path": "media/x"}).encode()
    assert len(valid_lines(b"[" * 200_000 + b"\n" + good)) == 1


@pytest.mark.parametrize(
    ("old", "row", "is_back"),
    [
        ({"v": 1}, 0, False),
        ({"v": 2, "rolled_back": True}, 0, True),
        ({"v": 3, "at": [1700000000000, 1700000000007]}, 1700000000007, False),
        ({"v": 3, "at": [9, 7], "row": 12, "rolled_back": True}, 7, True),  # rendered later, by row 12
        ({"v": 3, "at": "odd"}, 0, False),
    ],
)
def test_lines_of_older_versions_have_a_row(old, row, is_back):
    raw = json.dumps({"id": "a", "section": "train", "key": "k", "path": "media/x", "status": "stored", **old}).encode()
    line = parsed(raw)
    assert (line["row"], "at" in line) == (row, False)
    (found,) = fold([line])
    assert bool(found.get("rolled_back")) == is_back


def test_of_an_index_of_version_2_the_last_line_of_a_key_is_valid(tmp_path):
    line = {"v": 2, "id": "a", "section": "train", "key": "k", "path": "media/x", "trial_id": "t1"}
    lines = [json.dumps({**line, "status": status}) for status in ("stored", "deleted", "stored")]
    (tmp_path / "media").mkdir()
    (tmp_path / "media" / "index.jsonl").write_text("\n".join(lines))
    found, is_whole = read_index(pyarrow.fs.LocalFileSystem(), str(tmp_path))
    assert [line["status"] for line in found] == ["stored"]
    assert is_whole
