"""Runs of other tools are compared if they can be: real files of Stable-Baselines3 and of Isaac Lab's rsl_rl."""

import math
import shutil
from pathlib import Path

import pytest

import tune_media as tm
from tests.support.browser import opened
from tests.support.commands import command
from tune_media.callbacks.finished_trial import FinishedTrial
from tune_media.experiment.params import title_of_choice
from tune_media.viewing.curves import Curves
from tune_media.viewing.figure import write_figure

DATA = Path(__file__).parents[1] / "data" / "foreign"
ISAACS = DATA / "isaac_lab" / "logs" / "rsl_rl" / "toy_flat" / "2026-11-29_14-00-00"
RETURN = "episode_return_mean"


@pytest.fixture
def logs(tmp_path):
    """Three seeds of PPO and a run of SAC; a copy stands for the third seed."""
    shutil.copytree(DATA / "sb3_tensorboard", tmp_path / "logs")
    shutil.copytree(tmp_path / "logs" / "PPO_1", tmp_path / "logs" / "PPO_3")
    return tmp_path / "logs"


@pytest.fixture
def mixed(logs):
    """Beside them a run whose return has another tag, and counts in iterations; no file tells its hyperparameters."""
    (logs / "toy").mkdir()
    (events,) = ISAACS.glob("events*")
    shutil.copy(events, logs / "toy")
    return logs


def test_runs_with_the_names_that_sb3_gives_are_one_configuration_each(logs):
    table = tm.load(logs).compare()
    assert list(zip(table["name"], table["n"], strict=True)) == [("PPO", 3), ("SAC_1", 1)]


def test_a_run_whose_hyperparameters_are_known_is_not_called_all_trials_beside_others(logs):
    (logs / "SAC_1" / "config.yaml").write_text("gamma: 0.9")
    titles = [entry.configuration.title for entry in tm.load(logs).judged]
    assert sorted(titles) == ["PPO", "runs with hyperparameters"]


def test_runs_without_hyperparameters_have_the_name_of_their_configuration_in_a_tracker(logs):
    runs = [FinishedTrial.of(trial).info for trial in tm.load(logs).trials]
    assert [title_of_choice(run.searched) for run in runs] == ["PPO", "PPO", "PPO", "SAC"]


def test_a_figure_of_three_seeds_of_sb3_is_a_papers_curve(logs):
    path = logs / "curves.pdf"
    figure = write_figure(tm.load(logs), path)
    ppo = figure.configurations[0]
    assert (ppo.configuration.title, len(ppo.runs), ppo.step) == ("PPO", 3, 320.0)
    assert ppo.mean.low < ppo.mean.value < ppo.mean.high
    assert figure.shown.startswith("Mean over 1 to 3 runs, with its 95 % interval, of 2 configurations in ")
    assert path.read_bytes().startswith(b"%PDF")


def test_returns_of_different_tags_are_not_judged_together_and_a_line_says_why(mixed):
    catalog = tm.load(mixed)
    table = catalog.compare()
    assert dict(zip(table["name"], table["why"], strict=True))["toy"] == "other_return"
    assert math.isnan(table["behind"][list(table["name"]).index("toy")])
    why = "1 cannot be compared: its return is Train/mean_reward over iterations."
    assert why in catalog.verdict.sentence
    told = command("list", mixed)
    assert why in told and "set apart: another return" in told


def test_a_run_with_another_return_stands_behind_the_others_in_the_table_of_trials(mixed):
    catalog = tm.load(mixed)
    scores = {trial.name: score for trial, score, _ in catalog.best_first()}
    assert scores["toy"] > min(scores.values())  # so that its number alone would not make it the last one
    assert list(scores)[-1] == "toy"
    rows = command("list", mixed).rpartition("\ntrial ")[2].splitlines()
    assert [row.split()[0] for row in rows[1:6]] == list(scores)


def test_importance_by_another_metric_counts_runs_with_any_return(tmp_path):
    """It left out a third of them, whatever the metric was."""
    for number in range(24):
        folder, tag = tmp_path / f"run_{number}", "rollout/ep_rew_mean" if number % 3 else "AverageEpRet"
        folder.mkdir()
        (folder / "progress.csv").write_text(f"step,{tag},loss\n1,{number},{number}\n2,{number},{number}\n")
        (folder / "config.yaml").write_text(f"lr: {number / 10}")
    catalog = tm.load(tmp_path)
    assert catalog.importance("loss")["matters"].tolist() == [True]
    with pytest.raises(ValueError, match="needs 20 configurations with a score, and there are 16"):
        catalog.importance(RETURN)


def test_curves_of_different_units_are_drawn_apart(mixed):
    catalog = tm.load(mixed)
    figure = write_figure(catalog, mixed / "curves.svg")
    assert figure.lacking[0] == (
        "Drawn apart, and not compared: rollout/ep_rew_mean over env steps, and Train/mean_reward over iterations."
    )
    drawn = (mixed / "curves.svg").read_text()
    assert "<!-- env steps -->" in drawn and "<!-- iterations -->" in drawn  # at the axes
    curves = Curves().of(catalog.trials, RETURN)
    units = dict(zip((trial.name for trial in catalog.trials), curves["unit"], strict=True))
    assert units == {"PPO_1": "env steps", "PPO_2": "env steps", "PPO_3": "env steps", "SAC_1": "env steps",
                     "toy": "iterations"}  # fmt: skip


@pytest.mark.slow
def test_the_page_has_a_chart_for_each_and_titles_of_runs_without_hyperparameters(browser, mixed, tmp_path):
    with opened(browser, mixed, tmp_path, host="watch") as viewer:
        viewer.wait("document.querySelectorAll('.curves .u-over').length === 2")
        assert viewer.all(".curves h2") == [
            "mean return (rollout/ep_rew_mean over env steps)",  # of the winner, which comes first
            "mean return (Train/mean_reward over iterations)",
        ]
        assert [row.removeprefix("★ ").strip() for row in viewer.all("ol .name")] == ["PPO", "SAC_1", "toy"]
        ranks = viewer.frame.evaluate("tuneMedia.app.instance.data.trials.map((trial) => [trial.name, trial.rank])")
        assert dict(ranks)["toy"] == 5


def test_two_runs_whose_returns_differ_in_their_tags_are_not_comparable(mixed):
    for name in ("PPO_2", "PPO_3", "SAC_1"):
        shutil.rmtree(mixed / name)
    assert tm.load(mixed).verdict.sentence == (
        "Not comparable: the mean return of PPO_1 is rollout/ep_rew_mean over env steps, and that of others "
        "Train/mean_reward over iterations."
    )


@pytest.mark.parametrize("form", ["lerobot_eval", "lerobot_eval_old"])
def test_lerobots_own_files_are_judged(form):
    files = sorted((DATA / form).rglob("eval_info.json"))
    catalog = tm.load(files)
    assert [trial.name for trial in catalog.trials] == ["14-00-00_toy_act", "14-30-00_toy_act"]
    assert catalog.compare()["rank"].tolist() == [1, 2]
    assert "policy" in catalog.verdict.sentence and "evaluation seeds" in catalog.verdict.sentence
    assert {row["trial"] for row in catalog} == {"14-00-00_toy_act", "14-30-00_toy_act"}  # with their clips
    gate = tm.gate(*files, metric="success")
    assert gate.verdict in ("undecided", "pass")
