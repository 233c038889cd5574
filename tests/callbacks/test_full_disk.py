"""The driver's own disk is full: slow trackers lose data first, and media without room are listed."""

import os
import threading

import pytest
from ray.tune.callback import CallbackList

import tune_media as tm
from tests.support.driven_sweep import Sweep
from tests.support.faults import Mounts, fill, wait_until
from tune_media.callbacks.outbox import FOLDER_VARIABLE

MB = 1_000_000


@pytest.fixture
def disk(tmp_path, monkeypatch):
    mounts = Mounts()
    folder = mounts.mount(tmp_path / "disk", "size=8m")
    if not mounts.paths:
        pytest.skip("this machine lets nobody mount a small disk")
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder / "outbox"))
    yield folder
    mounts.close()


def large(number):
    return tm.Artifact(os.urandom(MB), name=f"{number}.bin")


class Hangs(tm.Backend):
    def __init__(self):
        self.goes_on = threading.Event()

    def metrics(self, trial, report):
        self.goes_on.wait()

    def __getstate__(self):
        return {}


def test_the_backlog_of_a_tracker_that_hangs_goes_before_any_clip_is_lost(disk, tmp_path, caplog):
    backend = Hangs()
    sweep = Sweep(tmp_path, backend=backend)
    for iteration in range(1, 21):
        sweep.report(iteration, artifact=large(iteration))
        sweep.settle()
    backend.goes_on.set()
    sweep.end()
    assert [line["status"] for line in sweep.lines()] == ["stored"] * 20
    assert "Hangs lacks" in caplog.text


def test_media_that_the_disk_has_no_room_for_are_listed_as_dropped_and_named(disk, tmp_path, capsys):
    sweep = Sweep(tmp_path)
    sweep.report(1, artifact=large(1))
    sweep.settle()
    fill(disk)
    for iteration in range(2, 5):
        sweep.report(iteration, artifact=large(iteration), score=float(iteration))
    (disk / "filler").unlink()
    for iteration in range(5, 7):
        sweep.report(iteration, artifact=large(iteration))
        sweep.settle()
    sweep.end()
    lines = sorted(sweep.lines(), key=lambda line: line["training_iteration"])
    assert [line["training_iteration"] for line in lines] == [1, 2, 3, 4, 5, 6]
    assert [line["status"] for line in lines] == ["stored", *["dropped"] * 3, "stored", "stored"]
    assert "no room in the outbox on the driver's disk" in lines[1]["note"]
    assert "3 could not be stored (media/train/artifact/" in capsys.readouterr().out


def test_a_sweep_or_restore_whose_outbox_has_no_room_ends_before_training_and_leaves_no_folder(disk, tmp_path):
    """It ended with «9 processes have outboxes of the experiment», after 18 warnings; clips that were undone stayed."""
    (disk / "outbox").mkdir(mode=0o700)
    fill(disk)
    says = rf"cannot open an outbox in {disk}/outbox .*; 0\.0 MB .* are free\)\. Make room .* {FOLDER_VARIABLE}"
    with pytest.raises(OSError, match=says):
        CallbackList([tm.JsonMediaLoggerCallback()]).setup(stop=None, num_samples=1, total_num_samples=1)
    with pytest.raises(OSError, match=says):  # it has filled since
        Sweep(tmp_path)
    assert list((disk / "outbox").iterdir()) == []


def test_a_disk_that_is_full_to_the_end_costs_contents_alone(disk, tmp_path, caplog):
    """The roll-back of a restored trial was not written, and the clips that it had undone stayed current."""
    sweep = Sweep(tmp_path, backend=(calls := Calls()))
    for iteration in (1, 2, 3):
        sweep.report(iteration, artifact=large(iteration))
    outbox = sweep.session.services.outbox
    wait_until(lambda: calls.made == [1, 2, 3] and not outbox.read(0))
    fill(disk)
    outbox._database.execute("PRAGMA query_only = 1")  # its file has room in it
    sweep.report(2, artifact=large(9))
    sweep.end()
    found = [(line["training_iteration"], line["status"], "rolled_back" in line) for line in sweep.lines()]
    assert found == [(1, "stored", False), (2, "stored", True), (3, "stored", True), (2, "dropped", False)]
    assert calls.made == [1, 2, 3, "finished"]
    assert "calls lacks 1 result(s) of 1 trial(s): t1. The trials' folders have all media but 1 that are" in caplog.text


class Calls(tm.Backend):
    name = "calls"

    def __init__(self):
        self.made = []

    def metrics(self, trial, report):
        self.made.append(report.training_iteration)

    def end(self, trial, status):
        self.made.append(status)
