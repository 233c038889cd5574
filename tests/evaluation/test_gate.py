"""A gate over policies of another library, played in this process: verdicts, what is stored, and what goes wrong."""

import importlib
import importlib.metadata
import json
import shlex
import shutil
import sys
from pathlib import Path
from xml.etree import ElementTree

import gymnasium as gym
import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from packaging.requirements import Requirement

import tune_media as tm
from tests.support import aim
from tests.support.commands import split_runner
from tests.support.experiment import media_files
from tests.support.recorded import make_trial
from tune_media.cli import main
from tune_media.cli.progress import ShownGate
from tune_media.evaluation.decisive import decisive_seeds
from tune_media.evaluation.gate import GateProgress, sentence
from tune_media.evaluation.request import in_order
from tune_media.evaluation.sequential import Standing
from tune_media.evaluation.sides import Side, check_same_env

pytestmark = pytest.mark.any_ray  # policies of another library, played without Ray

FUNCTIONS = {"policy": aim.load_policy, "env": aim.make_env}
COMMAND = ["--policy", f"{aim.__name__}:load_policy", "--env", f"{aim.__name__}:make_env", "--clips", "0"]


@pytest.fixture
def policies(tmp_path):
    """Policies by how well they aim, in files."""
    return {well: aim.saved(tmp_path, well) for well in (0, 1, 0.9)}


def returns(folder, role):
    episodes = tm.load(folder).episodes()
    own = episodes[episodes["trial"] == role]
    assert own["seed"].is_unique
    return own.set_index("seed")["episode_return"].sort_index()


def test_a_worse_policy_is_stopped_and_the_seeds_that_it_lost_are_named(policies, tmp_path):
    found = tm.gate(policies[1], policies[0], seeds="0:200", output=str(tmp_path / "gate"), clips=3, **FUNCTIONS)
    (verdict,) = found.verdicts
    stand = verdict.standing
    assert (found.verdict, found.exit_code, found.passed) == ("worse", 1, False)
    with pytest.raises(TypeError, match=r"neither true nor false: read Gate\.passed"):
        bool(found)
    assert stand.seeds < 200 and stand.high < -stand.margin
    played = list(in_order(range(200))[: stand.seeds])
    ours, theirs = (returns(found.path, role)[played] for role in ("base", "candidate"))
    assert json.loads((tmp_path / "gate" / "gate.json").read_text())["request"]["seeds"] == list(range(200))
    assert stand.difference == pytest.approx((theirs - ours).mean())
    assert stand.margin == pytest.approx(0.05 * ours.mean())
    assert set(verdict.lost) == set((ours - theirs)[ours - theirs > stand.margin].index)
    clips = [row for row in tm.load(found.path) if row["kind"] == "video"]
    assert sorted((row["trial"], row["seed"]) for row in clips) == sorted(
        (role, seed) for role in ("base", "candidate") for seed in verdict.lost[:3]
    )
    assert len(media_files(found.path)) == 6


def test_an_undecided_gate_is_decided_with_more_seeds(policies, tmp_path):
    given = {"output": str(tmp_path / "gate"), "clips": 0, **FUNCTIONS}
    few = tm.gate(policies[1], policies[0.9], seeds="0:20", **given)
    assert (few.verdict, few.exit_code) == ("undecided", 3)
    needed = few.facts()["conditions"][0]
    assert 20 < needed["seeds_for_equal"] < 100
    assert f"In all, equal policies would need about {needed['seeds_for_equal']:.0f} seeds (90 of" in needed["sentence"]
    more = tm.gate(policies[1], policies[0.9], seeds="0:200", anew=True, **given)
    assert more.verdict == "pass" and more.verdicts[0].standing.seeds > 20
    assert more.facts()["conditions"][0]["seeds_for_equal"] is None
    assert json.loads((tmp_path / "gate" / "gate.json").read_text())["verdict"] == "pass"
    results = (tmp_path / "gate" / "base" / "result.json").read_text().splitlines()
    assert [json.loads(line)["seeds"] for line in results] == [len(returns(more.path, "base"))]


@pytest.mark.parametrize("name", ["stochastic", "anew", "allow_same", "plan"])
def test_a_text_is_no_flag(policies, name):
    """``allow_same="false"`` let a checkpoint pass against itself."""
    with pytest.raises(TypeError, match=rf"gate\({name}=...\) takes True or False, got 'false'"):
        tm.gate(policies[1], policies[1], **{name: "false"}, **FUNCTIONS)
    if name in ("stochastic", "anew"):
        with pytest.raises(TypeError, match=rf"evaluate\({name}=...\) takes True or False"):
            tm.evaluate(policies[1], **{name: "false"}, **FUNCTIONS)


