"""Curves of tables of scalars: CSV files, lines of JSON, and TorchRL's files."""

import csv
import json

import pytest

from tests.support.foreign_run import curves_in, run_in


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_table(path, rows, delimiter=","):
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)


def test_lines_of_dreamerv3(tmp_path):
    """Its logger writes all numbers to one file, and the scores to another one as well."""
    rows = [{"step": 10 * n, "train/loss/dyn": 1.0, **({"episode/score": float(n)} if n % 2 else {})} for n in range(6)]
    write_lines(tmp_path / "metrics.jsonl", rows)
    write_lines(tmp_path / "scores.jsonl", [{"step": 10 * n, "episode/score": float(n)} for n in (1, 3, 5)])
    curves = curves_in(tmp_path)
    returns = curves["episode_return_mean"]
    assert (returns.tag, returns.unit, returns.steps) == ("episode/score", "env steps", [10, 30, 50])
    assert returns.values == [1, 2, 3]
    assert curves["episode/score"].values == [1, 3, 5]
    assert curves["train/loss/dyn"].steps == [0, 10, 20, 30, 40, 50]
    assert curves.keys() == {"episode_return_mean", "episode/score", "train/loss/dyn"}


def test_nested_lines_and_what_is_no_number(tmp_path):
    write_lines(
        tmp_path / "metrics.jsonl", [{"step": 1, "eval": {"mean_episode_return": 2.5, "ok": True}, "name": "a"}]
    )
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('[1]\n\n{"step": 2, "eval": {"mean_episode_return": NaN}}\n{"step": 3, "eval": {"mean_epi')
    curves = curves_in(tmp_path)
    assert curves.keys() == {"evaluation/episode_return_mean"}
    assert curves["evaluation/episode_return_mean"].steps == [1, 2]


@pytest.mark.parametrize(
    ("step", "value", "unit"),
    [
        ("time/total_timesteps", "rollout/ep_rew_mean", "env steps"),
        ("misc/total_timesteps", "eprewmean", "env steps"),
        ("TotalEnvSteps", "Evaluation/AverageReturn", "env steps"),
        ("iteration", "rollout/ep_rew_mean", "iterations"),
        ("step", "mean_episode_return", "steps"),
    ],
)
def test_a_table_says_in_which_unit_its_steps_count(tmp_path, step, value, unit):
    write_table(tmp_path / "progress.csv", [{step: 5 * n, value: n, "loss": "", "note": "text"} for n in (1, 2)])
    curves = curves_in(tmp_path)
    assert curves.keys() == {"episode_return_mean"}
    curve = curves["episode_return_mean"]
    assert (curve.tag, curve.unit, curve.steps, curve.values) == (value, unit, [5, 10], [1, 2])


def test_a_table_with_tabs_as_spinning_up_writes_it(tmp_path):
    rows = [{"Epoch": n, "AverageEpRet": 2.0 * n, "AverageTestEpRet": n, "TotalEnvInteracts": 100 * n} for n in (1, 2)]
    write_table(tmp_path / "progress.txt", rows, "\t")
    curves = curves_in(tmp_path)
    assert curves["episode_return_mean"].steps == [100, 200]
    assert curves["episode_return_mean"].unit == "env steps"
    assert curves["evaluation/episode_return_mean"].values == [1, 2]


def test_a_table_without_a_known_column_is_named_with_the_remedy(tmp_path):
    write_table(tmp_path / "progress.csv", [{"tick": 1, "my_reward": 2.0}])
    sentences = [sentence.with_options({"columns": "--columns"}) for sentence in run_in(tmp_path).not_understood]
    assert sentences == [
        "progress.csv: no column for a step (tick, my_reward); name it in --columns, as in step=NAME.",
        "progress.csv: no column for a return (my_reward); name it in --columns, as in return=NAME.",
    ]
    run = run_in(tmp_path, {"step": "tick", "return": "my_reward"})
    assert not run.not_understood
    assert run.columns == {"tick", "my_reward"}
    assert [(curve.name, curve.tag, curve.steps) for curve in run.curves] == [("episode_return_mean", "my_reward", [1])]


def test_a_table_without_anything_like_a_return_is_not_complained_about(tmp_path):
    write_table(tmp_path / "metrics.csv", [{"step": 1, "loss": 2.0}])
    run = run_in(tmp_path)
    assert not run.not_understood
    assert [curve.name for curve in run.curves] == ["loss"]


def test_files_like_those_of_torchrl(tmp_path):
    """Its CSVLogger makes a file for each tag, whose slashes are folders."""
    for name, content in {
        "loss.csv": "0,0.5\n10,0.25\n20,0.1",
        "eval/reward.csv": "10,7.0\n",
        "note.csv": "a,b\n",
    }.items():
        path = tmp_path / "scalars" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    curves = curves_in(tmp_path)
    assert curves["loss"].steps == [0, 10]
    assert curves["evaluation/episode_return_mean"].values == [7.0]
    assert curves.keys() == {"loss", "evaluation/episode_return_mean"}


def test_rewards_of_steps_are_named_as_no_return(tmp_path):
    (tmp_path / "scalars").mkdir()
    (tmp_path / "scalars/reward.csv").write_text("1,0.5\n")
    (sentence,) = run_in(tmp_path).not_understood
    assert sentence.startswith("scalars: no column for a return (reward); name it in ")
    assert run_in(tmp_path, {"return": "reward"}).return_from == ("reward", "steps")


def test_a_date_with_underscores_is_no_number(tmp_path):
    (tmp_path / "progress.csv").write_text("step,date,loss\n1,20240501_120000,2\n")
    assert set(curves_in(tmp_path)) == {"loss"}
