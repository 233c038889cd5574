"""Parallel coordinates, the importance of hyperparameters, and what a filter that finds nothing says, in Chromium."""

import pytest

import tune_media as tm
from tests.support.browser import served, viewer_page
from tests.support.viewing import write_trial

pytestmark = pytest.mark.slow

COUNT = 24
NAMES = "[...document.querySelectorAll('.card')].map((card) => card.dataset.trial).sort().join()"
FILTER = "tuneMedia.app.instance.state.filter"


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """The return grows with lr."""
    experiment = tmp_path_factory.mktemp("parallel") / "exp"
    for number in range(COUNT):
        act = ("relu", "tanh", "e lu")[number % 3]
        write_trial(experiment / f"t_{number:02d}", number, steps=(1,), lr=1e-5 * 1.5**number, act=act, size=number % 4)
    return experiment


def show(viewer, link=""):
    viewer.open(viewer.url, link)
    viewer.wait("document.querySelectorAll('.card').length > 0 && tuneMedia.app.instance.judged?.importance")


def drag(viewer, name, start, end):
    """Drag along an axis, between two shares of it from the bottom."""
    at = viewer.frame.evaluate(
        "(name) => { const axis = [...document.querySelectorAll('.axis')]"
        ".find((e) => e.querySelector('p').title === name);"
        "axis.scrollIntoView({ block: 'center' }); const { left, top, width, height } = "
        "axis.querySelector('.axis-line').getBoundingClientRect(); return [left + width / 2, top, height]; }",
        name,
    )
    x, top, height = at
    viewer.page.mouse.move(x, top + (1 - start) * height)
    viewer.page.mouse.down()
    viewer.page.mouse.move(x, top + (1 - end) * height, steps=4)
    viewer.page.mouse.up()


def test_a_range_that_is_dragged_on_an_axis_is_in_the_filter_and_the_cards(viewer, sweep):
    show(viewer, "parallel=true")
    viewer.wait(f"document.querySelectorAll('.parallel .lines path').length === {COUNT}")
    assert viewer.all(".parallel .axis p", "e.title")[0] == "lr"  # which matters
    drag(viewer, "lr", 0.5, 1)
    viewer.wait(f"{FILTER}.startsWith('lr=')")
    text = viewer.frame.evaluate(FILTER)
    low, high = map(float, text.removeprefix("lr=").split(".."))
    catalog = tm.load(sweep)
    wanted = sorted(trial.name for trial in catalog.trials if low <= trial.config["lr"] <= high)
    assert 8 < len(wanted) < 16
    viewer.wait(f"(names) => {NAMES} === names", ",".join(wanted))
    assert len(viewer.all(".parallel path:not(.pale)", "1")) == len(wanted)
    drag(viewer, "lr", 0.8, 1)  # another range of the axis replaces the first
    viewer.wait(f"{FILTER}.startsWith('lr=') && {FILTER} !== '{text}'")
    drag(viewer, "act", 0.02, 0.6)  # e lu and relu
    viewer.wait(f"""{FILTER}.includes('(act="e lu" OR act=relu)')""")
    viewer.wait("document.querySelectorAll('.parallel .kept').length === 2")
    kept = viewer.frame.evaluate(NAMES).split(",")
    assert kept
    assert {trial.config["act"] for trial in catalog.trials if trial.name in kept} == {"e lu", "relu"}
    viewer.frame.click("button[aria-label='Clear the range of act']")
    viewer.wait(f"!{FILTER}.includes('act')")
    viewer.frame.click("button[aria-label='Clear the range of lr']")
    viewer.wait(f"{FILTER} === '' && document.querySelectorAll('.parallel path.pale').length === 0")


def test_a_range_that_is_typed_is_on_its_axis_and_a_line_opens_its_clip(viewer):
    show(viewer, "parallel=true&filter=score=20..30 act%3Dtanh")
    viewer.wait("document.querySelectorAll('.parallel .kept').length === 2")
    place = viewer.frame.evaluate(
        "(() => { const axes = document.querySelectorAll('.axis'); const last = axes[axes.length - 1];"
        "last.scrollIntoView({ block: 'center' }); const kept = last.querySelector('.kept').getBoundingClientRect();"
        "return [kept.left - 16, (kept.top + kept.bottom) / 2]; })()"
    )
    for up in range(-60, 60, 4):
        viewer.page.mouse.move(place[0], place[1] + up)
        if viewer.all(".parallel .peek"):
            break
    viewer.wait("document.querySelector('.parallel .peek')?.innerText.includes('tanh')")
    viewer.page.mouse.down()
    viewer.page.mouse.up()
    viewer.wait("tuneMedia.app.instance.state.view === 'clip'")


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
    assert "What matters: lr." in viewer.all(".importance p")[0]


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


def test_a_gallery_knows_the_short_names_of_columns(browser, sweep, tmp_path):
    with served("gallery", sweep, tmp_path) as url, viewer_page(browser, "gallery") as viewer:
        viewer.open(url, "view=episodes&where=retrun%3E2")
        viewer.wait("document.querySelector('.episodes-view .problem')?.innerText.includes('did you mean “return”?')")
        assert viewer.errors == []


def test_the_choice_of_axes_begins_with_those_that_are_shown(browser, tmp_path):
    for number in range(3):
        params = {f"p{at}": number + at for at in range(9)}  # and lr
        write_trial(tmp_path / "exp" / f"t_{number}", number, steps=(1,), **params)
    with served("watch", tmp_path / "exp", tmp_path) as url, viewer_page(browser, "watch") as viewer:
        for panel, shown in (("params", 6), ("parallel", 8)):
            viewer.open(url, f"{panel}=true")
            viewer.wait("document.querySelector('.panel .chip + .chip')")
            viewer.frame.click(f"text={shown} of 10 hyperparameters …")
            checked = viewer.all("dialog .checks input", "e.checked")
            assert (len(checked), sum(checked)) == (10, shown)
            viewer.frame.click("dialog .checks label >> nth=0")  # without it, the others stay
            viewer.wait(f"document.body.innerText.includes('{shown - 1} of 10 hyperparameters …')")
        assert viewer.errors == []
