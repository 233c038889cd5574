import json
import math
import re
from functools import partial

import numpy as np
import pandas as pd
import pytest

import tune_media as tm
from tests.support.batches import episodes_of
from tests.support.commands import command
from tests.support.recorded import make_seeds, make_trial
from tests.support.stores import StoredTrial
from tests.support.viewing import write_results, write_run, write_snapshot
from tune_media.values.episodes import success_rate
from tune_media.viewing.comparison import judged, last_scores, success_rates
from tune_media.viewing.trials import configuration_table

RETURNS = {0.1: [10.0, 12.0, 11.0, 30.0], 0.2: [20.0, 21.0, 19.0, 22.0]}  # the best run has the worse configuration


@pytest.fixture
def sweep(tmp_path):
    """Two configurations of four seeds each, and a trial that failed."""
    for lr, returns in RETURNS.items():
        for seed, value in enumerate(returns):
            make_trial(tmp_path / "exp" / f"lr={lr}_{seed}", {"lr": lr, "env_config": {"env_seed": seed}}, {10: value})
    make_trial(tmp_path / "exp" / "failed", {"lr": 0.2, "env_config": {"env_seed": 9}}, {10: -1000.0})
    write_snapshot(tmp_path / "exp", failed="ERROR")
    return tmp_path / "exp"


def test_configurations_are_ranked_by_the_mean_over_their_seeds(sweep):
    catalog = tm.load(sweep)
    assert catalog.best()["trial"] == catalog.winner.name == "lr=0.2_0"  # nearest to its mean; a lucky run is no winner
    assert catalog.verdict.sentence == "Best so far: lr 0.2. Another one may be as good."
    assert "The highest single run is one of #2, lr 0.1, with 30; their mean is 15.75." in catalog.verdict.why[1]
    table = catalog.compare()
    assert list(table["config/lr"]) == [0.2, 0.1]
    assert list(table["n"]) == [4, 4]
    assert list(table["mean"]) == [20.5, 15.75]
    assert list(table["iqm"]) == [20.5, 11.5]
    assert (table["low"] <= table["mean"]).all() and (table["mean"] <= table["high"]).all()
    assert table["behind"][1] == 4.75
    assert list(table["not_clearly_worse"]) == [False, True]
    assert table["left_out"][0] == ["failed"]
    assert catalog.compare(mode="min")["config/lr"][0] == 0.1


def run_without_params(folder, episode_return):
    """Write a run of which nobody knows hyperparameters, with one clip."""
    make_trial(folder, {}, {10: episode_return})
    for name in ("params.json", "result.json"):
        (folder / name).unlink()
    (folder / "media" / "index.jsonl").write_text(
        (folder / "media" / "index.jsonl").read_text().replace(f"id_{folder.name}", folder.name)
    )


def test_runs_without_hyperparameters_are_one_configuration_only_if_their_names_say_so(tmp_path):
    for name, value in {"PPO_1": 1.0, "SAC_1": 5.0, "PPO_2": 3.0, "SAC_2": 5.5, "TD3": 2.0}.items():
        run_without_params(tmp_path / "logs" / name, value)
    catalog = tm.load(tmp_path / "logs")
    table = catalog.compare()
    assert list(zip(table["name"], table["n"], table["mean"], strict=True)) == [
        ("SAC", 2, 5.25),
        ("PPO", 2, 2.0),
        ("TD3", 1, 2.0),
    ]
    assert catalog.verdict.title == "SAC"
    printed = configuration_table(catalog, always=True)
    assert [line.split()[:2] for line in printed.splitlines()[1:]] == [["SAC", "2"], ["PPO", "2"], ["TD3", "1"]]


def test_trials_that_tell_that_they_have_no_hyperparameters_are_one_configuration(tmp_path):
    for name in ("train_a", "train_b"):  # as num_samples=2 without a search space
        make_trial(tmp_path / "exp" / name, {}, {10: 1.0})
    assert [one.configuration.title for one in tm.load(tmp_path / "exp").judged] == ["all trials"]


@pytest.mark.parametrize("content", [b'{"lr": 0.2, "env_co', b"", None])
def test_a_trial_with_a_damaged_config_is_a_run_of_no_configuration(sweep, content):
    for name in ("lr=0.1_3", "lr=0.2_3"):  # the best run, and another
        path = sweep / name / "params.json"
        path.unlink()
        if content is None:
            path.mkdir()
        else:
            path.write_bytes(content)
    catalog = tm.load(sweep)
    table = catalog.compare()
    assert list(table["trials"])[2:] == [["lr=0.1_3"], ["lr=0.2_3"]]
    assert list(table["n"]) == [3, 3, 1, 1]
    titles = [f"unknown (params.json damaged) (trial {name})" for name in ("lr=0.1_3", "lr=0.2_3")]
    assert list(catalog.scores_by_configuration()) == ["lr 0.2", "lr 0.1", *titles]
    assert list(table["why"])[2:] == ["unknown_config"] * 2
    assert catalog.verdict.sentence == "Clearly the best: lr 0.2."
    assert "2 runs cannot be judged: the params.json is damaged." in catalog.verdict.why[1]
    assert catalog.winner.name == "lr=0.2_0"
    assert command("list", sweep, "--rows", "configurations").count("set apart: params.json is damaged") == 2


