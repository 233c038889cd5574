import hashlib
import logging
import os
import pickle
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from ray.tune.callback import CallbackList

import tune_media as tm
from tests.support.driven_sweep import Sweep, blob
from tests.support.driver_to_kill import CALM, KEYS, PLACES, Tells, calls, kill_at, report, told
from tests.support.fake_trial import FakeTrial
from tests.support.faults import wait_until
from tests.support.index_lines import parse_index
from tune_media.callbacks.outbox import FOLDER_VARIABLE, NewRow, Outbox, outbox_root, remove_expired
from tune_media.callbacks.session import _SESSIONS

pytestmark = pytest.mark.usefixtures("outboxes")


@pytest.fixture
def outbox(outboxes):
    outboxes.mkdir()
    outbox = Outbox.open(outboxes, "/results/sweep", "1")
    outbox.add_reader("storage")
    yield outbox
    outbox.close(remove=True)


def adopted(outbox):
    outbox.close(remove=False)
    return Outbox.adopt(outbox.folder)


def contents_in(folder):
    return [file for file in folder.iterdir() if len(file.name) == 32]


def make_old(folders, days):
    long_ago = time.time() - days * 24 * 3600
    for folder in folders:
        for path in (*folder.iterdir(), folder):
            os.utime(path, (long_ago, long_ago))


def go_on(folder, state, iterations=(CALM + 2,)):
    callback, trial = tm.MediaLoggerCallback(Tells(folder)), FakeTrial(folder)
    if state:
        callback.set_state(state)
    trial.last_result = {"training_iteration": CALM}
    callback.log_trial_start(trial)
    for iteration in iterations:
        report(callback, trial, folder, iteration)
    callback.log_trial_end(trial)
    callback.on_experiment_end([trial])


def index_of(folder, trial="t1"):
    """Return all lines of a trial's index: one for each key."""
    return parse_index((folder / "storage" / trial / "media" / "index.jsonl").read_bytes())


def assert_stored(folder, lines):
    trial = folder / "storage" / "t1"
    for line in lines:
        assert line["status"] == "stored"
        assert hashlib.sha256((trial / line["path"]).read_bytes()).hexdigest() == line["sha256"]
    there = {str(path.relative_to(trial)) for path in (trial / "media").rglob("*") if path.is_file()}
    assert there == {line["path"] for line in lines if line["path"].startswith("media/")} | {"media/index.jsonl"}


def assert_all_there(folder):
    wanted = sorted((line["key"], line["id"], line["training_iteration"]) for line in told(folder))
    lines = index_of(folder)
    assert sorted((line["key"], line["id"], line["training_iteration"]) for line in lines) == wanted
    assert_stored(folder, lines)
    paths = {key: [line["path"] for line in lines if line["key"] == key] for key in KEYS}
    assert paths["best"] == paths["worst"]
    assert [len(line["id"]) for line in lines] == [32] * len(lines)


