"""An evaluation under several conditions: they are of the env, and never configurations."""

import json
from pathlib import Path
from typing import ClassVar

import gymnasium as gym
import pytest

import tune_media as tm
from tests.support.commands import command
from tune_media.viewing.payload import configurations_payload

pytestmark = pytest.mark.any_ray


class Scaled(gym.Env):
    """The return is what the policy does, times the scale of the env, and some luck of the seed."""

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 10}
    observation_space, action_space = gym.spaces.Box(-1, 1, (1,)), gym.spaces.Discrete(3)

    def __init__(self, scale):
        self.scale = scale

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.low, {}

    def step(self, action):
        return self.observation_space.low, self.scale * float(action) + self.np_random.normal(), True, False, {}


@pytest.fixture
def sweep(tmp_path):
    for trial in range(2):
        folder = tmp_path / "runs" / f"t{trial}"
        (folder / "checkpoint_000000").mkdir(parents=True)
        config = {"lr": trial, "env_config": {"scale": 1}}
        (folder / "params.json").write_text(json.dumps(config))
        (folder / "checkpoint_000000" / "action.json").write_text(str(trial + 1))
        result = {"training_iteration": 1, "trial_id": f"ab12c_0000{trial}", "checkpoint_dir_name": "checkpoint_000000"}
        (folder / "result.json").write_text(json.dumps(result) + "\n")
    return tmp_path / "runs"


def loaded(path):
    action = int(Path(path, "action.json").read_text())
    return lambda observation: action


def scaled(config):
    return Scaled(config.get("scale", 1))


def evaluated(sweep, **env_config):
    return tm.evaluate(sweep, env=scaled, policy=loaded, env_config=env_config, seeds=20, clips=None, name="both")


def test_conditions_are_no_configurations(sweep):
    """«Clearly the best: scale 5» was said of the env's own setting."""
    found = evaluated(sweep, scale=[1, 5])
    catalog = found.catalog
    said = (
        "Clearly the best policy: lr 1 (trial 1), on 20 evaluation seeds, with scale=1. "
        "One run per configuration is not enough to tell about lr."
    )
    assert catalog.verdict.sentence == said
    table = catalog.compare()
    assert list(table["config/lr"]) == [1, 0] and "config/env_config/scale" not in table
    assert list(table["trials"]) == [["t1_scale=1"], ["t0_scale=1"]]
    assert table["behind"][1] == pytest.approx(found.best.return_mean - found.checkpoints[0].return_mean)
    assert said in " ".join(command("list", found.path).split())
    metric = "evaluation/env_runners/episode_return_mean"
    payload = configurations_payload(catalog.trials, catalog.statuses, metric)
    assert payload["verdict"]["sentence"] == said
    assert evaluated(sweep, scale=0.5).catalog.verdict.sentence == said  # a later one is not the first


def test_the_env_of_the_training_is_the_first_condition(sweep):
    evaluated(sweep, scale=5)
    assert evaluated(sweep).catalog.verdict.sentence.startswith(
        "Clearly the best policy: lr 1 (trial 1), on 20 evaluation seeds, in the env of the training."
    )


def test_the_command_ends_with_the_sentence_of_list_and_calls_its_lines_policies(sweep):
    functions = ("--policy", f"{__name__}:loaded", "--env", f"{__name__}:scaled")
    shown = " ".join(command("evaluate", sweep, "--seeds", "0:20", "--no-clips", *functions).split())
    said = tm.load(next((sweep / "evaluations").iterdir())).verdict.sentence
    assert said.startswith("Clearly the best policy: lr 1 (trial 1), on 20 evaluation seeds. One run per")
    assert f"{said} See the episodes:" in shown
    assert "The best policy is t1 (checkpoint_000000)" in shown