@pytest.mark.parametrize(
    ("config", "given", "told"),
    [
        ({"breaks_at": 42}, {}, "the candidate cannot be played: seed 42: RuntimeError: the motor is hot"),
        ({"nan_at": 42}, {}, "the return of seed 42 is nan"),
        ({"nan_at": 42}, {"seeds": [42]}, "the return of seed 42 is nan"),  # no return of the candidate is a number
        ({"tells": False}, {"metric": "success"}, "nobody knows whether the episode of seed 93 succeeded"),
        ({}, {"metric": "retrun"}, "the episodes have no metric 'retrun'; did you mean 'return'?"),
        ({}, {"bounds": (0, 30)}, "outside the bounds"),
    ],
)
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_what_goes_wrong_is_an_error_and_never_a_pass(policies, tmp_path, config, given, told):
    values = {key: [value] for key, value in config.items()}
    found = tm.gate(
        policies[1], policies[0], env_config=values, output=str(tmp_path / "gate"), clips=1, **given, **FUNCTIONS
    )
    assert (found.verdict, found.exit_code) == ("error", 2)
    assert told in found.verdicts[0].error
    (error,) = ElementTree.fromstring(found.junit()).iter("error")
    assert told in error.text


@pytest.mark.parametrize(
    ("place", "code"), [("load", 0), ("policy", "a text"), ("make", 0), ("reset", "a text"), ("step", 0)]
)
def test_sys_exit_in_the_users_code_is_an_error_and_no_end_of_the_caller(policies, tmp_path, place, code):
    def at(here, value=None):
        if here == place:
            sys.exit(code)
        return value

    class Exits(aim.Aim):
        def reset(self, **given):
            return at("reset", super().reset(**given))

        def step(self, action):
            return at("step", super().step(action))

    def load(path):
        policy = at("load", aim.load_policy(path))
        return lambda observation: at("policy", policy(observation))

    def make(config):
        return at("make", Exits(config))

    found = tm.gate(policies[1], policies[0], policy=load, env=make, output=str(tmp_path / "gate"), clips=0)
    assert (found.verdict, found.exit_code) == ("error", 2)
    assert f"called sys.exit({code!r})" in found.verdicts[0].error


def edited_env(folder, monkeypatch, bonus):
    """Return what makes an env of a module that is edited so."""
    module = folder / "edited_env.py"
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    module.write_text(EDITED.format(bonus=bonus))
    monkeypatch.delitem(sys.modules, module.stem, raising=False)
    importlib.invalidate_caches()
    return importlib.import_module(module.stem).make


EDITED = """
from tests.support import aim


class Edited(aim.Aim):
    def step(self, action):
        observation, reward, *others = super().step(action)
        return observation, reward + {bonus}, *others


def make(config):
    return Edited(config)
"""


def test_a_folder_with_files_and_no_gate_is_left_alone(policies, tmp_path):
    output = tmp_path / "sweep"
    given = {"output": str(output), "seeds": "0:3", "clips": 0, **FUNCTIONS}
    data = output / "base" / "episode_data" / "data-00000001.json"
    data.parent.mkdir(parents=True)
    data.write_text("of another run")
    with pytest.raises(ValueError, match=r"has files of no gate \('base'\); pass another folder: output="):
        tm.gate(policies[1], policies[0], **given)
    assert data.read_text() == "of another run"
    shutil.rmtree(output / "base")
    (output / "gate.json.0123abcd.partial").touch()  # of a gate that was killed at once
    assert tm.gate(policies[1], policies[0], **given).verdict == "undecided"


def test_a_policy_alone_is_asked_for_a_floor(policies, tmp_path):
    given = {"output": str(tmp_path / "floor"), "clips": 2, **FUNCTIONS}
    found = tm.gate(policies[1], at_least=30, **given)
    (verdict,) = found.verdicts
    returned = returns(found.path, "candidate")[list(in_order(range(200))[: verdict.standing.seeds])]
    assert (found.base, found.verdict, verdict.at_least) == ("", "pass", 30)
    assert verdict.candidate == pytest.approx(returned.mean())
    assert sentence(verdict, "return").startswith(f"The mean return is at least 30: {verdict.candidate:.5g} [")
    assert set(verdict.lost) == set(returned[returned < 30].index)
    assert {row["trial"] for row in tm.load(found.path)} == {"candidate"}
    with pytest.raises(ValueError, match="a base and a candidate, or one policy and at_least="):
        tm.gate(policies[1], **given)
    with pytest.raises(ValueError, match="no number of episodes could prove it"):
        tm.gate(policies[1], metric="success", at_least=1, **given)


