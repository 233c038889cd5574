"""A backend's reader: every row in order, whatever the backend does, and none twice."""

import sqlite3
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import tune_media as tm
from tests.support.driven_sweep import Sweep, blob
from tests.support.fake_trial import FakeTrial, run
from tests.support.faults import wait_until
from tune_media.callbacks.faults import Faults
from tune_media.callbacks.outbox import NewRow, Outbox
from tune_media.callbacks.outbox_thread import OutboxThread
from tune_media.callbacks.session import MediaSession
from tune_media.values.plain import pack

pytestmark = pytest.mark.usefixtures("sessions_end")


class Notes(tm.Backend):
    name, patience = "notes", 10.0

    def __init__(self):
        self.calls, self.is_here, self.refuses, self.statuses, self.again = [], True, (), [], []

    def start(self, trial):
        self._take("start")

    def metrics(self, trial, report):
        self._take(f"metrics {report.training_iteration}")

    def media(self, trial, entry):
        self._take(f"media {entry.training_iteration} {entry.key}")

    def media_again(self, trial, id, row):
        self.again.append(id)

    def end(self, trial, status):
        self._take("end")
        self.statuses.append(status)

    def finish(self):
        self._take("finish")

    def is_away(self, error):
        return isinstance(error, ConnectionError)

    def _take(self, what):
        if not self.is_here:
            raise ConnectionError("no answer")
        self.calls.append(what)
        if what in self.refuses:
            raise ValueError("it is refused")


class Hangs(Notes):
    name, patience = "hangs", 20.0

    def __init__(self):
        super().__init__()
        self.released, self.hangs = threading.Event(), threading.Event()

    def media(self, trial, entry):
        self.hangs.set()
        self.released.wait(60)
        super().media(trial, entry)

    def __deepcopy__(self, memo):
        return self


