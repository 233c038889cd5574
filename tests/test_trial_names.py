from types import SimpleNamespace

import pytest

import tune_media as tm
from tests.support.experiment import fit


def named(trial_id="9eb5f_00003", **params):
    return tm.short_trial_names(SimpleNamespace(trial_id=trial_id, evaluated_params=params))


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"lr": 0.00012345, "gamma": 0.98}, "gamma=0.98_lr=0.0001234_3"),
        ({"a/lr": 1, "b/lr": 2}, "a.lr=1_b.lr=2_3"),
        ({"env/size": (2, 3)}, "size=_2__3__3"),
        ({}, "trial_3"),
    ],
)
def test_a_trial_is_named_after_its_own_hyperparameters(params, name):
    assert named(**params) == name


def test_names_stay_short_and_apart():
    long = [named(layers=[512] * 200 + [last]) for last in (1, 2)]
    assert max(map(len, long)) < 110
    assert len(set(long)) == 2
    assert named("abc123", lr=1) == "lr=1_abc123"


@pytest.mark.ray
def test_tune_gives_the_folders_these_names(ray_session, tmp_path):
    from ray import tune

    space, names = {"lr": tune.grid_search([0.1, 0.2]), "seed": 3}, {"trial_dirname_creator": tm.short_trial_names}
    results = fit(lambda config: tune.report({"score": config["lr"]}), tmp_path, [], space=space, tune_config=names)
    assert {result.path.rpartition("/")[2] for result in results} == {"lr=0.1_0", "lr=0.2_1"}


def test_an_object_that_tune_has_not_put_in_yet_is_named_by_its_id():
    assert named(f=("__ref_ph", "1b3f24bb")) == "f=1b3f24bb_3"
