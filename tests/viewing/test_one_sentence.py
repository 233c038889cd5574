"""All places say the same sentence of a sweep, on many sweeps: page, tab, gallery, list, catalog, figure."""

import json

import gymnasium as gym
import numpy as np
import pytest
from werkzeug.test import Client

import tune_media as tm
from tests.support.commands import command
from tests.support.recorded import make_trial
from tests.support.viewing import write_snapshot
from tune_media.experiment.trial_folders import LogDirectory, Trials
from tune_media.viewing.web import ViewerApp

pytestmark = pytest.mark.any_ray
WORSE, BETTER = [1.0, 2.0, 3.0, 2.0], [10.0, 11.0, 12.0, 11.0]
ONE_EACH = "One run per configuration is not enough to tell about lr."


def runs(folder, scores, iterations=(), **statuses):
    """Write trials that have these scores by lr, the last of so many iterations."""
    for lr, own in enumerate(scores):
        steps = iterations[lr] if iterations else 1
        for seed, value in enumerate(own):
            returns = {10 * step: value for step in range(1, steps + 1)}
            make_trial(folder / f"lr{lr}_{seed}", {"lr": lr, "seed": seed}, returns, frames=1)
    if statuses:
        write_snapshot(folder, **statuses)


class Known(gym.Env):
    """Its return on each seed is known; an episode succeeds if it is 1."""

    observation_space, action_space = gym.spaces.Box(-1, 1, (1,)), gym.spaces.Discrete(2)

    def __init__(self, by_seed):
        self.by_seed, self.render_mode = by_seed, None

    def reset(self, *, seed=None, options=None):
        self.value = float(self.by_seed[seed])
        return self.observation_space.low, {}

    def step(self, action):
        return self.observation_space.low, self.value, True, False, {"is_success": self.value == 1}


def loops(folder, scores):
    """Write runs of loops outside Tune, each evaluated on some seeds: arrays (runs, seeds) by lr."""
    for lr, own in enumerate(scores):
        for run, by_seed in enumerate(own):
            params = {"lr": lr, "seed": run}
            env = tm.gym.RecordEpisodes(
                Known(by_seed), folder / f"lr{lr}_{run}", params=params, name_prefix="eval", video=None
            )
            for seed in range(len(by_seed)):
                env.reset(seed=seed)
                env.step(0)
            env.close()


def policies(apart):
    seeds = np.random.default_rng(0).normal(size=(3, 1, 12))
    return seeds + np.array([0, apart, 0])[:, None, None]


def rates(share):
    random = np.random.default_rng(1)
    return [random.random((4, 20)) < one for one in share]


SWEEPS = {
    "clear": (runs, ([WORSE, BETTER],), "Clearly the best: lr 1."),
    "one run each": (runs, ([[1.0], [2.0], [3.0]],), "Best so far: lr 2. One run each is not enough to tell."),
    "equal": (runs, ([WORSE, WORSE],), "Best so far: lr 0. Another one has the same score."),
    "few equal": (
        runs,
        ([[1.0, 1.0], [5.0, 5.0]],),
        "Best so far: lr 1. Few runs or seeds, all with the same lead.",
    ),
    "one run ahead": (runs, ([WORSE, [50.0]],), "Best so far: lr 1. One run is not enough to tell."),
    "two close": (runs, ([[1.0, 2.0], [2.0, 3.0], [3.0, 4.0]],), "Best so far: lr 2. 2 others may be as good."),
    "two equal": (runs, ([[5.0], [9.0], [9.0], [9.0]],), "Best so far: lr 1. 2 others have the same score."),
    "one configuration": (runs, ([WORSE],), "One configuration: nothing to compare."),
    "one run beside": (
        runs,
        ([WORSE, BETTER, [4.0]],),
        "Clearly the best of the 2 that can be judged: lr 1. 1 cannot: one run.",
    ),
    "stopped early": (
        runs,
        ([WORSE, BETTER, BETTER], (4, 4, 1)),
        "Clearly the best of the 2 that trained to step 4: lr 1. 1 stopped earlier.",
    ),
    "policies": (loops, (policies(9),), "Clearly the best policy: lr 1, on 12 evaluation seeds. " + ONE_EACH),
    "close policies": (
        loops,
        (policies(0.01),),
        "Best so far: the policy of lr 0, on 12 evaluation seeds. 2 others may be as good. " + ONE_EACH,
    ),
    "shared seeds": (loops, (np.repeat(policies(9), 3, 1),), "Clearly the best: lr 1."),
    "successes": (loops, (rates([0.1, 0.9]),), "Clearly the best: lr 1."),
    "close successes": (loops, (rates([0.5, 0.5]),), "Best so far: lr 1. Another one may be as good."),
}


