import numpy as np
import pytest

import tune_media as tm
from tests.support.stores import StoredTrial
from tests.support.viewing import moving_bar, write_trial
from tune_media.replay.tape import Tape
from tune_media.values.episodes import EpisodeBatch, EpisodeData
from tune_media.viewing.episode_details import episode_details, taped_details
from tune_media.viewing.trials import LogDirectory, Trials


@pytest.fixture
def trial(tmp_path):
    write_trial(tmp_path / "trial", 1)
    return Trials([LogDirectory.of(str(tmp_path))]).all()[0]


def test_the_json_is_read_if_there_is_no_parquet_file(trial, tmp_path):
    for report in trial.report_lines:
        (tmp_path / "trial" / report["path"]).with_suffix(".parquet").unlink()
    assert episode_details(trial, trial.lines[0])["series"]["angle"][-1] == 2.0


def test_a_broken_report_costs_the_series_and_no_error(trial, tmp_path, caplog):
    for report in trial.report_lines:
        for suffix in (".json", ".parquet"):
            (tmp_path / "trial" / report["path"]).with_suffix(suffix).write_text("nothing")
    details = episode_details(trial, trial.lines[0])
    assert details["series"] == {}
    assert details["record"]["step"] == 10
    assert "cannot read the episodes" in caplog.text


def test_a_clip_without_an_episode_has_its_record_only(trial):
    assert episode_details(trial, {"path": "x", "note": float("inf")})["record"] == {"path": "x", "note": None}


def test_a_tape_tells_the_actions_and_the_rewards(tmp_path):
    tape = Tape(seed=7)
    tape.began(check=1)
    for step in range(3):
        tape.stepped(np.array([step / 2, -1.0], np.float32), check=step, reward=0.1 * step)
    folder = write_trial(tmp_path / "trial", 1, steps=())
    store = StoredTrial.in_folder(folder)
    record = tm.EpisodeRecord("e", 1.0, 3, training_iteration=10)
    store.add(tm.Video(moving_bar(4), fps=10, episode=record), step=10)
    store.add(EpisodeBatch((EpisodeData(record, tape=tape.packed()),)), "evaluation", "episodes/data", 10)
    store.finish()
    (trial,) = Trials([LogDirectory.of(str(tmp_path))]).all()
    (clip,) = trial.lines
    details = episode_details(trial, clip)
    assert details["actions"] == {"action/0": [0.0, 0.5, 1.0], "action/1": [-1.0] * 3}
    assert details["series"] == {"reward": [0.0, 0.1, 0.2]}
    (report,) = trial.report_files
    taped = taped_details(trial, report, "e")
    assert {**taped, "record": {}} == {**details, "record": {}}
    facts = ("episode_id", "episode_return", "episode_length", "step", "section")
    assert [taped["record"][name] for name in facts] == ["e", 1.0, 3, 10, "evaluation"]
    assert taped_details(trial, report, "another") is None
