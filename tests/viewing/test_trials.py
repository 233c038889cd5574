import json
import shutil
from pathlib import Path

import pytest

import tune_media as tm
from tests.support.viewing import RefusingStorage, index_lines, on, write_index, write_run, write_snapshot, write_trial
from tune_media.experiment import results
from tune_media.experiment.trial_folders import LogDirectory, Trials
from tune_media.storage import log as log_module
from tune_media.storage.filesystem import is_local
from tune_media.storage.location import LOCATION_FILE
from tune_media.viewing.gallery import Gallery
from tune_media.viewing.pages import TrialPages

PART = "1-9-box-00000000-{}-0.jsonl"  # of the log


@pytest.fixture
def experiment(tmp_path):
    for number in range(2):
        write_trial(tmp_path / "exp" / f"trial_{number}", number)
    (tmp_path / "exp" / "mlartifacts" / "media").mkdir(parents=True)
    return tmp_path / "exp"


def names(path):
    return [trial.name for trial in Trials([LogDirectory.of(str(path))]).all()]


def test_trials_are_found_below_an_experiment_a_folder_of_experiments_and_a_trial(experiment):
    assert names(experiment) == ["trial_0", "trial_1"]
    assert names(experiment.parent) == ["exp/trial_0", "exp/trial_1"]
    assert names(experiment / "trial_0") == ["."]
    assert names(experiment.as_uri()) == ["trial_0", "trial_1"]
    write_run(experiment / "young", {})  # it has recorded nothing yet
    assert names(experiment) == ["trial_0", "trial_1", "young"]


def test_new_clips_new_trials_and_lost_trials_are_seen(experiment):
    trials = Trials([LogDirectory.of(str(experiment))])
    count = {trial.name: len(trial.lines) for trial in trials.all()}
    write_trial(experiment / "trial_2", 2)
    lines = index_lines(experiment / "trial_0")
    new = {**lines[0], "id": "new", "path": "media/evaluation/x/new.mp4"}
    write_index(experiment / "trial_0", [*lines, new])
    shutil.rmtree(experiment / "trial_1")
    assert [trial.name for trial in trials.all(max_age=0)] == ["trial_0", "trial_2"]
    assert len(trials.all()[0].lines) == count["trial_0"] + 1


def test_metrics_of_lines_longer_than_the_tail_are_read(experiment):
    results = experiment / "trial_0" / "result.json"
    results.write_text(json.dumps({"training_iteration": 1, "loss": 2.0, "text": "x" * 300_000}) + "\n")
    trials = Trials([LogDirectory.of(str(experiment))])
    assert trials.metrics_of(trials.all())[0] == {"training_iteration": 1, "loss": 2.0}


def test_new_metrics_are_seen_and_others_are_not_read_again(experiment, monkeypatch):
    trials = Trials([LogDirectory.of(str(experiment))])
    trials.metrics_of(trials.all())
    read = []
    monkeypatch.setattr(trials, "_pause", -1.0)
    monkeypatch.setattr(results, "last_metrics", lambda _, path: read.append(path) or ({"loss": 1.0}, False))
    file = experiment / "trial_1" / "result.json"
    file.write_text(file.read_text() + '{"training_iteration": 30}\n')
    assert trials.metrics_of(trials.all())[1] == {"loss": 1.0}
    assert read == [str(file.parent)]


@pytest.mark.parametrize(
    "ask",
    [
        lambda folder: tm.load(folder).verdict,
        lambda folder: tm.load(folder).to_pandas(metrics="episode_return_mean"),
        lambda folder: [trial.result_lines() for trial in tm.load(folder).trials],
        lambda folder: Gallery.of(str(folder)),
    ],
)
def test_a_cut_last_line_of_results_is_told_once_the_trial_has_ended(experiment, caplog, ask):
    for number in range(2):
        file = experiment / f"trial_{number}" / "result.json"
        file.write_bytes(file.read_bytes()[:-9])
    write_snapshot(experiment, trial_0="TERMINATED", trial_1="RUNNING")
    ask(experiment)
    told = [message for message in caplog.messages if "cut off" in message]
    assert [f"{experiment}/trial_0/result.json" in message for message in told] == [True]
    assert tm.load(experiment).trials[0].last_metrics["training_iteration"] == 10
    trials = Trials([LogDirectory.of(str(experiment))])
    trials.statuses_of(trials.all())
    assert [path for path, _ in trials.unreadable] == [f"{experiment}/trial_0/result.json"]


