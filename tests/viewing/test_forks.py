import json

from tests.support.viewing import write_trial
from tune_media.viewing.forks import forks_in
from tune_media.viewing.payload import index_payload
from tune_media.viewing.trials import LogDirectory, Trials


def trials_in(folder):
    return Trials([LogDirectory.of(str(folder))]).all()


def test_a_hyperparameter_of_this_name_makes_no_fork(tmp_path):
    for name, at in (("at-2", 2), ("at-3", 3), ("original", 5)):
        write_trial(tmp_path / name, 1, forked_at=at)
    assert forks_in(trials_in(tmp_path)) == {}
    (tmp_path / "evaluation.json").write_text(json.dumps({"forked_from": "e1"}))
    trials = trials_in(tmp_path)
    told = [trial.get("fork") for trial in index_payload(trials, "")["trials"]]
    assert told == [{"from": "e1", "at": 2}, {"from": "e1", "at": 3}, {"from": "e1", "at": None}]