@pytest.mark.parametrize(
    ("place", "has_state"), [*((place, True) for place in PLACES), ("append", False), ("file", False)]
)
def test_what_a_killed_driver_had_taken_is_delivered_by_the_next_one(tmp_path, outboxes, caplog, place, has_state):
    state = kill_at(tmp_path, place)
    if place == "log":  # and the restore comes after long
        make_old(outboxes.iterdir(), 30)
    go_on(tmp_path, state if has_state else {})
    assert_all_there(tmp_path)
    wanted = {("media", line["training_iteration"], line["key"], line["id"]) for line in told(tmp_path)}
    wanted |= {("metrics", iteration) for iteration in range(1, CALM + 3)}
    made = set(calls(tmp_path))
    assert {call[:-1] for call in made} == wanted
    assert len(made) == len(wanted), "a call that is made again has another row"
    assert list(outboxes.iterdir()) == []
    assert not [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_an_outbox_that_another_machine_has_gone_on_from_is_left_and_named(outboxes, caplog):
    """Its rows were delivered beside those of that machine, and what was lost with that machine was not named."""
    rows = [NewRow("t1", "end")]
    first = Outbox.open(outbox_root(), "/results/sweep", "1")
    last = first.append(rows)
    first.close(remove=False)
    again = Outbox.open(outbox_root(), "/results/sweep", "1", last)
    assert again.is_adopted
    assert not caplog.text
    again.close(remove=False)
    elsewhere = Outbox.open(outbox_root(), "/results/sweep", "1", last + 1)
    assert not elsewhere.is_adopted
    assert "another machine went on with the experiment in /results/sweep" in caplog.text
    last = elsewhere.append(rows)
    elsewhere.close(remove=False)
    assert Outbox.open(outboxes, "/results/sweep", "1", last).folder == elsewhere.folder


def test_rows_that_the_disk_does_not_take_are_read_in_order_and_are_no_sign_of_another_machine(outbox):
    outbox.append([NewRow("t1", "start", b"a")])
    outbox._database.execute("PRAGMA query_only = 1")
    last = [outbox.append([NewRow(trial, "end", data)]) for trial, data in (("t1", b"b"), ("t2", b"c"))][-1]
    assert [row.data for row in outbox.read(0)] == [b"a", b"b", b"c"]
    assert [row.data for row in outbox.read(0, 2)] == [b"a", b"b"]
    assert [row.data for row in outbox.read(last - 1, None, ["end"])] == [b"c"]
    assert (outbox.count_after(last - 1), outbox.trials_behind("storage", ["end"])) == (
        [("t2", "end", 1)],
        ["t1", "t2"],
    )
    outbox.advance("storage", last)
    outbox.tidy()
    assert [row.data for row in outbox.read(0)] == [b"a"]
    known = outbox.written  # as Tune's snapshot has it
    outbox.close(remove=False)  # a kill
    again = Outbox.open(outbox.folder.parent, "/results/sweep", "1", known)
    assert again.is_adopted
    again.close(remove=True)


def test_a_second_driver_of_an_experiment_has_an_outbox_of_its_own_and_says_so(tmp_path, outboxes, caplog):
    state = kill_at(tmp_path, "append")
    (killed,) = outboxes.iterdir()
    lock = "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.flock(file, fcntl.LOCK_EX)"
    command = [sys.executable, "-c", f"{lock}; print(1, flush=True); sys.stdin.read()", str(killed / "lock")]
    other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert other.stdout.readline() == b"1\n"
        go_on(tmp_path, state)
    finally:
        other.kill()
        other.wait()
    assert "another driver of the experiment" in caplog.text
    assert [line["training_iteration"] for line in index_of(tmp_path)] == [CALM + 2] * 5
    assert list(outboxes.iterdir()) == [killed]
    go_on(tmp_path, state, (CALM + 3,))  # the other one has ended
    assert_all_there(tmp_path)
    assert list(outboxes.iterdir()) == []


@pytest.mark.parametrize("has_state", [True, False])
def test_a_copied_experiment_takes_nothing_of_the_one_that_it_was_copied_from(tmp_path, outboxes, has_state):
    original, copy = tmp_path / "original", tmp_path / "copy"
    original.mkdir()
    state = kill_at(original, "append")
    shutil.move(original / "outbox", outboxes)
    shutil.copytree(original, copy)
    go_on(copy, state if has_state else {})
    assert [line["training_iteration"] for line in index_of(copy)] == [CALM + 2] * 5
    go_on(original, state)
    assert_all_there(original)
    assert list(outboxes.iterdir()) == []


def test_no_number_of_a_row_is_given_twice_even_if_all_rows_are_deleted(outbox):
    outbox.add_reader("tracker")
    last = outbox.append([NewRow("t1", "start"), NewRow("t1", "result")])
    for reader in ("tracker", "storage"):
        outbox.advance(reader, last)
    assert outbox.tidy() == 2
    outbox.remove_readers_but(["storage"])
    again = outbox
    for _ in range(2):
        time.sleep(0.01)
        again = adopted(again)
        assert again.last == again.began > again.position("storage") == last
        assert again.read(0) == [], "nothing waits"
    assert again.append([NewRow("t1", "end")]) > last
    again.close(remove=True)


def test_outboxes_that_nobody_wants_expire_and_are_named_and_nothing_else_is_removed(outboxes, caplog):
    (outboxes / "thesis").mkdir(parents=True)
    (outboxes / "thesis" / "chapter.txt").write_text("years of work")
    old, recent, used = (Outbox.open(outboxes, f"/results/{name}", "1") for name in ("old", "recent", "used"))
    tried = Outbox.adopt(outboxes / "0123456789abcdef", {"storage": ""})  # whose check was killed
    for outbox in (old, recent, tried):
        outbox.append([NewRow("t1", "start")])
        outbox.close(remove=False)
    make_old([outboxes / "thesis", old.folder, used.folder, tried.folder], 8)
    remove_expired(outboxes)
    assert sorted(outboxes.iterdir()) == sorted([outboxes / "thesis", recent.folder, used.folder])
    assert "/results/old" in caplog.text
    assert "/results/recent" not in caplog.text
    assert len(caplog.records) == 1, "a check has nothing to deliver"
    used.close(remove=True)


def test_rows_for_which_there_is_no_room_are_appended_all_or_none(outbox):
    big = b"x" * 10_000
    last = outbox.append([NewRow("t1", "media", content=big), NewRow("t1", "media", content=b"small")])
    with pytest.raises(OSError, match="max_spilled_bytes"):
        outbox.append([NewRow("t1", "start"), NewRow("t1", "media", content=big)], most_bytes=15_000)
    assert [row.content() for row in outbox.read(0)] == [big, b"small"]
    assert outbox.nbytes == len(big) + len(b"small")
    outbox.advance("storage", last)
    assert outbox.tidy() == 2
    assert outbox.nbytes == 0
    assert not contents_in(outbox.folder), "the contents"


def test_results_count_too_and_a_tracker_that_is_away_does_not_fill_the_disk(outbox):
    outbox.add_reader("tracker")
    outbox.append([NewRow("t1", "start", b"x")])
    for number in range(2000):
        last = outbox.append([NewRow("t1", "result", bytes([number % 256]) * 6000)], most_bytes=1_000_000)
        outbox.advance("storage", last)
        if number % 100 == 0:
            outbox.checkpoint()
    assert outbox.nbytes <= 1_000_000
    skipped = outbox.take_skipped("tracker")
    rows = outbox.read(outbox.position("tracker"), 5000)
    assert 2001 - 1_000_000 // 6000 - 64 <= len(skipped) == 2001 - len(rows) < 2001
    assert skipped[0][1:] == ("t1", "start")
    assert all(row.data for row in rows)
    assert outbox.take_skipped("tracker") == []
    assert sum(file.stat().st_size for file in outbox.folder.iterdir()) < 4_000_000, "12 MB were appended"
    again = adopted(outbox)
    assert again.nbytes == outbox.nbytes
    again.advance("tracker", last)
    while again.tidy():
        pass
    assert (again.nbytes, again.read(0)) == (0, [])
    again.close(remove=True)


def test_a_content_that_is_made_later_needs_room_too(outbox):
    seq = outbox.append([NewRow("t1", "media", b"lost", ready=False)])
    with pytest.raises(OSError, match="max_spilled_bytes"):
        outbox.complete(seq, b"made", b"x" * 10_000, most_bytes=9000)
    (row,) = outbox.read(0)
    assert (row.ready, row.data, outbox.nbytes) == (False, b"lost", 4)
    outbox.complete(seq, b"made", b"x" * 10_000, most_bytes=11_000)
    (row,) = outbox.read(0)
    assert (row.ready, row.content(), outbox.nbytes) == (True, b"x" * 10_000, 10_004)


def test_an_outbox_that_is_closed_during_a_checkpoint_waits_for_it(outbox):
    calls, begun, goes_on = [], threading.Event(), threading.Event()

    class Slow:
        def execute(self, statement):
            begun.set()
            goes_on.wait(60)
            calls.append("checkpoint")
            return SimpleNamespace(fetchall=list)

        def close(self):
            calls.append("close")

    outbox._checkpoints.close()
    outbox._checkpoints = Slow()
    reader = threading.Thread(target=outbox.checkpoint)
    reader.start()
    begun.wait(60)
    closing = threading.Thread(target=outbox.close, kwargs={"remove": True})
    closing.start()
    wait_until(lambda: outbox._is_closed)
    goes_on.set()
    for thread in (reader, closing):
        thread.join(60)
    outbox.checkpoint()
    assert calls == ["checkpoint", "close"]
    assert not outbox.folder.exists()


def test_recipes_count_once_and_a_reopened_outbox_counts_the_same(outbox):
    outbox.append([NewRow("t1", "media", content=b"x" * 10_000, recipe=("hash", b"y" * 100))])
    outbox.append([NewRow("t1", "media", content=b"small", recipe=("hash", b"y" * 100))])
    assert outbox.nbytes == 10_105
    again = adopted(outbox)
    assert again.nbytes == 10_105
    again.close(remove=True)


def test_numbers_rise_although_the_clock_went_back_or_a_kill_came_before_the_first_row(outboxes):
    outboxes.mkdir()
    ahead = int(1000 * time.time()) + 10**9
    outbox = Outbox.open(outboxes, "/results/sweep", "1")
    outbox.raise_to(ahead)  # as Tune's snapshot, or the log, says
    last = outbox.append([NewRow("t1", "start")])
    assert last > ahead
    again = adopted(outbox)
    assert again.append([NewRow("t1", "start")]) > last
    again.close(remove=True)


def test_a_parked_row_stays_until_another_process_opens_the_outbox(outbox):
    last = outbox.append([NewRow("t1", "media", b"a", b"x" * 10_000), NewRow("t1", "media", b"b")])
    outbox.park(last - 1)
    outbox.advance("storage", last)
    while outbox.tidy():
        pass
    assert outbox.has_parked
    assert [row.data for row in outbox.read(0)] == [b"a"]
    again = adopted(outbox)
    assert not again.has_parked
    (row,) = again.read(again.position("storage"))
    assert (row.data, row.content(), row.ready) == (b"a", b"x" * 10_000, True)
    again.close(remove=True)


@pytest.mark.parametrize("is_given", [True, False])
def test_only_the_user_may_look_into_the_folder_of_all_outboxes_and_into_each(tmp_path, monkeypatch, is_given):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    if not is_given:
        monkeypatch.delenv(FOLDER_VARIABLE)
    root = outbox_root()
    assert root.parent == tmp_path
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    root.chmod(0o755)
    assert stat.S_IMODE(outbox_root().stat().st_mode) == 0o700
    outbox = Outbox.open(root, "/results/sweep", "1")
    assert stat.S_IMODE(outbox.folder.stat().st_mode) == 0o700
    outbox.close(remove=True)


@pytest.mark.parametrize("given", ["{here}/file", "/proc/nope", "~nobody_of_this_name/x"])
def test_a_folder_of_outboxes_that_cannot_be_is_named_with_its_variable(tmp_path, monkeypatch, given):
    (tmp_path / "file").touch()
    monkeypatch.setenv(FOLDER_VARIABLE, chosen := given.format(here=tmp_path))
    with pytest.raises(OSError, match=rf"^{FOLDER_VARIABLE}={chosen} cannot be a folder for outboxes \(.+\): set "):
        outbox_root()


def test_the_folder_of_all_outboxes_may_be_in_the_users_home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv(FOLDER_VARIABLE, "~/outbox")
    assert outbox_root() == tmp_path / "home" / "outbox"


def test_an_outbox_of_another_version_is_named_and_left(tmp_path, caplog):
    """It was neither delivered nor named."""
    old = Outbox.open(outbox_root(), "/results/sweep", "1")
    old.append([NewRow("t1", "media")])
    old._database.execute("PRAGMA user_version = 77")
    old.close(remove=False)
    new = Outbox.open(outbox_root(), "/results/sweep", "1")
    assert new.folder != old.folder
    assert (
        f"the outbox in {old.folder} stays, and cannot be read: it is of another version of tune_media" in caplog.text
    )
    new.close(remove=True)


def test_a_shared_folder_for_outboxes_is_refused_with_one_that_works(tmp_path, monkeypatch):
    """Others could read the outboxes in it."""
    (tmp_path / "notes.txt").write_text("of somebody's")
    tmp_path.chmod(0o755)
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(PermissionError, match=f"others can read {tmp_path}; .* such as {tmp_path}/outbox$"):
        outbox_root()
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "outbox"))
    assert stat.S_IMODE(outbox_root().stat().st_mode) == 0o700


