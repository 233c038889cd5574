"""How deep a policy has fallen before, in its evaluations and gates, is known to its next gate."""

import json

import numpy as np
import pyarrow.fs
import pytest

import tune_media as tm
from tests.support import aim
from tune_media.evaluation.checkpoints import StoredCheckpoint
from tune_media.evaluation.earlier import lowest_before
from tune_media.evaluation.evaluated_trial import EvaluatedTrial
from tune_media.evaluation.gate import GateProgress
from tune_media.evaluation.gate_request import GateRequest
from tune_media.evaluation.measure import Measure
from tune_media.evaluation.request import Request
from tune_media.evaluation.sides import Side
from tune_media.experiment.places import Folder
from tune_media.experiment.trial_files import TrialFiles
from tune_media.storage import episode_files
from tune_media.values.episode_record import EpisodeRecord
from tune_media.values.episodes import EpisodeBatch, EpisodeData, with_progress

pytestmark = pytest.mark.any_ray  # policies of another library, played without Ray

FUNCTIONS = {"policy": aim.load_policy, "env": aim.make_env}
MISSED = 7  # the seed on which the policies fall, which the gates do not play
OTHERS = [seed for seed in range(120) if seed != MISSED]


@pytest.fixture
def policies(tmp_path):
    folder = tmp_path / "models"
    folder.mkdir()
    return [aim.saved(folder, well) for well in (1, 1.01)]


@pytest.fixture
def gate(policies, tmp_path):
    def play(output, **given):
        given = {"seeds": OTHERS, "margin": "50%", "clips": 0, "output": str(tmp_path / "gates" / output), **given}
        (verdict,) = tm.gate(*policies, **FUNCTIONS, **given).verdicts
        return verdict

    return play


def facts(verdict):
    return {key: verdict.facts()[key] for key in ("depth", "depth_from", "seeds")}


@pytest.fixture(autouse=True)
def falling(monkeypatch):
    """An episode of one seed falls deep."""
    monkeypatch.setattr(aim.Aim, "falls_at", MISSED, raising=False)
    before = aim.Aim.step

    def step(env, action):
        observation, reward, *rest = before(env, action)
        return observation, reward - 100 * (env.seed == MISSED), *rest

    monkeypatch.setattr(aim.Aim, "step", step)


def test_an_earlier_evaluation_says_how_deep_a_policy_falls(policies, gate, tmp_path):
    without = gate("without")
    assert facts(without)["depth_from"] == "assumed" and "which is assumed" in without.notes[-1]
    tm.evaluate(policies[1], seeds=[MISSED, 3], clips=None, name="earlier", **FUNCTIONS)
    known = gate("with")
    worst = known.base - 3 * (10 + 1) + 300
    assert facts(known)["depth_from"] == "history" and facts(known)["depth"] == pytest.approx(worst, rel=0.1)
    assert facts(known)["seeds"] > facts(without)["seeds"]
    assert "as the worst earlier one did" in " ".join(known.notes)
    history = json.loads((tmp_path / "gates" / "with" / "gate.json").read_text())["request"]["history"]
    episodes = {role: of_role["episodes"] for role, of_role in history[""].items()}
    assert episodes["candidate"] == episodes["base"] + 2 and episodes["base"] >= facts(without)["seeds"]


def test_an_earlier_gate_counts_also_the_one_that_is_deleted(gate):
    seen = gate("one", seeds=[MISSED, 3])
    assert seen.verdict == "undecided"
    again = gate("one", anew=True)
    assert again.standing.depth_from == "history" and again.verdict == "pass"


@pytest.mark.parametrize("change", ["bytes", "explore", "env_config", "broken"])
def test_what_others_played_does_not_count(policies, gate, tmp_path, change):
    given = {"explore": {"explore": True}, "env_config": {"env_config": {"wind": 0.1}}}.get(change, {})
    tm.evaluate(policies[1], seeds=[MISSED, 3], clips=None, name="earlier", **given, **FUNCTIONS)
    if change == "bytes":
        policies[1].write_text(json.dumps({"aim": 1.01, "note": "other bytes"}))
    if change == "broken":
        for path in (tmp_path / "models" / "evaluations").rglob("*.parquet"):
            path.write_bytes(b"nothing")
    assert gate("with").standing.depth_from == "assumed"


class Told(GateProgress):
    def __init__(self):
        self.texts = []

    def tells(self, text):
        self.texts.append(text)