@pytest.mark.parametrize("name", SWEEPS)
def test_all_places_say_the_same_sentence(tmp_path, name):
    write, given, said = SWEEPS[name]
    folder = tmp_path / "sweep"
    write(folder, *given)
    catalog = tm.load(folder)
    assert catalog.verdict.sentence == said and len(said.removesuffix(ONE_EACH).split()) <= 18
    assert catalog.verdict.is_clear == said.startswith("Clearly")

    metric = catalog.scores.metric
    for is_tab in (False, True):
        client = Client(ViewerApp(Trials([LogDirectory.of(str(folder))]), "sweep", is_tab=is_tab))
        answer = client.get("/data/configurations.json", query_string={"metric": metric, "mode": "max"}).json
        assert answer["verdict"]["sentence"] == said
    if name == "clear":
        command("gallery", folder, "-o", tmp_path / "gallery")
        delivered = (tmp_path / "gallery" / "data" / "configurations.js").read_text()
        judged = json.loads(delivered[delivered.index("{") : delivered.rindex("}") + 1])
        assert judged[f"{metric}||max"]["verdict"] == answer["verdict"]

    shown = " ".join(command("list", folder).split())
    assert all(line in shown for line in [said, *catalog.verdict.why])
    assert ("set apart: stopped at step 1" in shown) == (name == "stopped early")
    table = catalog.compare()
    assert table["not_clearly_worse"].any() == (said.startswith("Best so far") or "cannot" in said or "earlier" in said)
    assert f" lr {table['config/lr'][0]}" in said if len(table) > 1 else "config/lr" not in table


def test_the_number_of_a_policy_is_over_its_evaluation_seeds_and_a_clear_lead_begins_above_zero(tmp_path):
    loops(tmp_path / "policies", policies(9))
    assert "], on 12 evaluation seeds. It is ahead of" in tm.load(tmp_path / "policies").verdict.why[0]
    loops(tmp_path / "rates", np.random.default_rng(0).random((2, 4, 5)) < np.array([[[0.1]], [[0.9]]]))
    catalog = tm.load(tmp_path / "rates")
    assert (catalog.verdict.is_clear, catalog.compare()["behind_low"][1]) == (True, 0)
    assert "[more than 0, " in catalog.verdict.why[0]


def test_a_configuration_that_goes_on_has_not_stopped(tmp_path):
    runs(tmp_path, [WORSE, BETTER, WORSE, BETTER], (4, 4, 1, 1), lr3_0="RUNNING")
    catalog = tm.load(tmp_path)
    said = "So far clearly the best of the 2 that trained to step 4: lr 1. 1 stopped earlier, 1 is not as far yet"
    assert catalog.verdict.sentence.startswith(said)
    assert catalog.verdict.why[1].startswith("1 run has not ended and may change it.")
    assert "set apart: so far at step 1" in command("list", tmp_path)


def test_returns_of_best_clips_are_not_compared(tmp_path):
    runs(tmp_path, [WORSE, BETTER])
    for path in tmp_path.glob("*/result.json"):
        path.unlink()
    catalog = tm.load(tmp_path)
    said = "Best so far: lr 1. Returns of best clips are not enough to tell."
    assert (catalog.verdict.sentence, catalog.verdict.is_clear) == (said, False)
    assert catalog.compare()["why"][1] == "not_comparable"
    client = Client(ViewerApp(Trials([LogDirectory.of(str(tmp_path))]), "sweep"))
    query = {"metric": "clip", "section": catalog[0]["section"], "mode": "max"}
    assert client.get("/data/configurations.json", query_string=query).json["verdict"]["sentence"] == said