def one_run_each(tmp_path, returns):
    for lr, value in returns.items():
        make_trial(tmp_path / "exp" / f"lr={lr}", {"lr": lr}, {10: value})
    return tmp_path / "exp"


def test_a_failed_trial_never_wins(tmp_path):
    folder = one_run_each(tmp_path, {0.1: 5.0, 0.2: 99.0, 0.3: 7.0})
    write_snapshot(folder, **{"lr=0.2": "ERROR", "lr=0.3": "PAUSED"})
    catalog = tm.load(folder)
    assert catalog.best()["trial"] == catalog.winner.name == "lr=0.3"
    table = catalog.compare()
    assert [table["why"][2], *table["failed_ahead"].dropna()] == ["failed", 99.0]
    assert "1 run of lr 0.2 failed while ahead: its last mean training return was 99." in catalog.verdict.why[1]
    assert [trial.name for trial, *_ in catalog.best_first()] == ["lr=0.3", "lr=0.1", "lr=0.2"]
    assert catalog.verdict.sentence == "Best so far: lr 0.3. One run each is not enough to tell."
    assert catalog.verdict.why[1].endswith(" was 99. 1 run has not ended and may change it.")
    shown = command("list", folder)
    assert "Best so far: lr 0.3. One run each is not enough to tell." in shown


def test_an_interval_that_nobody_knows_stays_unknown_beside_a_rate(tmp_path):
    """The first has one run, so nobody knows how far it is from the second."""
    for lr, counts in {0.1: (40,), 0.2: (10, 10)}.items():
        for seed, count in enumerate(counts):
            folder = make_trial(tmp_path / "exp" / f"lr={lr}_{seed}", {"lr": lr, "seed": seed}, {10: 1.0})
            rate = {"evaluation": {"env_runners": {"custom_metrics": success_rate([n < count for n in range(40)])}}}
            write_results(folder, rate)
    table = tm.load(tmp_path / "exp").compare(metric="success_rate")
    assert list(table["not_clearly_worse"]) == [False, True]
    assert math.isnan(table["behind_low"][1])


def test_returns_that_are_no_numbers_are_no_scores(tmp_path):
    make_seeds(tmp_path / "exp", {0.1: [1.0, 2.0, math.nan], 0.2: [3.0, 4.0, math.inf], 0.3: [math.nan] * 3})
    catalog = tm.load(tmp_path / "exp")
    assert catalog.verdict.sentence == "Best so far: lr 0.2. Another one may be as good."
    assert list(catalog.compare()["mean"].dropna()) == [3.5, 1.5]


