import itertools
import json
import socket
from types import SimpleNamespace

import numpy as np
import pyarrow.fs
import pytest

import tune_media as tm
from tests.support.batches import episodes_of
from tests.support.recorded import make_experiment, make_trial
from tests.support.stores import StoredTrial
from tests.support.viewing import RefusingStorage, on, write_run
from tune_media.experiment import places
from tune_media.viewing.grid_choice import choose_tiles
from tune_media.viewing.trials import trial_table


@pytest.fixture
def experiment(tmp_path, frames):
    for number in (1, 0):
        params = {"lr": number / 10, "env_config": {"size": 3}, "list": [1]}
        folder = write_run(tmp_path / "exp" / f"trial_{number}", params)
        with StoredTrial.in_folder(folder, f"id_{number}") as store:
            for step in (20, 3):
                record = tm.EpisodeRecord("episode", 1.5, 3)
                store.add(tm.Video(frames(4), episode=record), "evaluation", "episodes/best", step)
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
    assert catalog[2]["params"] == {"lr": 0.1}
    assert catalog[2].config == {"lr": 0.1, "env_config/size": 3, "list": "[1]"}
    assert all((experiment / row["trial"] / row["path"]).read_bytes() for row in catalog)
    assert "4 media of 2 trials" in repr(catalog)


def test_a_notebook_shows_a_clip_a_picture_and_what_cannot_be_shown_as_text(tmp_path, frames):
    folder = tmp_path / "exp" / "trial_0"
    media = {
        "clip": tm.Video(frames(4)),
        "map": tm.Image(np.zeros((8, 8, 3), np.uint8)),
        "weights": tm.Histogram(np.arange(10.0)),
    }
    with StoredTrial.in_folder(folder, "id_0") as store:
        for key, medium in media.items():
            store.add(medium, "train", key, 1)
    rows = {row["key"]: row for row in tm.load(tmp_path / "exp")}
    shown = {key: row._repr_html_() for key, row in rows.items()}
    assert shown["clip"].count('<video src="data:video/mp4;base64,') == 1
    assert shown["map"].count('<img src="data:image/') == 1
    assert "trial_0: video train/clip at step 1" in shown["clip"]
    assert shown["weights"] == "<p>CatalogRow(trial_0: histogram train/weights at step 1)</p>"
    (folder / rows["clip"]["path"]).unlink()
    gone = rows["clip"]._repr_html_()
    assert gone.startswith("<p>CatalogRow(trial_0: video train/clip at step 1): FileNotFoundError")
    rows["map"]["bytes"] = 2**30
    assert rows["map"]._repr_html_() == "<p>CatalogRow(trial_0: image train/map at step 1)</p>"


def test_a_notebook_shows_a_trial_as_a_table_of_its_facts(sweep):
    shown = tm.load(sweep).trials[1]._repr_html_()
    facts = {"lr": 0.2, "env_runners/episode_return_mean": 4, "media": 3}
    assert "<caption>trial_b</caption>" in shown
    assert all(f"<tr><th>{name}</th><td>{value}</td></tr>" in shown for name, value in facts.items())


def test_one_trial_a_uri_a_result_grid_and_a_filesystem(experiment):
    assert len(tm.load(experiment / "trial_0")) == 2
    assert len(tm.load(experiment.as_uri())) == 4
    grid = SimpleNamespace(experiment_path=str(experiment), filesystem=pyarrow.fs.LocalFileSystem())
    assert len(tm.load(grid)) == 4
    with pytest.raises(TypeError, match="ResultGrid"):
        tm.load([])
    assert len(tm.load("exp", pyarrow.fs.SubTreeFileSystem(str(experiment.parent), pyarrow.fs.LocalFileSystem()))) == 4


def test_the_best_row_by_return_a_field_or_a_metric(sweep):
    catalog = tm.load(sweep)
    assert (catalog.best()["trial"], catalog.best()["step"]) == ("trial_b", 20)
    assert catalog.best("speed")["episode_return"] == 1.0
    assert catalog.best(mode="min")["episode_return"] == 1.0
    assert catalog.of_trials(["trial_a"]).best("step")["step"] == 20
    assert catalog.of_trials(["trial_c"]).best() is None
    assert catalog.best("seed") is None  # a field of the index that no row has
    assert catalog.of_trials(["trial_c"]).best("xyz") is None


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