def test_a_tracker_that_is_away_gets_everything_in_order_when_it_is_back(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr("tune_media.callbacks.outbox_thread._FIRST_PAUSE", 0.02)
    notes = Notes()
    sweep = Sweep(tmp_path, backend=notes)
    sweep.report(1, clip=blob(1))
    notes.is_here = False
    sweep.report(2, clip=blob(2))
    sweep.report(3, clip=blob(3))
    wait_until(lambda: "no answer" in caplog.text)
    notes.is_here = True
    sweep.end()
    wanted = [call for number in (1, 2, 3) for call in (f"metrics {number}", f"media {number} clip")]
    assert notes.calls == ["start", *wanted, "end", "finish"]
    assert caplog.text.count("no answer") == 1
    assert notes.statuses == ["finished"]


ALL_CALLS = ["start", "metrics 1", "media 1 clip", "metrics 2", "media 2 clip", "end", "finish"]


@pytest.mark.parametrize(
    ("refuses", "calls", "lacks"),
    [
        (["media 1 clip", "metrics 2"], ALL_CALLS, "1 media, 1 result(s)"),
        (["start"], ["start", "finish"], "1 end(s), 2 media, 2 result(s), 1 start(s)"),
        (["finish"], ALL_CALLS, None),
    ],
)
def test_what_a_tracker_refuses_is_tried_once_and_counted_and_the_rest_comes(tmp_path, caplog, refuses, calls, lacks):
    notes = Notes()
    notes.refuses = refuses
    run([tm.MediaLoggerCallback(notes)], FakeTrial(tmp_path), [{"clip": blob(1)}, {"clip": blob(2)}])
    assert notes.calls == calls
    assert "it is refused" in caplog.text
    assert ("notes lacks " in caplog.text) == (lacks is not None)
    assert lacks is None or f"notes lacks {lacks} of 1 trial(s): t1" in caplog.text
    assert "The end of the experiment waited" not in caplog.text  # no time would have helped
    assert "had not finished" not in caplog.text


def test_a_row_of_a_kind_that_nobody_knows_is_passed_over(tmp_path, caplog):
    sweep = Sweep(tmp_path, backend=(notes := Notes()), strict=True)
    sweep.report(1, clip=blob(1))
    sweep.session.services.outbox.append([NewRow("t1", "suspect", pack({"folder": "t1", "lines": []}))])
    sweep.report(2, clip=blob(2))
    sweep.end()
    assert [line["status"] for line in sweep.lines()] == ["stored"] * 2
    assert "media 2 clip" in notes.calls
    assert "failed" not in caplog.text
    assert not list((tmp_path / "outbox").iterdir())


def test_work_for_later_with_the_same_key_is_done_once_until_it_was_done(tmp_path):
    class Flushes(Notes):
        def media(self, trial, entry):
            for _ in range(3):
                self.context.later("flushing", lambda: self.calls.append("flush"), key="flush")

    flushes = Flushes()
    sweep = Sweep(tmp_path, backend=flushes)
    for iteration in (1, 2):
        sweep.report(iteration, clip=blob(iteration))
        wait_until(lambda iteration=iteration: flushes.calls.count("flush") == iteration)
    sweep.end()
    assert flushes.calls.count("flush") == 2


def test_rows_that_a_tracker_has_not_got_when_the_trial_goes_back_are_not_sent(tmp_path, monkeypatch):
    monkeypatch.setattr("tune_media.callbacks.outbox_thread._LONGEST_PAUSE", 0.02)
    notes = Notes()
    sweep = Sweep(tmp_path, backend=notes)
    sweep.report(1, clip=blob(1))
    wait_until(lambda: "media 1 clip" in notes.calls)
    notes.is_here = False
    again = blob(9)
    for iteration in (2, 3):
        sweep.report(iteration, clip=blob(iteration), constant=again)
    sweep.report(2, clip=blob(12), constant=again)
    notes.is_here = True
    sweep.end()
    assert notes.calls[:3] == ["start", "metrics 1", "media 1 clip"]
    assert sorted(notes.calls[3:]) == ["end", "finish", "media 2 clip", "media 2 constant", "metrics 2"]
    assert notes.again == [line["id"] for line in sweep.lines() if line["key"] == "constant"]


def test_a_tracker_that_hangs_loses_data_before_the_storage_does_and_it_is_counted(tmp_path, caplog):
    hangs = Hangs()
    sweep = Sweep(tmp_path, backend=hangs, max_spilled_bytes=5 * 8192)
    for iteration in range(1, 101):
        sweep.report(iteration, clip=blob(iteration))
        sweep.settle()
        assert hangs.hangs.wait(30)
    hangs.released.set()
    sweep.end()
    lines = sweep.lines()
    assert [line["status"] for line in lines] == ["stored"] * 100
    got = [call for call in hangs.calls if call.startswith("media")]
    assert "media 1 clip" in got
    assert 0 < len(got) < 100
    lacking = 100 - len(got)
    assert f"hangs lacks {lacking} media" in caplog.text
    assert "MediaOptions(max_spilled_bytes=40960)" in caplog.text
    assert hangs.calls[-2:] == ["end", "finish"]


def test_results_that_a_tracker_hangs_behind_are_bounded_and_those_that_it_lacks_are_counted(tmp_path, caplog):
    hangs = Hangs()
    sweep = Sweep(tmp_path, backend=hangs, max_spilled_bytes=100_000)
    sweep.report(1, clip=blob(1))
    assert hangs.hangs.wait(30)
    outbox = sweep.session.services.outbox
    for iteration in range(2, 302):
        sweep.report(iteration, note="x" * 5000)
        sweep.settle()
        assert outbox.nbytes <= 100_000
    hangs.released.set()
    sweep.end()
    got = [call for call in hangs.calls if call.startswith("metrics")]
    assert got[-1] == "metrics 301"
    assert 3 < len(got) < 100
    assert f"hangs lacks {301 - len(got)} result(s)" in caplog.text
    assert hangs.calls[-2:] == ["end", "finish"]


def test_a_tracker_that_hangs_at_the_end_is_named_and_a_restore_delivers_the_rest_once(tmp_path, outboxes, caplog):
    hangs = Hangs()
    hangs.patience = 0.3
    sweep = Sweep(tmp_path, backend=hangs)
    sweep.report(1, clip=blob(1))
    hangs.hangs.wait(30)
    sweep.report(2, clip=blob(2))
    state = sweep.end()
    assert "hangs had not finished when the experiment ended" in caplog.text
    assert "hangs lacks" in caplog.text
    notes = Notes()
    notes.name = "hangs"
    restored = Sweep(tmp_path, state, backend=notes, last=2)
    restored.report(3, clip=blob(3))
    restored.end()
    assert [call for call in notes.calls if " " in call] == [
        "media 1 clip", "metrics 2", "media 2 clip", "metrics 3", "media 3 clip",
    ]  # fmt: skip
    assert list(outboxes.iterdir()) == []
    hangs.released.set()


def test_without_threads_all_waits_for_a_restore_and_nobody_says_that_it_is_stored(
    tmp_path, outboxes, monkeypatch, caplog, capsys
):
    def refuse(*_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr("tune_media.callbacks.outbox_thread.start_thread", refuse)
        sweep = Sweep(tmp_path, backend=Notes(), flush_seconds=1)
        sweep.report(1, clip=blob(1))
        state = sweep.end()
    assert "tune_media: stored nothing. The storage did not take 1 media" in capsys.readouterr().out
    assert (
        "notes lacks 1 end(s), 1 media, 1 result(s), 1 start(s) of 1 trial(s): t1. The trials' folders have all "
        in (told := caplog.text)
    )
    assert f"1 that the storage did not take (`tune-media deliver {tmp_path / 'storage'}` stores them)" in told
    restored = Sweep(tmp_path, state, backend=(notes := Notes()), last=1)
    restored.report(2, clip=blob(2))
    restored.end()
    assert [line["status"] for line in restored.lines()] == ["stored"] * 2
    assert [call for call in notes.calls if "media" in call] == ["media 1 clip", "media 2 clip"]
    assert list(outboxes.iterdir()) == []


def test_an_outbox_that_another_process_holds_costs_contents_alone(tmp_path, monkeypatch):
    """The end waited 30 s for each row, more than four minutes in all, and lost the rows."""
    monkeypatch.setattr("tune_media.callbacks.outbox._BUSY_SECONDS", 0.1)
    sweep = Sweep(tmp_path, backend=(notes := Notes()))
    sweep.report(1, clip=blob(1))
    sweep.settle()
    other = sqlite3.connect(sweep.session.services.outbox.folder / "outbox.sqlite", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    sweep.report(2, clip=blob(2))
    sweep.end()
    other.close()
    assert [(line["training_iteration"], line["status"]) for line in sweep.lines()] == [(1, "stored"), (2, "dropped")]
    assert notes.calls[-2:] == ["end", "finish"]


def test_a_backend_that_finishes_in_tunes_loop_does_so_once_and_a_damaged_outbox_fails_no_snapshot(
    tmp_path, monkeypatch
):
    class InLoop(Notes):
        in_loop = frozenset({"finish"})

    sweep = Sweep(tmp_path, backend=(notes := InLoop()))
    sweep.report(1, clip=blob(1))
    monkeypatch.setattr(Outbox, "written", property(lambda outbox: outbox._select("SELECT * FROM damaged")))
    assert sweep.callback.get_state()["outbox"]["last"] == 0
    sweep.end()
    assert notes.calls.count("finish") == 1


@pytest.mark.parametrize("is_reader_first", [False, True])
def test_values_that_are_no_plain_data_reach_a_tracker_all_the_same(tmp_path, monkeypatch, is_reader_first):
    class Values(tm.Backend):
        flat = None

        def metrics(self, trial, report):
            self.flat = dict(report.flat)

    values, odd = Values(), threading.Lock()
    append = MediaSession.append

    def append_and_wait(self, rows, **options):
        last = append(self, rows, **options)
        if any(row.kind == "result" for row in rows):
            wait_until(lambda: values.flat)
        return last

    if is_reader_first:
        monkeypatch.setattr(MediaSession, "append", append_and_wait)
    result = {"score": np.float32(0.5), "large": 2**70, "at": (1, 2), "odd": odd, "deep": {"path": Path("/x")}}
    run([tm.MediaLoggerCallback(values)], FakeTrial(tmp_path, lr=1), [{**result, "config": {"lr": 1}}])
    flat = values.flat
    assert (flat["score"], float(flat["large"]), list(flat["at"])) == (0.5, float(2**70), [1, 2])
    assert flat["odd"] is odd
    assert flat["deep/path"] == Path("/x")
    assert not any(name.startswith("config") for name in flat)


class Copies(Notes):
    may_copy, tries = False, 0

    def end(self, trial, status):
        super().end(trial, status)
        self.context.on_storage("copying", self._copy)

    def _copy(self):
        self.tries += 1
        if not self.may_copy:
            raise OSError("the storage is away")


def test_a_row_is_not_passed_before_the_storage_has_copied_what_it_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr("tune_media.callbacks.outbox_thread._FIRST_PAUSE", 0.02)
    notes = Copies()
    sweep = Sweep(tmp_path, backend=notes)
    sweep.report(1, clip=blob(1))
    outbox = sweep.session.services.outbox
    sweep.callback.log_trial_end(sweep.trial)
    wait_until(lambda: notes.tries > 2)
    assert outbox.position("notes") == outbox.last - 1
    notes.may_copy = True
    wait_until(lambda: outbox.position("notes") == outbox.last)
    sweep.callback.on_experiment_end([sweep.trial])
    assert notes.calls == ["start", "metrics 1", "media 1 clip", "end", "finish"]


def test_a_thread_whose_last_look_fails_looks_again(tmp_path):
    looks = []

    class Thread(OutboxThread):
        def turn(self):
            return False

        def failed(self, error):
            looks.append(str(error))
            return True

        def finished(self):
            if len(looks) < 2:
                raise OSError("the storage is away")
            return True

    outbox = Outbox.open(tmp_path, "/results/sweep", "1")
    thread = Thread("last look", SimpleNamespace(outbox=outbox, faults=Faults(strict=False)))
    thread.begin()
    assert thread.close(30)
    assert looks == ["the storage is away"] * 2
    outbox.close(remove=True)
