"""The page of a gate: one file that says the verdict, and plays both clips of the seeds that differ most."""

import json
import re
from html import unescape
from pathlib import Path

import pytest
from click.testing import CliRunner

import tune_media as tm
from tests.support import aim
from tests.support.browser import viewer_page
from tune_media.cli import main
from tune_media.evaluation import gate_page
from tune_media.evaluation.decisive import decisive, decisive_seeds
from tune_media.evaluation.gate import sentence
from tune_media.evaluation.request import in_order

pytestmark = pytest.mark.any_ray  # policies of another library, played without Ray

FUNCTIONS = {"policy": aim.load_policy, "env": aim.make_env}


@pytest.fixture(scope="module")
def gated(tmp_path_factory):
    """A gate of two policies under two conditions: in the wind the base is the worse one."""
    folder = tmp_path_factory.mktemp("gated")
    sides = [aim.saved(folder, well) for well in (1, 0)]
    given = {"env_config": {"wind": [0, 9]}, "margin": 2.0, "seeds": "0:150", "clips": 2}
    return tm.gate(*sides, output=str(folder / "gate"), **given, **FUNCTIONS)


def page_of(gate):
    return Path(gate.page).read_text()


def texts(page, pattern):
    return [unescape(re.sub("<[^>]*>", "", text)) for text in re.findall(pattern, page, re.DOTALL)]


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light"), (1920, "dark")])
def test_the_page_says_what_the_gate_says_and_plays_both_clips_in_step(browser, gated, width, scheme):
    with viewer_page(browser, "gate") as viewer:
        requests = []
        viewer.page.on("request", lambda request: requests.append(request.url))
        viewer.page.set_viewport_size({"width": width, "height": 900})
        viewer.page.emulate_media(color_scheme=scheme)
        viewer.open(Path(gated.page).as_uri())
        stored = json.loads(Path(gated.path, "gate.json").read_text())["conditions"]
        assert viewer.all("h1 .word") == [gated.verdict.upper()]
        assert viewer.all(".sentence") == [sentence(verdict, "return") for verdict in gated.verdicts]
        assert viewer.all("h2") == ["Against the base, wind=0", "Against the base, wind=9"]
        told = viewer.all(".gain", "e.getAttribute('aria-label')")
        assert told == [
            f"{facts['difference']:.5g}, interval {facts['low']:.5g} to {facts['high']:.5g}, "
            f"margin {-facts['margin']:.5g}, equal 0"
            for facts in stored
        ]
        for facts, line in zip(stored, viewer.all(".won-and-lost"), strict=True):
            within = facts["seeds"] - facts["won"] - facts["lost"]
            assert f"won {facts['won']}, lost {facts['lost']}, within the margin {within}, of {facts['seeds']}" in line
        assert len(viewer.all(".dots-of-seeds path", "e.tagName")) == sum(facts["seeds"] for facts in stored)
        assert viewer.axe_violations() == {}
        assert viewer.frame.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert viewer.frame.evaluate("document.documentElement.dataset.theme") == scheme
        for seed in viewer.page.locator(".seed").all():
            seed.locator(".play").click()
        viewer.wait("[...document.querySelectorAll('video')].every((video) => video.ended)")
        viewer.wait("[...document.querySelectorAll('.play')].every((button) => button.textContent === '▶')")
        assert set(viewer.all("output")) == {f"step {aim.STEPS}"}
        slider = viewer.page.locator("input").first
        slider.focus()
        slider.press("ArrowLeft")
        middles = viewer.all(".seed:first-child video", "e.currentTime")[:2]
        assert middles == pytest.approx([(aim.STEPS - 0.5) / 10] * 2)  # both show the step before the last
        assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
        assert viewer.errors == []


def test_the_seeds_that_differ_most_are_shown_with_the_first_step_at_which_they_differ(gated):
    taped = {(one.trial.name, one.row["seed"]): one for one in tm.load(gated.path).taped_episodes()}
    expected = []
    for verdict in gated.verdicts:
        roles = [f"{role}_{verdict.condition}" for role in ("base", "candidate")]
        seeds = in_order(range(150))[: verdict.standing.seeds]
        scores = {seed: tuple(taped[role, seed].row["episode_return"] for role in roles) for seed in sorted(seeds)}
        for seed in decisive_seeds(scores)[:2]:
            at = decisive(*(taped[role, seed] for role in roles)).differs_at
            result = "won" if scores[seed][1] > scores[seed][0] else "lost"
            gain = abs(scores[seed][1] - scores[seed][0])
            expected.append(f"Seed {seed}: {result} by {gain:.5g} / They first differ at step {at}.")
    page = page_of(gated)
    assert [
        " / ".join(both)
        for both in zip(texts(page, r"<h4>(.*?)</h4>"), texts(page, r'<p class="differ">(.*?)</p>'), strict=True)
    ] == expected
    assert page.count("<video ") == 8
    assert not re.search(r'(?:src|href)="(?!data:)', page)


