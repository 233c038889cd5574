"""What reaches a backend: in order, in its own thread, whatever it does; and what is said of what does not."""

import logging
import threading

import numpy as np
import pytest
from ray.tune.callback import CallbackList

import tune_media as tm
from tests.support.fake_trial import FakeTrial, run
from tune_media.callbacks.backend import Backend


class Noting(Backend):
    """Notes what it is told, and fails as it is told to."""

    name = "Noting"

    def __init__(self, fails=(), away=False, hangs=None):
        self.told, self.threads, self.fails, self.away, self.hangs = [], set(), dict.fromkeys(fails, 1), away, hangs

    def _note(self, method, *facts):
        if self.hangs is not None:
            self.hangs.wait(30)
        self.threads.add(threading.current_thread().name)
        if self.fails.get(method):
            if self.away:
                self.fails[method] -= 1
            raise ConnectionError(f"{method} failed")
        self.told.append((method, *facts))

    def start(self, trial):
        self._note("start", trial.trial_id, trial.config["lr"])

    def metrics(self, trial, report):
        self._note("metrics", report.step, report.flat["a/score"], report.config)

    def media(self, trial, entry):
        self._note("media", entry.step, entry.key, entry.medium.kind)

    def end(self, trial, status):
        self._note("end", status)

    def finish(self):
        self._note("finish")

    def is_away(self, error):
        return self.away


def results(count, config=None):
    for step in range(1, count + 1):
        clip = tm.Video((np.full((16, 24, 3), 9 * t, np.uint8) for t in range(3)), fps=5)
        yield {"a": {"score": step, "clip": clip}, "config": (config or {"lr": 1})}


def whole(count):
    steps = range(1, count + 1)
    middle = [told for step in steps for told in (("metrics", step, step, None), ("media", step, "a/clip", "video"))]
    return [("start", "t1", 1), *middle, ("end", "finished"), ("finish",)]


def test_a_backend_is_told_everything_in_order_by_a_thread_of_its_own(tmp_path):
    backend = Noting()
    run([tm.MediaLoggerCallback(backend)], FakeTrial(tmp_path, lr=1), list(results(3)))
    assert backend.told == whole(3)
    assert backend.threads == {"tune_media Noting"}


def test_a_backend_may_have_its_methods_called_by_tunes_loop(tmp_path):
    class InLoop(Noting):
        in_loop = frozenset({"start", "metrics", "media", "end", "finish"})

    backend = InLoop()
    run([tm.MediaLoggerCallback(backend)], FakeTrial(tmp_path, lr=1), list(results(2)))
    assert (backend.told, backend.threads) == (whole(2), {threading.current_thread().name})


def test_a_backend_that_hangs_holds_neither_memory_nor_the_loop_and_gets_everything_later(tmp_path, caplog):
    """Queues for trackers took any number of episodes and metrics: a server that hung overnight grew the driver."""
    hangs = threading.Event()
    backend = Noting(hangs=hangs)
    callbacks = [tm.MediaLoggerCallback(backend, tm.MediaOptions(max_pending_bytes=2000))]
    trial, started = FakeTrial(tmp_path, lr=1), threading.Timer(1.0, hangs.set)
    started.start()
    run(callbacks, trial, list(results(30)))
    assert backend.told == whole(30)
    (said,) = [record.getMessage() for record in caplog.records if "Noting hangs, or is slower" in record.getMessage()]
    assert "The rest waits on the driver's disk, in " in said
    assert not list((tmp_path / "driver").glob("tune_media-waiting-*"))


def test_what_a_backend_did_not_take_in_time_is_counted_and_named(tmp_path, caplog):
    hangs = threading.Event()
    options = tm.MediaOptions(max_pending_bytes=2000, flush_seconds=0.2)
    run([tm.MediaLoggerCallback(Noting(hangs=hangs), options)], FakeTrial(tmp_path, lr=1), list(results(5)))
    hangs.set()
    (said,) = [record.getMessage() for record in caplog.records if "Noting lacks" in record.getMessage()]
    assert "Noting lacks 1 end(s), 5 media, 5 result(s), 1 start(s) of 1 trial(s): t1." in said


