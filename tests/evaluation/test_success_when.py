"""When an episode is a success, in ``evaluate`` and ``gate``: at its end, or once; and values that say neither."""

import json
import math
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import tune_media as tm
from tests.support import aim
from tests.support.commands import split_runner
from tune_media.cli import main

# policies of another library, played without Ray
pytestmark = [pytest.mark.any_ray, pytest.mark.usefixtures("in_this_process")]

FUNCTIONS = {"policy": aim.load_policy, "env": aim.make_env}
COMMAND = ["--policy", f"{aim.__name__}:load_policy", "--env", f"{aim.__name__}:make_env", "--json"]
LOST = [False, False, True, False]  # after the reset and after each step
BOTH = ["success", "success_once", "success_at_end"]


@pytest.fixture
def policy(tmp_path):
    return aim.saved(tmp_path, 1)


def evaluated(policy, says, **options):
    given = {"env_config": {"says": [says]}, "seeds": 12, "clips": None, **FUNCTIONS, **options}
    return tm.evaluate(policy, **given)


def run(*words, code):
    done = split_runner().invoke(main, [*map(str, words), *COMMAND])
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


def test_an_evaluation_shows_both_if_they_differ(policy):
    (at_end,) = evaluated(policy, LOST).checkpoints
    assert (at_end.success_rate, at_end.success_once_rate, at_end.success_at_end_rate) == (0, 1, 0)
    once = evaluated(policy, LOST, success_when="once")
    assert once.name.endswith("-success-once")
    (line,) = once.checkpoints
    assert (line.success_rate, line.success_once_rate, line.success_at_end_rate) == (1, 1, 0)
    assert once.catalog.episodes()[BOTH].drop_duplicates().values.tolist() == [[True, True, False]]
    assert evaluated(policy, LOST, success_when="once", success="success").checkpoints[0].success_rate == 1
    words = ["evaluate", policy, "--seeds", "0:2", "--no-clips", "--env-config", "says=[false, false, true, false]"]
    (line,) = run(*words, "--success-when", "once", code=0)["checkpoints"]
    assert (line["success_rate"], line["success_once_rate"], line["success_at_end_rate"]) == (1, 1, 0)
    done = split_runner().invoke(main, [*map(str, words), *COMMAND[:-1]])
    (header,) = (place for place, line in enumerate(done.stdout.splitlines()) if line.startswith("trial "))
    names, cells = (line.split("  ") for line in done.stdout.splitlines()[header : header + 2])
    assert [name.strip() for name in names if name][-4:] == ["success", "once", "at the end", "episodes"]
    assert [cell.strip() for cell in cells if cell][-3:] == ["1", "0", "2"]


def test_an_evaluation_with_another_time_is_another_one(policy):
    evaluated(policy, LOST, name="mine")
    with pytest.raises(ValueError, match="success_when was None and is once"):
        evaluated(policy, LOST, name="mine", success_when="once")


def test_success_at_the_start_is_noted_once(policy):
    evaluation = evaluated(policy, [True, False, False, False])
    assert evaluation.checkpoints[0].note.count("more than 1 of 100 episodes") == 1
    again = evaluated(policy, [True, False, False, False], anew=True)
    assert again.checkpoints[0].note.count("more than 1 of 100 episodes") == 1


@pytest.mark.parametrize(("value", "shown"), [(0.5, "0.5"), (2, "2"), ("False", "'False'")])
def test_a_value_that_is_no_boolean_ends_both_commands_with_2(policy, tmp_path, value, shown):
    words = ["--env-config", "says=" + json.dumps([False, value, False, True])]
    said = f": 'success' in an info is {shown}, which is no boolean, 0 or 1"
    evaluation = run("evaluate", policy, "--seeds", "0:2", "--no-clips", *words, code=2)
    assert evaluation["error"].startswith(f"aim_1.json: seed 0{said}")
    assert "--success" in evaluation["remedy"]
    copy = tmp_path / "copy.json"
    copy.write_text(policy.read_text() + " ")
    gate = run("gate", policy, copy, *words, "-o", tmp_path / "gate", code=2)
    assert said in gate["conditions"][0]["sentence"]