def test_the_worst_that_is_given_is_the_depth_and_what_is_assumed_below_zero_is_said(policies, gate, monkeypatch):
    monkeypatch.setattr(aim, "make_env", lambda config: Below(config))
    monkeypatch.setitem(FUNCTIONS, "env", lambda config: Below(config))
    told = Told()
    assumed = gate("assumed", progress=told)
    assert assumed.base < 0 and assumed.standing.depth_from == "assumed"
    (line,) = [text for text in told.texts if "--worst" in text]
    assert line.startswith("It is assumed that no episode falls by more than")
    told = Told()
    given = gate("given", progress=told, worst=-100)
    assert given.standing.depth_from == "worst"
    assert given.standing.depth == pytest.approx(given.base + 100) and given.standing.seeds > assumed.standing.seeds
    assert not [text for text in told.texts if "--worst" in text]
    share = 100 * (1 - 0.05 ** (1 / given.standing.seeds))
    assert given.notes[-1] == (
        f"an episode that falls by more than {given.standing.depth:.5g} below the mean, as the worst one can, was not "
        f"seen in {given.standing.seeds} seeds; if it happens on fewer than {share:.2g} in 100, this PASS would not "
        "notice"
    )


class Below(aim.Aim):
    """Its returns are below zero."""

    def step(self, action):
        observation, reward, *rest = super().step(action)
        return observation, reward - 20, *rest


def test_a_worst_value_with_the_wrong_sign_is_an_error_and_one_that_was_passed_is_a_note(gate):
    wrong = gate("wrong", worst=500)
    assert wrong.verdict == "error" and wrong.error.startswith("500 cannot be the worst return: the mean is 3")
    assert wrong.notes == ()
    passed = gate("passed", worst=-10, margin="5%", seeds=[MISSED, *OTHERS[:20]])
    note = f"1 seed had a worse return than -10, which was given as the worst, such as seed {MISSED}"
    assert note in passed.notes and passed.standing.depth_from == "gate"
    for given in ({"metric": "success", "margin": "5%"}, {"bounds": (0, 50)}):
        with pytest.raises(ValueError, match="leave it out"):
            gate("refused", worst=0, **given)


def test_a_cost_rises(gate):
    cost = gate("cost", metric="length", mode="min", worst=10, margin=1)
    assert cost.verdict == "pass" and cost.facts()["depth"] == 7 and "rises by more than 7 above" in cost.notes[-1]
    bounded = gate("bounded", bounds=(-700, 50), margin=5).facts()
    assert (bounded["depth"], bounded["depth_from"], bounded["bounds"]) == (None, None, [-700, 50])


def test_two_that_did_the_same_are_said_to_have(policies, gate):
    policies[1].write_text(json.dumps({"aim": 1, "note": "other bytes"}))
    same = gate("same", seeds="10:26")
    assert same.facts()["is_same"] and np.isfinite(same.standing.low)


def test_of_a_training_the_last_evaluations_without_exploration_count(tmp_path):
    (folder := tmp_path / "PPO_0").mkdir()
    files = pyarrow.fs.LocalFileSystem()
    store = EvaluatedTrial(files, str(folder), "1")
    plays = [("evaluation", 5, False, -900), ("evaluation", 19, False, -50), ("evaluation", 20, False, -30)]
    plays += [("evaluation", 20, True, -700), ("train", 20, False, -800), ("evaluation", 21, False, -950)]
    for number, (section, iteration, explored, value) in enumerate(plays):
        record = EpisodeRecord(f"{number}", value, 3, seed=number, explored=explored)
        batch = EpisodeBatch(tuple(with_progress([EpisodeData(record)], iteration, None)))
        part = episode_files.RecorderEpisodes(section, "episodes", batch)
        store.add_episodes(part, iteration, iteration, str(number))
    trial = TrialFiles("PPO_0", files, str(folder))
    checkpoint = Rllib(files, str(folder / "checkpoint_000019"), 19, 20)
    request = GateRequest((Side("PPO_0", trial, checkpoint),), Request(), None)
    asked = {**request.request.facts(), "candidate": {"checkpoint": None}}
    place = Folder(files, str(tmp_path / "gates" / "gate"))
    for how, known in (({}, {"": {"candidate": {"episodes": 2, "worst": -50}}}), ({"explore": True}, {})):
        assert lowest_before(request, {**asked, **how}, Measure.of("return", "max", "5%", None), place) == known
    assert lowest_before(request, asked, Measure.of("return", "max", 5, (-1000, 0)), place) == {}


class Rllib(StoredCheckpoint):
    """Its folder looks like RLlib's."""

    is_rllib = True
