"""Ranges in a filter, the importance of hyperparameters, and what a filter that finds nothing says, in Chromium."""

import numpy as np
import pytest

import tune_media as tm
from tests.support.browser import opened
from tests.support.stores import StoredTrial
from tests.support.viewing import write_results, write_run, write_trial

pytestmark = pytest.mark.slow

COUNT = 24
FILTER = "tuneMedia.app.instance.state.filter"


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """The return grows with lr."""
    experiment = tmp_path_factory.mktemp("filters") / "exp"
    for number in range(COUNT):
        act = ("relu", "tanh", "e lu")[number % 3]
        write_trial(experiment / f"t_{number:02d}", number, steps=(1,), lr=1e-5 * 1.5**number, act=act, size=number % 4)
    return experiment


def show(viewer, link=""):
    viewer.open(viewer.url, link)
    viewer.wait("document.querySelectorAll('.card').length > 0 && tuneMedia.app.instance.judged?.importance")


def test_without_a_score_the_charts_say_what_is_missing_and_what_to_do(browser, tmp_path):
    """First there is nothing to rank by, then a picture in the section that is shown, and returns in another one."""
    for number in range(2):
        write_run(tmp_path / "none" / f"t_{number}", {"lr": number, "size": number})
        folder = write_trial(tmp_path / "other" / f"t_{number}", number, steps=(1,), size=number)
        write_results(folder, {"my_loss": number})
        with StoredTrial.in_folder(folder, f"id_{number}") as store:
            store.add(tm.Image(np.zeros((8, 8, 3), np.uint8)), "train", "pictures/last", 2)
    link = "params=true&cards=trials"
    with opened(browser, tmp_path / "none", tmp_path, link) as viewer:
        viewer.wait("document.querySelector('.no-score')")
        (text,) = viewer.all(".no-score")
        assert "No trial has a score" in text
        assert "tune.report(" in text
        assert viewer.axe_violations() == {}
    with opened(browser, tmp_path / "other", tmp_path, f"{link}&section=train&score=clip") as viewer:
        viewer.wait("document.querySelector('.no-score')")
        assert "“best return of a clip” is missing in all of them" in viewer.all(".no-score")[0]
        viewer.frame.click(".no-score button >> text=my_loss")
        viewer.wait("!document.querySelector('.no-score') && document.querySelectorAll('.scatter figure').length === 2")


def test_a_range_of_a_histogram_goes_into_the_filter(browser, sweep, tmp_path):
    where = "tuneMedia.app.instance.state.where"
    returns = sorted(tm.load(sweep).episodes()["episode_return"])
    with opened(browser, sweep, tmp_path, "view=episodes&where=act%3Drelu or act!%3Drelu") as viewer:
        viewer.wait("document.querySelectorAll('.histogram .handle').length === 2")
        bins = viewer.all(".histogram .bins i", "e.title")
        box = viewer.frame.locator(".histogram .bins").bounding_box()
        viewer.page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 10)
        viewer.page.mouse.down()
        viewer.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 20, steps=4)
        viewer.page.mouse.up()
        viewer.wait(f"{where}.startsWith('(act=relu or act!=relu) return=')")
        low, high = map(float, viewer.frame.evaluate(where).rpartition("=")[2].split(".."))
        count = sum(low <= one <= high for one in returns)
        assert 0 < count < len(returns)
        told = f"{count} of {len(returns)} episodes"
        viewer.wait("(told) => document.querySelector('[role=status]').innerText.startsWith(told)", told)
        assert viewer.frame.input_value(".where") == viewer.frame.evaluate(where)
        assert viewer.all(".histogram .bins i", "e.title") == bins  # the range does not narrow its own histogram
        viewer.frame.focus(".histogram .handle.low")
        viewer.page.keyboard.press("Home")
        viewer.wait(f"{where}.includes('return=..')")
        viewer.page.keyboard.press("ArrowRight")
        edge = returns[0] + (returns[-1] - returns[0]) / 30
        viewer.wait(f"!{where}.includes('return=..')")
        assert float(viewer.frame.evaluate(where).rpartition("=")[2].split("..")[0]) == pytest.approx(edge, rel=1e-3)
        assert viewer.axe_violations() == {}
        viewer.page.keyboard.press("Escape")
        viewer.wait(f"{where} === '(act=relu or act!=relu)' && !document.querySelector('.histogram .kept')")
        viewer.page.keyboard.press("End")
        viewer.wait("document.querySelectorAll('table.episodes tbody tr').length === 1")
        viewer.frame.click("button[aria-label='Clear the range of return']")
        viewer.wait("(count) => document.querySelectorAll('table.episodes tbody tr').length === count", len(returns))
        viewer.frame.click("th:has-text('⚙ lr') button")
        viewer.wait("document.querySelector('.histogram b')?.innerText === '⚙ lr'")
        viewer.frame.focus(".histogram .handle.high")
        viewer.page.keyboard.press("PageDown")
        viewer.wait(f"{where}.includes(' lr=..')")
        rates = [trial.config["lr"] for trial in tm.load(sweep).trials]
        edge = min(rates) + 0.9 * (max(rates) - min(rates))
        assert float(viewer.frame.evaluate(where).rpartition("..")[2]) == pytest.approx(edge, rel=1e-3)