def test_what_waited_on_a_disk_that_lost_it_is_counted_and_named(tmp_path, caplog):
    hangs = threading.Event()
    callback = tm.MediaLoggerCallback(Noting(hangs=hangs), tm.MediaOptions(max_pending_bytes=2000))
    trial = FakeTrial(tmp_path, lr=1)
    callback.log_trial_start(trial)
    for iteration, result in enumerate(results(5), 1):
        callback.log_trial_result(iteration, trial, {**result, "training_iteration": iteration})
    spool = callback._delivery._mailbox._spool
    assert spool._open().wait(30)
    lost = [spool._on_disk[number] for number in sorted(spool._on_disk)[:3]]
    for number in sorted(spool._on_disk)[:3]:
        spool._files.path(number).unlink()
    hangs.set()
    callback.log_trial_end(trial)
    callback.on_experiment_end([trial])
    count = len([message for message in lost if message.method == "media"])
    assert {message.argument for message in lost} == {None}
    assert f"Noting lacks {count} media, {3 - count} result(s) of 1 trial(s): t1." in caplog.text
    assert "which waited on the driver's disk, failed (UnreadableError" in caplog.text


def test_a_trial_whose_start_fails_is_named_and_raises_no_further_errors(tmp_path, caplog):
    backend = Noting(fails=["start"])
    run([tm.MediaLoggerCallback(backend)], FakeTrial(tmp_path, lr=1), list(results(2)))
    assert backend.told == [("finish",)]
    said = [record.getMessage() for record in caplog.records]
    assert len([text for text in said if "failed" in text]) == 1
    assert any("Noting lacks 1 end(s), 2 media, 2 result(s), 1 start(s) of 1 trial(s): t1." in text for text in said)
    assert not any("KeyError" in text for text in said)


@pytest.mark.parametrize("method", ["start", "metrics", "media", "end", "finish"])
def test_whatever_fails_costs_one_warning_and_no_trial(tmp_path, caplog, method):
    backend = Noting(fails=[method])
    run([tm.MediaLoggerCallback(backend)], FakeTrial(tmp_path, lr=1), list(results(3)))
    expected = [told for told in whole(3) if told[0] != method]
    assert backend.told == ([("finish",)] if method == "start" else expected)
    assert len([r for r in caplog.records if "ConnectionError" in r.getMessage()]) == 1


@pytest.mark.parametrize("method", ["start", "metrics", "media", "end"])
def test_an_error_that_passes_is_tried_again_in_order(tmp_path, monkeypatch, method):
    monkeypatch.setattr("tune_media.callbacks.work_queue._FIRST_PAUSE", 0.01)
    backend = Noting(fails=[method], away=True)
    run([tm.MediaLoggerCallback(backend)], FakeTrial(tmp_path, lr=1), list(results(3)))
    assert backend.told == whole(3)


def test_hyperparameters_come_again_only_when_they_have_changed(tmp_path):
    backend = Noting()
    told = [{"a": {"score": 0}, "config": {"lr": lr}} for lr in (1, 1, 2, 2)]
    run([tm.MediaLoggerCallback(backend)], FakeTrial(tmp_path, lr=1), told)
    assert [facts[3] for facts in backend.told if facts[0] == "metrics"] == [None, None, {"lr": 2}, None]


def test_an_interrupted_trial_is_ended_and_says_so(tmp_path):
    backend, trial = Noting(), FakeTrial(tmp_path, lr=1)
    callbacks = CallbackList([tm.MediaLoggerCallback(backend)])
    callbacks.on_trial_start(iteration=0, trials=[trial], trial=trial)
    callbacks.on_experiment_end(trials=[trial])
    assert backend.told == [("start", "t1", 1), ("end", "interrupted"), ("finish",)]