def test_nothing_outside_the_media_folder_is_a_media_file(experiment, tmp_path):
    (tmp_path / "secret.mp4").write_text("secret")
    media = experiment / "trial_0" / "media"
    (media / "link.mp4").symlink_to(tmp_path / "secret.mp4")
    lines = index_lines(experiment / "trial_0")
    line, names = lines[0], ["media/link.mp4", "params.json", "media/../../../secret.mp4", "/etc/passwd"]
    names.append("episode_data/data-00000010.json")
    write_index(experiment / "trial_0", [*lines, *({**line, "id": name, "path": name} for name in names)])
    trial = Trials([LogDirectory.of(str(experiment))]).all()[0]
    assert trial.media_file(line["path"]) is not None
    assert [trial.media_file(name) for name in names] == [None] * len(names)
    assert trial.read_media(line["path"]) == (experiment / "trial_0" / line["path"]).read_bytes()
    for name in set(names) - {"episode_data/data-00000010.json"}:
        with pytest.raises(FileNotFoundError):
            trial.read_media(name)


def test_a_media_folder_that_is_a_link_to_another_folder_is_not_followed(experiment, tmp_path):
    media = experiment / "trial_0" / "media"
    media.rename(tmp_path / "elsewhere")
    media.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "link").symlink_to(experiment)  # the way to the trial may be one
    trials = Trials([LogDirectory.of(str(tmp_path / "link"))]).all()
    found = [{trial.media_file(line["path"]) is not None for line in trial.lines} for trial in trials]
    assert found == [{False}, {True}]


def test_a_pointer_to_another_folder_is_not_followed(experiment, tmp_path):
    trial = experiment / "trial_0"
    (tmp_path / "private" / "media").mkdir(parents=True)
    (tmp_path / "private" / "media" / "private.mp4").write_text("private")
    write_index(trial, [{**index_lines(trial)[0], "path": "media/private.mp4"}])
    for target in (tmp_path / "private", experiment / "trial_1"):
        (trial / ".tune_media.json").write_text(json.dumps({"media_of": str(target)}))
        first = Trials([LogDirectory.of(str(experiment))]).all()[0]
        assert first.place[1] == str(trial)
        assert not Path(first.media_file("media/private.mp4")[1]).exists()


@pytest.mark.parametrize("protocol", ["file", "far"])
@pytest.mark.parametrize("refused", ["trial_0/", "trial_0/media/index.jsonl", "trial_0/params.json"])
def test_a_trial_that_cannot_be_read_leaves_the_others_alone(experiment, caplog, protocol, refused):
    storage = RefusingStorage(protocol)
    trials = Trials([LogDirectory(on(storage, experiment))])
    assert is_local(trials.roots[0].folder.filesystem) == (protocol == "file")
    storage.refused = [refused]
    assert trials.all()[-1].name == "trial_1"
    assert trials.metrics_of(trials.all())[-1] == {"training_iteration": 20, "episode_return_mean": 21}
    storage.refused = []
    count = [len(trial.lines) for trial in trials.all(max_age=0)]
    assert count == [4, 4]
    storage.refused = [refused]
    write_trial(experiment / "trial_2", 2)
    index = experiment / "trial_0" / "media" / "index.jsonl"
    index.write_text(index.read_text() + "{}\n")
    caplog.clear()
    for _ in range(2):
        assert [len(trial.lines) for trial in trials.all(max_age=0)] == [4, 4, 4]  # as they were read last
    (message,) = [record.getMessage() for record in caplog.records if "passed over" not in record.getMessage()]
    assert "trial_0" in message
    assert "Permission denied" in message


def test_a_folder_that_cannot_be_read_and_is_alone_on_its_level_is_named_and_left_out(experiment, caplog):
    (experiment.parent / "older" / "private").mkdir(parents=True)
    storage = RefusingStorage()
    storage.refused = ["older/private"]
    trials = Trials([LogDirectory(on(storage, experiment.parent))])
    for trial in ("trial_0", "trial_1"):
        (experiment / trial).rename(experiment.parent / trial)
    shutil.rmtree(experiment)
    assert [trial.name.rpartition("/")[2] for trial in trials.all()] == ["trial_0", "trial_1"]
    assert "private" in caplog.text


