"""The storage's reader: everything is logged, stored and listed, whatever the storage does."""

import contextlib
import hashlib
import json
import shutil
import sqlite3
import threading
from types import SimpleNamespace

import numpy as np
import pytest

import tune_media as tm
from tests.support.commands import command
from tests.support.driven_sweep import SIZE, Sweep, blob
from tests.support.faults import Orders, episodes, faulty, wait_until
from tune_media.callbacks.outbox import _FORMAT, Outbox
from tune_media.callbacks.storage_writer import StorageWriter
from tune_media.storage import filesystem
from tune_media.storage.log import FOLDER, read_log

pytestmark = pytest.mark.usefixtures("sessions_end")


def status(lines):
    return [(line["training_iteration"], line["status"]) for line in lines]


@pytest.fixture
def orders(tmp_path):
    orders = Orders(tmp_path / "orders")
    yield orders
    orders.take_back("hang")
    orders.take_back("away")


class Unreadable(tm.Artifact):
    def content(self):
        raise ValueError("there is no such simulation")


def test_a_medium_whose_file_cannot_be_made_is_listed_as_failed_and_the_others_are_stored(tmp_path, capsys, caplog):
    sweep = Sweep(tmp_path)
    sweep.report(1, own=Unreadable(b"x", name="x.bin"), weights=blob(1))
    sweep.report(2, weights=blob(2))
    sweep.end()
    by_key = {(line["key"], line["training_iteration"]): line for line in sweep.lines()}
    assert by_key["own", 1]["status"] == "failed"
    assert "there is no such simulation" in by_key["own", 1]["note"]
    assert by_key["weights", 1]["status"] == by_key["weights", 2]["status"] == "stored"
    assert "there is no such simulation" in caplog.text
    assert "1 " in capsys.readouterr().out


def test_raw_arrays_are_stored_as_clips_and_beyond_the_memory_they_wait_on_disk(tmp_path):
    sweep = Sweep(tmp_path, max_pending_bytes=1000)
    frames = np.random.default_rng(0).integers(0, 255, (6, 1, 5, 3, 32, 32), np.uint8)
    for iteration in range(1, 7):
        sweep.report(iteration, clip=frames[iteration - 1])
    sweep.end()
    lines = sweep.lines()
    assert status(lines) == [(iteration, "stored") for iteration in range(1, 7)]
    assert {(line["kind"], line["frames"], len(line["id"])) for line in lines} == {("video", 5, 32)}


@pytest.mark.parametrize("refuses", ["the content", "everything"])
def test_a_raw_array_that_a_full_disk_refuses_is_listed_and_holds_up_nothing(tmp_path, monkeypatch, capsys, refuses):
    monkeypatch.setattr("tune_media.callbacks.maker._PAUSE", 0.01)
    complete, refusals = Outbox.complete, [OSError(28, "No space left on device")]
    if refuses == "everything":
        refusals += [sqlite3.OperationalError("database or disk is full")] * 3

    def refuse(outbox, *arguments):
        if refusals:
            raise refusals.pop(0)
        complete(outbox, *arguments)

    monkeypatch.setattr(Outbox, "complete", refuse)
    sweep = Sweep(tmp_path)
    sweep.report(1, clip=np.zeros((4, 16, 24, 3), np.uint8))
    for iteration in (2, 3):
        sweep.report(iteration, clip=blob(iteration))
    sweep.settle()
    sweep.end()
    assert refusals == []
    assert status(sweep.lines()) == [(1, "dropped"), (2, "stored"), (3, "stored")]
    assert "1 could not be stored" in capsys.readouterr().out


def test_a_raw_array_that_is_not_made_when_the_experiment_ends_is_named(tmp_path, monkeypatch, capsys, orders):
    made = threading.Event()
    monkeypatch.setattr("tune_media.callbacks.maker.made_medium", lambda medium: made.wait(30))
    sweep = Sweep(tmp_path, flush_seconds=0.5)
    sweep.report(1, weights=blob(1), clip=np.zeros((4, 16, 24, 3), np.uint8))
    sweep.end()
    made.set()
    told = capsys.readouterr().out
    assert "1 could not be stored" in told
    assert "/clip/" in told