def test_a_base_and_a_floor_give_two_verdicts_and_both_must_pass(policies, tmp_path):
    given = {"margin": "20%", "clips": 0, **FUNCTIONS}
    found = tm.gate(policies[0.9], policies[1], at_least=40, output=str(tmp_path / "a"), **given)
    assert [verdict.verdict for verdict in found.verdicts] == ["pass", "worse"]
    assert found.exit_code == 1 and "The mean return is below 40" in found.junit()
    assert found.junit().count("<testcase") == 2
    both = tm.gate(policies[0.9], policies[1], at_least=25, output=str(tmp_path / "b"), **given)
    assert [verdict.verdict for verdict in both.verdicts] == ["pass", "pass"] and both.exit_code == 0


def test_it_says_what_to_expect_and_that_both_are_the_same(policies, tmp_path, capsys):
    told = []

    class Listens(GateProgress):
        def tells(self, text):
            told.append(text)

    given = {"clips": 0, "output": str(tmp_path / "a"), "progress": Listens(), **FUNCTIONS}
    with pytest.raises(ValueError, match="one and the same checkpoint, which passes whatever it does; name another"):
        tm.gate(policies[1], policies[1], **given)
    assert not (tmp_path / "a").exists()
    found = tm.gate(policies[1], policies[1], at_least=20, seeds="0:100", allow_same=True, **given)
    assert told[0] == "A mean return of at least 20 takes 14 seeds or more."
    assert told[1] == "Equal policies would need about 73 seeds (90 of 100 gates: 73); you allow 100."
    assert "the base and the candidate are one and the same checkpoint" in found.problems


def test_each_condition_has_a_verdict_and_they_are_corrected_for_their_number(policies, tmp_path):
    given = {"margin": 3.0, "clips": 0, **FUNCTIONS}
    both = tm.gate(policies[1], policies[0], env_config={"wind": [1, 9]}, output=str(tmp_path / "both"), **given)
    calm, windy = both.verdicts
    assert (calm.condition, windy.condition) == ("wind=1", "wind=9")
    assert calm.verdict == windy.verdict == "pass"  # bold actions are worse in the wind
    assert windy.standing.difference == pytest.approx(24)
    alone = tm.gate(policies[1], policies[0], env_config={"wind": 1}, output=str(tmp_path / "alone"), **given)
    assert alone.verdicts[0].standing.seeds < calm.standing.seeds
    assert set(tm.load(both.path).episodes()["trial"]) == {
        f"{role}_wind={w}" for role in ("base", "candidate") for w in (1, 9)
    }


def test_the_file_has_what_the_page_shows_of_each_condition(policies, tmp_path):
    output = tmp_path / "gate"
    given = {"env_config": {"wind": [0, 9]}, "at_least": 20, "margin": 2.0, "clips": 2, **FUNCTIONS}
    tm.gate(policies[1], policies[0], output=str(output), **given)
    conditions = json.loads((output / "gate.json").read_text())["conditions"]
    assert [(one["trials"], one["at_least"]) for one in conditions] == [
        ({role: f"{role}_wind={wind}" for role in ("base", "candidate")}, floor)
        for wind in (0, 9)
        for floor in (None, 20)
    ]
    for one in conditions:
        scores = one["scores"]
        assert len(scores["seeds"]) == one["seeds"]
        for role, name in one["trials"].items():
            assert scores[role] == returns(output, name)[scores["seeds"]].to_list()
            if role == "candidate" or one["at_least"] is None:
                assert np.mean(scores[role]) == pytest.approx(one[role])
        both = zip(scores["base"], scores["candidate"], strict=True)
        decisive = (
            decisive_seeds(dict(sorted(zip(scores["seeds"], both, strict=True))))[:2] if one["at_least"] is None else []
        )
        assert one["decisive"] == [{"seed": seed, "differs_at": 1} for seed in decisive]  # the first action


