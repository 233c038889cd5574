import json

import pyarrow.fs
import pytest
from click.testing import CliRunner

import tune_media as tm
from tune_media.cli import main
from tune_media.entries import Package, Place
from tune_media.store import TrialStore


@pytest.fixture
def experiment(tmp_path, frames):
    for number in (1, 0):
        folder = tmp_path / "exp" / f"trial_{number}"
        folder.mkdir(parents=True)
        (folder / "params.json").write_text(json.dumps({"lr": number / 10, "env_config": {"size": 3}, "list": [1]}))
        store = TrialStore(Place(pyarrow.fs.LocalFileSystem(), str(folder), folder, f"id_{number}"))
        store.load()
        for step in (20, 3):
            record = tm.EpisodeRecord("episode", 1.5, 3)
            _, entry = store.register(tm.Video(frames(4), episode=record), "evaluation", "episodes/best", step, step)
            store.write(Package(f"id_{number}", [entry]))
        store.finish()
    (tmp_path / "exp" / "trial_2").mkdir()
    return tmp_path / "exp"


def test_rows_are_ordered_and_carry_their_hyperparameters(experiment):
    catalog = tm.load(experiment)
    assert [(row["trial"], row["step"]) for row in catalog] == [
        ("trial_0", 3),
        ("trial_0", 20),
        ("trial_1", 3),
        ("trial_1", 20),
    ]
    assert catalog[2]["params"] == {"lr": 0.1, "env_config/size": 3}
    assert all((experiment / row["trial"] / row["path"]).read_bytes() for row in catalog)
    assert "4 media of 2 trials" in repr(catalog)


def test_as_a_data_frame(experiment):
    frame = tm.load(experiment).to_pandas()
    assert list(frame["config/lr"]) == [0.0, 0.0, 0.1, 0.1]
    assert set(frame["episode_return"]) == {1.5}
    assert "<table" in tm.load(experiment)._repr_html_()


def test_one_trial_a_uri_and_a_filesystem(experiment):
    assert len(tm.load(experiment / "trial_0")) == 2
    assert len(tm.load(experiment.as_uri())) == 4
    assert len(tm.load("exp", pyarrow.fs.SubTreeFileSystem(str(experiment.parent), pyarrow.fs.LocalFileSystem()))) == 4


def test_lines_of_later_versions_and_broken_ones_do_no_harm(experiment):
    index = experiment / "trial_0" / "media" / "index.jsonl"
    line = json.loads(index.read_text().splitlines()[0])
    index.write_text(json.dumps({**line, "v": 2, "new_field": {"a": 1}}) + '\n[1]\nnull\n{"id": 3}\n{"half')
    (experiment / "trial_1" / "params.json").write_text("not json")
    catalog = tm.load(experiment)
    assert len(catalog) == 3
    assert catalog[2]["params"] == {}


def test_an_experiment_without_media_and_no_experiment(tmp_path):
    assert len(tm.load(tmp_path)) == 0
    with pytest.raises(FileNotFoundError, match="no folder"):
        tm.load(tmp_path / "nothing")


def test_list_on_the_command_line(experiment, tmp_path):
    result = CliRunner().invoke(main, ["list", str(experiment)])
    assert result.exit_code == 0
    assert "trial_0/media/evaluation/episodes/best/step_000000003" in result.output
    assert "4 media" in result.output
    missing = CliRunner().invoke(main, ["list", str(tmp_path / "nothing")])
    assert missing.exit_code == 1
    assert "no folder" in missing.output
