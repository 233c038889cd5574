import json

import pytest

import tune_media as tm
from tests.support.index_lines import parse_index, valid_lines
from tests.support.stores import StoredTrial
from tune_media.storage.index_lines import parsed


def test_a_half_written_last_line_is_passed_over(frames, tmp_path):
    index = tmp_path / "media" / "index.jsonl"
    for count in (1, 2):  # and it does not swallow the next
        trial = StoredTrial.in_folder(tmp_path)
        trial.add(tm.Video(frames(3)))
        trial.finish()
        index.write_bytes(index.read_bytes() + b'{"v": 4, "id": "ab')
        assert len(list(parse_index(index.read_bytes()))) == count


@pytest.mark.parametrize(
    "path", ["../x.mp4", "media/../../x", "/etc/passwd", "media//x", "media/./x", "media\\x", "a\nb", "", 3, None]
)
def test_a_line_that_names_no_file_inside_its_trial_is_no_line(path):
    line = {"v": 4, "row": 1, "id": "a", "section": "train", "key": "k", "path": path}
    assert valid_lines(json.dumps(line).encode()) == []


def test_a_line_whose_nesting_ends_the_parser_costs_only_itself():
    good = json.dumps({"v": 4, "row": 1, "id": "a", "section": "train", "key": "k", "path": "media/x"}).encode()
    assert len(valid_lines(b"[" * 200_000 + b"\n" + good)) == 1


@pytest.mark.parametrize("other", [{"v": 3}, {"v": None}, {"v": "4"}, {"row": None}, {"row": True}, {"undone": "2"}])
def test_a_line_of_an_older_version_or_without_a_row_is_no_line(other):
    line = {"v": 4, "row": 1, "id": "a", "section": "train", "key": "k", "path": "media/x", "status": "stored"}
    assert parsed(json.dumps(line).encode()).fields() == line
    assert parsed(json.dumps(line | {"v": 5}).encode()).fields() == line | {"v": 5}
    assert parsed(json.dumps(line | other).encode()) is None
