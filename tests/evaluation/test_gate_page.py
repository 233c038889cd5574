"""The page of a gate: one file that says the verdict and plays both clips of decisive seeds; `watch` shows the same."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import tune_media as tm
from tests.support import aim
from tests.support.browser import opened, served, viewer_page
from tests.support.viewing import write_trial
from tune_media.cli import main
from tune_media.experiment.places import folder_at
from tune_media.experiment.trial_folders import LogDirectory, Trials
from tune_media.viewing import single_page
from tune_media.viewing.pages import TrialPages
from tune_media.viewing.payload import gate_of

pytestmark = pytest.mark.any_ray  # policies of another library, played without Ray

FUNCTIONS = {"policy": aim.load_policy, "env": aim.make_env}


class ThreeStarts(aim.Aim):
    """Has three different episodes."""

    def reset(self, *, seed=None, options=None):
        return super().reset(seed=None if seed is None else seed % 3, options=options)


GATES = {  # the arguments of a gate of a good and a bad policy, and its verdict
    "pass": ({"margin": 9.0, "clips": 0}, "pass"),
    "worse": ({"clips": 2}, "worse"),
    "undecided": ({"seeds": "0:3", "clips": 0}, "undecided"),
    "error": ({"metric": "retrun", "seeds": "0:3"}, "error"),
    "base_and_floor": ({"at_least": 20, "margin": 9.0, "clips": 1}, "pass"),
    "two_conditions": ({"env_config": {"wind": [0, 9]}, "margin": 2.0, "clips": 1}, "worse"),
    "copies": ({"env": ThreeStarts, "seeds": "0:40", "clips": 0}, None),
    "costs": ({"mode": "min", "margin": 1.0, "clips": 0}, "pass"),
}


@pytest.fixture(scope="module")
def gates(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gates")
    sides = [aim.saved(folder, well) for well in (1, 0)]
    found = {
        name: tm.gate(*sides, output=str(folder / name), **{**FUNCTIONS, **given}) for name, (given, _) in GATES.items()
    }
    found["floor"] = tm.gate(sides[1], at_least=45, output=str(folder / "floor"), clips=1, **FUNCTIONS)
    return found


def stored(gate):
    return json.loads(Path(gate.path, "gate.json").read_text())


def data_of(page):
    (text,) = re.findall('<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    return json.loads(text)


@pytest.mark.slow
def test_the_page_says_what_the_file_of_the_gate_says(browser, gates):
    for name, gate in gates.items():
        assert gate.verdict == GATES.get(name, (None, "worse"))[1] or name == "copies"
        facts = stored(gate)
        with viewer_page(browser, "file") as viewer:
            requests = []
            viewer.page.on("request", lambda request, kept=requests: kept.append(request.url))
            viewer.page.set_viewport_size({"width": 400, "height": 900})
            viewer.page.emulate_media(color_scheme="dark")
            viewer.open(Path(gate.page).as_uri())
            viewer.wait("document.querySelector('.gate-view')")
            (title,) = viewer.all("h2.verdict")
            assert title.startswith(facts["verdict"].upper()) and viewer.page.title().startswith(
                facts["verdict"].upper()
            )
            assert len(viewer.all("p.verdict")) == len(facts["conditions"])
            for said, one in zip(viewer.all("p.verdict"), facts["conditions"], strict=True):
                assert said.endswith(one["sentence"])
                assert said.startswith(one["verdict"].upper()) == (len(facts["conditions"]) > 1)
            assert viewer.all("section.panel > ul li") == [
                *(note for one in facts["conditions"] for note in one["notes"]),
                *facts["problems"],
            ]
            judged = [one for one in facts["conditions"] if one["seeds"]]
            assert len(viewer.all(".figure circle", "e.tagName")) == sum(len(one["scores"]["seeds"]) for one in judged)
            for kind in ("lost", "won"):
                dots = viewer.all(f".figure circle.{kind}", "e.tagName")
                ours = sum(one[kind] for one in judged if one["at_least"] is None or kind == "lost")
                assert len(dots) - ours == (kind == "won") * sum(
                    one["seeds"] - one["lost"] for one in judged if one["at_least"] is not None
                )
            assert len(viewer.all(".seed")) == sum(len(one["decisive"]) for one in judged)
            for width, scheme in ((400, "dark"), (1280, "light")):
                viewer.page.set_viewport_size({"width": width, "height": 900})
                viewer.page.emulate_media(color_scheme=scheme)
                viewer.wait(f"document.documentElement.dataset.theme === '{scheme}'")
                assert viewer.axe_violations() == {}
                assert viewer.frame.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
            assert viewer.errors == []


@pytest.mark.slow
@pytest.mark.parametrize(("name", "host"), [("two_conditions", "watch"), ("floor", "watch"), ("worse", "gallery")])
def test_watch_shows_the_same_and_neither_runs_nor_empty_charts(browser, gates, tmp_path, name, host):
    gate = gates[name]
    with viewer_page(browser, "file") as viewer:
        told = viewer.open(Path(gate.page).as_uri()).all("main")
    assert told and "return" in told[0]
    with opened(browser, Path(gate.path), tmp_path, host=host) as viewer:
        viewer.wait("document.querySelector('.gate-view .seed')")
        assert viewer.all("main") == told
        viewer.open(viewer.url, f"view=trial&trial=candidate{'_wind=0' if name == 'two_conditions' else ''}")
        viewer.wait("document.querySelector('.gate-view')")  # a policy has no training
        assert viewer.all(".chart, .verdict-picture, .card, .score-choice", "e.className") == []


@pytest.mark.slow
def test_both_clips_of_a_seed_play_in_step_in_one_file(browser, gates):
    with viewer_page(browser, "file") as viewer:
        viewer.page.emulate_media(reduced_motion="reduce")  # it plays nothing by itself
        viewer.open(Path(gates["worse"].page).as_uri())
        viewer.wait("[...document.querySelectorAll('.seed video')].every((video) => video.readyState >= 2)")
        (seed, _) = stored(gates["worse"])["conditions"][0]["decisive"]
        assert viewer.all(".seed:first-child h4")[0].startswith(f"Seed {seed['seed']}: lost by 3")
        assert viewer.all(".seed:first-child .differ") == ["They first differ at step 1."]
        assert len(viewer.all(".seed:first-child .mark.difference", "e.tagName")) == 1
        assert viewer.all(".seed video", "e.src.slice(0, 15)") == ["data:video/mp4;"] * 4
        viewer.page.locator(".seed input").first.fill("2")
        middle = (aim.STEPS - 0.5) / 10  # both show the step before the last
        viewer.wait(
            "(at) => [...document.querySelectorAll('.seed video')].every((video) => "
            "Math.abs(video.currentTime - at) < 0.01)",
            middle,
        )
        viewer.page.get_by_role("button", name="Compare").first.click()
        viewer.wait("document.querySelector('.compare-view .primary')")
        assert viewer.all(".compare-view .side h3") == ["base", "candidate"]
        assert viewer.all(".compare-view .primary") == ["◆ First difference: step 1"]
        viewer.press("Escape")
        viewer.wait("document.querySelector('.gate-view')")
        assert viewer.errors == []


def test_the_file_has_the_clips_of_the_decisive_seeds_and_loads_nothing(gates):
    for name, gate in gates.items():
        page = Path(gate.page).read_text()
        data = data_of(page)
        decisive = sum(len(one["decisive"]) * len(one["trials"]) for one in stored(gate)["conditions"])
        assert (len(data["media"]), data["index"]["clips"]["count"]) == (decisive, decisive), name
        assert all(uri.startswith("data:video/mp4;base64,") for uri in data["media"].values())
        assert not re.search(r'<(?:script|link|img|video)[^>]*(?:src|href)="(?!data:)', page)


def test_names_are_texts_and_no_secret_is_on_the_page(tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "k3y-of-somebody-0815")
    folder = tmp_path / "<script>alert(1)</script>" / "k3y-of-somebody-0815"
    folder.mkdir(parents=True)
    sides = [aim.saved(folder, well) for well in (1, 0.9)]
    page = Path(tm.gate(*sides, seeds="0:3", output=str(tmp_path / "gate"), clips=0, **FUNCTIONS).page).read_text()
    assert "<script>alert" not in page and "0815" not in page
    assert data_of(page)["index"]["gate"]["base"] == f"{tmp_path}/<script>alert(1)</script>/***/aim_1.json"


@pytest.mark.slow
def test_large_clips_lie_beside_the_file_and_that_is_said(browser, tmp_path, monkeypatch):
    monkeypatch.setattr(single_page, "MOST", 0)
    sides = [aim.saved(tmp_path, well) for well in (1, 0)]
    gate = tm.gate(*sides, env_config={"wind": 0}, output=str(tmp_path / "gate"), clips=1, **FUNCTIONS)
    (problem,) = gate.problems
    assert problem.endswith(" lie beside index.html: mail the folder, or make fewer clips")
    assert stored(gate)["problems"] == [problem]
    with viewer_page(browser, "file") as viewer:
        viewer.open(Path(gate.page).as_uri())
        viewer.wait("[...document.querySelectorAll('.seed video')].every((video) => video.readyState >= 2)")
        assert len(viewer.all(".seed video", "e.src")) == 2
        assert problem in viewer.all("li")
        assert viewer.errors == []


def test_a_gate_on_s3_has_its_page_there(s3, tmp_path):
    sides = [aim.saved(tmp_path, well) for well in (1, 0)]
    gate = tm.gate(*sides, output="s3://results/gates/one", clips=1, **FUNCTIONS)
    assert (gate.verdict, list(gate.problems), gate.page) == ("worse", [], "results/gates/one/index.html")
    with s3.open_input_stream(gate.page) as file:
        data = data_of(file.read().decode())
    assert len(data["media"]) == 2
    assert data["index"]["gate"]["conditions"][0]["sentence"] == gate.facts()["conditions"][0]["sentence"]


def test_a_page_that_cannot_be_made_is_a_problem(tmp_path, monkeypatch):
    sides = [aim.saved(tmp_path, well) for well in (1, 0)]
    monkeypatch.setattr(single_page, "single_page", lambda *given: 1 / 0)
    found = tm.gate(*sides, output=str(tmp_path / "gate"), clips=0, **FUNCTIONS)
    assert (found.verdict, found.page) == ("worse", None)
    assert list(found.problems) == ["no index.html: ZeroDivisionError: division by zero"]
    assert stored(found)["problems"] == list(found.problems)


@pytest.mark.usefixtures("in_this_process")
def test_the_command_ends_with_the_page(tmp_path):
    sides = [str(aim.saved(tmp_path, well)) for well in (1, 0)]
    names = ["--policy", f"{aim.__name__}:load_policy", "--env", f"{aim.__name__}:make_env"]
    found = CliRunner().invoke(main, ["gate", *sides, *names, "--seeds", "0:3", "-o", str(tmp_path / "a gate")])
    *_, last = found.output.splitlines()
    assert last == f"A page to mail: '{tmp_path}/a gate/index.html'"


@pytest.mark.slow
def test_a_gate_without_a_verdict_says_so_until_there_is_one(browser, gates, tmp_path):
    folder = tmp_path / "gate"
    for role in ("base", "candidate"):
        write_trial(folder / role, 1)
    file = folder / "gate.json"
    full = stored(gates["error"])
    file.write_text(json.dumps({name: full[name] for name in ("v", "request")}))
    pages = TrialPages(Trials([LogDirectory(folder_at(str(folder)))]), "gate")
    before = pages.index()
    assert json.loads(before.content)["gate"]["conditions"] == [] and pages.index() is before
    with served("watch", folder, tmp_path) as url, viewer_page(browser, "watch") as viewer:
        viewer.open(url)
        viewer.wait("document.querySelector('.gate-view')")
        assert viewer.all("h2") == ["No verdict"]
        file.write_text(json.dumps(full))
        viewer.wait("document.querySelector('p.verdict')")  # the page looks again
        assert viewer.errors == []
    assert pages.index() is not before


def test_only_the_folder_of_a_gate_is_one(tmp_path):
    def trials(folder):
        return Trials([LogDirectory(folder_at(str(folder)))]).all()

    for name in ("base", "candidate"):
        write_trial(tmp_path / "gate" / name, 1)
    assert gate_of(trials(tmp_path / "gate")) is None  # two trials of these names
    for content in ("[]", "{", '{"conditions": 3}', '{"request": 1}'):
        (tmp_path / "gate" / "gate.json").write_text(content)
        assert gate_of(trials(tmp_path / "gate")) is None
    (tmp_path / "gate" / "gate.json").write_text('{"request": {"sign": 1}}')
    assert gate_of(trials(tmp_path / "gate"))["conditions"] == []
    write_trial(tmp_path / "gate" / "another", 1)
    assert gate_of(trials(tmp_path / "gate")) is None
    assert gate_of([]) is None