def test_names_are_texts_and_no_secret_is_on_the_page(tmp_path):
    folder = tmp_path / "<script>alert(1)</script>"
    folder.mkdir(parents=True)
    sides = [aim.saved(folder, well) for well in (1, 0.9)]
    page = page_of(tm.gate(*sides, seeds="0:3", output=str(tmp_path / "gate"), clips=0, **FUNCTIONS))
    assert "<script>alert" not in page and str(folder) in texts(page, "<dd>(.*?)</dd>")[0]
    assert "interval not yet to not yet" in page
    assert texts(page, r'<dl class="facts-of-gate">.*?</dl>') == [
        f"Base{sides[0]}Candidate{sides[1]}Metricmean return, larger is betterPlayedAs the loaded policies act."
    ]


def test_a_floor_is_shown_in_the_units_of_the_metric(tmp_path):
    sides = [aim.saved(tmp_path, well) for well in (1, 0)]
    alone = tm.gate(sides[1], at_least=30, seeds="0:40", output=str(tmp_path / "alone"), clips=2, **FUNCTIONS)
    page, (verdict,) = page_of(alone), alone.verdicts
    low, high = (30 + end for end in (verdict.standing.low, verdict.standing.high))
    assert f'"{verdict.candidate:.5g}, interval {low:.5g} to {high:.5g}, floor 30"' in page
    assert texts(page, "<dt>(.*?)</dt>") == ["Candidate", "Metric", "Played"]
    assert f"Below the floor: {len(verdict.lost)}, of {verdict.standing.seeds} seeds" in page
    assert texts(page, "<h3>(.*?)</h3>") == [f"Seed {seed}" for seed in verdict.lost[:2]]
    assert page.count("<video ") == 2
    both = tm.gate(*sides, at_least=20, margin=9, output=str(tmp_path / "both"), clips=1, **FUNCTIONS)
    page = page_of(both)
    assert texts(page, "<h2>(.*?)</h2>") == ["Against the base", "At least 20"]
    assert texts(page, r'<span class="sentence">(.*?)</span>') == [sentence(one, "return") for one in both.verdicts]
    assert page.count("<path ") == sum(one.standing.seeds for one in both.verdicts)
    assert page.count("<video ") == 2  # both clips of one seed


def test_a_page_that_cannot_be_made_is_a_problem(tmp_path, monkeypatch):
    sides = [aim.saved(tmp_path, well) for well in (1, 0)]
    given = {"output": str(tmp_path / "gate"), "clips": 0, **FUNCTIONS}
    monkeypatch.setattr(gate_page, "single_page", lambda *given: 1 / 0)
    found = tm.gate(*sides, **given)
    assert (found.verdict, found.page) == ("worse", None)
    assert list(found.problems) == ["no index.html: ZeroDivisionError: division by zero"]
    assert json.loads((tmp_path / "gate" / "gate.json").read_text())["problems"] == list(found.problems)


def test_the_command_ends_with_the_page(tmp_path):
    sides = [str(aim.saved(tmp_path, well)) for well in (1, 0)]
    names = ["--policy", f"{aim.__name__}:load_policy", "--env", f"{aim.__name__}:make_env"]
    found = CliRunner().invoke(main, ["gate", *sides, *names, "--seeds", "0:3", "-o", str(tmp_path / "a gate")])
    *_, last = found.output.splitlines()
    assert last == f"A page to mail: '{tmp_path}/a gate/index.html'"


def test_a_gate_without_a_score_has_a_page_that_says_why(tmp_path):
    sides = [aim.saved(tmp_path, well) for well in (1, 0)]
    found = tm.gate(*sides, metric="retrun", seeds="0:3", output=str(tmp_path / "gate"), **FUNCTIONS)
    page = page_of(found)
    assert texts(page, r'<span class="sentence">(.*?)</span>') == [sentence(found.verdicts[0], "retrun")]
    assert "<section>" not in page
