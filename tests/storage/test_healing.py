import logging
import shutil

from tests.support.stores import LOCAL, index_of, lose_lines
from tune_media.storage.healing import EndedTrials


def test_after_a_restore_the_trials_that_had_ended_are_healed_and_those_that_run_are_left_alone(
    trial, tmp_path, frames, caplog
):
    for name in ("a", "b", "running"):
        shutil.copytree(trial, trial.parent / name)
        lose_lines(trial.parent / name)
    ended = EndedTrials(LOCAL, str(trial.parent), lambda: [str(trial.parent / "running")])
    with caplog.at_level(logging.INFO):
        while ended.heal_some():
            pass
    assert [len(index_of(trial.parent / name)) for name in ("a", "b", "running", "trial")] == [6, 6, 0, 6]
    (message,) = [record.getMessage() for record in caplog.records if "killed" in record.getMessage()]
    assert "12 of them, of 2 trial(s)" in message
