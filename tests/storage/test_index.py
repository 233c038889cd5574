"""The index of a trial: a view of its log, whatever was written when."""

import itertools
import json

import pyarrow.fs
import pytest

from tune_media.storage.index import Index, event_line
from tune_media.storage.index_lines import INDEX_PATH
from tune_media.storage.location import TrialLocation

LOCAL = pyarrow.fs.LocalFileSystem()


@pytest.fixture
def place(tmp_path):
    """Return the location of a trial that has five files."""
    location = TrialLocation(LOCAL, str(tmp_path / "trial"), tmp_path / "driver", "t1")
    (tmp_path / "trial" / "media").mkdir(parents=True)
    for name in "abcde":
        (tmp_path / "trial" / f"media/{name}.mp4").write_bytes(name.encode())
    return location


def line(name, iteration, stamp, **more):
    return {
        "v": 3, "id": name * 32, "kind": "video", "section": "train", "key": "my key/best of 3?", "status": "stored",
        "path": f"media/{name}.mp4", "training_iteration": iteration, "trial_id": "t1", "at": [1, stamp], **more,
    }  # fmt: skip


def back(iteration, stamp):
    return event_line("back", "trial", "t1", (1, stamp), training_iteration=iteration)


def again(name, stamp):
    return event_line("again", "trial", "t1", (1, stamp), id=name * 32)


def deleted(name, stamp):
    return event_line("deleted", "trial", "t1", (1, stamp), path=f"media/{name}.mp4")


def view(index):
    return {line["path"][6]: (line["status"], bool(line.get("rolled_back"))) for line in index.lines()}


EVENTS = [
    line("a", 1, 1), line("b", 2, 2), line("c", 3, 3), back(2, 4), again("c", 5), line("d", 2, 6), deleted("a", 7),
]  # fmt: skip
WANTED = {
    "a": ("deleted", False),
    "b": ("stored", True),
    "c": ("stored", False),
    "d": ("stored", False),
}


def test_the_log_alone_makes_the_whole_index(place):
    index = Index(place)
    assert index.load(EVENTS) == 4
    assert view(index) == WANTED
    index.copy()
    assert view(Index(place)) == {}
    copied = Index(place)
    assert copied.load([]) == 0
    assert view(copied) == WANTED
    assert not copied.is_stale


@pytest.mark.parametrize("known", range(len(EVENTS) + 1))
def test_any_copy_of_the_index_and_the_whole_log_make_the_same(place, known):
    earlier = Index(place)
    earlier.load(EVENTS[:known])
    earlier.copy()
    index = Index(place)
    index.load(EVENTS)
    assert view(index) == WANTED


@pytest.mark.parametrize("order", itertools.permutations(range(3)))
def test_files_that_are_written_late_are_marked_all_the_same(place, order):
    """A write that failed is tried again after the trial went back."""
    index = Index(place)
    index.apply(back(2, 4))
    index.apply(again("c", 5))
    late = [line("a", 1, 1), line("b", 2, 2), line("c", 3, 3)]
    for number in order:
        index.add(late[number])
    assert view(index) == {"a": ("stored", False), "b": ("stored", True), "c": ("stored", False)}
    index.apply(back(3, 8))
    assert view(index) == {"a": ("stored", False), "b": ("stored", True), "c": ("stored", True)}


def test_a_line_whose_file_never_came_is_not_listed_but_one_that_says_why_is(place):
    index = Index(place)
    dropped = line("x", 1, 1, status="dropped", note="the disk is full")
    assert index.load([dropped, line("y", 1, 2)]) == 0
    assert view(index) == {"x": ("dropped", False)}


def test_keys_that_share_a_file_are_listed_each_and_deleted_together(place):
    index = Index(place)
    index.load([line("a", 1, 1), {**line("a", 1, 1), "key": "worst"}, deleted("a", 2)])
    assert sorted((found["key"], found["status"]) for found in index.lines()) == [
        ("my key/best of 3?", "deleted"),
        ("worst", "deleted"),
    ]


def test_lines_of_older_versions_and_of_others_stay_as_they_are(place, tmp_path):
    older = {name: value for name, value in line("a", 5, 0).items() if name != "at"} | {"v": 1}
    other = {**line("b", 9, 0), "trial_id": "t0"}
    foreign = b"a note of the user's"
    content = json.dumps(older).encode() + b"\n" + json.dumps(other).encode() + b"\n" + foreign + b"\n"
    (tmp_path / "trial" / INDEX_PATH).write_bytes(content)
    index = Index(place)
    index.load([back(3, 4)])
    assert view(index) == {"a": ("stored", True), "b": ("stored", False)}
    assert foreign in index.content()
