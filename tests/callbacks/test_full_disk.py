"""The driver's own disk is full: slow trackers lose data first, and media without room are listed."""

import os
import threading

import pytest

import tune_media as tm
from tests.support.driven_sweep import Sweep
from tests.support.faults import Mounts, fill
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