@pytest.mark.parametrize("limit", ["disk", "bytes"])
def test_what_the_drivers_disk_has_no_room_for_is_listed_as_dropped_and_the_rest_goes_on(
    tmp_path, monkeypatch, caplog, capsys, orders, limit
):
    sweep = Sweep(tmp_path, storage=faulty(orders), max_spilled_bytes=10_000 if limit == "bytes" else 10**9)
    sweep.report(1, weights=blob(1))
    sweep.settle()
    orders.give("away")
    if limit == "disk":
        full = SimpleNamespace(f_bavail=6, f_frsize=2**30, f_blocks=100)
        monkeypatch.setattr("tune_media.callbacks.outbox.os.statvfs", lambda path: full)
        monkeypatch.setattr("tune_media.callbacks.outbox._SMALL_REMAINDER", 10_000)
    sweep.report(2, weights=blob(2))
    result = sweep.report(3, weights=blob(3), evaluation={"env_runners": {"episodes": {"data": episodes("e", 3)}}})
    assert result["weights"].endswith(".bin")  # a path, whatever became of the file
    orders.take_back("away")
    sweep.settle()
    sweep.report(4, weights=blob(4))
    sweep.end()
    lines = sweep.lines()
    by_key = {(line["key"], line["training_iteration"]): line["status"] for line in lines}
    stored = {("weights", iteration): "stored" for iteration in (1, 2, 4)}
    assert by_key == {**stored, ("weights", 3): "dropped", ("episodes/data", 3): "dropped"}
    wanted = "less than 7% of the disk" if limit == "disk" else "MediaOptions(max_spilled_bytes=10000)"
    assert wanted in caplog.text
    assert {line["note"] for line in lines if line["status"] == "dropped"} != set()
    assert "2 " in capsys.readouterr().out


@pytest.mark.parametrize("is_away", [False, True])
def test_what_a_trial_recorded_before_it_went_back_is_marked_unless_it_comes_again(tmp_path, orders, caplog, is_away):
    sweep, again = Sweep(tmp_path, storage=faulty(orders)), blob(9)
    sweep.report(1, weights=blob(1))
    sweep.settle()
    if is_away:  # what cannot be written now is marked when it is
        orders.give("away")
    sweep.report(2, weights=blob(2))
    sweep.report(3, weights=blob(3), constant=again)
    wait_until(lambda: sweep.reader.is_away == is_away)
    sweep.report(2, weights=blob(12))
    sweep.report(3, constant=again)
    orders.take_back("away")
    sweep.end()
    assert caplog.text.count("the storage is away") == is_away
    assert [line["status"] for line in sweep.lines()] == ["stored"] * 5
    assert [line["training_iteration"] for line in sweep.lines()] == [1, 2, 3, 3, 2]
    marks = {(line["key"], line["sha256"]): bool(line.get("rolled_back")) for line in sweep.lines()}
    sha = {number: hashlib.sha256(bytes([number]) * SIZE).hexdigest() for number in (1, 2, 3, 9, 12)}
    wanted = {("weights", sha[number]): number in (2, 3) for number in (1, 2, 3, 12)}
    assert marks == wanted | {("constant", sha[9]): False}
    assert list((tmp_path / "outbox").iterdir()) == []


