"""The driver's hold on W&B's helper process, with Ray's actor calls replaced by threads of this process."""

from concurrent.futures import Future
from types import SimpleNamespace

import pytest
import ray

import tune_media as tm
from tests.support.reader import PlainContext, a_trial
from tune_media.callbacks.backend import Report
from tune_media.callbacks.wandb import helper as module
from tune_media.callbacks.wandb.helper import HelperDiedError, WandbHelper

wandb = pytest.importorskip("wandb")


class Actor:
    """An actor that notes its calls; an error that it is given is its next answer, ``None`` is none at all."""

    def __init__(self):
        self.calls, self.answers = [], []

    def __getattr__(self, method):
        def remote(*arguments):
            self.calls.append((method, *arguments))
            future = Future()
            answer = self.answers.pop(0) if self.answers else f"{method} is done"
            if isinstance(answer, Exception):
                future.set_exception(answer)
            elif answer is not None:
                future.set_result(answer)
            return future

        return SimpleNamespace(remote=remote)


@pytest.fixture
def actors(monkeypatch):
    found = []
    monkeypatch.setattr(module, "_start_actor", lambda folder: found.append(Actor()) or found[-1])
    monkeypatch.setattr(ray, "wait", lambda waiting, timeout: ([one for one in waiting if one.done()], []))
    monkeypatch.setattr(ray, "get", lambda future: future.result())
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(ray, "kill", lambda actor: actor.calls.append("killed"))
    return found


def died():
    return ray.exceptions.RayActorError()


def test_a_helper_that_dies_again_and_again_is_given_up(actors, monkeypatch, tmp_path):
    dying = lambda folder: actors.append(Actor()) or setattr(actors[-1], "answers", [died()]) or actors[-1]  # noqa: E731
    monkeypatch.setattr(module, "_start_actor", dying)
    helper = WandbHelper(tmp_path, lambda: float("inf"))
    for _ in range(2):
        with pytest.raises(HelperDiedError):
            helper.begin("t", {})
    for _ in range(2):
        with pytest.raises(RuntimeError, match="failed 3 times, one after the other"):
            helper.begin("t", {})
    assert len(actors) == 3


def test_an_error_of_wandb_is_raised_as_it_is_and_the_run_goes_on(actors, tmp_path):
    helper = WandbHelper(tmp_path, lambda: float("inf"))
    helper.begin("t", {})
    actors[0].answers = [ray.exceptions.RayTaskError("log", "traceback", ValueError("no number"))]
    with pytest.raises(ValueError, match="no number"):
        helper.ask("log", "t", {})
    assert helper.ask("log", "t", {}) == "call is done"
    assert len(actors) == 1


def test_a_run_that_cannot_start_while_wandb_is_away_starts_when_it_is_back(actors, monkeypatch, tmp_path):
    """W&B's own process held the id of such a run, so that all later tries failed: "run ID t is in use"."""
    away = ray.exceptions.RayTaskError("begin", "traceback", wandb.errors.CommError("Failed to get resume status"))
    answers = iter([[away], [away], ["begin is done", away]])
    start = lambda folder: actors.append(Actor()) or setattr(actors[-1], "answers", next(answers)) or actors[-1]  # noqa: E731
    monkeypatch.setattr(module, "_start_actor", start)
    helper = WandbHelper(tmp_path, lambda: float("inf"))
    for number in range(2):
        with pytest.raises(wandb.errors.CommError):
            helper.begin("t", {})
        assert actors[number].calls[-1] == "killed"
    helper.begin("t", {})
    with pytest.raises(wandb.errors.CommError):
        helper.begin("u", {})
    assert helper.ask("log", "t", {}) == "call is done"  # in the same process
    assert len(actors) == 3


@pytest.mark.parametrize("mode", ["online", "offline"])
def test_a_dead_helpers_online_runs_are_resumed_and_its_offline_ones_are_written_at_the_end(actors, tmp_path, mode):
    backend, trial = tm.WandbMediaLoggerCallback(project="p", mode=mode).backend, a_trial(tmp_path)
    backend.context = PlainContext()
    backend.start(trial)
    actors[0].answers = [died()]
    report = Report(1, 1, {"score": 1.0})
    with pytest.raises(HelperDiedError):
        backend.metrics(trial, report)
    actors[0].calls.clear()
    backend.start(trial)  # it was paused, say
    backend.metrics(trial, report)
    calls = [call[0] for actor in actors for call in actor.calls]
    assert calls == {"online": ["begin", "call"], "offline": []}[mode]


def test_a_helper_that_hangs_at_the_end_is_not_asked_again(actors, tmp_path):
    left = iter([float("inf"), 20.0, 0.1])
    helper = WandbHelper(tmp_path, lambda: next(left))
    helper.begin("t", {})
    actors[0].answers = [None]
    for _ in range(2):
        with pytest.raises(RuntimeError, match="hangs: it did not answer until the end"):
            helper.ask("log", "t", {})
    assert len(actors[0].calls) == 2
