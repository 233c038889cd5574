"""A gate of files of results."""

import json

import numpy as np
import pytest

import tune_media as tm
from tests.support.commands import command
from tune_media.evaluation.file_gate import compared, file_sides
from tune_media.evaluation.measure import Measure
from tune_media.evaluation.sequential import WORSE


def write(path, returns, first=0, **more):
    rows = [{"seed": first + seed, "return": float(value), **more} for seed, value in enumerate(returns)]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(
    ("base", "candidate", "verdict", "code"),
    [
        (10.0, 10.1, "PASS", 0),
        (10.0, 5.0, "WORSE", 1),
        (np.linspace(0, 20, 30), np.linspace(20, 0, 30), "UNDECIDED", 3),
    ],
)
def test_two_files_are_judged_by_all_seeds_that_both_have(tmp_path, base, candidate, verdict, code):
    write(tmp_path / "base.jsonl", np.broadcast_to(base, len(np.atleast_1d(base)) if np.ndim(base) else 100))
    write(tmp_path / "mine.jsonl", np.broadcast_to(candidate, len(np.atleast_1d(candidate)) if np.ndim(base) else 120))
    told = command("gate", tmp_path / "base.jsonl", tmp_path / "mine.jsonl", code=code)
    assert told.startswith(verdict)
    gate = tm.gate(tmp_path / "base.jsonl", tmp_path / "mine.jsonl")
    assert (gate.verdict, gate.exit_code, gate.page) == (verdict.lower(), code, None)
    (one,) = gate.verdicts
    assert one.standing.seeds == (30 if np.ndim(base) else 100)  # one look, at all of them
    if not np.ndim(base):
        assert one.notes[0] == "20 starts of one side alone, or that you did not ask for, do not count"


def test_a_policy_of_a_file_with_several_is_named_and_may_have_a_floor(tmp_path):
    write(tmp_path / "a.jsonl", [1.0] * 50, policy="one")
    content = (tmp_path / "a.jsonl").read_text()
    write(tmp_path / "a.jsonl", [2.0] * 50, policy="two")
    (tmp_path / "both.jsonl").write_text(content + "\n" + (tmp_path / "a.jsonl").read_text())
    both = tmp_path / "both.jsonl"
    assert tm.gate(f"{both}:two", f"{both}:one").verdict == "worse"
    assert tm.gate(f"{both}:two", at_least=1.5).verdict == "pass"
    with pytest.raises(ValueError, match=r"has 2 policies \(one, two\): name one, such as both.jsonl:one"):
        tm.gate(both, f"{both}:one")
    with pytest.raises(ValueError, match="the same episodes, which pass whatever they are"):
        tm.gate(f"{both}:one", f"{both}:one")
    with pytest.raises(ValueError, match="did you mean 'two'"):
        tm.gate(f"{both}:twoo", f"{both}:one")


@pytest.mark.usefixtures("in_this_process")
def test_what_cannot_be_compared_is_an_error(tmp_path):
    push = write(tmp_path / "push.jsonl", [1.0] * 30, env="PushT-v0")
    aloha = write(tmp_path / "aloha.jsonl", [1.0] * 30, env="Aloha-v0")
    later = write(tmp_path / "later.jsonl", [1.0] * 30, first=100)
    assert "not comparable: the base was played with env=PushT-v0, the candidate with Aloha-v0." in command(
        "gate", push, aloha, code=2
    )
    assert "not comparable: the sides have no start in common." in command("gate", push, later, code=2)
    with pytest.raises(ValueError, match=r"gate\(workers=...\) takes nothing if a side is a file of results"):
        tm.gate(push, later, workers=2)
    with pytest.raises(ValueError, match="pass two such files, or two checkpoints"):
        tm.gate(push, tmp_path)
    with pytest.raises(ValueError, match="has no success, but return; pass another metric="):
        tm.gate(push, later, metric="success", seeds="0:30")


def test_files_without_seeds_are_compared_in_their_order_and_a_note_says_so(tmp_path):
    for name, value in {"a.csv": 3, "b.csv": 1}.items():
        (tmp_path / name).write_text("return\n" + f"{value}\n" * 40)
    (verdict,) = tm.gate(tmp_path / "a.csv", tmp_path / "b.csv").verdicts
    assert verdict.verdict == "worse"
    assert "a.csv names no seeds and no starts: its episodes are compared in their order" in verdict.notes


def test_a_verdict_is_a_table_for_a_pull_request(tmp_path):
    write(tmp_path / "a.jsonl", [4.0] * 100), write(tmp_path / "b.jsonl", [4.0] * 100)
    lines = command("gate", "--markdown", tmp_path / "a.jsonl", tmp_path / "b.jsonl").splitlines()
    assert lines[0].startswith("**PASS**: return of ")
    assert lines[2:4] == [
        "| verdict | base | candidate | difference | margin | seeds |",
        "| :-- | --: | --: | --: | --: | --: |",
    ]
    assert lines[4].startswith("| PASS | 4 | 4 | 0 [")


def test_policies_worse_by_just_the_margin_seldom_pass_and_equal_ones_are_seldom_worse(tmp_path):
    random, measure, wrong = np.random.default_rng(3), Measure.of("return", "max", 1.0, None), 0
    base, candidate = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    for _ in range(100):
        hardness = random.normal(50, 5, 60)
        write(base, hardness + random.normal(0, 1, 60))
        write(candidate, hardness + random.normal(0, 1, 60))
        pairs = compared(file_sides([base, candidate], None, None, None), measure, None, 0.95)
        wrong += pairs.standings[False].verdict == WORSE
    assert wrong <= 10  # of 100 at 5 %: more in one of a hundred tests
