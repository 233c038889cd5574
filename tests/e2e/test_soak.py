"""A sweep of many short trials leaves nothing of its trials with the callbacks: no threads, no open files, no state."""

import contextlib
import gc
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from ray import tune

import tune_media as tm
from tune_media.values.episodes import EpisodeBatch, EpisodeData, Series

pytestmark = pytest.mark.ray

TRIALS = 60
SLACK = 12  # threads, files, objects: far fewer than there are trials
SECONDS = 10.0  # for what the background thread still has to do


def train(config):
    speeds = Series(np.arange(3.0), 1, 3)
    data = EpisodeData(tm.EpisodeRecord("e", 1.0, 3, metrics={"speed_avg": 1.0}), {"speed": speeds})
    clip = (np.full((16, 16, 3), 50 * index, np.uint8) for index in range(2))
    episodes = {"best": tm.Video(clip, fps=5), "data": EpisodeBatch((data,))}
    weights = tm.Histogram(np.arange(5.0))
    tune.report({"score": 1.0, "weights": weights, "evaluation": {"env_runners": {"episodes": episodes}}})


def thread_names():
    """Count the process's threads by their names as the system has them, native threads too."""
    names = Counter()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # the thread has just ended
            names[(task / "comm").read_text().strip()] += 1
    return names


def may_be_ours(name):
    """Tell whether Python code, or a codec that it called, may have started a thread of this name.

    Such a thread has the name of the process, of its Python thread (from Python 3.14 on), or FFmpeg's «av:...».
    Ray's and gRPC's native threads have other names (event_engine, client.poll0, ...); a busy machine has more of them.
    """
    process = Path("/proc/self/comm").read_text().strip()
    return name == process or name.startswith(("av:", "Thread-", "ThreadPool", "tune_media"))


def open_things():
    threads = sum(count for name, count in thread_names().items() if may_be_ours(name))
    return {"threads": threads, "files": len(list(Path("/proc/self/fd").iterdir()))}


def is_ours(thing):
    return str(type(thing).__module__).partition(".")[0] == "tune_media"


def our_objects():
    """Count what there is of the package's classes, by class."""
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
        self.over, self.early, self.late, self.names = 0, {}, {}, ()
        self.objects, self.grown, self.mappings = Counter(), {}, []

    def on_trial_complete(self, iteration, trials, trial, **info):
        self.over += 1
        if self.over == TRIALS // 6:
            self.objects = our_objects()
            self.early, self.names = open_things(), (thread_names(),)

    def on_experiment_end(self, trials, **info):
        deadline = time.monotonic() + SECONDS
        while True:
            self.late, self.names = open_things(), (*self.names[:1], thread_names())
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
    strict = tm.MediaOptions(strict=True)
    callbacks = [tm.JsonMediaLoggerCallback(media=strict), tm.TBXMediaLoggerCallback(media=strict)]
    results = tune.Tuner(
        train,
        param_space={"index": tune.grid_search(list(range(TRIALS)))},
        tune_config=tune.TuneConfig(reuse_actors=True, max_concurrent_trials=4),
        run_config=tune.RunConfig(
            name="soak", storage_path=str(tmp_path_factory.mktemp("soak")), verbose=0, callbacks=[watcher, *callbacks]
        ),
    ).fit()
    assert not results.errors
    assert watcher.over == TRIALS
    return watcher, results


def test_all_of_it_is_stored(soaked):
    _, results = soaked
    kinds = Counter(row["kind"] for row in tm.load(results.experiment_path))
    assert kinds["video"] == kinds["histogram"] == TRIALS


def test_threads_and_open_files_do_not_grow(soaked):
    watcher, _ = soaked
    assert not watcher.more_is_open(), (watcher.early, watcher.late, watcher.names)
    after = open_things()
    more = {name: count for name, count in after.items() if count > watcher.early[name] + SLACK}
    assert not more, (watcher.early, after, watcher.names, thread_names())


def test_a_python_thread_is_counted():
    end = threading.Event()
    thread = threading.Thread(target=end.wait, name="tune_media leak")
    thread.start()
    name = Path(f"/proc/self/task/{thread.native_id}/comm").read_text().strip()
    end.set()
    assert may_be_ours(name), (name, thread_names())


def test_nothing_of_a_trial_is_held_when_it_is_over(soaked):
    watcher, _ = soaked
    assert not watcher.grown
    assert not watcher.mappings
