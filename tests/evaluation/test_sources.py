"""Which policies a source means: patterns at any depth, files without numbers, and paths that stay."""

import json
import os
from pathlib import Path

import pytest

import tune_media as tm
from tests.support import aim
from tests.support.own_modules import OwnModules
from tune_media.evaluation.evaluation_table import tables

pytestmark = pytest.mark.any_ray

FUNCTIONS = {"policy": aim.load_policy, "env": aim.make_env, "clips": None, "seeds": 2}


def written(path, well=0.5):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"aim": well}))
    return path


def played(found):
    return [(row.trial, row.checkpoint, row.training_iteration) for row in found.checkpoints]


def test_each_folder_that_a_pattern_matches_is_a_training_of_its_own(tmp_path):
    for run in ("a", "b"):
        for step in (1, 2):
            written(tmp_path / run / f"model_{step}.json")
        (tmp_path / run / "params.json").write_text(json.dumps({"lr": run}))
    found = tm.evaluate(str(tmp_path / "*" / "model_*.json"), checkpoint="all", **FUNCTIONS)
    assert played(found) == [(run, f"model_{step}.json", step) for run in ("a", "b") for step in (1, 2)]
    assert found.checkpoints[2].params == {"lr": "b"} and Path(found.path).parent == tmp_path / "evaluations"
    assert len(found.catalog.episodes()) == 8
    again = tm.evaluate(str(tmp_path / "*" / "model_*.json"), checkpoint="all", **FUNCTIONS)  # it finds none of ours
    assert played(again) == played(found)


def test_a_key_among_hyperparameters_is_shown_nowhere(tmp_path):
    """The table and the JSON had it, unlike list's."""
    for run in ("a", "b"):
        written(tmp_path / run / "model_1.json")
        (tmp_path / run / "params.json").write_text(json.dumps({"api_key": f"key-of-{run}"}))
    found = tm.evaluate(str(tmp_path / "*" / "model_*.json"), **FUNCTIONS)
    assert [row.params for row in found.checkpoints] == [{"api_key": "***"}] * 2
    assert "key-of" not in json.dumps(found.facts()) + tables(found)


def test_folders_that_end_alike_are_told_apart(tmp_path):
    for run in ("a", "b"):
        written(tmp_path / run / "final" / "policy.json")
    found = tm.evaluate(str(tmp_path / "*" / "final" / "policy.json"), **FUNCTIONS)
    assert played(found) == [("a_final", "policy.json", 0), ("b_final", "policy.json", 0)]
    assert set(found.catalog.episodes()["trial"]) == {"a_final", "b_final"}


def test_files_without_numbers_are_policies_of_their_own_and_another_one_is_played_anew(tmp_path):
    for name in ("good", "bad"):
        written(tmp_path / f"{name}.json", 0.9 if name == "good" else 0.1)
    first = tm.evaluate(str(tmp_path / "*.json"), **FUNCTIONS)
    assert sorted(played(first)) == [(name, name, 0) for name in ("bad.json", "good.json")]
    assert {row.trial: row.episodes for row in first.checkpoints} == {"bad.json": 2, "good.json": 2}
    written(tmp_path / "bad.json", 0.9)
    second = tm.evaluate(str(tmp_path / "*.json"), **FUNCTIONS)
    assert len({row.return_mean for row in second.checkpoints}) == 1 < len({r.return_mean for r in first.checkpoints})
    written(tmp_path / "step_5.json")
    third = tm.evaluate(str(tmp_path / "*.json"), **FUNCTIONS)
    assert [checkpoint for _, checkpoint, _ in played(third)] == ["step_5.json"]  # the others are none of its steps


@pytest.mark.parametrize(
    ("source", "given", "told"),
    [
        ("no_*.json", {}, "Nothing matches '.*no_"),
        ("*/step_*.json", {"checkpoint": 7}, r"step_.*has no checkpoint '7'; there are '5'\. The last number in the"),
        ("*/step_*.json", {"trials": "best:2"}, r"is a pattern: leave out trials=, or --trials\."),
        ("*/step_*.json", {"policy": None}, "is a pattern; pass policy= and env= if"),
        ("a/step_5.json", {"policy": None}, "is a file; pass policy= and env= if"),
    ],
)
def test_a_message_names_the_pattern(tmp_path, source, given, told):
    written(tmp_path / "a" / "step_5.json")
    with pytest.raises((FileNotFoundError, ValueError), match=told):
        tm.evaluate(str(tmp_path / source), **{**FUNCTIONS, **given})
    with pytest.raises(ValueError, match="is a pattern, and one policy is compared: name its file"):
        tm.gate(str(tmp_path / "*" / "*.json"), str(tmp_path / "a" / "step_5.json"), **FUNCTIONS | {"clips": 0})


@pytest.fixture
def moved(tmp_path, monkeypatch):
    """Policies here and others in ``other``, to which a module of the user's goes when it is imported."""
    for folder, well in ((tmp_path, 0.0), (tmp_path / "other", 1.0)):
        written(folder / "base.json", 1.0)
        written(folder / "models" / "step_1.json", well)
    monkeypatch.chdir(tmp_path)
    modules = OwnModules(tmp_path / "code", monkeypatch)
    modules.write(moves="import os\nos.chdir('other')\nfrom tests.support.aim import load_policy, make_env\n")
    yield {"policy": "moves:load_policy", "env": "moves:make_env"}
    modules.end()


def test_a_gate_compares_what_was_named_before_a_module_changed_the_folder(moved, tmp_path):
    found = tm.gate("base.json", "models/step_1.json", output="gate", margin=1.0, clips=0, **moved)
    assert (found.verdict, found.path, Path.cwd()) == ("worse", str(tmp_path / "gate"), tmp_path / "other")


@pytest.mark.parametrize("given", [{}, {"follow": True, "until_idle": 1.0}, {"checkpoint": "all"}])
def test_an_evaluation_plays_what_was_named_before_a_module_changed_the_folder(moved, tmp_path, given):
    found = tm.evaluate("models/*.json", clips=None, seeds=2, **moved, **given)
    assert Path(found.path).parent == tmp_path / "models" / "evaluations"
    right = tm.evaluate(tmp_path / "models" / "step_1.json", **FUNCTIONS)
    assert found.checkpoints[0].return_mean == right.checkpoints[0].return_mean


def test_a_fork_continues_what_was_named_before_a_module_changed_the_folder(moved, tmp_path):
    played = tm.evaluate("models/step_1.json", **FUNCTIONS)
    name = os.path.relpath(played.path, tmp_path)
    forked = tm.fork(f"{name}:best", "models/step_1.json", at=2, clips=0, **moved)
    assert forked.is_same and Path(forked.path).is_relative_to(tmp_path / "models")
