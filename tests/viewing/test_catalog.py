import json

import numpy as np
import pyarrow.fs
import pytest

import tune_media as tm
from tests.support.recorded import make_experiment, make_trial
from tests.support.stores import StoredTrial
from tests.support.viewing import RefusingStorage, on


@pytest.fixture
def experiment(tmp_path, frames):
    for number in (1, 0):
        folder = tmp_path / "exp" / f"trial_{number}"
        folder.mkdir(parents=True)
        (folder / "params.json").write_text(json.dumps({"lr": number / 10, "env_config": {"size": 3}, "list": [1]}))
        store = StoredTrial.in_folder(folder, f"id_{number}")
        for step in (20, 3):
            record = tm.EpisodeRecord("episode", 1.5, 3)
            store.add(tm.Video(frames(4), episode=record), "evaluation", "episodes/best", step)
        store.finish()
    (tmp_path / "exp" / "trial_2").mkdir()
    return tmp_path / "exp"


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    return make_experiment(tmp_path_factory.mktemp("sweep") / "exp")


def test_rows_are_ordered_and_carry_their_hyperparameters(experiment):
    catalog = tm.load(experiment)
    assert [(row["trial"], row["step"]) for row in catalog] == [
        ("trial_0", 3),
        ("trial_0", 20),
        ("trial_1", 3),
        ("trial_1", 20),
    ]
    assert catalog[2]["params"] == {"lr": 0.1, "env_config/size": 3, "list": "[1]"}
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
    listed = [row for row in catalog if "killed" not in row.get("note", "")]
    assert len(listed) == 3
    assert listed[2]["params"] == {}


def test_an_experiment_without_media_and_no_experiment(tmp_path):
    assert len(tm.load(tmp_path)) == 0
    with pytest.raises(FileNotFoundError, match="no folder"):
        tm.load(tmp_path / "nothing")


def test_rows_are_filtered_by_trial_section_key_kind_step_and_return(sweep):
    catalog = tm.load(sweep)
    assert [row["step"] for row in catalog.filter(trial="trial_b")] == [10, 20, 30]
    assert [(row["trial"], row["step"]) for row in catalog.filter(step=10)] == [("trial_a", 10), ("trial_b", 10)]
    assert len(catalog.filter(section="evaluation", key="episodes/best", kind="video")) == 5
    assert len(catalog.filter(section="train")) == len(catalog.filter(kind="image")) == 0
    assert [row["episode_return"] for row in catalog.filter(episode_return=(2, 4), step=(20, 99))] == [3.0, 4.0]
    assert [row["step"] for row in catalog.filter(lambda row: row["params"]["lr"] == 0.1).filter(step=20)] == [20]


def test_a_number_is_an_exact_value_and_anything_else_is_refused_by_name(sweep):
    catalog = tm.load(sweep)
    assert len(catalog.filter(step=np.int64(20))) == len(catalog.filter(step=20.0)) == 2
    assert len(catalog.filter(episode_return=9.0)) == len(catalog.filter(episode_return=np.float32(9))) == 1
    assert len(catalog.filter(step=np.array([10, 20]))) == len(catalog.filter(step=[10, 20])) == 4
    for wrong in ("20", (1,), (1, None), (1, 2, 3), True, {}):
        with pytest.raises(TypeError, match=r"filter\(step=\.\.\.\) takes a number, or the first and the last, got"):
            catalog.filter(step=wrong)
    with pytest.raises(TypeError, match=r"filter\(episode_return=\.\.\.\) takes a number"):
        catalog.filter(episode_return="high")


def test_the_best_row_by_return_a_field_or_a_metric(sweep):
    catalog = tm.load(sweep)
    assert (catalog.best()["trial"], catalog.best()["step"]) == ("trial_b", 20)
    assert catalog.best("speed")["episode_return"] == 1.0
    assert catalog.best(mode="min")["episode_return"] == 1.0
    assert catalog.filter(trial="trial_a").best("step")["step"] == 20
    assert catalog.filter(trial="trial_c").best() is None
    assert catalog.best("seed") is None  # a field of the index that no row has
    with pytest.raises(ValueError, match=r"no row has 'episode_retrun'; did you mean 'episode_return'"):
        catalog.best("episode_retrun")
    with pytest.raises(ValueError, match=r"no row has 'sped'; did you mean 'speed'"):
        catalog.best("sped")
    with pytest.raises(ValueError, match=r"no row has 'xyz'; the fields are .*'episode_return'"):
        catalog.best("xyz")
    assert catalog.filter(trial="trial_c").best("xyz") is None
    with pytest.raises(ValueError, match="'max' or 'min', got 'most'"):
        catalog.best(mode="most")


def test_a_row_hands_over_its_file_and_its_frames(sweep, tmp_path):
    row = tm.load(sweep)[0]
    assert row.read_bytes() == (sweep / "trial_a" / row["path"]).read_bytes()
    assert [frame.shape for frame in row.frames()] == [(32, 48, 3)] * 4
    row["kind"] = "image"
    with pytest.raises(ValueError, match="only clips have frames"):
        next(row.frames())


def test_rows_are_found_by_number_and_by_slice(sweep):
    catalog = tm.load(sweep)
    assert [catalog[at] for at in range(-5, 5)] == [*catalog, *catalog]
    assert catalog[1:4] == list(catalog)[1:4]
    with pytest.raises(IndexError, match="5 rows; there is no row 5"):
        catalog[5]


def test_several_experiments_are_one_catalog(sweep, experiment):
    assert len(tm.load([sweep, experiment])) == 9


def test_a_folder_of_experiments_names_them(sweep):
    with pytest.raises(ValueError, match=r"is not an experiment; it contains 1: 'exp'.*load\(\[\.\.\.\]\)"):
        tm.load(sweep.parent)


def test_a_trial_that_recorded_nothing_is_among_the_trials(sweep):
    catalog = tm.load(sweep)
    assert [trial.name for trial in catalog.trials] == ["trial_a", "trial_b", "trial_c"]
    assert catalog.differing_params == ["lr"]


def test_trials_are_found_whatever_their_folders_are_called(tmp_path):
    names = ["..%2f..", ".x", "artifacts", "checkpoint_frequency=5", "media", "wandb"]
    for name in names:
        make_trial(tmp_path / name, {}, {1: 1.0})
    (tmp_path / "checkpoint_000001").mkdir()
    assert [row["trial"] for row in tm.load(tmp_path)] == names


def test_a_trial_that_cannot_be_read_is_named_and_the_others_are_there(sweep, caplog):
    storage = RefusingStorage()
    folder = on(storage, sweep)
    storage.refused = ["trial_a/media"]
    catalog = tm.load(folder.path, folder.filesystem)
    assert {row["trial"] for row in catalog} == {"trial_b"}
    assert "1 trial(s) are left out ('trial_a'): PermissionError" in caplog.text
    with pytest.raises(PermissionError):
        tm.load(f"{folder.path}/trial_a", folder.filesystem)