def test_costs_are_in_the_units_of_the_metric(policies, tmp_path):
    found = tm.gate(policies[1], policies[0], mode="min", margin=1, output=str(tmp_path / "a"), clips=1, **FUNCTIONS)
    (verdict,) = found.verdicts
    assert np.mean(verdict.scores["base"]) == pytest.approx(verdict.base)
    assert np.mean(verdict.scores["candidate"]) == pytest.approx(verdict.candidate)
    assert verdict.base > verdict.candidate > 0
    alone = tm.gate(policies[0], at_least=99, output=str(tmp_path / "b"), clips=1, **FUNCTIONS)
    (verdict,) = alone.verdicts
    assert verdict.scores.keys() == {"seeds", "candidate"} and verdict.trials == {"candidate": "candidate"}
    assert [seed["differs_at"] for seed in verdict.decisive] == [None]


def test_a_note_names_an_evaluation_that_had_the_same_seeds(tmp_path):
    aim.saved_sweep(tmp_path / "sweep", 1, 0)
    functions = {"policy": aim.load_only_file, "env": aim.make_env}
    tm.evaluate(tmp_path / "sweep", seeds="0:5", clips=None, name="choice", **functions)
    (tmp_path / "sweep" / "evaluations" / "of_others").mkdir()
    sides = [f"{tmp_path / 'sweep'}:trial_{well}" for well in (1, 0)]
    notes = {}
    for seeds in ("3:8", "5:8"):
        (verdict,) = tm.gate(*sides, seeds=seeds, output=str(tmp_path / seeds[0]), clips=0, **functions).verdicts
        notes[seeds] = [note for note in verdict.notes if "evaluation" in note]
    assert notes["3:8"] == [
        "the evaluation choice has 2 of these 5 seeds: if it chose the candidate, its lead is overstated; take seeds "
        "that chose nothing"
    ]
    assert notes["5:8"] == []


def test_success_is_compared_in_percentage_points_and_smaller_may_be_better(policies, tmp_path):
    found = tm.gate(policies[1], policies[0], metric="success", output=str(tmp_path / "a"), clips=0, **FUNCTIONS)
    (verdict,) = found.verdicts
    assert (verdict.verdict, verdict.standing.margin) == ("worse", 0.05)
    successes = tm.load(found.path).episodes().pivot(index="seed", columns="trial", values="success")
    counted = successes.loc[list(in_order(range(200))[: verdict.standing.seeds])].astype(bool)
    assert set(verdict.lost) == set(counted[counted["base"] & ~counted["candidate"]].index)
    least = tm.gate(policies[1], policies[0], mode="min", margin=1, output=str(tmp_path / "b"), clips=0, **FUNCTIONS)
    assert least.verdict == "pass" and least.verdicts[0].standing.difference > 0
    assert 0 < least.verdicts[0].candidate < least.verdicts[0].base  # in the metric's own units
    with pytest.raises(ValueError, match="less than half of the range 1 of the metric"):
        tm.gate(policies[1], policies[0], metric="success", margin=3.0, output=str(tmp_path / "c"), **FUNCTIONS)