def test_a_gate_may_ask_for_success_at_any_time(policy, tmp_path):
    words = ["gate", policy, "--metric", "success", "--at-least", "0.5", "--clips", "0", "-o", tmp_path / "gate"]
    words += ["--env-config", "says=[false, false, true, false]", "--anew"]
    passed, failed = run(*words, "--success-when", "once", code=0), run(*words, code=1)
    assert (passed["verdict"], failed["verdict"]) == ("pass", "worse")
    both = "the candidate was a success once in 1 of its episodes, and at the end in 0"
    assert [gate["conditions"][0]["notes"] for gate in (passed, failed)] == [[both]] * 2
    words[-2] = "says=[true, true, true, true]"
    (note,) = run(*words, code=0)["conditions"][0]["notes"]
    assert note.startswith("of the candidate, success is true at the reset")


def test_a_gate_of_stored_evaluations_takes_the_column_that_is_asked_for(policy, tmp_path):
    stored = evaluated(policy, LOST).path
    words = {"metric": "success", "at_least": 0.05, "clips": 0}
    verdicts = {}
    for when in (None, "end", "once"):
        gate = tm.gate(stored, success_when=when, output=str(tmp_path / f"gate_{when}"), **words)
        verdicts[when] = gate.verdicts[0].candidate
    assert verdicts == {None: 0, "end": 0, "once": 1}


def test_earlier_episodes_count_by_the_same_success_alone(policy, tmp_path):
    """A gate with ``success_when`` beside an earlier evaluation ended with KeyError: 'success_once'."""
    evaluated(policy, LOST, seeds=30)
    given = {"env_config": {"says": [LOST]}, "at_least": 0.5, "clips": 0, **FUNCTIONS}
    passed = tm.gate(policy, success_when="once", output=str(tmp_path / "gate"), **given | {"at_least": 5})
    history = json.loads((tmp_path / "gate" / "gate.json").read_text())["request"]["history"]
    assert passed.verdict == "pass" and [known["candidate"]["episodes"] for known in history.values()] == [30]
    given |= {"metric": "success", "plan": True}
    (at_end,), (once,) = (tm.gate(policy, success_when=when, **given).plan for when in (None, "once"))
    assert [(plan.episodes, plan.mean) for plan in (at_end, once)] == [(30, 0), (10, 1)]


def test_a_function_has_no_time(policy):
    for play in (lambda _, source, **given: tm.evaluate(source, **given), tm.gate):
        with pytest.raises(ValueError, match=r"success_when=.*leave it out"):
            play(policy, policy, success=lambda episode: True, success_when="once", **FUNCTIONS)


def test_episodes_of_earlier_releases_lack_the_columns_and_are_read(policy):
    evaluation = evaluated(policy, LOST)
    (file,) = Path(evaluation.path).rglob("data-*.parquet")
    table = pq.read_table(file)
    pq.write_table(table.drop(BOTH[1:]), file)
    catalog = tm.load(evaluation.path)
    episodes = catalog.episodes()
    assert episodes["success"].tolist() == [False] * 12
    assert episodes[BOTH[1:]].isna().all(axis=None)
    (line,) = evaluated(policy, LOST).checkpoints
    assert line.success_rate == 0
    assert math.isnan(line.success_once_rate)
    again = tm.gate(evaluation.path, metric="success", at_least=0.5, clips=0, output=f"{policy.parent}/gate")
    assert again.verdict == "worse"
    once = {"metric": "success", "at_least": 0.5, "clips": 0, "success_when": "once"}
    unknown = tm.gate(evaluation.path, output=f"{policy.parent}/once", **once)
    assert unknown.exit_code == 2
    assert "it has no success_once" in unknown.verdicts[0].error
