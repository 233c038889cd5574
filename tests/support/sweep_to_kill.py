"""A sweep for ``test_restore``: ``start`` it, kill it, ``restore`` it elsewhere, from a folder or from an S3 server."""

from __future__ import annotations

import os
import sys
import time

import pyarrow.fs
import ray
from ray import tune

import tune_media as tm
from tests.support import quiet_ray
from tests.support.trial_life import load_state, make_result, report

EVERY = 3


def train(config):
    trial = tune.get_context().get_trial_id()
    state = load_state(trial)
    for iteration in range(state["iteration"] + 1, state["iteration"] + 1 + int(os.environ["LENGTH"])):
        state["iteration"] = iteration
        result = make_result(os.environ["TOLD"], trial, iteration)  # a folder outside of the storage
        report(result, state if iteration % EVERY == 0 else None)
        time.sleep(config["pause"])


def main(what: str, storage: str) -> None:
    """Start or restore the sweep; ``storage`` is a local folder or a URI."""
    filesystem, folder = pyarrow.fs.FileSystem.from_uri(storage)
    quiet_ray.init(has_rllib=False, num_cpus=2, object_store_memory=10**8)
    if what == "restore":
        tuner = tune.Tuner.restore(f"{folder}/killed", train, storage_filesystem=filesystem)
    else:
        tuner = tune.Tuner(
            train,
            param_space={"pause": tune.grid_search([0.2, 0.3])},
            run_config=tune.RunConfig(
                name="killed",
                storage_path=folder,
                storage_filesystem=filesystem,
                verbose=0,
                callbacks=[tm.JsonMediaLoggerCallback(), tm.TBXMediaLoggerCallback()],
            ),
        )
    assert not tuner.fit().errors
    ray.shutdown()


if __name__ == "__main__":
    main(*sys.argv[1:])