def test_who_asks_first_for_what_waits_does_not_hear_that_it_is_not_stored(tmp_path, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr(StorageWriter, "begin", lambda self: None)
        sweep = Sweep(tmp_path)
        sweep.report(1, weights=blob(1))
    assert sweep.reader.wait(60)
    sweep.end()
    assert status(sweep.lines()) == [(1, "stored")]


class Refuses(tm.Backend):
    name = "refuses"

    def media(self, trial, entry):
        raise ValueError("it is refused")


@pytest.mark.parametrize("order", ["away", "hang"])
def test_what_the_storage_does_not_take_waits_in_the_outbox_and_a_restore_delivers_it(
    tmp_path, orders, capsys, caplog, order
):
    sweep = Sweep(tmp_path, backend=Refuses(), storage=faulty(orders), flush_seconds=1)
    sweep.report(1, weights=blob(1))
    sweep.settle()
    orders.give(order)
    sweep.report(2, weights=blob(2))
    sweep.report(3, weights=blob(3), evaluation={"env_runners": {"episodes": {"data": episodes("e", 3)}}})
    state = sweep.end()
    told = capsys.readouterr().out
    assert "did not take 3 media" in told
    assert f"tune-media deliver {tmp_path / 'storage'}" in told
    assert "refuses lacks 4 media of 1 trial(s): t1. The trials' folders have all media but 3 that the" in caplog.text
    orders.take_back(order)

    restored = Sweep(tmp_path, state, last=3)
    restored.report(4, weights=blob(4))
    restored.end()
    lines = restored.lines()
    assert {line["status"] for line in lines} == {"stored"}
    assert sorted((line["key"], line["training_iteration"]) for line in lines) == [
        ("episodes/data", 3),
        *(("weights", iteration) for iteration in (1, 2, 3, 4)),
    ]
    assert all((restored.path / line["path"]).exists() for line in lines)
    assert list((tmp_path / "outbox").iterdir()) == []


def refused_sweep(tmp_path, monkeypatch):
    monkeypatch.setattr("tune_media.callbacks.outbox_thread._LONGEST_PAUSE", 0.02)
    sweep = Sweep(tmp_path)
    (sweep.path / "media" / "train").mkdir(parents=True)
    (sweep.path / "media" / "train" / "refused").write_text("a file where a folder should be")
    sweep.report(1, weights=blob(1), refused=blob(100))
    for iteration in range(2, 8):
        result = sweep.report(iteration, weights=blob(iteration))
        wait_until((sweep.path / result["weights"]).exists)
    return sweep, sweep.end()


def test_a_file_that_the_storage_refuses_waits_and_is_listed_and_the_others_are_stored(tmp_path, monkeypatch, capsys):
    sweep, state = refused_sweep(tmp_path, monkeypatch)
    assert "did not take 1 media" in capsys.readouterr().out
    (sweep.path / "result.json").write_text("")  # of Tune
    for more in range(2):
        by_key = {(row["key"], row["training_iteration"]): row for row in map(dict, sweep.lines())}
        assert by_key["refused", 1]["status"] == "failed"
        assert f"tune-media deliver {tmp_path / 'storage'}" in by_key["refused", 1]["note"]
        assert all(by_key["weights", iteration]["status"] == "stored" for iteration in range(1, 8))
        (sweep.path / "media" / "index.jsonl").unlink()  # a reader whose index is lost reads the log
        assert len(tm.load(tmp_path / "storage")) == 7 + more
        restored = Sweep(tmp_path, state, last=7 + more)  # it is tried again, and refused again
        restored.report(8 + more, weights=blob(8 + more))
        state = restored.end()
    (sweep.path / "media" / "train" / "refused").unlink()
    Sweep(tmp_path, state, last=9).end()
    lines = {line["key"]: line for line in sweep.lines()}
    assert lines["refused"]["status"] == "stored"
    assert "note" not in lines["refused"]
    assert (sweep.path / lines["refused"]["path"]).read_bytes() == bytes([100]) * SIZE
    assert list((tmp_path / "outbox").iterdir()) == []


def test_an_index_that_has_lost_lines_has_them_again_after_a_restore(tmp_path):
    sweep = Sweep(tmp_path)
    for iteration in (1, 2, 3):
        sweep.report(iteration, weights=blob(iteration))
    state = sweep.end()
    index = sweep.path / "media" / "index.jsonl"
    whole = index.read_bytes().splitlines(keepends=True)
    index.write_bytes(whole[0])
    restored = Sweep(tmp_path, state, last=3)
    restored.report(4)
    restored.end()
    assert index.read_bytes().splitlines(keepends=True) == whole


def test_a_line_of_the_log_that_is_no_whole_event_costs_a_restored_sweep_nothing_else(tmp_path, caplog):
    sweep = Sweep(tmp_path)
    sweep.report(1, weights=blob(1))
    state = sweep.end()
    broken = tmp_path / "storage" / FOLDER / "1-2-box-00000000-1-0.jsonl"
    lines = [{"v": 4, "trial": "t1", "row": 3, "event": "back"}]
    lines += [{**lines[0], "event": "again", "id": "x"}]
    broken.write_text("".join(json.dumps(line) + "\n" for line in lines))
    restored = Sweep(tmp_path, state, last=1)
    restored.report(2, weights=blob(2))
    restored.end()
    assert status(restored.lines()) == [(1, "stored"), (2, "stored")]
    assert "1 line(s) that are not a line of the log" in caplog.text
    assert len(tm.load(tmp_path / "storage")) == 2


def test_a_file_is_in_the_log_before_it_is_there(tmp_path, monkeypatch):
    seen = []

    def listed():
        log = read_log(sweep.trial.storage.storage_filesystem, str(tmp_path / "storage"), done=True)
        return {line.path for line in log.lines.get("t1", [])}

    sweep = Sweep(tmp_path)
    write = filesystem.link_once

    def watched(source, target):
        seen.append(str(target.relative_to(sweep.path)) in listed())
        return write(source, target)

    monkeypatch.setattr("tune_media.callbacks.row_files.link_once", watched)
    for iteration in range(1, 6):
        sweep.report(iteration, weights=blob(iteration))
        sweep.settle()
        assert {str(file.relative_to(sweep.path)) for file in (sweep.path / "media").rglob("*.bin")} == listed()
    assert seen == [True] * 5
    sweep.end()


def test_readers_see_every_file_while_the_experiment_runs_and_after_its_index_was_lost(tmp_path):
    sweep = Sweep(tmp_path)
    for iteration in (1, 2, 3, 4):
        sweep.report(iteration, weights=blob(iteration))
    sweep.report(3, weights=blob(13))
    sweep.settle()
    (sweep.path / "result.json").write_text("")
    running = tmp_path / "running"
    shutil.copytree(tmp_path / "storage", running)
    (running / "t1" / "media" / "index.jsonl").unlink(missing_ok=True)
    sweep.end()
    (sweep.path / "media" / "index.jsonl").unlink()
    for experiment in (running, tmp_path / "storage"):
        there = {str(file) for file in experiment.rglob("*.bin")}
        rows = list(tm.load(experiment))
        assert {row["file"] for row in rows if row["status"] == "stored"} == there
        assert len(there) > 1
        marks = {(row["training_iteration"], bool(row.get("rolled_back"))) for row in rows if row["file"] in there}
        assert (3, False) in marks
        assert all(is_back == (iteration > 2) for iteration, is_back in marks - {(3, False)})


def test_episodes_of_a_repeated_iteration_do_not_replace_those_that_still_wait(tmp_path, orders):
    """The row of the killed driver and that of the restored one have the same step."""
    sweep = Sweep(tmp_path, storage=faulty(orders), flush_seconds=0.5)
    sweep.report(1, weights=blob(1))
    sweep.settle()
    orders.give("away")
    sweep.report(2, evaluation={"env_runners": {"episodes": {"data": episodes("first", 2)}}})
    state = sweep.end()
    orders.take_back("away")
    restored = Sweep(tmp_path, state, last=1)
    restored.report(2, evaluation={"env_runners": {"episodes": {"data": episodes("second", 2)}}})
    restored.end()
    lines = [line for line in restored.lines() if line["key"] == "episodes/data"]
    assert [bool(line.get("rolled_back")) for line in lines] == [True, False]
    names = [json.loads((restored.path / line["path"]).read_bytes())[0]["episode_id"] for line in lines]
    assert names == ["first-2", "second-2"]


def test_a_backend_that_tunes_loop_calls_alone_holds_no_row_in_the_outbox(tmp_path):
    class InLoop(tm.Backend):
        name, in_loop = "in the loop", frozenset({"start", "metrics", "media", "checkpoint", "end"})

        def metrics(self, trial, report):
            pass

    sweep = Sweep(tmp_path, backend=InLoop())
    for iteration in range(1, 4):
        sweep.report(iteration, weights=blob(iteration))
    sweep.settle()
    outbox = sweep.reader._outbox
    wait_until(lambda: outbox.read(0) == [])
    wait_until(lambda: not [file for file in outbox.folder.iterdir() if len(file.name) == 32])  # the contents
    sweep.end()


def test_deliver_stores_what_a_storage_that_was_away_did_not_take(tmp_path, orders, monkeypatch):
    sweep = Sweep(tmp_path, storage=faulty(orders), flush_seconds=0.5)
    sweep.report(1, weights=blob(1))
    sweep.settle()
    orders.give("away")
    sweep.report(2, weights=blob(2), raw=np.zeros((4, 16, 24, 3), np.uint8))
    sweep.end()
    orders.take_back("away")
    assert status(sweep.lines()) == [(1, "stored")]
    assert "stored 2 media files of 1 trial" in command("deliver", tmp_path / "storage")
    assert sorted(status(sweep.lines())) == [(1, "stored"), (2, "stored"), (2, "stored")]
    assert (sweep.path / "media" / "index.jsonl").exists()
    assert list((tmp_path / "outbox").iterdir()) == []
    assert "waits on this machine: all is stored" in command("deliver", tmp_path / "storage")
    assert "There is no experiment" in command("deliver", tmp_path / "nowhere", code=2)


def test_deliver_leaves_what_the_storage_still_refuses_and_the_outbox_of_a_driver_that_runs(tmp_path, monkeypatch):
    sweep, _ = refused_sweep(tmp_path, monkeypatch)
    output = command("deliver", tmp_path / "storage", code=1)
    assert "did not take 1 media" in output
    (folder,) = (tmp_path / "outbox").iterdir()
    assert str(folder) in output
    outbox = Outbox.adopt(folder)
    assert "its driver runs" in command("deliver", tmp_path / "storage", code=1)
    outbox._database.execute(f"PRAGMA user_version = {_FORMAT + 1}")
    outbox.close(remove=False)
    assert "of another version of tune_media" in command("deliver", tmp_path / "storage", code=1)
    with contextlib.closing(sqlite3.connect(folder / "outbox.sqlite")) as database:
        database.execute(f"PRAGMA user_version = {_FORMAT}")
    (sweep.path / "media" / "train" / "refused").unlink()
    command("deliver", tmp_path / "storage")
    assert {line["key"]: line["status"] for line in sweep.lines()} == {"refused": "stored", "weights": "stored"}
    assert list((tmp_path / "outbox").iterdir()) == []
