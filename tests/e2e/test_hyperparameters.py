import json

import numpy as np
import pytest
from ray import tune

import tune_media as tm
from tests.support.experiment import fit, tensorboard_events, trial_folders
from tests.support.trackers import mlflow_store
from tune_media.experiment.trial_folders import LogDirectory, Trials
from tune_media.viewing.payload import index_payload


class Schedule:
    def __init__(self, rate):
        self.rate = rate


def schedule(rate):
    def at(step):
        return rate * step

    return at


def local_class(rate):
    class Policy:
        speed = rate

    return Policy


class Told(tm.Backend):
    def __init__(self, folder):
        self.folder = folder

    def start(self, trial):
        text = json.dumps({"config": dict(trial.config), "searched": dict(trial.searched)}, default=str)
        (self.folder / f"{trial.trial_id}.told").write_text(text)


def train(config):
    tune.report({"score": float(config["gamma"])})


OBJECTS = [schedule(1), schedule(2), Schedule(1), Schedule(2), local_class(1), local_class(2), np.int64(3), np.int64(4)]
LISTS = [[1] * 100, [1] * 99 + [2], [[16, [4, 4], 2]], [[16, [8, 8], 2]]]


def run(folder, space, *callbacks):
    space = {"gamma": tune.sample_from(lambda: 0.5), **space}
    callbacks = [tm.JsonMediaLoggerCallback(), *callbacks]
    return fit(train, folder, callbacks, space=space, tune_config={"num_samples": 2}, name="sweep")


@pytest.mark.parametrize("options", [OBJECTS, LISTS], ids=["objects", "lists"])
def test_options_of_every_type_are_configurations_of_their_own_for_all_readers(ray_session, tmp_path, options):
    results = run(tmp_path, {"x": tune.grid_search(options)})
    catalog = tm.load(results.experiment_path)
    table = catalog.compare(metric="score")
    assert list(table["n"]) == [2] * len(options)
    assert table["config/x"].nunique() == len(options)
    trials = Trials([LogDirectory.of(results.experiment_path)]).all()
    shown = [trial["params"]["x"] for trial in index_payload(trials, "sweep")["trials"]]
    assert len(set(shown)) == len(options)


def test_trackers_and_readers_are_told_the_same(ray_session, tmp_path):
    from mlflow.tracking import MlflowClient
    from tensorboard.plugins.hparams import metadata

    uri = mlflow_store(tmp_path)
    tracker = tm.MLflowMediaLoggerCallback(uri, artifact_location=f"file://{tmp_path}/mlruns")
    space = {"f": tune.grid_search([schedule(1), schedule(2)]), "n": tune.choice([np.int64(3)])}
    space["of"] = {"kind": tune.choice([Schedule]), "sizes": tune.choice([(4, 4)])}
    own = tm.MediaLoggerCallback(Told(tmp_path))
    run(tmp_path, space, tm.TBXMediaLoggerCallback(), tracker, own)
    runs = MlflowClient(uri).search_runs(["1"])
    by_name = {run.info.run_name.removeprefix("train_"): run.data for run in runs}
    trials = {trial.name.removeprefix("train_")[:11]: trial for trial in tm.load(tmp_path / "sweep").trials}
    assert len(trials) == len(by_name) == 4
    seen = set()
    for id, trial in trials.items():
        told = json.loads((tmp_path / f"{id}.told").read_text())
        kind = f"<class '{Schedule.__module__}.Schedule'>"
        assert set(told["searched"]) == {"f", "n", "gamma", "of/kind", "of/sizes"} == set(trial.params)
        assert (told["searched"]["n"], told["searched"]["gamma"], told["searched"]["of/kind"]) == (3, 0.5, kind)
        assert told["config"]["f"] == told["searched"]["f"] == trial.config["f"] == trial.params["f"]
        assert told["searched"]["f"].startswith("<function schedule.<locals>.at ")
        assert by_name[id].params["f"] == trial.config["f"]
        seen.add(trial.config["f"])
    assert len(seen) == 2
    for folder in trial_folders(tmp_path / "sweep"):
        content = tensorboard_events(folder).SummaryMetadata(metadata.SESSION_START_INFO_TAG).plugin_data.content
        hparams = metadata.parse_session_start_info_plugin_data(content).hparams
        assert (hparams["n"].number_value, hparams["gamma"].number_value) == (3, 0.5)
        assert hparams["f"].string_value in seen