def test_a_run_without_episodes_takes_the_seeds_of_its_own_pairs_only(tmp_path):
    """All configurations lost theirs, if the name of the metric is that of no value of the episodes."""
    random = np.random.default_rng(0)
    for number in range(6):
        folder, returns = tmp_path / "exp" / f"trial{number}", random.normal(10 * (number // 2), 1, 8)
        write_run(folder, {"lr": number // 2, "seed": number % 2}, {"quality": returns.mean()})
        records = [tm.EpisodeRecord(f"{number}-{seed}", own, 5, seed=seed) for seed, own in enumerate(returns)]
        if number:
            with StoredTrial.in_folder(folder) as store:
                store.add(episodes_of(*records), "evaluation", "episodes/data", 10)
    catalog = tm.load(tmp_path / "exp")
    scores = last_scores(catalog.trials, "quality")
    _, seeded, without = judged(catalog.trials, catalog.statuses, scores, metric="quality")
    assert (seeded.ahead.over, seeded.ahead.seeds, seeded.ahead.remark) == ("both", 8, "")
    assert (without.ahead.over, without.ahead.remark) == ("runs", "no_seeds")


def test_trials_of_an_evaluation_are_judged_by_the_first_condition_that_one_of_them_has(tmp_path):
    folder = tmp_path / "exp" / "evaluations" / "wind"
    for lr in (1, 2):
        for wind in (0, 5):
            make_trial(folder / f"t{lr}_wind={wind}", {"lr": lr}, {10: float(lr + wind)}, frames=1)
    (folder / "evaluation.json").write_text(json.dumps({"conditions": ["wind=0", "wind=5"]}))
    catalog = tm.load(folder)
    assert catalog.verdict.sentence.startswith("Best so far: lr 2, with wind=0.")
    assert list(catalog.compare()["mean"]) == [2, 1]
    assert list(catalog.of_trials(["t1_wind=5", "t2_wind=5"]).compare()["mean"]) == [7, 6]
    assert list(tm.load(folder / "t2_wind=5").compare()["mean"]) == [7]


def test_two_equal_runs_have_no_interval_in_the_table(tmp_path):
    folder = make_seeds(tmp_path / "exp", {0.1: [0.1, 0.1], 0.2: [0.2, 0.2]})
    assert "nan" not in configuration_table(tm.load(folder))


def test_runs_of_two_kinds_are_told(tmp_path):
    runs = {0.1: [500, 490, 495, 20, 498], 0.2: [390, 400, 410, 420, 395], 0.3: [450, 455, 460, 445, 9]}
    said = tm.load(make_seeds(tmp_path / "exp", runs)).verdict.why[1]
    rest = "lies far from the others: the mean describes neither kind, and its interval may miss."
    assert said.endswith(f"1 of the 5 runs of #2 {rest}")


def test_the_grouping_and_the_metric_can_be_chosen(sweep):
    catalog = tm.load(sweep)
    assert list(catalog.compare(by="env_seed")["n"]) == [2, 2, 2, 2, 0]
    assert list(catalog.compare(by="config/env_config/env_seed")["n"]) == [2, 2, 2, 2, 0]
    assert list(catalog.compare(by=["config/lr", "env_seed"])["n"]) == [1] * 8 + [0]
    assert list(catalog.compare(["lr", "env_seed"], "training_iteration")["n"]) == [1] * 8 + [0]


def test_whole_numbers_stay_whole_if_some_configurations_have_none(tmp_path):
    for number, own in enumerate([{"layers": 2}, {"layers": 3, "size": 64}, {"layers": 4, "size": 128}]):
        make_trial(tmp_path / "exp" / f"t{number}", own, {10: float(number)})
    write_snapshot(tmp_path / "exp", t0="ERROR")
    table = tm.load(tmp_path / "exp").compare()
    assert list(table["rank"][:2]) == [1, 2] and table["rank"].isna().tolist() == [False, False, True]
    assert str(table["rank"].dtype) == str(table["config/size"].dtype) == "Int64"
    assert list(table["config/size"][:2]) == [128, 64]
    assert str(table["config/layers"].dtype) == "int64"
    rows = tm.load(tmp_path / "exp").to_pandas()
    assert rows["config/size"].tolist()[1:] == [64, 128] and rows["config/size"].isna()[0]
    listed = partial(command, "list", tmp_path / "exp", "--rows")
    for of, places in (("configurations", "128,64,"), ("trials", "128,64,")):
        lines = listed(of, "--csv").splitlines()
        at = lines[0].split(",").index("config/size")
        assert ",".join(line.split(",")[at] for line in lines[1:]) == places
        last = json.loads(listed(of, "--json").splitlines()[-1])
        assert "config/size" not in last
    assert "NA" not in listed("configurations")


def test_if_a_trial_has_copied_another_each_is_a_policy(tmp_path):
    folder, names = tmp_path / "exp", [f"t_{number:05}" for number in range(3)]
    for number, name in enumerate(names):
        write_run(folder / name, {"lr": 0.1}, {"env_runners": {"episode_return_mean": number}})
    write_snapshot(folder, **dict.fromkeys(names, "TERMINATED"))
    assert list(tm.load(folder).compare()["n"]) == [3]
    write_snapshot(folder, copied=names[1], **dict.fromkeys(names, "TERMINATED"))
    catalog = tm.load(folder)
    assert list(catalog.compare()["n"]) == [1, 1, 1]
    assert catalog.verdict.sentence == "Best so far: trial 2. One run each is not enough to tell."
    assert list(catalog.scores_by_configuration()) == ["trial 2", "trial 1", "trial 0"]


def test_scores_leave_in_the_layout_of_rliable(tmp_path):
    for number, (lr, env, seed) in enumerate((lr, env, seed) for lr in (1, 2) for env in "ab" for seed in range(3)):
        make_trial(tmp_path / "exp" / str(number), {"lr": lr, "env": env, "seed": seed}, {10: 100 * lr + number})
    scores = tm.load(tmp_path / "exp").scores_by_configuration(task="env")
    assert {name: table.shape for name, table in scores.items()} == {"lr 2": (3, 2), "lr 1": (3, 2)}
    assert sorted(map(tuple, scores["lr 1"].T.tolist())) == [(100, 101, 102), (103, 104, 105)]
    assert tm.load(tmp_path / "exp").scores_by_configuration()["env a · lr 1"].shape == (3, 1)


def test_values_that_print_alike_have_scores_of_their_own(tmp_path):
    for number, value in enumerate([1, "1", 1.0, None, "None"]):
        make_trial(tmp_path / f"t{number}", {"model": value, "lr": 0.1}, {10: float(number)})
    scores = tm.load(tmp_path).scores_by_configuration()
    assert {name: table.tolist() for name, table in scores.items()} == {
        "model 1": [[0.0]],
        "model '1'": [[1.0]],
        "model 1.0": [[2.0]],
        "model None": [[3.0]],
        "model 'None'": [[4.0]],
    }


def test_trials_that_do_not_count_are_told_though_there_are_several_tasks(tmp_path):
    for number, (lr, env, seed) in enumerate((lr, env, seed) for lr in (1, 2) for env in "ab" for seed in range(2)):
        make_trial(tmp_path / f"t{number}", {"lr": lr, "env": env, "seed": seed}, {10: float(number)})
    write_snapshot(tmp_path, t4="ERROR")
    (tmp_path / "t7" / "result.json").write_text("{}")
    table = tm.load(tmp_path).compare(task="env")
    assert (list(table["config/lr"]), list(table["n"])) == ([2, 1], [1, 2])
    assert list(table["left_out"]) == [["t4", "t7"], []]


def test_list_shows_configurations_if_there_are_several_runs(sweep, tmp_path):
    lines = configuration_table(tm.load(sweep), width=200).split("\n")
    assert [line.split()[:3] for line in lines[1:]] == [["0.2", "4", "20.5"], ["0.1", "4", "15.75"]]
    assert "not clearly worse" in lines[2]
    assert "1 left out" in lines[1]
    narrow = configuration_table(tm.load(sweep), width=60)
    assert max(map(len, narrow.split("\n"))) <= 60
    assert re.findall(r"[\d.]+ \.\. [\d.]+", narrow) == re.findall(r"[\d.]+ \.\. [\d.]+", "\n".join(lines))
    for number in range(2):
        make_trial(tmp_path / "other" / str(number), {"lr": number}, {10: 1.0})
    assert configuration_table(tm.load(tmp_path / "other")) == ""


def test_list_has_the_success_rate_of_a_configuration_as_the_page(tmp_path):
    for number in range(4):
        folder = make_trial(tmp_path / str(number), {"lr": number // 2, "seed": number % 2}, {10: 1.0 + number})
        rate = success_rate([won < 10 + number for won in range(20)]) if number > 1 else {}
        write_results(folder, {"episode_return_mean": float(number), "custom_metrics": rate})
    catalog = tm.load(tmp_path)
    head, best, other = configuration_table(catalog, width=200).split("\n")
    assert head.split()[-1] == "success"
    rate = success_rates(catalog.trials, catalog.judged)[0]
    assert rate.high <= 1
    assert f"{rate.value:.3g} [{rate.low:.3g}, {rate.high:.3g}]  best" in best
    assert "[" not in other


def test_the_frame_has_its_columns_without_trials(tmp_path):
    (tmp_path / "exp").mkdir()
    (tmp_path / "exp" / "tuner.pkl").touch()
    assert isinstance(tm.load(tmp_path / "exp").compare(), pd.DataFrame)
    assert json.dumps(list(tm.load(tmp_path / "exp").compare().columns)).startswith('["rank", "n", "mean"')
    assert np.size(tm.load(tmp_path / "exp").compare()) == 0


def test_a_success_rate_is_compared_like_any_metric(tmp_path):
    for lr, counts in {0.1: (40, 40, 40), 0.2: (39, 39, 39), 0.3: (2, 39, 20)}.items():
        for seed, count in enumerate(counts):
            folder = make_trial(tmp_path / "exp" / f"lr={lr}_{seed}", {"lr": lr, "seed": seed}, {10: 1.0})
            rate = {"evaluation": {"env_runners": {"custom_metrics": success_rate([n < count for n in range(40)])}}}
            write_results(folder, rate)
    catalog = tm.load(tmp_path / "exp")
    table = catalog.compare(metric="success_rate")
    assert list(table["mean"]) == pytest.approx([1.0, 39 / 40, 61 / 120])
    assert table["low"][0] < table["mean"][0] == table["high"][0] == 1  # three equal runs of 40 episodes each
    assert list(table["not_clearly_worse"]) == [False, True, True]
    assert list(table["why"])[1:] == ["few_equal", "close"]
    truth = tm.load(tmp_path / "exp").compare(metric="evaluation/env_runners/custom_metrics/success_rate")
    pd.testing.assert_frame_equal(table, truth)
    with pytest.raises(ValueError, match="needs 20 configurations with a score, and there are 3"):
        catalog.importance("success_rate")