def test_trials_of_several_experiments_have_names_of_their_own(tmp_path):
    for place in ("a/first", "a/second", "b/first"):
        make_trial(tmp_path / place / "trial", {"lr": place}, {1: 1.0})
        make_trial(tmp_path / place / "other", {"lr": place}, {1: 2.0})
    few = tm.load([tmp_path / "a/first", tmp_path / "a/second/trial"])
    assert [row["trial"] for row in few] == ["first/other", "first/trial", "second/trial"]
    assert len(choose_tiles(few)) == 3
    assert few[2]["params"] == {"lr": "a/second"}
    same = tm.load([tmp_path / "a/first/trial", tmp_path / "b/first/trial"])
    assert [trial.name for trial in same.trials] == ["a/first/trial", "b/first/trial"]
    nested = tm.load([tmp_path / "a", tmp_path / "a/second/trial"])
    assert {trial.name for trial in nested.trials} == {
        f"{experiment}/{trial}" for experiment in ("first", "second") for trial in ("trial", "other")
    }
    one = tm.load([tmp_path / "b/first/other", tmp_path / "b/first/trial"])
    assert [trial.name for trial in one.trials] == ["other", "trial"]


def test_each_folder_of_a_list_is_an_experiment_or_has_some(sweep, tmp_path):
    for place in ("one/first", "one/second", "two/only"):
        make_trial(tmp_path / place / "trial", {}, {1: 1.0})
    (tmp_path / "wrong").mkdir()
    (tmp_path / "other").mkdir()
    assert len(tm.load([tmp_path / "one", tmp_path / "two"])) == 3
    for sources in (["wrong", "other"], ["one", "wrong"], [sweep, "wrong"]):
        with pytest.raises(ValueError, match="wrong' is not an experiment"):
            tm.load([tmp_path / source for source in sources])


def test_the_only_experiment_in_a_folder_is_opened_and_several_are_one_catalog(sweep, tmp_path):
    only = tm.load(sweep.parent)
    assert (len(only), only.path, only[0]["trial"]) == (5, str(sweep), "trial_a")
    for name in ("first", "second"):
        make_trial(tmp_path / name / "trial", {}, {1: 1.0})
    several = tm.load(tmp_path)
    assert (several.path, [row["trial"] for row in several]) == (str(tmp_path), ["first/trial", "second/trial"])


def test_a_trial_that_recorded_nothing_is_among_the_trials(sweep):
    catalog = tm.load(sweep)
    for whole in (catalog, catalog.clips):
        assert [trial.name for trial in whole.trials] == ["trial_a", "trial_b", "trial_c"]
    assert catalog.differing_params == ["lr"]


def test_trials_are_found_whatever_their_folders_are_called(tmp_path):
    names = ["..%2f..", ".x", "artifacts", "checkpoint_frequency=5", "media", "wandb"]
    for name in names:
        make_trial(tmp_path / "exp" / name, {}, {1: 1.0})
    for name in (*"abcdefg", "mlartifacts", "mlruns", ".cache", "checkpoint_000001"):  # come before the trials
        (tmp_path / "exp" / name).mkdir()
    assert [row["trial"] for row in tm.load(tmp_path / "exp")] == names
    (tmp_path / "notes").mkdir()
    assert tm.load(tmp_path).path == str(tmp_path / "exp")


def test_a_trial_that_cannot_be_read_is_named_and_the_others_are_there(sweep, caplog):
    storage = RefusingStorage()
    folder = on(storage, sweep)
    storage.refused = ["trial_a/media"]
    catalog = tm.load(folder.path, folder.filesystem)
    assert {row["trial"] for row in catalog} == {"trial_b"}
    assert "1 trial(s) are left out ('trial_a'): PermissionError" in caplog.text
    with pytest.raises(PermissionError):
        tm.load(f"{folder.path}/trial_a", folder.filesystem)


