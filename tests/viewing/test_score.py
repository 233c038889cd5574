import json
import math

import pytest

import tune_media as tm
from tests.support.recorded import make_trial
from tests.support.viewing import index_lines, write_index, write_results, write_run
from tune_media.experiment.trial_folders import LogDirectory, Trials
from tune_media.values.score import Scores, known_returns
from tune_media.viewing.figure import metric_of
from tune_media.viewing.grid_choice import choose_tiles
from tune_media.viewing.pages import TrialPages
from tune_media.viewing.trials import trial_table


@pytest.fixture
def experiment(tmp_path):
    """Trial a has the luckiest clip, trial b the best evaluation, trial c the best training."""
    for name, clip, evaluation, training in (("a", 99.0, 10.0, 10.0), ("b", 50.0, 40.0, 10.0), ("c", 30.0, 20.0, 70.0)):
        folder = make_trial(tmp_path / name, {"lr": clip}, {10: clip})
        first = {"evaluation": {"env_runners": {"episode_return_mean": evaluation}}}
        write_results(folder, first, {"env_runners": {"episode_return_mean": training}})
    return tmp_path


FIRST_SCORES = """(page) => ["evaluation", "train"].map((section) =>
  tuneMedia.model.firstScore(tuneMedia.model.scoresOf(tuneMedia.model.decode(page), section)))"""


def test_table_grid_catalog_and_viewer_rank_by_the_mean_return_of_the_last_evaluation(experiment, page_code):
    catalog = tm.load(experiment)
    assert catalog.scores == Scores(
        "mean evaluation return", [10.0, 40.0, 20.0], "evaluation/env_runners/episode_return_mean"
    )
    assert catalog.best()["trial"] == "b"
    assert catalog.best("episode_return")["trial"] == "a"
    assert catalog.best(mode="min")["trial"] == "a"
    assert [line.split()[0] for line in trial_table(catalog, 200).split("\n")[1:]] == ["b", "c", "a"]
    assert [tile.row["trial"] for tile in choose_tiles(catalog)] == ["b", "c", "a"]
    page = json.loads(TrialPages(Trials([LogDirectory.of(str(experiment))]), "x").first().content)
    name = known_returns(page["metrics"]["metrics"])[0]
    assert page["metrics"]["metrics"][name] == [10.0, 40.0, 20.0]
    assert page["returns"][name] == "mean evaluation return"
    assert metric_of(catalog, None) == name
    assert page_code(FIRST_SCORES, page) == [name, name]  # whichever section is shown


def test_a_return_that_is_finite_in_no_trial_ranks_none_and_is_not_drawn(tmp_path):
    without = {"evaluation": {"env_runners": {"episode_return_mean": math.nan}}}
    write_run(tmp_path / "a", {}, {"env_runners": {"episode_return_mean": 1.0}, **without})
    catalog = tm.load(tmp_path)
    assert metric_of(catalog, None) == catalog.scores.metric == "env_runners/episode_return_mean"


def test_without_results_the_best_clip_ranks_and_evaluation_comes_before_training(experiment):
    for path in experiment.glob("*/result.json"):
        path.unlink()
    (line,) = index_lines(experiment / "a")
    train = {**line, "section": "train", "id": "t", "path": "media/train/x.mp4", "episode_return": 500.0}
    write_index(experiment / "a", [line, train])
    catalog = tm.load(experiment)
    assert catalog.scores == Scores("best return of a clip", [99.0, 50.0, 30.0])
    assert (catalog.best()["trial"], catalog.best()["episode_return"]) == ("a", 99.0)


def test_without_returns_the_best_clip_is_the_newest_of_the_winner_or_else_of_the_experiment(experiment):
    for name in "abc":
        (line,) = index_lines(experiment / name)
        del line["episode_return"]
        again = {**line, "id": "again", "step": 5, "time": line["time"] + 1}  # newer, at an earlier step
        write_index(experiment / name, [line, again])
    catalog = tm.load(experiment)
    best = catalog.best()
    assert (best["trial"], best["step"], best["episode_return"]) == ("b", 5, None)
    assert [row["step"] for _, _, row in catalog.best_first()] == [5, 5, 5]
    assert trial_table(catalog, 200).count("(the newest)") == 3
    with pytest.raises(KeyError, match="did you mean 'episode_return'"):
        best["episode_retrun"]
    write_index(experiment / "b", [])
    assert tm.load(experiment).best()["trial"] == "c"
    for name in "abc":
        (experiment / name / "result.json").unlink()
    catalog = tm.load(experiment)
    assert (catalog.best()["trial"], catalog.verdict.sentence) == ("c", "No score: nothing to compare.")
    alone = catalog.of_trials(["b"])
    assert (alone.best(), alone.verdict.sentence) == (None, "No score: nothing to compare.")