def test_results_that_cannot_be_read_are_asked_for_again_only_after_a_pause(experiment, monkeypatch):
    storage = RefusingStorage()
    storage.refused = ["trial_0/result.json"]
    trials = Trials([LogDirectory(on(storage, experiment))])
    assert trials.metrics_of(trials.all()) == [{}, {"training_iteration": 20, "episode_return_mean": 21}]
    storage.refused = []
    assert trials.metrics_of(trials.all())[0] == {}
    monkeypatch.setattr(trials, "_pause", -1.0)
    assert trials.metrics_of(trials.all())[0] == {"training_iteration": 20, "episode_return_mean": 20}


def test_a_storage_that_refuses_everything_is_an_error(experiment):
    storage = RefusingStorage("far")
    storage.refused = ["media/index.jsonl"]
    with pytest.raises(PermissionError, match="Permission denied"):
        Trials([LogDirectory(on(storage, experiment))]).all()


def test_files_that_a_remote_index_does_not_name_yet_are_found(experiment, monkeypatch):
    trials = Trials([LogDirectory(on(RefusingStorage("far"), experiment))])
    pages = TrialPages(trials, "x")
    before = pages.index()
    clip = experiment / "trial_1" / trials.all()[1].lines[0]["path"]
    shutil.copy(clip, clip.with_name("step_000000099-0123456789ab.mp4"))
    line = {**trials.all()[1].lines[0], "id": "0123456789ab" * 3, "trial": "trial_1", "row": 1}
    line["path"] = str(clip.with_name("step_000000099-0123456789ab.mp4").relative_to(experiment / "trial_1"))
    (experiment / ".tune_media_log").mkdir()
    (experiment / ".tune_media_log" / PART.format(1)).write_text(json.dumps(line) + "\n")
    assert [len(trial.lines) for trial in trials.all(max_age=0)] == [4, 4], "one LIST for two seconds"
    monkeypatch.setattr(log_module, "_LIST_SECONDS", 0.0)
    assert [len(trial.lines) for trial in trials.all(max_age=0)] == [4, 5]
    assert pages.index().content != before.content


def test_a_remote_trial_that_goes_on_is_not_asked_for_its_index_again(tmp_path, monkeypatch):
    """It is not there, and to find that out takes a LIST of each trial at each look."""
    monkeypatch.setattr(log_module, "_LIST_SECONDS", 0.0)
    trial = write_trial(tmp_path / "experiment" / "trial_0", 0)
    index, log = trial / "media/index.jsonl", tmp_path / "experiment" / ".tune_media_log"
    log.mkdir()
    lines = [{**line, "trial": "trial_0"} for line in index_lines(trial)]
    (log / PART.format(1)).write_text("".join(json.dumps(line) + "\n" for line in lines[:3]))
    index.unlink()
    storage = RefusingStorage("far")
    trials = Trials([LogDirectory(on(storage, tmp_path / "experiment"))])
    assert len(trials.all()[0].lines) == 2
    storage.refused = ["experiment/media", "experiment/params", f"/{LOCATION_FILE}", "trial_0/media/index"]
    trials.all(max_age=0)
    (log / PART.format(2)).write_text(json.dumps(lines[3]) + "\n")
    storage.refused = ["experiment/media", "experiment/params"]
    assert len(trials.all(max_age=0)[0].lines) == 3
    storage.refused = ["trial_0/media/index"]
    (log / "00000000.done.json").write_text(json.dumps([PART.format(1), PART.format(2)]))  # its index is whole now
    with pytest.raises(PermissionError):
        trials.all(max_age=0)


def test_a_look_at_remote_trials_lists_the_log_once(experiment):
    write_trial(experiment / "trial_2", 2)
    (experiment / "trial_2/media/index.jsonl").unlink()  # it still runs
    (experiment / ".tune_media_log").mkdir()
    storage = RefusingStorage("far")
    trials = Trials([LogDirectory(on(storage, experiment))])
    assert len(trials.all()) == 3
    assert sum(path.endswith(".tune_media_log") for path in storage.listed) == 1
    storage.listed.clear()
    trials.all(max_age=0)
    assert not [path for path in storage.listed if "media" in path]
