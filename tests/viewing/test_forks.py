"""What the viewer reads of forks, from files that may be anyone's."""

import json

from tests.support.viewing import write_trial
from tune_media.experiment.state import Listings
from tune_media.viewing.episode_details import episode_details
from tune_media.viewing.forks import blames_of, forks_in
from tune_media.viewing.payload import index_payload
from tune_media.viewing.trials import LogDirectory, Trials

BLAME = {
    "forked_from": "e1",
    "policy": "/home/me/runs/better/",
    "metric": "return",
    "sentence": "From step 3 on, /home/me/runs/better/ could not save episode e1.",
    "step": 3,
    "between": [2, 3],
    "threshold": 4.5,
    "original": {"at": 5, "value": 1.0, "low": None, "high": None},
    "curve": [{"at": 0, "value": 9.0, "low": 8.0, "high": 10.0}, {"at": 3, "value": 1.0, "low": None, "high": None}],
}


def trials_in(folder):
    return Trials([LogDirectory.of(str(folder))]).all()


def blame(experiment, name, content):
    folder = experiment / "evaluations" / name
    folder.mkdir(parents=True)
    (folder / "blame.json").write_text(content if isinstance(content, str) else json.dumps(content))


def test_what_is_to_blame_is_found_for_an_episode_of_the_sweep_and_of_an_evaluation(tmp_path):
    write_trial(tmp_path / "exp" / "a", 1)
    write_trial(tmp_path / "exp" / "evaluations" / "last" / "a", 1)
    blame(tmp_path / "exp", "blame-e1-123456", BLAME)
    blame(tmp_path / "exp", "blame-e1-and-more-123456", BLAME | {"forked_from": "e1-and-more"})
    for folder in (tmp_path / "exp", tmp_path / "exp" / "evaluations" / "last"):
        (trial,) = trials_in(folder)
        (found,) = blames_of(trial, "e1", Listings())
        assert found["sentence"] == "From step 3 on, better could not save this episode."
        assert (found["policy"], found["step"], found["between"]) == ("better", 3, [2, 3])
        assert found["curve"] == [[0, 9.0, 8.0, 10.0], [3, 1.0, None, None], [5, 1.0, None, None]]
        assert blames_of(trial, "e2", Listings()) == []


def test_a_broken_file_costs_the_curve_and_not_the_clip(tmp_path, caplog):
    write_trial(tmp_path / "exp" / "a", 1)
    (trial,) = trials_in(tmp_path / "exp")
    line = trial.lines[0]
    for number, content in enumerate(("{", "[]", {"forked_from": line["episode_id"]})):
        blame(tmp_path / "exp", f"blame-{line['episode_id']}-{number}", content)
    details = episode_details(trial, line)
    assert details["series"] and details["blames"] == []
    assert "cannot read which step is to blame" in caplog.text
    blame(tmp_path / "exp", f"blame-{line['episode_id']}-9", BLAME | {"forked_from": line["episode_id"]})
    assert len(episode_details(trial, line)["blames"]) == 1


def test_a_hyperparameter_of_this_name_makes_no_fork(tmp_path):
    for name, at in (("at-2", 2), ("at-3", 3), ("original", 5)):
        write_trial(tmp_path / name, 1, forked_at=at)
    assert forks_in(trials_in(tmp_path)) == {}
    (tmp_path / "evaluation.json").write_text(json.dumps({"forked_from": "e1"}))
    trials = trials_in(tmp_path)
    told = [trial.get("fork") for trial in index_payload(trials, "")["trials"]]
    assert told == [{"from": "e1", "at": 2}, {"from": "e1", "at": 3}, {"from": "e1", "at": None}]
