"""Failure, pause, exploit, early stop, a second run: no clip is lost or doubled, and what was taken back is marked."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from ray import tune
from ray.tune.schedulers import ASHAScheduler, FIFOScheduler, PopulationBasedTraining

import tune_media as tm
from tests.support import experiment
from tests.support.trial_life import (
    Accepted,
    assert_files_and_index_agree,
    assert_life,
    assert_tensorboard_shows_once,
    load_state,
    make_result,
    report,
    slot_of,
    tell,
    told,
)


def fit(trainable, storage, accepted, space, *, stop=None, max_failures=0, **tune_config):
    """Run a sweep; return its results by trial id."""
    strict = tm.MediaOptions(strict=True)
    callbacks = [tm.JsonMediaLoggerCallback(strict), tm.TBXMediaLoggerCallback(strict), accepted]
    (storage / "told").mkdir(exist_ok=True)
    options = {"stop": stop, "failure_config": tune.FailureConfig(max_failures=max_failures), "name": "life"}
    space = {**space, "log": str(storage / "told")}
    results = experiment.fit(trainable, storage, callbacks, space=space, tune_config=tune_config, **options)
    assert not results.errors
    return {result.metrics["trial_id"]: result for result in results}


# By number of the trial: after which iterations it fails, and how often it saves.
FAILS = {0: ((5, 7), 3), 1: ((3,), None), 2: ((), 2), 3: ((4,), 4), 4: ((5,), 2)}


def failing(config):
    trial = tune.get_context().get_trial_id()
    fails, every = FAILS[slot_of(trial)]
    state = load_state(trial)
    for iteration in range(state["iteration"] + 1, 9):
        state["iteration"] = iteration
        result = make_result(config["log"], trial, iteration)
        if slot_of(trial) == 2 and iteration == 4:
            result["done"] = True  # it says itself that it is over
        report(result, state if every and iteration % every == 0 else None)
        turn = Path(config["log"]) / f"{trial}-fails-{iteration}"
        if iteration in fails and not turn.exists():
            turn.touch()
            if slot_of(trial) == 4:
                os._exit(1)
            raise RuntimeError("the trial fails, as it was told to")


def test_retries_go_back_to_their_checkpoints(ray_session, tmp_path):
    accepted = Accepted()
    results = fit(failing, tmp_path, accepted, {"trial": tune.grid_search(list(FAILS))}, max_failures=2)
    lines = told(tmp_path / "told")
    marked = {}
    for trial, result in results.items():
        listed = assert_life(result.path, trial, lines, accepted.ids[trial])
        gone = [line["training_iteration"] for line in listed if line.get("rolled_back") and line["key"] == "rollout"]
        marked[slot_of(trial)] = sorted(gone)
    assert marked == {0: [4, 5, 7], 1: [1, 2, 3], 2: [], 3: [], 4: [5]}
    told_by_itself = next(result for trial, result in results.items() if slot_of(trial) == 2)
    assert told_by_itself.metrics["training_iteration"] == 4
    for result in results.values():  # what is kept with checkpoints and of the experiment holds paths, and no media
        assert all(isinstance(metrics["rollout"], str) for _, metrics in result.best_checkpoints)
    assert sum(len(result.best_checkpoints) for result in results.values()) > 4
    (state,) = (tmp_path / "life").glob("experiment_state-*.json")
    assert "tune_media" not in state.read_text()


def early(config):
    trial = tune.get_context().get_trial_id()
    for iteration in range(1, 9):
        tune.report({**make_result(config["log"], trial, iteration), "score": slot_of(trial) * iteration})


def test_early_stops_in_actors_that_are_reused(ray_session, tmp_path):
    accepted = Accepted()
    results = fit(
        early,
        tmp_path,
        accepted,
        {"trial": tune.grid_search(list(range(6)))},
        stop={"training_iteration": 7},
        scheduler=ASHAScheduler(metric="score", mode="min", grace_period=2, reduction_factor=2, max_t=8),
        reuse_actors=True,
        max_concurrent_trials=2,
    )
    lines = told(tmp_path / "told")
    for trial, result in results.items():
        assert_life(result.path, trial, lines, accepted.ids[trial])
    assert len({line["pid"] for line in lines}) < len(results) == 6  # else no actor was reused
    ended = {result.metrics["training_iteration"] for result in results.values()}
    assert min(ended) < max(ended) == 7  # else none was stopped early


class Resumable(tune.Trainable):
    def setup(self, config):
        self.done_so_far = 0

    def step(self):
        self.done_so_far += 1
        assert self.done_so_far == self.iteration + 1
        return make_result(self.config["log"], self.trial_id, self.done_so_far)

    def save_checkpoint(self, checkpoint_dir):
        (Path(checkpoint_dir) / "state.json").write_text(json.dumps(self.done_so_far))

    def load_checkpoint(self, checkpoint):
        self.done_so_far = json.loads((Path(checkpoint) / "state.json").read_text())
        tell(self.config["log"], trial=self.trial_id, resumed=self.done_so_far)


class Halving(FIFOScheduler):
    """Pauses each trial after every second iteration, and stops every other one after the fourth.

    Not HyperBand itself: all its trials may be paused, each waiting for another one, and such a sweep never ends.
    """

    def on_trial_result(self, tune_controller, trial, result):
        iteration = result["training_iteration"]
        if iteration == 8 or (iteration == 4 and trial.config["trial"] % 2):
            return self.STOP
        return self.PAUSE if iteration % 2 == 0 else self.CONTINUE


def test_pause_and_resume(ray_session, tmp_path):
    accepted = Accepted()
    space = {"trial": tune.grid_search(list(range(4)))}
    results = fit(Resumable, tmp_path, accepted, space, scheduler=Halving())
    lines = told(tmp_path / "told")
    for trial, result in results.items():
        listed = assert_life(result.path, trial, lines, accepted.ids[trial])
        assert not [line for line in listed if line.get("rolled_back")]
    assert len([line for line in lines if "resumed" in line]) == 2 * 1 + 2 * 3
    assert {result.metrics["training_iteration"] for result in results.values()} == {4, 8}


# Who is best and who is worst at which time: 1 becomes a clone of 0, 2 of that, and 0 of that in its turn.
SCORES = {2: {0: 2, 1: 0, 2: 1}, 4: {1: 2, 2: 0, 0: 1}, 6: {2: 2, 0: 0, 1: 1}, 8: {0: 2, 1: 1, 2: 0}}
# Who reports last, and so sets off the comparison: a trial that becomes a clone, another one, and a donor.
LAST = {2: 1, 4: 2, 6: 2}


def wait_for_others(log, clock):
    """Wait until two trials have told that they are there, and a little more for what they told to be reported."""
    for _ in range(300):
        if len({line["trial"] for line in told(log) if line["clock"] == clock}) == 2:
            break
        time.sleep(0.1)
    time.sleep(0.5)


def evolving(config):
    trial = tune.get_context().get_trial_id()
    slot, state = slot_of(trial), load_state(tune.get_context().get_trial_id())
    while True:
        state["iteration"] += 1
        state["clock"] += 0.5 if slot == 1 else 1.0
        if LAST.get(state["clock"]) == slot:
            wait_for_others(config["log"], state["clock"])
        more = {"lineage": state["lineage"], "clock": state["clock"]}
        result = make_result(config["log"], trial, state["iteration"], **more)
        result |= {"clock": state["clock"], "score": SCORES.get(int(state["clock"]), {}).get(slot, 0)}
        report(result, state)


def test_a_clone_knows_its_donors(ray_session, tmp_path):
    """Trials are compared by a clock that is slower in one: its exploit takes it back, its own clone jumps ahead."""
    accepted = Accepted()
    scheduler = PopulationBasedTraining(
        time_attr="clock",
        metric="score",
        mode="max",
        perturbation_interval=2,
        quantile_fraction=0.3,
        synch=True,
        hyperparam_mutations={"rate": [1.0, 2.0]},
    )
    results = fit(
        evolving,
        tmp_path,
        accepted,
        {"trial": tune.grid_search([0, 1, 2]), "rate": 1.0},
        stop={"clock": 8},
        scheduler=scheduler,
        reuse_actors=True,
    )
    lines = told(tmp_path / "told")
    by_slot = {slot_of(trial): trial for trial in results}
    listed = {at: assert_life(results[id].path, id, lines, accepted.ids[id]) for at, id in by_slot.items()}
    ancestors = [f"{by_slot[2]}@8", f"{by_slot[1]}@6", f"{by_slot[0]}@2"]
    winner = max((line for line in listed[0] if line["key"] == "rollout"), key=lambda line: line["row"])
    assert (winner["lineage"], winner["training_iteration"]) == (ancestors, 10)
    gone = [line["training_iteration"] for line in listed[1] if line.get("rolled_back") and line["key"] == "rollout"]
    assert gone == [3, 4]
    for ancestor in ancestors:  # the lineage leads to clips
        trial, _, iteration = ancestor.partition("@")
        assert [
            line
            for line in listed[slot_of(trial)]
            if (line["training_iteration"], line["key"]) == (int(iteration), "rollout") and not line.get("rolled_back")
        ]


def short(config):
    trial = tune.get_context().get_trial_id()
    for iteration in range(1, 2 + config["length"]):
        state = {"iteration": iteration, "by": trial, "clock": 0, "lineage": []}
        report(make_result(config["log"], trial, iteration), state)


def test_a_second_run_in_the_same_folders(ray_session, tmp_path):
    ids = set()
    for length in (4, 2):  # the second one ends before the first did
        accepted = Accepted()
        results = fit(short, tmp_path, accepted, {"length": length}, trial_dirname_creator=lambda trial: "the_trial")
        ((trial, result),) = results.items()
        assert Path(result.path) == tmp_path / "life" / "the_trial"
        assert len(accepted.ids[trial]) == length + 1
        ids |= set(accepted.ids[trial])
        listed = assert_files_and_index_agree(result.path)
        assert {line["id"] for line in listed if line["key"] == "rollout"} == ids  # those of all runs so far
        assert not [line for line in listed if line.get("rolled_back")]  # another trial: this one took nothing back
        steps = assert_tensorboard_shows_once(result.path)
        assert steps["train/rollout"] == steps["ray/tune/level"] == list(range(1, length + 2))
    assert len(ids) == 8