def test_of_some_trials_every_view_leaves_the_others_out(tmp_path):
    for number, (lr, gamma, seed) in enumerate(itertools.product((1, 2), (3, 4), (5, 6))):
        folder = make_trial(tmp_path / f"t{number}", {"lr": lr, "gamma": gamma, "env_seed": seed}, {10: float(number)})
        with StoredTrial.in_folder(folder) as store:
            store.add(episodes_of(tm.EpisodeRecord(f"e{number}", 1.0, 3)), "train", "episodes/data", 10)
    catalog = tm.load(tmp_path)
    few = catalog.of_trials([trial.name for trial in catalog.trials if trial.config["gamma"] == 4])
    assert list(few.compare(by="lr")["n"]) == [2, 2]
    assert [trial.name for trial, *_ in few.best_first()] == ["t7", "t6", "t3", "t2"]
    assert trial_table(few).count("\n") == len(few.statuses) == len(few.scores.values) == 4
    assert set(few.episodes()["trial"]) == {"t2", "t3", "t6", "t7"}
    assert set(few.to_pandas()["config/gamma"]) == {4}  # it differs in the experiment


def test_the_best_row_by_the_last_part_of_a_metric(tmp_path):
    with StoredTrial.in_folder(tmp_path / "exp" / "trial") as store:
        for step, speed in ((1, 3.0), (2, 5.0)):
            record = tm.EpisodeRecord("episode", 1.0, 3, metrics={"agent_0/speed": speed})
            store.add(tm.Video(np.zeros((2, 8, 8, 3), np.uint8), episode=record), "evaluation", "clip", step)
    assert tm.load(tmp_path / "exp").best(by="speed")["step"] == 2


def test_rows_print_in_one_line_and_rows_and_trials_are_hashable(sweep):
    catalog = tm.load(sweep)
    assert repr(catalog[0]) == "CatalogRow(trial_a: video evaluation/episodes/best at step 10, return 1)"
    assert len({*catalog, *tm.load(sweep)}) == 5
    assert repr(catalog.trials[0]) == "TrialFiles('trial_a', 2 media)"
    assert len(set(catalog.trials)) == 3


def test_hyperparameters_are_those_that_tune_searched_and_the_whole_config_is_there(experiment):
    state = {"trial_id": "id_0", "relative_logdir": "trial_0", "evaluated_params": {"env_config": {"size": 9}}}
    (experiment / "experiment_state-1.json").write_text(json.dumps({"trial_data": [[json.dumps(state), "{}"]]}))
    catalog = tm.load(experiment)
    assert catalog[0]["params"] == catalog.trials[0].params == {"env_config/size": 3}  # the value that it has now
    assert catalog[0].config == {"lr": 0.0, "env_config/size": 3, "list": "[1]"}
    assert catalog[2]["params"] == {"lr": 0.1}  # no snapshot has the trial


def test_a_clip_is_saved_as_it_is_or_as_a_gif_in_its_own_size(sweep, tmp_path):
    row = tm.load(sweep).best()
    assert row.save(tmp_path / "best.mp4").read_bytes() == row.read_bytes()
    gif = row.save(str(tmp_path / "best.gif")).read_bytes()
    assert gif[:6] == b"GIF89a"
    assert (int.from_bytes(gif[6:8], "little"), int.from_bytes(gif[8:10], "little")) == (48, 32)
    with pytest.raises(ValueError, match=r"saved as \.mp4 or \.gif, not as 'best\.avi'"):
        row.save(tmp_path / "best.avi")
    assert row.save(tmp_path / "talk" / "best.gif", width=24).read_bytes() != gif  # the folder is made


