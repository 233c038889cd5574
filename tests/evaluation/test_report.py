"""The report: what two policies did on the same seeds, and what it claims of that."""

import functools
import json
import math
import random

import numpy as np
import pytest
from click.testing import CliRunner

import tune_media as tm
from tests.support import planted
from tests.support.browser import Viewer
from tune_media.cli import main
from tune_media.evaluation.findings import Pair, findings
from tune_media.evaluation.measure import Measure

pytestmark = pytest.mark.any_ray  # policies of another library, played without Ray

RETURN = Measure.of("return", "max", 0.0, None)
PLAYED = {"policy": planted.load_policy, "env": planted.make_env, "clips": 0}
FUNCTIONS = [*("--policy", "tests.support.planted:load_policy"), *("--env", "tests.support.planted:make_env")]
CAUSES = {  # what is planted: what is named
    "reward term": "reward_forward_sum",
    "running value": "speed_avg",
    "final value": "clearance",
    "text": "ended = edge",
    "success": "success",
    "length": "length",
    "observation": "observation[0] at the reset",
    "info at the reset": "info/friction at the reset",
}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def policies(tmp_path, base=0.3, candidate=0.75, salt=""):
    return [
        str(planted.write_policy(tmp_path / f"{name}{salt}", share, f"{name}{salt}"))
        for name, share in (("base", base), ("candidate", candidate))
    ]


def names(found):
    return [reason.name for reason in found.reasons]


@pytest.mark.parametrize("cause", CAUSES)
def test_a_planted_cause_is_named_and_no_decoy(cause, tmp_path):
    is_of_seeds = "reset" in CAUSES[cause]
    base, candidate = policies(tmp_path, *((0.1, 0.9) if is_of_seeds else (0.3, 0.75)))
    found = tm.report(base, candidate, env_config={"cause": cause}, **PLAYED).found
    if is_of_seeds:  # it wins where the start is below a half, and loses above
        assert found.split.name == CAUSES[cause]
        assert found.split.threshold == pytest.approx(0.5, abs=0.15)
        assert found.split.won / found.split.seeds < 0.5 < found.split.others_won / found.split.others
        assert found.split.condition in found.sentence
    else:
        assert found.split is None
        assert CAUSES[cause] in names(found)
        assert found.sentence.startswith(f"The candidate wins {found.won} of 40 seeds; return ")
        (reason,) = (one for one in found.reasons if one.name == CAUSES[cause])
        assert (reason.difference < 0) == (cause == "text")
    assert not [name for name in names(found) if "decoy" in name or "luck" in name]


def test_a_condition_of_the_env_that_decides_is_named(tmp_path):
    base, candidate = policies(tmp_path)
    found = tm.report(base, candidate, env_config={"cause": "reward term", "wind": [0, 5]}, **PLAYED).found
    assert len(found.scores) == 40
    assert found.sentence.startswith("No difference found")
    assert found.reasons == []
    assert found.split.condition == "env_config wind >= 2.5"
    assert found.split.won / found.split.seeds < 0.2 and found.split.others_won / found.split.others > 0.8


@pytest.mark.parametrize("cause", CAUSES)
def test_of_equal_policies_no_difference_and_no_reason_is_named(cause, tmp_path):
    report = tm.report(*policies(tmp_path, 0.6, 0.6, cause), env_config={"cause": cause}, **PLAYED)
    assert report.sentence.startswith("No difference found: ")
    assert (report.found.reasons, report.found.split) == ([], None)
    assert any("decoy" in value.name for value in report.found.values)  # they were looked at


def row(seed, score, metrics, rng):
    return {
        "seed": seed,
        "episode_return": score,
        "episode_length": int(rng.integers(5, 50)),
        "success": bool(rng.random() < 0.5),
        "terminated": bool(rng.random() < 0.5),
        "metrics": list(metrics.items()),
        **{name: [] for name in ("series", "every", "lists", "values")},
    }


def drawn_pairs(rng, kind, seeds=40, values=10, better=0.0):
    draw = {
        "normal": rng.normal,
        "heavy": functools.partial(rng.standard_t, 2),
        "skewed": lambda: rng.lognormal(0, 1.5),
        "rare": lambda: float(rng.random() < 0.1),
    }[kind]
    pairs = []
    for seed in range(seeds):
        shared = draw()
        scores = [shared + draw() for _ in range(2)]
        rows = [
            row(seed, score, {f"m{at}": score * (at < 3) + draw() for at in range(values)}, rng) for score in scores
        ]
        rows[1]["episode_return"] += better
        pairs.append(Pair(seed, *rows, facts={f"x{at}": rng.normal() for at in range(4)}))
    return pairs