@pytest.mark.usefixtures("in_this_process")
def test_the_command_ends_with_the_verdict_and_writes_it_for_a_ci(policies, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def gate(*more, runner=CliRunner):
        return runner().invoke(main, ["gate", str(policies[1]), str(policies[0]), *COMMAND, *more])

    worse = gate("-o", "a", "--junit", "junit.xml")
    assert worse.exit_code == 1, worse.output
    assert "WORSE. The candidate is worse by more than" in worse.output
    assert "lost by more than the margin on" in worse.output
    (failure,) = ElementTree.parse("junit.xml").iter("failure")
    assert failure.get("message").startswith("The candidate is worse by more than")
    passed = gate("-o", "b", "--margin", "9", "--json", runner=split_runner)
    assert passed.exit_code == 0, passed.output
    found = json.loads(passed.stdout)
    assert (found["v"], found["verdict"], found["conditions"][0]["lost"]) == (2, "pass", 0)
    assert found["conditions"][0]["difference"] == pytest.approx(-3)
    assert gate("-o", "b", "--margin", "9", "--anew").exit_code == 0
    assert gate("--seeds", "0:3", "-o", "c").exit_code == 3
    Path("old.xml").write_text("of an earlier gate")
    assert gate("-o", "c", "--junit", "old.xml").exit_code == 2 and "holds a gate" in Path("old.xml").read_text()
    lost = gate("--margin", "9", "-o", "e", "--junit", "no/such.xml")
    assert lost.exit_code == 2 and "no: No such file" in lost.output and not Path("e").exists()
    typo = gate("-o", "f", "--metric", "retrun", runner=split_runner)
    assert typo.exit_code == 2 and typo.stdout.splitlines()[0].endswith("did you mean 'return'?")
    unknown = gate("-o", "g", "--metric", "success", "--env-config", "tells=false").output
    assert "pass the name of the value that does, --success." in unknown
    file = CliRunner().invoke(main, ["gate", str(policies[1]), str(policies[0])])
    assert file.exit_code == 2 and "is a file; pass --policy and --env if it holds" in file.output
    refused = gate("-o", "a")
    assert refused.exit_code == 2 and "--output; or empty it first: --anew." in refused.output
    for wrong in (
        ["--margin", "x"],
        ["--seeds", "x"],
        ["--bounds", "3", "1"],
        ["--bounds", "0", "inf"],
        ["--bounds", "0", "1", "--metric", "success"],
        ["--checkpoint", "all"],
    ):
        usage = gate("-o", "d", *wrong)
        assert usage.exit_code == 2 and wrong[0] in usage.output, usage.output
    assert CliRunner().invoke(main, ["gate", "no/such", str(policies[1])]).exit_code == 2
    Path("broken_module.py").write_text("1 +")
    broken = gate("-o", "d", "--env", "broken_module:make")
    assert broken.exit_code == 2 and "SyntaxError" in broken.output
    with monkeypatch.context() as patched:
        patched.setattr("tune_media.evaluation.gate.gate", interrupted)
        stopped = gate("-o", "h")
    assert stopped.exit_code == 2 and stopped.output.endswith("it was interrupted; run it again\n")
    (default,) = (tmp_path / "gates").iterdir() if gate().exit_code == 1 else ()
    assert default.name.startswith("aim_0.json-20")


@pytest.mark.usefixtures("in_this_process")
@pytest.mark.parametrize(("well", "exit_code"), [(0, 1), (1, 0)])
def test_the_workflow_of_the_docs_lets_an_equal_policy_pass_and_stops_a_worse_one(
    well, exit_code, tmp_path, monkeypatch
):
    workflow = Path(__file__).parents[2] / "examples" / "policy_gate.yml"
    steps = yaml.safe_load(workflow.read_text())["jobs"]["gate"]["steps"]
    install, gate = (shlex.split(step["run"]) for step in steps if "run" in step)
    assert [install[:2], gate[:2]] == [["pip", "install"], ["tune-media", "gate"]]
    (package,) = map(Requirement, install[2:])
    assert package.name == "tune-media"
    assert package.extras <= set(importlib.metadata.metadata("tune-media").get_all("Provides-Extra"))
    assert not any("cache" in step.get("with", {}) for step in steps)  # it fails in a repository without requirements

    monkeypatch.chdir(tmp_path)
    Path("policies").mkdir()
    for name, aims in (("in_use", 1), ("new", float(well))):  # an equal policy of other bytes
        Path("policies", name).write_text(json.dumps({"aim": aims}))
    found = CliRunner().invoke(main, [*gate[1:], *COMMAND, "--clips", "1", "--workers", "0"])
    assert found.exit_code == exit_code, found.output
    verdict, folder = map(Path, steps[-1]["with"]["path"].split())
    assert ElementTree.parse(verdict).getroot().get("failures") == str(exit_code)
    assert "<video " in (folder / "index.html").read_text() or not exit_code
    assert len(list(folder.rglob("*.mp4"))) == 2 * exit_code


def test_without_a_terminal_the_progress_is_a_line_each_half_minute(monkeypatch, capsys):
    monkeypatch.setattr("tune_media.cli.progress._SECONDS", 0.0)
    shown = ShownGate()
    shown.stands("wind=0", Standing("undecided", 0), 200)
    shown.stands("wind=0", Standing("undecided", 2, 10.0, 11.0), 200)
    shown.stands("", Standing("undecided", 20, 10.0, 11.0, low=-1.0, high=3.0), 200)
    monkeypatch.setattr("tune_media.cli.progress._SECONDS", 30.0)
    shown.stands("", Standing("undecided", 21, 10.0, 11.0), 200)
    lines = ["wind=0 0/200 seeds", "wind=0 2/200 seeds  +1", "20/200 seeds  +1 [-1, 3]"]
    assert capsys.readouterr().err.splitlines() == lines


def test_what_is_compared_may_be_an_evaluation_that_is_there(policies, tmp_path):
    aim.saved_sweep(tmp_path / "sweep", 0, 4)
    functions = {"policy": aim.load_only_file, "env": aim.make_env}
    played = tm.evaluate(tmp_path / "sweep", seeds="0:60", clips=None, name="played", **functions)
    sides = f"{played.path}:trial_4", f"{tmp_path / 'sweep'}:trial_0"
    found = tm.gate(*sides, output=str(tmp_path / "gate"), clips=1, **functions)
    assert found.verdict == "worse"
    stored = played.catalog.episodes().query("trial == 'trial_4'").set_index("seed")["episode_return"].sort_index()
    assert np.array_equal(returns(found.path, "base"), stored)
    with pytest.raises(ValueError, match=r"has 2 trials .*: name one"):
        tm.gate(played.path, policies[1], output=str(tmp_path / "no"), **functions)


class HarderLater(aim.Aim):
    """Has wind on its later seeds."""

    def reset(self, *, seed=None, options=None):
        self.config["wind"] = 9 if (seed or 0) >= 150 else 0
        return super().reset(seed=seed, options=options)


def test_an_env_that_is_harder_for_later_seeds_is_not_judged_by_the_earlier_ones(tmp_path):
    functions = {"policy": aim.load_only_file, "env": HarderLater}
    aim.saved_sweep(tmp_path / "sweep", 0, 1)  # the second one is better by 3, and worse by 24 in the wind
    base, candidate = (f"{tmp_path / 'sweep'}:trial_{well}" for well in (0, 1))
    given = {"seeds": "0:200", "clips": 0, "margin": 0.5}
    found = tm.gate(base, candidate, output=str(tmp_path / "played"), **given, **functions)
    assert found.verdict == "worse"
    played = tm.evaluate(tmp_path / "sweep", seeds="0:200", clips=None, name="all", **functions).path
    stored = tm.gate(f"{played}:trial_0", f"{played}:trial_1", output=str(tmp_path / "stored"), **given)
    assert stored.verdicts[0].standing == found.verdicts[0].standing


def test_evaluations_in_different_envs_are_an_error(policies, tmp_path, monkeypatch):
    (folder := tmp_path / "sweep" / "trial_1" / "checkpoint_000000").mkdir(parents=True)
    aim.saved(folder, 1)
    (folder.parent / "params.json").write_text("{}")
    (folder.parent / "result.json").write_text(json.dumps({"training_iteration": 1}) + "\n")
    envs = {
        "plain": lambda: edited_env(tmp_path, monkeypatch, 0),
        "edited": lambda: edited_env(tmp_path, monkeypatch, 9),
        "other": lambda: lambda config: Other(),
        "swing": lambda: lambda config: gym.make("Pendulum-v1"),
        "car": lambda: lambda config: gym.make("MountainCarContinuous-v0", max_episode_steps=200),
    }
    paths = {}
    for name, makes in envs.items():
        given = {"seeds": "0:5", "clips": None, "policy": aim.load_only_file, "env": makes()}
        paths[name] = tm.evaluate(tmp_path / "sweep", name=name, **given).path
    for base, candidate, told in (
        ("plain", "edited", "the code of 'edited_env:Edited.step'"),
        ("plain", "other", "the env itself: the base plays in 'Edited', and the candidate in 'Other'"),
        ("swing", "car", "the env itself: "),
    ):
        found = tm.gate(paths[base], paths[candidate], output=str(tmp_path / candidate), clips=0, allow_same=True)
        assert f"play in different envs; they differ in {told}" in str(found.verdicts[0].error)
    with pytest.raises(ValueError, match="one and the same checkpoint"):  # evaluations of it
        tm.gate(paths["plain"], paths["swing"], output=str(tmp_path / "same"), clips=0)
    given = {"output": str(tmp_path / "same"), "clips": 0, "allow_same": True}
    same = tm.gate(paths["swing"], paths["swing"], **given).verdicts[0]
    assert same.verdict == "undecided" and "envs" not in str(same.notes)


class Other(gym.Env):
    observation_space = action_space = gym.spaces.Box(-9, 9, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), 500.0, True, False, {}


def interrupted(*args, **options):
    raise KeyboardInterrupt


def test_how_an_env_is_rendered_makes_it_no_other_env(tmp_path):
    sides = []
    configs = {"a": {"gravity": 1, "render_mode": "rgb_array"}, "b": {"gravity": 1}, "c": {"gravity": 2}}
    for name, env_config in configs.items():
        folder = make_trial(tmp_path / name, {"env": "E-v0", "env_config": env_config}, {10: 1.0})
        sides.append(Side(name, tm.load(folder).trials[0], None))
    check_same_env(*sides[:2], {}, is_given=False)
    with pytest.raises(ValueError, match="gravity=1 in its env_config"):
        check_same_env(*sides[1:], {}, is_given=False)
