from __future__ import annotations

import signal
import time

from tests.support.processes import driver
from tests.support.trial_life import assert_files_and_index_agree, assert_tensorboard_shows_once, told

SCRIPT = """
import os, sys, time
from pyarrow.fs import FSSpecHandler, PyFileSystem
from ray import tune
import tune_media as tm
from tests.support import quiet_ray
from tests.support.trial_life import SlowStorage, make_result

def train(config):
    trial = tune.get_context().get_trial_id()
    for iteration in range(1, 12):
        tune.report(make_result(os.environ["TOLD"], trial, iteration))
        time.sleep(0.2)
    time.sleep(600)

quiet_ray.init(has_rllib=False, num_cpus=2, object_store_memory=10**8)
run_config = tune.RunConfig(
    name="interrupted",
    storage_path=sys.argv[1],
    storage_filesystem=PyFileSystem(FSSpecHandler(SlowStorage(auto_mkdir=True))),
    verbose=0,
    callbacks=[tm.JsonMediaLoggerCallback(), tm.TBXMediaLoggerCallback()],
)
tune.Tuner(train, param_space={"trial": tune.grid_search([0, 1])}, run_config=run_config).fit()
"""


def test_sigterm_closes_every_logger(tmp_path):
    """Clips wait to be written, for longer than the three seconds that Ray leaves to a process after SIGTERM."""
    script, log, storage = tmp_path / "sweep.py", tmp_path / "told", tmp_path / "results"
    script.write_text(SCRIPT)
    log.mkdir()
    experiment = storage / "interrupted"
    with driver(script, str(storage), log=tmp_path / "log", TOLD=str(log)) as sweep:
        sweep.wait_until(lambda: len(list(experiment.glob("*/media/train/rollout/*00000003-*.mp4"))) == 2)
        asked = time.monotonic()
        sweep.process.send_signal(signal.SIGTERM)
        sweep.process.wait(timeout=90)
        assert time.monotonic() - asked > 3
        assert sweep.process.returncode != 0
        assert "tune_media: stored" in sweep.output(), "the loggers were not closed"
    lines_told = told(log)
    trials = [path.parent.parent for path in experiment.glob("*/media/index.jsonl")]
    assert len(trials) == 2
    for trial in trials:
        lines = assert_files_and_index_agree(str(trial))
        stored = [line["training_iteration"] for line in lines if line["key"] == "rollout"]
        assert stored == list(range(1, len(stored) + 1))
        reported = [line["id"] for line in lines_told if line["trial"] == lines[0]["trial_id"]]
        assert [line["id"] for line in lines if line["key"] == "rollout"] == reported[: len(stored)]
        assert len(reported) - len(stored) <= 2  # what it reported when nobody listened any more
        steps = assert_tensorboard_shows_once(trial)
        assert steps["train/rollout"] == steps["train/weights"] == stored