@pytest.mark.parametrize(
    ("mistake", "error", "words"),
    [
        (lambda c: c["best"], TypeError, r"takes the number of a row, got 'best'; .*row\['key'\] =="),
        (lambda c: c.best("sped"), ValueError, "no row has 'sped'; did you mean 'speed'"),
        (lambda c: c.best("xyz"), ValueError, "no row has 'xyz'; the fields are .*'episode_return'"),
        (lambda c: c.best([]), TypeError, r"best\(by=...\) takes text or None"),
        (lambda c: c.compare(metric=3), TypeError, r"compare\(metric=...\) takes text or None"),
        (lambda c: c.importance(metric=[]), TypeError, r"compare\(metric=...\) takes text or None"),
        (lambda c: c.episode(3), TypeError, r"episode\(id\) takes text"),
        (lambda c: c.of_trials("trial_x"), ValueError, "There is no trial 'trial_x'; the trials are 'trial_a'"),
        (lambda c: c.of_trials(5), TypeError, r"of_trials\(names=...\) takes text"),
        (lambda c: c[np.ones(2)], TypeError, "a catalog takes the number of a row"),
        (lambda c: c.best(mode="most"), ValueError, "takes 'max' or 'min', got 'most'"),
        (lambda c: c.compare(metric="trainin_iteration"), ValueError, "did you mean 'training_iteration'"),
        (lambda c: c.best(by="trial"), ValueError, r"'trial' is no number; the numbers are 'speed'"),
        (lambda c: c.best(by="lr"), ValueError, r"'lr' is a hyperparameter, .*'speed'.*; compare\(by='lr'\) ranks"),
        (lambda c: c.compare(by=3), TypeError, r"compare\(by=\.\.\.\) takes text, .* 'lr', or a list of .*got 3"),
        (lambda c: c.compare(task="nope"), ValueError, r"^task= has 'nope', which is no hyperparameter"),
        (lambda c: c.best().save(5), TypeError, r"save\(path\) takes a path, got 5"),
        (lambda c: c.compare(by="x"), ValueError, "no hyperparameter; there are 'lr'"),  # what differs comes first
        (lambda c: c.best().save("best.mp4", width=9), ValueError, r"are for GIFs; 'best\.mp4' gets the clip as it is"),
        (lambda c: c.best().save("best.gif", width=-5), ValueError, r"save\(width=\.\.\.\) takes a whole number .*-5"),
        (lambda c: c.best().save("best.gif", fps=60), ValueError, r"save\(fps=\.\.\.\) takes .* from 1 to 50 .*60"),
        (lambda c: c.best().filmstrip(frames=0), ValueError, r"filmstrip\(frames=\.\.\.\) takes a whole .* got 0"),
    ],
)
def test_a_mistake_is_told_with_the_name_and_the_remedy(sweep, mistake, error, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=words):
        mistake(tm.load(sweep))
    assert not list(tmp_path.glob("best*"))


def test_a_trial_that_is_named_beside_its_experiment_is_read_once(sweep):
    of_parts = [sweep / "trial_a", f"{sweep.as_uri()}/", sweep / "trial_b"]
    for sources in ([sweep, str(sweep)], [sweep, sweep / "trial_a"], of_parts):
        catalog = tm.load(sources)
        assert [trial.name for trial in catalog.trials] == ["trial_a", "trial_b", "trial_c"]
        assert (len(catalog), list(catalog.compare()["n"])) == (5, [1, 1, 0])


def test_what_is_neither_a_folder_nor_a_file_is_no_trial_and_a_file_is_named(sweep):
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(sweep / "a.sock"))
        assert len(tm.load(sweep.parent)) == 5
    (sweep / "tuner.pkl").touch()
    with pytest.raises(FileNotFoundError, match=r"tuner\.pkl' is a file; pass the experiment's folder"):
        tm.load(sweep / "tuner.pkl")
    with pytest.raises(FileNotFoundError, match=r"no folder .*~nobody_here/exp"):
        tm.load("~nobody_here/exp")


@pytest.mark.parametrize("at", ["from_uri", "get_file_info"])  # S3 asks for a bucket's region before anything is read
def test_a_bucket_that_cannot_be_reached_is_named(at, monkeypatch):
    def fails(*_):
        raise OSError("When resolving region for bucket 'no-such': AWS Error NETWORK_CONNECTION")

    remote = SimpleNamespace(get_file_info=fails)
    known = SimpleNamespace(from_uri=fails if at == "from_uri" else lambda uri: (remote, "no-such"))
    monkeypatch.setattr(places.pyarrow.fs, "FileSystem", known)
    with pytest.raises(OSError, match=r"load\(\) cannot read 's3://no-such': is it spelled right.* AWS Error NETWORK"):
        tm.load("s3://no-such")