def test_a_result_of_hundreds_of_media_is_appended_all_or_none(outbox):
    rows = [NewRow("t1", "media", str(index).encode()) for index in range(250)]
    last = outbox.append(rows)
    assert [row.data for row in outbox.read(0, 1000)] == [row.data for row in rows]
    assert outbox.read(0, 1000)[-1].seq == last
    with pytest.raises(sqlite3.Error):
        outbox.append([*rows, NewRow(object(), "media")])
    assert len(outbox.read(0, 1000)) == 250


def test_contents_whose_rows_were_never_written_are_removed_by_the_next_driver(outbox):
    outbox.append([NewRow("t1", "media", content=b"x" * 10_000)])
    stray = outbox.folder / ("0" * 32)
    stray.write_bytes(b"half a clip")
    again = adopted(outbox)
    assert [row.content() for row in again.read(0)] == [b"x" * 10_000]
    assert not stray.exists()
    again.close(remove=True)


def test_a_content_that_is_gone_is_named_and_the_rest_is_stored(tmp_path, outboxes):
    """The machine lost its power: rows are there, and not all files."""
    state = kill_at(tmp_path, "append")
    (killed,) = outboxes.iterdir()
    contents = contents_in(killed)
    assert contents
    for path in contents:
        path.write_bytes(b"")
    go_on(tmp_path, state)
    lines = index_of(tmp_path)
    failed = [line for line in lines if line["status"] == "failed"]
    assert 0 < len(failed) < len(lines) == 5 * (CALM + 2)
    assert {len(line["id"]) for line in failed} == {32}
    assert all("bytes are left in the outbox" in line["note"] for line in failed)
    assert list(outboxes.iterdir()) == []


