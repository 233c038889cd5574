"""``tune-media list`` for other programs and for papers."""

import functools
import io
import json

import pandas as pd
import pytest

import tune_media as tm
from tests.support.commands import command
from tests.support.recorded import make_trial
from tests.support.viewing import write_results, write_trial
from tune_media.viewing.statistics import STATISTICS

RATE = "custom_metrics/success_rate"


@pytest.fixture
def sweep(tmp_path):
    """Two settings with three seeds each, whose last results have success rates; one trial failed to say it."""
    for number in range(6):
        folder = make_trial(
            tmp_path / "sweep" / f"t_{number}", {"lr_rate": 0.1 + number // 3, "seed": number % 3}, {10: float(number)}
        )
        result = {"episode_return_mean": 0.123456789 + number}
        if number:
            of = {"success_rate": number / 10, "success_rate_low": number / 20, "success_rate_high": 0.95}
            result["evaluation"] = {"env_runners": {"custom_metrics": of}}
        write_results(folder, result)
    return tmp_path / "sweep"


listed = functools.partial(command, "list")


def test_trials_as_csv_have_all_digits(sweep):
    table = pd.read_csv(io.StringIO(listed(sweep, "--csv")))
    assert table["trial"].tolist() == [f"t_{number}" for number in (5, 4, 3, 2, 1, 0)]
    assert table["score"].tolist() == [0.123456789 + number for number in (5, 4, 3, 2, 1, 0)]
    assert table["config/lr_rate"].tolist() == [1.1] * 3 + [0.1] * 3
    assert table["success_rate"].tolist()[:5] == [0.5, 0.4, 0.3, 0.2, 0.1]
    assert pd.isna(table["success_rate"][5])
    assert table["success_high"][0] == 0.95
    assert table["episode_return"].tolist() == [5.0, 4.0, 3.0, 2.0, 1.0, 0.0]


def test_configurations_equal_compare(sweep):
    truth = tm.load(sweep).compare()
    table = pd.read_csv(io.StringIO(listed(sweep, "--csv", "--rows", "configurations")))
    for name in ("mean", "low", "high", *STATISTICS, "behind"):
        pd.testing.assert_series_equal(table[name], truth[name])
    assert table["trials"].tolist() == [";".join(names) for names in truth["trials"]]
    rows = [json.loads(line) for line in listed(sweep, "--json", "--rows", "configurations").splitlines()]
    assert [row["mean"] for row in rows] == truth["mean"].tolist()
    assert rows[0]["behind"] is None
    assert rows[0]["trials"] == truth["trials"][0]


def test_json_lists_media_unless_trials_are_wanted(sweep):
    assert json.loads(listed(sweep, "--json").splitlines()[0])["kind"] == "video"
    rows = [json.loads(line) for line in listed(sweep, "--json", "--rows", "trials").splitlines()]
    assert [row["trial"] for row in rows][:2] == ["t_5", "t_4"]
    assert rows[-1]["success_rate"] is None
    assert len(pd.read_csv(io.StringIO(listed(sweep, "--csv", "--rows", "media")))) == len(tm.load(sweep))


def test_the_table_has_the_success_rates(sweep):
    header, best, *_, last = listed(sweep).strip().splitlines()[4:-1]
    assert "success" in header
    assert "0.5 [0.25, 0.95]" in best
    assert "[" not in last


def test_trials_are_chosen_by_a_part_of_their_names(sweep):
    for option in ("--trial", "--trials"):
        table = pd.read_csv(io.StringIO(listed(sweep, "--csv", option, "_3,t_5")))
        assert table["trial"].tolist() == ["t_5", "t_3"]
    assert "There is no trial 't_9'" in listed(sweep, "--trial", "t_9", code=2)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--all", "--rows", "trials"], "--all and --rows trials exclude each other"),
        (["--config", "--json", "--rows", "trials"], "--config is for media"),
    ],
)
def test_options_that_contradict_each_other_are_refused(sweep, arguments, told):
    assert told in listed(sweep, *arguments, code=2)


def test_no_key_or_password_is_in_any_table(tmp_path):
    experiment = tmp_path / "exp"
    for number in range(4):
        secrets = {"api_key": f"SESAME{number // 2}", "login": {"password": f"OPEN{number // 2}"}}
        write_trial(experiment / f"t{number}", number, lr=0.1 * (1 + number // 2), seed=number, **secrets)
    for rows in (["--rows", "trials"], ["--rows", "configurations"], ["--rows", "media"], []):
        for form in (["--csv"], ["--json"], []):
            output = listed(experiment, *rows, *form)
            assert "SESAME" not in output and "OPEN" not in output, (rows, form)
    output = listed(experiment, "--json", "--config")
    assert "SESAME" not in output and '"lr"' in output