@pytest.mark.parametrize("kind", ["normal", "heavy", "skewed", "rare"])
def test_of_simulated_equal_policies_one_of_twenty_is_given_a_reason_at_most(kind):
    rng = np.random.default_rng(7)
    found = [findings(drawn_pairs(rng, kind), RETURN) for _ in range(50)]
    assert np.mean([bool(one.reasons or one.split) for one in found]) <= 0.05
    assert np.mean([one.main.is_sure for one in found]) <= 0.1  # one of twenty, of 50


def test_the_interval_is_that_of_the_paired_differences():
    from scipy import stats

    pairs = drawn_pairs(np.random.default_rng(1), "normal", seeds=12, better=3.0)
    found = findings(pairs, RETURN)
    differences = [pair.candidate["episode_return"] - pair.base["episode_return"] for pair in pairs]
    truth = stats.ttest_1samp(differences, 0)
    interval = truth.confidence_interval()
    assert (found.main.low, found.main.high) == pytest.approx((interval.low, interval.high))
    assert found.main.p == pytest.approx(max(truth.pvalue, 2.0**-11))
    assert found.won == sum(value > 0 for value in differences)


def test_no_difference_is_sure_that_fewer_than_six_seeds_show():
    rng = np.random.default_rng(0)
    for seeds, is_sure in ((5, False), (6, True)):
        pairs = [Pair(seed, row(seed, 0.0, {}, rng), row(seed, 1.0, {}, rng)) for seed in range(seeds)]
        assert findings(pairs, RETURN).main.is_sure is is_sure


def test_the_page_has_clips_of_as_many_seeds_as_are_wanted_at_the_users_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    base, candidate = policies(tmp_path)
    report = tm.report(base, candidate, seeds="0:9", output="~/page.html", **{**PLAYED, "clips": 6})
    assert report.page == tmp_path / "home" / "page.html"
    assert report.page.read_text().count('"differs_at"') == min(6, report.found.won + report.found.lost) > 5


def test_less_can_be_better():
    pairs = drawn_pairs(np.random.default_rng(2), "normal", better=4.0)
    found = findings(pairs, Measure.of("return", "min", 0.0, None))
    assert found.sentence.startswith(f"The candidate loses {found.lost} of 40 seeds; return ")
    assert found.main.difference > 0 and found.lost > 35


def test_the_tables_have_all_values(tmp_path):
    base, candidate = policies(tmp_path)
    found = tm.report(base, candidate, env_config={"cause": "reward term"}, **PLAYED).found
    markdown, latex = found.markdown().splitlines(), found.latex()
    assert len(markdown) == 3 + len(found.values)
    assert {line.count("|") for line in markdown} == {6}
    assert r"reward\_forward\_sum & " in latex and latex.startswith(r"\begin{tabular}{lrrr")


def test_a_report_of_a_gate_has_its_interval_and_its_seeds(tmp_path):
    base, candidate = policies(tmp_path, 0.9, 0.1)
    played = {**PLAYED, "env_config": {"cause": "reward term"}}
    gate = tm.gate(base, candidate, output=str(tmp_path / "gate"), **played)
    (verdict,) = gate.verdicts
    assert verdict.verdict == "worse"
    report = tm.report(gate.path, clips=0)
    assert len(report.found.scores) == verdict.standing.seeds < 200
    assert (report.found.main.low, report.found.main.high) == (verdict.standing.low, verdict.standing.high)
    assert report.sentence.startswith("The candidate loses ")
    assert report.facts()["interval"] == "sequential"
    (term,) = (value for value in report.found.values if value.name == "reward_forward_sum")
    assert term.difference == pytest.approx(report.found.main.difference)
    ends = [(of.low or -math.inf, of.high or math.inf) for of in (term, report.found.main)]
    assert ends[0][0] < ends[1][0] and ends[0][1] > ends[1][1]  # corrected, and it holds whenever the gate stops
    for name, value in (("seeds", "0:3"), ("checkpoint", "best")):
        with pytest.raises(ValueError, match=rf"report\({name}=\.\.\.\) takes nothing without a candidate"):
            tm.report(gate.path, **{name: value})


def test_two_evaluations_and_a_report_are_taken_as_they_are(tmp_path):
    base, candidate = policies(tmp_path)
    played = "mine/evaluations/played"
    first = tm.report(base, candidate, folder=played, seeds="0:12", **PLAYED)
    with pytest.raises(ValueError, match=r"report\(env_config=\.\.\.\) takes nothing with a report's folder"):
        tm.report(played, env_config={"wind": 5})
    again = tm.report(played, output="again.html", clips=0)
    assert again.found == first.found
    assert again.page.read_text() == first.page.read_text()
    evaluations = [f"{played}:{role}" for role in ("base", "candidate")]
    assert tm.report(*evaluations, clips=0).found == first.found
    with pytest.raises(ValueError, match=r"has a report that was asked for something else .*folder=, or --folder"):
        tm.report(base, candidate, folder=played, seeds="5:12", **PLAYED)