def test_a_restore_with_no_trial_left_to_run_delivers_to_all_callbacks(tmp_path, outboxes, caplog):
    state = kill_at(tmp_path, "append")
    callbacks, trial = [tm.JsonMediaLoggerCallback(), tm.MediaLoggerCallback(Tells(tmp_path))], FakeTrial(tmp_path)
    for callback in callbacks:
        callback.set_state(state)
    every = CallbackList(callbacks)
    every.setup(stop=None, num_samples=1, total_num_samples=1)
    every.on_experiment_end(trials=[trial])
    assert_all_there(tmp_path)
    wanted = {("media", line["training_iteration"], line["key"], line["id"]) for line in told(tmp_path)}
    assert wanted <= {call[:-1] for call in calls(tmp_path)}
    assert list(outboxes.iterdir()) == []
    assert "waited for" not in caplog.text


def test_rows_that_wait_for_a_callback_that_a_restore_has_not_are_counted_and_do_not_stay(tmp_path, outboxes, caplog):
    state = kill_at(tmp_path, "append")
    callback, trial = tm.JsonMediaLoggerCallback(), FakeTrial(tmp_path)
    callback.set_state(state)
    callback.log_trial_start(trial)
    callback.log_trial_result(CALM + 2, trial, {"training_iteration": CALM + 2})
    outbox = _SESSIONS[trial.storage.experiment_driver_staging_path].services.outbox
    wait_until(lambda: not outbox.read(0) and not outbox.nbytes)
    callback.log_trial_end(trial)
    callback.on_experiment_end([trial])
    (said,) = [record.getMessage() for record in caplog.records if "waited for tells" in record.getMessage()]
    assert 0 < int(said.split(": ")[1].split()[0]) < 100
    assert_all_there(tmp_path)
    assert list(outboxes.iterdir()) == []


