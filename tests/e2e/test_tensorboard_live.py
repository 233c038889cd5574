"""TensorBoard itself, started beside a sweep: scalars and clips go on, and each is there once at its step."""

import contextlib
import json
import platform
import re
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
from ray.tune.callback import CallbackList

import tune_media as tm
from tests.support.fake_trial import FakeTrial
from tests.support.faults import wait_until
from tests.support.pictures import clip
from tune_media.callbacks.outbox import FOLDER_VARIABLE

SCALARS, CLIPS = ("scalars/scalars", "ray/tune/score"), ("images/images", "train/best")

NEEDS_DATA_SERVER = pytest.mark.skipif(
    platform.machine() not in ("x86_64", "AMD64"), reason="TensorBoard's data server is not built for this machine"
)


class Board:
    def __init__(self, folder, flags):
        flags = [f"--logdir={folder}", "--reload_interval=1", "--samples_per_plugin=images=1000", *flags]
        self.output, self.port = tempfile.NamedTemporaryFile(), 0  # noqa: SIM115 - it goes with the board
        # A port that is looked for here may be another process's by the time that TensorBoard takes it.
        command = [sys.executable, "-m", "tensorboard.main", "--port=0", *flags]
        self.process = subprocess.Popen(command, stdout=self.output, stderr=self.output)
        wait_until(self._is_serving, seconds=300)

    def _is_serving(self):
        printed = Path(self.output.name).read_text(errors="replace")
        assert self.process.poll() is None, printed
        if found := re.search(r" at http://\S+:(\d+)/", printed):
            self.port = int(found[1])
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=20):
            return True

    def steps(self, what):
        path, tag = what
        query = urllib.parse.urlencode({"run": "t1", "tag": tag, "sample": 0})
        try:
            address = f"http://127.0.0.1:{self.port}/data/plugin/{path}?{query}"
            with urllib.request.urlopen(address, timeout=20) as found:
                return [point["step"] if isinstance(point, dict) else point[1] for point in json.load(found)]
        except OSError:  # it does not know the trial yet
            return []

    def shows(self, **wanted):
        whats = {"scalars": SCALARS, "clips": CLIPS}
        with contextlib.suppress(AssertionError):
            wait_until(lambda: all(self.steps(whats[name]) == steps for name, steps in wanted.items()))
        assert {name: self.steps(whats[name]) for name in wanted} == wanted


@contextlib.contextmanager
def board(folder, *flags):
    started = Board(folder, flags)
    try:
        yield started
    finally:
        started.process.terminate()
        started.process.wait()


class Process:
    """What Tune does in one process with the trial, whose scalars it copies to the storage at once."""

    def __init__(self, folder, former=None, last=0):
        self.callbacks = CallbackList([tm.TBXMediaLoggerCallback(media=tm.MediaOptions(strict=True))])
        self.trial = FakeTrial(folder)
        self.trial.local_path = self.trial.storage.trial_fs_path
        if former is not None:
            self.callbacks.set_state(former.state)
            self.trial.last_result = {"training_iteration": last}
        self.callbacks.on_trial_start(iteration=0, trials=[self.trial], trial=self.trial)

    def report(self, *steps):
        for step in steps:
            result = {"score": step, "best": clip(), "training_iteration": step}
            self.callbacks.on_trial_result(iteration=step, trials=[self.trial], trial=self.trial, result=result)

    def end(self):
        self.state = self.callbacks.get_state()
        self.callbacks.on_experiment_end(trials=[self.trial])


@pytest.mark.parametrize(
    ("flags", "is_live"),
    [
        pytest.param(["--load_fast=true"], True, marks=NEEDS_DATA_SERVER),
        (["--load_fast=false"], False),
    ],
    ids=["fast", "slow"],
)
def test_scalars_and_clips_are_shown_once_a_step(tmp_path, monkeypatch, flags, is_live):
    """Of two files of a trial, TensorBoard without its fast loader follows the one whose name sorts last."""
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "outbox"))
    logs = tmp_path / "storage"
    first = Process(tmp_path)
    first.report(1, 2, 3)
    wait_until(lambda: list((logs / "t1").glob("*.tune_media")))

    def clips(steps):
        return {"clips": steps} if is_live else {}

    with board(logs, *flags) as shown:
        shown.shows(scalars=[1, 2, 3], **clips([1, 2, 3]))
        first.report(4, 5)
        shown.shows(scalars=[1, 2, 3, 4, 5], **clips([1, 2, 3, 4, 5]))
        first.report(4)  # PBT
        shown.shows(scalars=[1, 2, 3, 4], **clips([1, 2, 3, 4]))
        first.report(5)
        first.end()
        second = Process(tmp_path, first, last=5)
        second.report(6)
        shown.shows(scalars=[1, 2, 3, 4, 5, 6], **clips([1, 2, 3, 4, 5, 6]))
        second.end()
        third = Process(tmp_path, second, last=3)  # restored from an older snapshot
        third.report(4, 5, 6, 7)
        third.end()
        shown.shows(scalars=[1, 2, 3, 4, 5, 6, 7], **clips([1, 2, 3, 4, 5, 6, 7]))
    if not is_live:
        with board(logs, *flags) as shown:
            shown.shows(scalars=[1, 2, 3, 4, 5, 6, 7], clips=[1, 2, 3, 4, 5, 6, 7])
