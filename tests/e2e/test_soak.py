"""A sweep of many short trials leaves nothing of its trials with the callbacks: no threads, no open files, no state."""

import gc
import sys
import threading
import time
import traceback
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from ray import tune

import tune_media as tm
from tests.support.experiment import fit
from tune_media.values.episodes import EpisodeBatch, EpisodeData, Series

pytestmark = pytest.mark.ray

PACKAGE = str(Path(tm.__file__).parent)
TRIALS = 24
SLACK = 10  # threads, files, objects: far fewer than there are trials
SECONDS = 120.0  # for what the background threads still have to do: they stand back on a busy machine


def train(config):
    speeds = Series(np.arange(3.0), 1, 3)
    data = EpisodeData(tm.EpisodeRecord("e", 1.0, 3, metrics={"speed_avg": 1.0}), {"speed": speeds})
    clip = (np.full((16, 16, 3), 50 * index, np.uint8) for index in range(2))
    episodes = {"best": tm.Video(clip, fps=5), "data": EpisodeBatch((data,))}
    weights = tm.Histogram(np.arange(5.0))
    tune.report({"score": 1.0, "weights": weights, "evaluation": {"env_runners": {"episodes": episodes}}})


def our_threads():
    """Count the threads that run the package's code, by name; Ray and gRPC start more of theirs on a busy machine."""
    stacks = sys._current_frames()
    return Counter(
        thread.name
        for thread in threading.enumerate()
        if thread.name.startswith("tune_media") or runs_ours(stacks.get(thread.ident))
    )


def runs_ours(frame):
    return frame is not None and any(PACKAGE in each.f_code.co_filename for each, _ in traceback.walk_stack(frame))


def open_things():
    return {"threads": our_threads().total(), "files": len(list(Path("/proc/self/fd").iterdir()))}


def is_ours(thing):
    return str(type(thing).__module__).partition(".")[0] == "tune_media"


def our_objects():
    gc.collect()
    return Counter(type(thing).__name__ for thing in gc.get_objects() if is_ours(thing))


def mappings_by_trial(trials):
    """Return mappings that the package's objects hold, themselves or in containers, and that have a trial as a key.

    Ray's loggers, from which callbacks inherit, have some of their own.
    """
    gc.collect()
    keys = {trial.trial_id for trial in trials} | {id(trial) for trial in trials}
    waiting = [thing for thing in gc.get_objects() if is_ours(thing) and not isinstance(thing, tune.Callback)]
    seen, found = {id(thing) for thing in waiting}, []
    while waiting:
        thing = waiting.pop()
        if isinstance(thing, dict) and any((key if isinstance(key, str) else id(key)) in keys for key in thing):
            found.append(thing)
        for held in gc.get_referents(thing):
            is_container = isinstance(held, (dict, list, tuple, set, frozenset)) or is_ours(held)
            if is_container and not isinstance(held, tune.Callback) and id(held) not in seen:
                seen.add(id(held))
                waiting.append(held)
    return found


class Watcher(tune.Callback):
    """Look at the driver while trials end, and once more before the callbacks after it finish."""

    def __init__(self):
        self.over, self.early, self.late = 0, {}, {}
        self.objects, self.grown, self.mappings = Counter(), {}, []

    def on_trial_complete(self, iteration, trials, trial, **info):
        self.over += 1
        if self.over == TRIALS // 6:
            self.objects = our_objects()
            self.early = open_things()

    def on_experiment_end(self, trials, **info):
        deadline = time.monotonic() + SECONDS
        while True:
            self.late = open_things()
            objects = our_objects()
            self.grown = {name: count for name, count in objects.items() if count > self.objects[name] + SLACK}
            self.mappings = [sorted(map(str, mapping))[:3] for mapping in mappings_by_trial(trials)]
            if not (self.grown or self.mappings or self.more_is_open()) or time.monotonic() > deadline:
                return
            time.sleep(0.2)

    def more_is_open(self):
        return {name: count for name, count in self.late.items() if count > self.early[name] + SLACK}


@pytest.fixture(scope="module")
def soaked(ray_session, tmp_path_factory):
    watcher = Watcher()
    gc.unfreeze()  # what was imported may hold things, too
    strict = tm.MediaOptions(strict=True)
    callbacks = [tm.JsonMediaLoggerCallback(media=strict), tm.TBXMediaLoggerCallback(media=strict)]
    space = {"index": tune.grid_search(list(range(TRIALS)))}
    at_once = {"reuse_actors": True, "max_concurrent_trials": 4}
    results = fit(train, tmp_path_factory.mktemp("soak"), [watcher, *callbacks], space=space, tune_config=at_once)
    assert not results.errors
    assert watcher.over == TRIALS
    yield watcher, results
    gc.freeze()


def test_all_of_it_is_stored(soaked):
    _, results = soaked
    kinds = Counter(row["kind"] for row in tm.load(results.experiment_path))
    assert kinds["video"] == kinds["histogram"] == TRIALS


def test_threads_and_open_files_do_not_grow(soaked):
    watcher, _ = soaked
    assert not watcher.more_is_open(), (watcher.early, watcher.late, our_threads())
    after = open_things()
    more = {name: count for name, count in after.items() if count > watcher.early[name] + SLACK}
    assert not more, (watcher.early, after, our_threads())


def test_a_thread_of_ours_is_counted():
    before, ends = our_threads(), threading.Event()
    threading.Thread(target=ends.wait, name="tune_media leak", daemon=True).start()
    assert our_threads() - before == {"tune_media leak": 1}
    ends.set()


def test_nothing_of_a_trial_is_held_when_it_is_over(soaked):
    watcher, _ = soaked
    assert not watcher.grown, watcher.grown
    assert not watcher.mappings, watcher.mappings
