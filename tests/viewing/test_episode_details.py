import json

import pytest

from tests.support.viewing import write_trial
from tune_media.viewing.episode_details import episode_details
from tune_media.viewing.trials import LogDirectory, Trials


@pytest.fixture
def trial(tmp_path):
    write_trial(tmp_path / "trial", 1)
    return Trials([LogDirectory.of(str(tmp_path))]).all()[0]


def test_a_clip_has_its_record_and_its_episodes_series(trial):
    line = next(line for line in trial.lines if line["step"] == 20)
    details = episode_details(trial, line)
    assert details["record"]["episode_return"] == 22
    assert details["series"]["angle"] == pytest.approx([0.0, 0.4, 0.8, 1.2, 1.6, 2.0])
    json.dumps(details, allow_nan=False)


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