def test_tunes_loop_never_waits_for_a_backend(tmp_path):
    hangs, backend = threading.Event(), Noting()
    backend.hangs = hangs
    callback, trial = tm.MediaLoggerCallback(backend, tm.MediaOptions(max_pending_bytes=100)), FakeTrial(tmp_path, lr=1)
    callback.log_trial_start(trial)
    for iteration, result in enumerate(results(3), 1):
        callback.log_trial_result(iteration, trial, {**result, "training_iteration": iteration})
    assert backend.told == []  # we are here, and it still hangs
    hangs.set()
    callback.log_trial_end(trial)
    callback.on_experiment_end([trial])
    assert backend.told == whole(3)


def test_faults_are_logged_as_text(tmp_path, caplog):
    with caplog.at_level(logging.DEBUG):
        run([tm.MediaLoggerCallback(Noting(fails=["metrics"]))], FakeTrial(tmp_path, lr=1), list(results(1)))
    assert "tune_media: Noting: logging metrics failed (ConnectionError: metrics failed)." in caplog.text


@pytest.mark.parametrize("error", [ValueError("no step 1"), SystemExit(3)], ids=lambda error: type(error).__name__)
def test_a_backend_that_raises_from_a_method_and_from_is_away_loses_only_that_message(tmp_path, caplog, error):
    class Odd(Noting):
        def metrics(self, trial, report):
            if report.step == 1:
                raise error
            super().metrics(trial, report)

        def is_away(self, error):
            return error.response.status_code == 503

    backend = Odd()
    run([tm.MediaLoggerCallback(backend)], FakeTrial(tmp_path, lr=1), list(results(2)))
    assert backend.told == [told for told in whole(2) if told[:2] != ("metrics", 1)]
    assert (
        f"logging metrics failed ({'RuntimeError: SystemExit: 3' if 'Exit' in repr(error) else 'Value'}" in caplog.text
    )
    assert "tune_media: Noting lacks 1 result(s) of 1 trial(s): t1." in caplog.text


@pytest.mark.parametrize("state", [threading.Lock(), None], ids=["unpicklable", "raises"])
def test_a_backends_state_that_cannot_be_had_is_a_warning(tmp_path, caplog, state):
    class Odd(Noting):
        def get_state(self):
            return {"state": state, "size": 1 // (state is not None)}

        def set_state(self, state):
            raise KeyError(state)

    callback, trial = tm.MediaLoggerCallback(Odd()), FakeTrial(tmp_path, lr=1)
    callback.set_state({"backend": {"old": 1}})
    callback.log_trial_start(trial)
    assert callback.get_state() is None
    callback.on_experiment_end([trial])
    assert "Noting: saving its state failed" in caplog.text
    assert "Noting: taking over its state failed" in caplog.text


def test_a_state_that_was_restored_is_saved_again_before_the_first_trial_starts():
    callback = tm.MediaLoggerCallback(Noting())
    callback.set_state({"backend": {"runs": 3}})
    assert callback.get_state() == {"backend": {"runs": 3}}


def test_a_value_whose_nbytes_is_no_number_is_logged_like_others(tmp_path):
    class Odd:
        def nbytes(self):
            return 3

    backend = Noting()
    given = [{**result, "odd": Odd()} for result in results(1)]
    run([tm.MediaLoggerCallback(backend, tm.MediaOptions(strict=True))], FakeTrial(tmp_path, lr=1), given)
    assert backend.told == whole(1)


def test_a_backend_that_does_not_finish_in_time_is_named(tmp_path, caplog):
    hangs = threading.Event()

    class Slow(Noting):
        def finish(self):
            hangs.wait(30)

    run([tm.MediaLoggerCallback(Slow(), tm.MediaOptions(flush_seconds=0.3))], FakeTrial(tmp_path, lr=1), [])
    hangs.set()
    assert "Noting had not finished when the experiment ended, so its last data may be missing" in caplog.text
    assert "increase MediaOptions(flush_seconds=0.3)" in caplog.text
