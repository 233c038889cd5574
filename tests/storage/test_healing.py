import logging
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.support.stores import LOCAL, index_of, lose_lines
from tune_media.storage.healing import EndedTrials
from tune_media.storage.recovery import heal


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


@pytest.fixture
def sweep(trial, monkeypatch):
    """Return a folder of 40 trials whose driver was killed; those whose names begin with `bad` cannot be read."""
    sweep = trial.parent
    lose_lines(trial)
    for number in range(40):
        shutil.copytree(trial, sweep / (f"bad{number}" if number % 20 == 0 else f"trial{number}"))
    shutil.rmtree(trial)

    def reading(filesystem, folder):
        if Path(folder).name.startswith("bad"):
            raise OSError("it cannot be read")
        return heal(filesystem, folder)

    monkeypatch.setattr("tune_media.storage.healing.heal", reading)
    return sweep


def test_a_folder_that_can_never_be_read_keeps_no_other_from_being_healed(sweep):
    """Its batch was tried again five times and given up, and all trials after it."""
    ended = EndedTrials(LOCAL, str(sweep), list)
    with pytest.raises(OSError):  # when no others are left
        while ended.heal_some():
            pass
    assert sorted(len(index_of(folder)) for folder in sweep.iterdir()) == [0, 0] + [6] * 38


def test_while_the_storage_is_away_no_trial_is_passed_over(sweep, monkeypatch):
    ended, is_away = EndedTrials(LOCAL, str(sweep), list), True

    def asking(filesystem, folder):
        if is_away:
            raise OSError("the storage is away")
        return heal(filesystem, folder)

    monkeypatch.setattr("tune_media.storage.healing.heal", asking)
    for _ in range(5):
        with pytest.raises(OSError):
            ended.heal_some()
    is_away = False
    while ended.heal_some():
        pass
    assert [len(index_of(folder)) for folder in sweep.iterdir()] == [6] * 40


@pytest.mark.skipif(sys.platform != "linux", reason="file names are text there")
def test_a_folder_whose_name_is_no_text_is_none_of_a_trial(trial):
    lose_lines(trial)
    Path(os.fsdecode(os.fsencode(trial.parent) + b"/\xff")).mkdir()
    assert not EndedTrials(LOCAL, str(trial.parent), list).heal_some()
    assert len(index_of(trial)) == 6