BEST = """(index) => tuneMedia.model.decode(index).trials
  .map((trial) => tuneMedia.model.bestClip(trial, "evaluation", "episodes/best").step)"""


def test_of_clips_with_the_highest_return_the_first_is_the_best_wherever_it_is_shown(tmp_path, page_code):
    make_trial(tmp_path / "a", {}, {10: 1.0, 20: 5.0, 30: 5.0, 40: 2.0})
    catalog, trials = tm.load(tmp_path), Trials([LogDirectory.of(str(tmp_path))])
    media = trials.all()[0].media
    assert [catalog.best()["step"], *(tile.row["step"] for tile in choose_tiles(catalog))] == [20, 20]
    assert page_code(BEST, json.loads(TrialPages(trials, "x").index().content)) == [20]
    assert media.step[media.shown()].tolist() == [20, 40]


def test_a_clip_that_was_rolled_back_is_the_best_only_if_there_is_no_other(tmp_path, page_code):
    folder = make_trial(tmp_path / "a", {"lr": 0}, {10: 9.0, 20: 5.0, 30: 99.0})
    make_trial(tmp_path / "b", {"lr": 1}, {10: 50.0})
    for path in tmp_path.glob("*/result.json"):
        path.unlink()

    def roll_back(*steps):
        lines = index_lines(folder)
        write_index(folder, [{**line, "undone": line["row"] + 1 if line["step"] in steps else 0} for line in lines])
        return tm.load(tmp_path)

    catalog = roll_back(30)
    assert catalog.scores.values == [9.0, 50.0]
    only = catalog.of_trials(["a"])
    assert only.best()["step"] == only.best("episode_return")["step"] == 10
    assert catalog.best()["trial"] == catalog.best("episode_return")["trial"] == "b"
    assert only.best("episode_return", mode="min")["step"] == 20
    assert [tile.row["step"] for tile in choose_tiles(catalog, trials=["a"])] == [10]
    assert [tile.row["step"] for tile in choose_tiles(catalog, trials=["a"], step="last")] == [20]
    assert [tile.row["step"] for tile in choose_tiles(catalog, trials=["a"], step=30)] == [20]
    assert [tile.row["step"] for tile in choose_tiles(catalog, over_training="a") if tile.mark] == [10]
    trials = Trials([LogDirectory.of(str(tmp_path))])
    trial = trials.all()[0]
    assert page_code(BEST, json.loads(TrialPages(trials, "x").index().content)) == [10, 10]
    assert trial.media.step[trial.media.shown()].tolist() == [10, 30]  # the best, and the last
    catalog = roll_back(10, 20, 30)
    trials.all(max_age=0)
    assert page_code(BEST, json.loads(TrialPages(trials, "x").index().content)) == [30, 10]
    assert catalog.scores.values == [99.0, 50.0]
    only = catalog.of_trials(["a"])
    assert only.best()["step"] == only.best("episode_return")["step"] == 30
    assert [tile.row["step"] for tile in choose_tiles(catalog, trials=["a"])] == [30]


RANKED = """([page, name]) => {
  const { trials } = tuneMedia.model.decode(page);
  tuneMedia.model.rank(trials, name, "train", false);
  return trials.sort((a, b) => a.rank - b.rank).map((trial) => trial.name);
}"""


def test_by_the_success_rate_the_page_ranks_runs_together_whose_returns_have_other_tags(tmp_path, page_code):
    rate = "evaluation/custom_metrics/success_rate"
    tags = ("rollout/ep_rew_mean", "rollout/ep_rew_mean", "train/return")
    for number, tag in enumerate(tags):
        (tmp_path / "abc"[number]).mkdir()
        table = f"time/total_timesteps,{tag},{rate}\n10,{number},{number / 4}\n"
        (tmp_path / "abc"[number] / "progress.csv").write_text(table)
    catalog = tm.load(tmp_path)
    page = json.loads(TrialPages(Trials([LogDirectory.of(str(tmp_path))]), "x").first().content)
    assert page["metrics"]["apart"] == {"episode_return_mean": [page["trials"][2]["id"]]}
    of_list = [trial.name for trial, *_ in catalog.best_first()]
    assert page_code(RANKED, [page, "episode_return_mean"]) == of_list == ["b", "a", "c"]
    assert [[name] for name in page_code(RANKED, [page, rate])] == catalog.compare(metric=rate)["trials"].tolist()