def test_the_page_says_what_matters_in_the_numbers_of_the_catalog(viewer, sweep):
    show(viewer, "params=true")
    viewer.wait("document.querySelector('.importance')")
    table = tm.load(sweep).importance()
    assert table["matters"].tolist() == [True, False, False]
    cells = "[e.querySelector('th').title, e.className, e.querySelectorAll('td')[1].innerText]"
    rows = viewer.all(".importance tr", cells)
    assert rows == [
        [name, "sure" if matters else "", f"{round(100 * share)} %"]
        for name, matters, share in table[["hyperparameter", "matters", "share"]].to_numpy().tolist()
    ]
    (told,) = viewer.all(".importance p")[:1]
    assert "What matters: lr." in told
    assert "cannot see a hyperparameter that changes nothing by itself, but only how another one acts" in told


def test_a_comparison_without_a_value_says_so_and_a_misspelt_value_is_answered(viewer):
    show(viewer)
    said = {
        "lr>": "“lr>” lacks a value, such as lr>1",
        "lr=": "“lr=” lacks a value",
        "lr<fast": "“fast” is no number, which lr< needs",
        "act=tan": "no trial matches the filter “act=tan”. Did you mean “tanh”?",
        "act=Relu": "Did you mean “relu”?",
    }
    for text, answer in said.items():
        viewer.frame.fill(".filter", text)
        viewer.wait("(answer) => document.querySelector('.count').innerText.includes(answer)", answer)


def test_no_episode_that_matches_is_no_blank_page(viewer):
    show(viewer)
    viewer.open(viewer.url, "view=episodes&where=return%3E1e9")
    viewer.wait("document.querySelector('main .message')?.innerText.includes('No episode matches “return>1e9”')")
    viewer.frame.click("main .message button")
    viewer.wait("document.querySelectorAll('table.episodes tbody tr').length > 10")
    viewer.frame.fill(".where", "retrun > 2")
    viewer.wait("document.querySelector('.episodes-view .problem')?.innerText.includes('did you mean')")
    assert all("400 (BAD REQUEST)" in error for error in viewer.errors)
    viewer.errors.clear()


def test_the_choice_of_axes_begins_with_those_that_are_shown(browser, tmp_path):
    for number in range(3):
        params = {f"p{at}": number + at for at in range(9)}  # and lr
        write_trial(tmp_path / "exp" / f"t_{number}", number, steps=(1,), **params)
    with opened(browser, tmp_path / "exp", tmp_path, "params=true") as viewer:
        viewer.frame.click("text=6 of 10 hyperparameters …")
        checked = viewer.all("dialog .checks input", "e.checked")
        assert (len(checked), sum(checked)) == (10, 6)
        viewer.frame.click("dialog .checks label >> nth=0")  # without it, the others stay
        viewer.wait("document.body.innerText.includes('5 of 10 hyperparameters …')")
