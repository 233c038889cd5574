"""A driver was killed: the files that it did not list are found, with the facts that are on the storage."""

import json
import logging
import os
from concurrent.futures import ThreadPoolExecutor

import pyarrow.fs
import pytest
from fsspec.implementations.local import LocalFileSystem

import tune_media as tm
from tests.support.stores import ITERATIONS, LOCAL, index_of, lose_lines, opened
from tune_media.storage.entry import KEPT_ON_DRIVER
from tune_media.storage.index_lines import INDEX_PATH
from tune_media.storage.location import TrialLocation
from tune_media.storage.recovery import heal, read_trial

FACTS = {"episode_id", "episode_return", "episode_length", "terminated", "seed", "env_runner", "metrics"}


class Counting(LocalFileSystem):
    """Counts requests as an object store charges for them."""

    protocol = "counted"
    cachable = False

    def __init__(self, **more):
        super().__init__(**more)
        self.requests, self.listed = [], []

    def _open(self, path, mode="rb", **more):
        self.requests.append(f"open {mode}")
        return super()._open(path, mode, **more)

    def find(self, path, *more, **options):
        self.requests.append("list")
        self.listed.append(path)
        return super().find(path, *more, **options)


def without(line, *names):
    return {name: value for name, value in line.items() if name not in names}


@pytest.mark.parametrize("keep", [0, 2, 5])
def test_healing_restores_every_fact_of_a_line(trial, keep):
    before = {line["path"]: line for line in index_of(trial)}
    lose_lines(trial, keep)
    assert heal(LOCAL, str(trial)) == 6 - keep
    after = {line["path"]: line for line in index_of(trial)}
    assert after.keys() == before.keys()
    for path, line in after.items():
        if line["kind"] == "video":
            assert without(line, "time", "note") == without(before[path], "time")
        else:
            names = ("kind", "section", "key", "path", "step", "training_iteration", "trial_id", "status", "bytes")
            assert {name: line[name] for name in names} == {name: before[path][name] for name in names}
        assert ("killed" in line.get("note", "")) == (path not in list(before)[:keep])
    assert heal(LOCAL, str(trial)) == 0


def test_a_catalog_finds_unlisted_files_by_itself_and_says_so(trial, caplog):
    before = {row["path"]: row for row in tm.load(trial.parent)}
    lose_lines(trial, 2)
    for path in before:
        age(trial / path)
    with caplog.at_level(logging.INFO):
        catalog = tm.load(trial.parent)
    assert {row["path"] for row in catalog} == before.keys()
    for row in catalog:
        assert {name: row[name] for name in FACTS} == {name: before[row["path"]][name] for name in FACTS}
        assert row["id"] == before[row["path"]]["id"]
    assert len(catalog.episodes()) == len(ITERATIONS)
    (message,) = [record.getMessage() for record in caplog.records if "index.jsonl" in record.getMessage()]
    assert "does not list 4 of their files: a running driver has not listed them yet" in message  # the reports are new
    assert "Tuner.restore" in message
    assert len(index_of(trial)) == 2  # a reader changes nothing


def age(file):
    os.utime(file, (1e9, 1e9))


def test_files_that_no_running_driver_will_list_are_a_warning(trial, caplog):
    lose_lines(trial)
    for file in trial.rglob("*.*"):
        age(file)
    tm.load(trial.parent)
    (record,) = [record for record in caplog.records if "index.jsonl" in record.getMessage()]
    assert record.levelno == logging.WARNING
    assert "the driver was killed before it could list them" in record.getMessage()


def fail_lines(trial, lines, **changes):
    changed = [{**line, "status": "failed", **changes} for line in lines]
    (trial / INDEX_PATH).write_text("".join(json.dumps(line) + "\n" for line in changed))


@pytest.mark.parametrize("remedy", ["heal", "restore"])
def test_files_that_came_to_the_storage_after_they_were_listed_as_failed_are_listed_as_stored(trial, tmp_path, remedy):
    """The docs say to copy the driver's folder to the storage; the files stayed invisible."""
    lines = index_of(trial)
    kept = f"{KEPT_ON_DRIVER}: TimeoutError: not done within 120 s"
    fail_lines(trial, lines, note=f"cut; {kept}")
    read = read_trial(LOCAL, str(trial))
    assert ([line["status"] for _, line in read.lines], read.unlisted) == (["stored"] * 6, 6)
    assert len(tm.load(trial)) == len(ITERATIONS)
    if remedy == "heal":
        assert heal(LOCAL, str(trial)) == 6
        assert heal(LOCAL, str(trial)) == 0
    else:
        opened(TrialLocation(LOCAL, str(trial), tmp_path / "new driver", "t1")).finish()
    assert index_of(trial) == [line | {"note": "cut"} for line in lines]


def test_a_dropped_clip_whose_file_is_there_gets_the_facts_that_the_storage_tells(trial):
    lines = index_of(trial)
    names = ("v", "id", "kind", "section", "key", "path", "training_iteration", "step", "time", "trial_id")
    bare = [{name: line[name] for name in names} for line in lines]
    fail_lines(trial, bare, status="dropped", note="more than MediaOptions(max_pending_bytes=...) wait")
    assert heal(LOCAL, str(trial)) == len(lines)
    for after, before in zip(index_of(trial), lines, strict=True):
        assert before.items() >= after.items()
        assert before == after or before["kind"] == "episodes"


def test_a_file_that_is_listed_as_failed_stays_so_while_it_is_not_whole_or_not_there(trial):
    lines = index_of(trial)
    fail_lines(trial, lines, note=f"{KEPT_ON_DRIVER}: it was away")
    first, *others = (trial / line["path"] for line in lines)
    first.write_bytes(first.read_bytes()[:-1])
    for other in others:
        other.unlink()
    assert heal(LOCAL, str(trial)) == 0
    assert read_trial(LOCAL, str(trial)).unlisted == 0


def test_half_files_and_deleted_files_go_and_foreign_files_stay(trial):
    lines = index_of(trial)
    (trial / INDEX_PATH).write_text("".join(json.dumps({**line, "status": "deleted"}) + "\n" for line in lines[:1]))
    half, note = trial / f"{lines[1]['path']}.partial", trial / "media/notes.txt"
    half.write_text("half")
    note.write_text("mine")
    heal(LOCAL, str(trial))
    assert not half.exists()
    assert not (trial / lines[0]["path"]).exists()
    assert note.exists()
    assert lines[0]["path"] not in {row["path"] for row in tm.load(trial)}


def test_a_look_at_a_trial_lists_its_media_and_episode_data_and_nothing_else(trial):
    (trial / "checkpoint_000001" / "media" / "train" / "clip").mkdir(parents=True)  # a file of ours in a wrong place
    (trial / "checkpoint_000001/media/train/clip/step_000000001-0123456789ab.mp4").write_bytes(b"")
    counting = Counting()
    filesystem = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(counting))
    contents = read_trial(filesystem, str(trial))
    assert (len(contents.lines), contents.unlisted) == (6, 0)
    assert counting.requests == ["open rb", "list", "list"]
    assert counting.listed == [f"{trial}/media", f"{trial}/episode_data"]
    counting.listed.clear()
    (trial.parent / "media").mkdir()
    assert read_trial(filesystem, str(trial.parent)).lines == []
    assert counting.listed == [f"{trial.parent}/media"]


def test_trials_are_read_by_several_threads_at_once(trial):
    lose_lines(trial, 1)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: read_trial(LOCAL, str(trial)), range(32)))
    assert {(len(one.lines), one.unlisted) for one in found} == {(6, 5)}