def test_a_report_goes_on_under_a_condition_that_json_has_in_another_form(tmp_path):
    given = {"env_config": {"cause": "text", "sizes": [(1, 2)]}, "seeds": "0:3", **PLAYED}
    both = policies(tmp_path)
    first, again = (tm.report(*both, **given) for _ in range(2))
    assert again.found == first.found


def test_what_cannot_be_compared_is_an_error_and_no_page(tmp_path):
    base, _ = policies(tmp_path)
    broken = planted.write_policy(tmp_path / "broken", "broken", "x")
    with pytest.raises(ValueError, match=r"cannot be played: .*this policy has no weights"):
        tm.report(base, broken, **PLAYED)
    with pytest.raises(ValueError, match=r"has neither gate\.json nor report\.json: name a candidate"):
        tm.report(base)
    result = CliRunner().invoke(main, ["report", base, str(tmp_path / "nobody"), *FUNCTIONS])
    assert result.exit_code == 1 and "nobody" in result.output
    assert CliRunner().invoke(main, ["report", base, "-o", "report.pdf"]).exit_code == 2
    assert not (tmp_path / "report.html").exists()


def test_the_command_writes_the_page_and_prints_all_figures(tmp_path):
    base, candidate = policies(tmp_path)
    how = ["--clips", "0", "--env-config", "cause=text", "-o", "out/page.html"]
    command = ["report", base, candidate, *FUNCTIONS, *how]
    result = CliRunner().invoke(main, [*command, "--json"])
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["v"], told["seeds"], told["interval"]) == (1, 40, "fixed")
    assert told["won"] + told["lost"] <= 40 and len(told["by_seed"]) == 40
    assert "ended = edge" in [reason["name"] for reason in told["reasons"]]
    ends = {one["name"]: (one["base"], one["candidate"]) for one in told["endings"]}
    assert sum(ends["ended = edge"]) + sum(ends["ended = goal"]) == 80
    assert ends["truncated"] == (40, 40)
    assert all(math.isfinite(one["difference"]) for one in told["values"])
    text = CliRunner().invoke(main, command).stdout
    assert told["sentence"] in text and (tmp_path / "out" / "page.html").as_uri() in text


@pytest.mark.slow
def test_the_page_opens_from_disk_without_a_network_and_its_clips_run(browser, tmp_path):
    base, candidate = policies(tmp_path)
    config = {"cause": "text", "text": "<b onclick='boom()'>edge</b>"}
    report = tm.report(base, candidate, env_config=config, **{**PLAYED, "clips": 2})
    assert report.problems == []
    context = browser.new_context(offline=True, color_scheme="dark")
    viewer = Viewer(context.new_page(), "report")
    asked = []
    viewer.page.on("request", lambda request: asked.append(request.url[:30]))
    viewer.page.on("pageerror", lambda error: viewer.errors.append(str(error)))
    viewer.open(report.page.resolve().as_uri())
    assert viewer.all("h1") == [report.sentence]
    assert viewer.all(".chart rect", "e.getAttribute('class')").count("won") == report.found.won
    assert viewer.all("section b", "e.onclick") == [None] * len(viewer.all("section b"))
    assert viewer.all("video", "1") == [1] * 4
    viewer.page.click(".play")
    viewer.wait(
        "() => [...document.querySelectorAll('.seed:first-of-type video')].every((video) => video.currentTime > 0.2)"
    )
    viewer.page.locator(".seed input").first.fill("0")
    viewer.wait("() => document.querySelector('.seed output').innerText === 'step 0'")
    assert viewer.axe_violations() == {}
    viewer.page.set_viewport_size({"width": 390, "height": 800})
    viewer.wait("() => document.documentElement.scrollWidth <= innerWidth")
    viewer.page.emulate_media(media="print")
    viewer.wait("() => document.documentElement.dataset.theme === 'light'")
    assert viewer.all("video", "e.checkVisibility()") == [False] * 4
    assert viewer.all(".frame img", "e.checkVisibility()") == [True] * 4
    assert viewer.errors == []
    assert {url.partition(":")[0] for url in asked} <= {"file", "data"}
    context.close()


def test_a_clip_begins_before_the_first_difference(tmp_path):
    from tune_media.evaluation.decisive import first_difference
    from tune_media.replay.tape import Tape

    draws = random.Random(0)
    for _ in range(20):
        at, length = draws.randrange(1, 90), 100
        tapes = [Tape(seed=1), Tape(seed=1)]
        for number, tape in enumerate(tapes):
            tape.began(3)
            for step in range(1, length):
                tape.stepped(int(number and step == at), 256 * step + (step > at) * 512 * number)
        assert first_difference(*(Tape.unpacked(tape.packed()) for tape in tapes)) == at
