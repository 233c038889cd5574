"""Threads on a machine that allows no more of them."""

import threading

import pytest

from tune_media.rllib.prover import Prover
from tune_media.viewing.trials import LogDirectory, Trials


def refuse(thread):
    raise RuntimeError("can't start new thread")


def test_a_viewer_whose_first_thread_did_not_start_answers_the_next_request(tmp_path, monkeypatch):
    """All later requests waited for ever."""
    (tmp_path / "t1").mkdir()
    (tmp_path / "t1" / "params.json").write_text("{}")
    (tmp_path / "t1" / "result.json").write_text('{"training_iteration": 1}\n')
    trials = Trials([LogDirectory.of(str(tmp_path))])
    with monkeypatch.context() as machine, pytest.raises(RuntimeError, match="can't start new thread"):
        machine.setattr(threading.Thread, "start", refuse)
        trials.known()
    assert [trial.name for trial in trials.known()] == ["t1"]


def test_a_prover_whose_thread_did_not_start_works_at_the_next_result(monkeypatch):
    """It took the thread for one that runs, and proved nothing any more."""
    prover, done = Prover(), threading.Event()
    prover._decide = lambda samples: done.set()
    with monkeypatch.context() as machine:
        machine.setattr(threading.Thread, "start", refuse)
        prover._put([])
    prover._awaited = threading.Event()
    assert prover.problems() == []
    assert done.is_set()
