import math

import numpy as np
import pytest

import tune_media as tm
from tests.support.commands import command
from tests.support.viewing import write_trial
from tune_media.viewing.importance import FEWEST, by_importance, importances

SWEEPS = 60


def searched(rng, count):
    for _ in range(count):
        lr, gamma = 10 ** rng.uniform(-5, -2), float(rng.choice([0.9, 0.95, 0.99]))
        act, layers = str(rng.choice(["relu", "tanh"])), int(rng.integers(1, 5))
        yield {"lr": lr, "gamma": gamma, "act": act, "layers": layers, "clip": rng.uniform()}


@pytest.mark.parametrize("count", [20, 60])
def test_one_that_does_not_matter_is_said_to_matter_in_at_most_one_of_twenty_sweeps(count):
    """A best learning rate in the middle, and nothing else; benchmarks/bench_importance.py has more sweeps."""
    wrong = found = 0
    for seed in range(SWEEPS):
        rng = np.random.default_rng([seed, count])
        params = list(searched(rng, count))
        scores = [-((math.log10(own["lr"]) + 3.5) ** 2) + rng.normal(0, 0.3) for own in params]
        matters = {one.name for one in importances(params, scores) if one.matters}
        found += "lr" in matters
        wrong += bool(matters - {"lr"})
    assert wrong <= 0.05 * SWEEPS + 3  # three is chance
    assert found >= {20: 0.75, 60: 0.95}[count] * SWEEPS


def test_pure_noise_is_no_importance():
    wrong = 0
    for seed in range(SWEEPS):
        rng = np.random.default_rng(seed)
        wrong += any(one.matters for one in importances(list(searched(rng, 40)), rng.normal(size=40)))
    assert wrong <= 0.05 * SWEEPS + 3


def test_texts_truths_and_missing_values_are_groups_and_shares_are_those_of_the_model():
    rng = np.random.default_rng(1)
    params = []
    for number in range(400):  # which makes each a configuration
        act, norm = str(rng.choice(["relu", "tanh", "elu"])), bool(rng.integers(2))
        params.append({"act": act, "norm": norm, "decay": None if rng.integers(2) else 0.1, "number": number})
    parts = [3.0 * (own["act"] == "relu") + 2.0 * own["norm"] + (own["decay"] is None) for own in params]
    scores = [part + rng.normal() for part in parts]
    found = {one.name: one for one in importances(params, scores)}
    assert [name for name, one in found.items() if one.matters] == ["act", "norm", "decay"]
    parts = np.array([9 * 2 / 9, 4 / 4, 1 / 4, 1.0])
    for name, part in zip(("act", "norm", "decay"), parts[:3] / parts.sum(), strict=True):
        assert found[name].low < part < found[name].high
        assert found[name].share == pytest.approx(part, abs=0.08)


def test_two_with_the_same_order_share_and_one_with_a_text_each_has_none():
    rng = np.random.default_rng(2)
    params = [{"lr": lr, "half": -lr / 2, "name": f"run {lr}"} for lr in rng.uniform(size=30)]
    found = {one.name: one for one in importances(params, [own["lr"] for own in params])}
    assert found["lr"].share == found["half"].share > 0.9
    assert math.isnan(found["name"].share)
    assert not found["name"].matters


def test_equal_scores_and_few_configurations():
    params = [{"lr": float(number)} for number in range(FEWEST)]
    (same,) = importances(params, [1.0] * FEWEST)
    assert (same.share, same.matters) == (0.0, False)
    assert importances(params[:7], [1.0] * 7) == []


@pytest.mark.parametrize("count", [12, 30, 60])
def test_the_order_of_the_names_is_that_of_the_importances_whatever_their_number(count):
    rng = np.random.default_rng(count)
    params = [{"act": n % 2, "gamma": rng.uniform(), "lr": 10.0**-n, "a/seed": n} for n in range(count)]
    scores = [-abs(n - count / 2) for n in range(count)]
    names = ["a/seed", "act", "gamma", "lr"]
    assert by_importance(names, params, scores) == ["lr", "act", "gamma", "a/seed"]
    found = importances(params, scores)
    assert found[0].name == "lr"
    assert {one.name for one in found} == {"lr", "act", "gamma"}
    for nothing in (None, 1.0):
        assert by_importance(names, params, [nothing] * count) == ["act", "gamma", "lr", "a/seed"]


def write_sweep(folder, count=24, seeds=1):
    for number in range(count):
        for seed in range(seeds):
            params = {"lr": number / 10, "odd": number % 3, "seed": seed}
            write_trial(folder / f"t_{number}_{seed}", number, steps=(1,), **params)
    return folder


def test_the_catalog_and_the_command_say_what_matters(tmp_path):
    catalog = tm.load(write_sweep(tmp_path / "exp"))
    table = catalog.importance()
    assert table["hyperparameter"].tolist() == ["lr", "odd"]
    assert table["matters"].tolist() == [True, False]
    assert (table["low"] <= table["share"]).all()
    assert (table["share"] <= table["high"]).all()
    assert catalog.importance("episode_return_mean").equals(table)
    with pytest.raises(ValueError, match="'nothing'"):
        catalog.importance("nothing")
    told = command("list", tmp_path / "exp")
    share, low, high = (round(100 * table[name][0]) for name in ("share", "low", "high"))
    assert f"explains: lr ({share} %, {low} to {high} %); not clearly 'odd' (24 configurations)" in told


def test_runs_of_a_configuration_are_one_and_few_configurations_an_error(tmp_path):
    catalog = tm.load(write_sweep(tmp_path / "exp", count=6, seeds=4))
    with pytest.raises(ValueError, match="needs 20 configurations with a score, and there are 6"):
        catalog.importance()
    assert "explains" not in command("list", tmp_path / "exp")


def test_a_hyperparameter_that_is_constant_among_the_scored_is_left_out():
    """All trials with another one failed, say."""
    params = [{"lr": n, "opt": "adam"} for n in range(30)] + [{"lr": 30, "opt": "sgd"}]
    found = {one.name: one for one in importances(params, [*(float(n) for n in range(30)), None])}
    assert found["lr"].matters
    assert not found["opt"].matters


def test_a_number_that_no_float_holds_breaks_nothing():
    params = [{"lr": n, "huge": 10**400 + n} for n in range(30)]
    assert importances(params, [float(n) for n in range(30)])[0].name == "lr"
