import json

import pyarrow.fs

from tests.support.recorded import make_trial
from tune_media.viewing.places import Folder
from tune_media.viewing.trial_media import TrialMedia


def read(folder):
    return TrialMedia.read(Folder(pyarrow.fs.LocalFileSystem(), str(folder)), "episodes")


def test_a_trial_has_its_media_hyperparameters_and_metrics(tmp_path):
    trial = read(make_trial(tmp_path / "t", {"lr": 0.1, "env_config": {"size": 3}, "list": [1]}, {10: 1.0, 20: 3.0}))
    assert trial.name == "t"
    assert list(trial.media.episode_return) == [1.0, 3.0]
    assert trial.params == {"lr": 0.1, "env_config/size": 3}
    assert trial.metrics["env_runners/episode_return_mean"].last == 3.0


def test_files_of_episodes_are_reports_and_no_media(tmp_path):
    folder = make_trial(tmp_path / "t", {}, {10: 1.0})
    index = folder / "media" / "index.jsonl"
    line = json.loads(index.read_text().splitlines()[0])
    path = "episode_data/data-00000001.json"
    index.write_text(index.read_text() + json.dumps({**line, "id": "e", "kind": "episodes", "path": path}) + "\n")
    trial = read(folder)
    assert trial.reports == [f"{folder}/{path}"]
    assert len(trial.media) == 1


def test_the_last_line_of_a_key_holds(tmp_path):
    folder = make_trial(tmp_path / "t", {}, {10: 1.0, 20: 2.0})
    index = folder / "media" / "index.jsonl"
    first = json.loads(index.read_text().splitlines()[0])
    index.write_text(index.read_text() + json.dumps({**first, "status": "deleted"}) + '\n{"half')
    assert list(read(folder).media.episode_return) == [2.0]


def test_settings_that_are_no_json_are_none(tmp_path):
    folder = make_trial(tmp_path / "t", {}, {})
    (folder / "params.json").write_text("{")
    assert read(folder).params == {}