@pytest.mark.parametrize("is_behind", [True, False])
def test_media_that_a_lost_machine_had_and_the_storage_has_not_are_named(tmp_path, outboxes, capsys, is_behind):
    """Tune's snapshot knew of media that were in the outbox only: the storage was away when it was taken."""
    state = kill_at(tmp_path, "file")
    shutil.rmtree(outboxes)
    state["outbox"]["media"]["t1"] += 100 * is_behind
    go_on(tmp_path, state)
    assert ("did not reach the storage" in capsys.readouterr().out) == is_behind


class Waits(tm.Backend):
    """Takes nothing until it may."""

    name = "slow"

    def __init__(self, may):
        self.may = may

    def metrics(self, trial, report):
        assert self.may.wait(30)


@pytest.mark.parametrize(("is_slow", "is_lost"), [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("has_ended", [True, False])
def test_what_a_tracker_lacks_after_a_lost_machine_is_named_at_the_restore_and_at_the_end(
    tmp_path, outboxes, capsys, caplog, sessions_end, is_slow, is_lost, has_ended
):
    """The storage had all clips, TensorBoard 2 of 12, a slow tracker 3, and nothing said so.

    Nothing is named if all was delivered after the snapshot: each restore of an experiment that had ended named it.
    """
    may = threading.Event()
    lost = Sweep(tmp_path, backend=Waits(may), flush_seconds=5)
    for iteration in range(1, 4):
        lost.report(iteration, weights=blob(iteration))
    lost.settle()
    if has_ended:
        lost.callback.log_trial_end(lost.trial)
    if not is_slow:
        may.set()
        wait_until(lambda: not lost.session._readers["slow"].behind)
    state = pickle.loads(pickle.dumps(lost.callback.get_state()))
    may.set()
    lost.callback.on_experiment_end([lost.trial])
    if is_lost:  # before it could deliver the rest
        (tmp_path / "storage/.tune_media_log/delivered.json").unlink(missing_ok=True)
    capsys.readouterr()
    caplog.clear()
    again = Sweep(tmp_path, state, last=3)
    at_restore = caplog.text
    again.end()
    for text in (at_restore, capsys.readouterr().out):
        assert ("slow may lack the last data of 1 trial from before the restore (t1)" in text) == (is_slow and is_lost)
        assert ("`tune-media export" in text) == (is_slow and is_lost)
        assert "storage may lack" not in text
