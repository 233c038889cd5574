"""A plan says how many seeds a gate would take: from ten episodes of the base, without a candidate."""

import json
import math

import numpy as np
import pytest

import tune_media as tm
from tests.support import aim
from tests.support.commands import command
from tune_media.evaluation.measure import Measure
from tune_media.evaluation.plan import MOST, Question
from tune_media.evaluation.sequential import LEVEL

pytestmark = pytest.mark.any_ray

FAMILIES = {
    "steady": (Measure.of("return", "max", "5%", None), lambda random, shape: 100 + 3.5 * random.normal(size=shape)),
    "wide": (Measure.of("return", "max", "5%", None), lambda random, shape: 100 + 10 * random.normal(size=shape)),
    "costs": (Measure.of("return", "max", 20, None), lambda random, shape: -20 * random.lognormal(0, 0.8, shape)),
    "bounded": (Measure.of("return", "max", "10%", (0, 500)), lambda random, shape: 500 * random.beta(4, 2, shape)),
    "success": (Measure.of("success", "max", 0.1, None), lambda random, shape: (random.random(shape) < 0.8) * 1.0),
}


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("worse_by", [0.0, 2.0])
def test_ten_episodes_tell_how_many_seeds_a_gate_takes(name, worse_by):
    measure, draw = FAMILIES[name]
    random, question = np.random.default_rng(0), Question(measure, LEVEL)
    base, candidate = draw(random, (2, 100, 600))
    loss = worse_by * measure.margin.of(base.mean())
    is_lost = random.random(candidate.shape) < loss / abs(base.mean())
    candidate = np.where(is_lost, 0.0, candidate) if name == "success" else candidate - loss
    true = question.seeds(base, candidate if measure.bounds is None else np.maximum(candidate, 0)).half
    told = np.median([question.for_worse(draw(random, 10), worse_by).half for _ in range(25)])
    assert math.isfinite(true) and 1 / 1.5 < told / true < 1.5


def test_the_scores_of_both_sides_tell_how_many_seeds_equal_policies_take():
    random, question = np.random.default_rng(2), Question(FAMILIES["wide"][0], LEVEL)
    base, noise = 100 + 10 * random.normal(size=60), random.normal(size=60)
    alike = question.for_equal([*zip(base, base + noise, strict=True)])  # seeds are hard for both, or for none
    apart = question.for_equal([*zip(base, random.permutation(base), strict=True)])
    assert alike.half < 65 < 100 < apart.half < MOST


def test_after_ten_pairs_it_is_known_about_how_many_seeds_equal_policies_take():
    measure, draw = FAMILIES["wide"]
    random, question = np.random.default_rng(3), Question(measure, LEVEL)
    told = [question.for_equal([*zip(*draw(random, (2, 10)), strict=True)]).half for _ in range(20)]
    assert 1 / 1.5 < np.median(told) / question.seeds(*draw(random, (2, 100, 600))).half < 1.5


@pytest.fixture
def policies(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return [str(aim.saved(tmp_path, well)) for well in (1, 0)]


def of_base_alone(path):
    if path.endswith("aim_0.json"):
        raise RuntimeError("the candidate is played")
    return aim.load_policy(path)


def test_a_plan_plays_the_base_alone_and_keeps_nothing(policies, tmp_path):
    given = {"policy": of_base_alone, "env": aim.make_env}
    found = tm.gate(*policies, plan=True, env_config={"wind": [0, 4]}, at_least=25, margin="20%", **given)
    assert (found.verdict, found.exit_code, found.verdicts, found.page) == ("undecided", 3, (), None)
    assert [(plan.condition, plan.at_least) for plan in found.plan] == [
        (f"wind={wind}", floor) for wind in (0, 4) for floor in (None, 25)
    ]
    calm = found.plan[0]
    alone = tm.gate(policies[0], at_least=25, seeds="0:200", clips=0, output=str(tmp_path / "gate"), **given)
    assert calm.episodes == 10 and calm.seconds > 0
    assert calm.mean == pytest.approx(alone.verdicts[0].candidate, rel=0.1)
    assert calm.margin == pytest.approx(0.2 * calm.mean)
    assert [calm.cases[worse_by].half < MOST for worse_by in (0, 0.5, 1, 2)] == [True, True, False, True]
    (floor,) = tm.gate(policies[0], at_least=25, plan=True, **given).plan
    assert floor.cases[0.0].half == pytest.approx(alone.verdicts[0].standing.seeds, rel=0.5)
    assert {path.name for path in tmp_path.iterdir()} == {"aim_1.json", "aim_0.json", "gate"}


def test_a_plan_takes_an_earlier_evaluation_of_the_same_checkpoint(policies):
    given = {"policy": of_base_alone, "env": aim.make_env}
    evaluated = tm.evaluate(policies[0], seeds="50:80", clips=None, **given).checkpoints[0]
    (plan,) = tm.gate(*policies, plan=True, **given).plan
    assert (plan.episodes, plan.mean) == (30, pytest.approx(evaluated.return_mean)) and plan.seconds > 0
    aim.saved(".", 1).write_text(json.dumps({"aim": 2}))  # another checkpoint
    assert tm.gate(*policies, plan=True, **given).plan[0].episodes == 10


@pytest.mark.usefixtures("in_this_process")
def test_the_command_prints_a_plan_and_ends_with_3(policies):
    words = ["gate", *policies, "--policy", f"{__name__}:of_base_alone", "--env", f"{aim.__name__}:make_env", "--plan"]
    text = command(*words, code=3)
    assert "UNDECIDED. This is a plan: it gives no verdict.\n\nOf 10 episodes of the base, the mean return" in text
    assert "\n  Equal policies: about " in text and "\n  Worse by the margin, 1.6" in text
    found = json.loads(command(*words, "--json", code=3).splitlines()[-1])
    assert (found["verdict"], found["exit_code"], found["conditions"], found["path"]) == ("undecided", 3, [], None)
    at_margin = found["plan"][0]["cases"][2]
    assert at_margin == {"worse_by": 1.0, "seeds": None, "seeds_90": None, "seconds": None}
    assert "--plan keeps nothing: leave out --output." in command(*words, "-o", "gate", code=2)
    assert "--plan has no verdict for --junit" in command(*words, "--junit", "ci.xml", code=2)
    words = ["gate", *policies[::-1], "--policy", f"{aim.__name__}:load_policy", *words[5:]]
    broken = command(*words, "--env-config", "breaks_at=3", "--seeds", "0:9", code=2)
    assert "the base cannot be played: seed 3: RuntimeError: the motor is hot" in broken


def test_a_known_depth_takes_more_seeds():
    scores = np.random.default_rng(3).normal(-80, 15, 10)
    taken = [
        Question(Measure.of("return", "max", "20%", None, worst=worst), LEVEL).for_worse(scores, 0.0).half
        for worst in (None, -500)
    ]
    assert taken[1] > 1.5 * taken[0]
