import math

import pytest

import tune_media as tm
from tests.support.stores import StoredTrial
from tests.support.viewing import moving_bar, write_run
from tune_media.values.episodes import success_rate

pytestmark = pytest.mark.slow

SMALL_LAPTOP = {"width": 1280, "height": 800}
BOX = "(({ left, right, top, bottom, height }) => ({ left, right, top, bottom, height }))(e.getBoundingClientRect())"


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """Twenty trials of five configurations, four runs each, with success rates; their clips are high."""
    experiment = tmp_path_factory.mktemp("layout") / "exp"
    for number in range(20):
        level = 10 * (number // 4)
        params = {"lr": 0.001 * (1 + number // 4), "seed": number % 4, "env": "E"}
        returns = [level * step / 10 + number % 4 for step in range(1, 11)]
        success = success_rate([True] * level + [False] * (50 - level))
        results = [{"episode_return_mean": one, "custom_metrics": success} for one in returns]
        folder = write_run(experiment / f"t{number:02d}", params, *results)
        record = tm.EpisodeRecord(f"e{number}", float(level), 5, training_iteration=10)
        frames = moving_bar(6).repeat(4, axis=1)
        with StoredTrial.in_folder(folder) as store:
            for key in ("best", "worst"):
                store.add(tm.Video(frames, fps=10, episode=record), "evaluation", f"episodes/{key}", 10)
    return experiment


@pytest.fixture
def viewer(viewer):
    viewer.page.set_viewport_size(SMALL_LAPTOP)
    return viewer


@pytest.mark.parametrize("cards", ["configurations", "trials"])
def test_the_picture_and_the_curves_are_above_the_player_and_cards_are_no_towers(viewer, cards):
    viewer.open(viewer.url, f"cards={cards}")
    viewer.wait("document.querySelector('.curves .u-over') && document.querySelector('.card video')?.readyState >= 2")
    (dock,) = viewer.all(".dock", BOX)
    (picture,), (curves,) = (viewer.all(name, BOX) for name in (".verdict-picture", ".curves"))
    assert picture["bottom"] <= curves["top"] < curves["bottom"] <= dock["top"]
    assert max(card["height"] for card in viewer.all(".card", BOX)) < 450
    assert viewer.all(".card video", BOX)[0]["height"] >= 180
    viewer.frame.evaluate("tuneMedia.app.instance.set({ size: 640 })")
    viewer.wait("document.querySelector('.card video').clientHeight > 400")
    assert max(card["height"] for card in viewer.all(".card", BOX)) < 700


CONTROLS = """() => [...document.querySelectorAll("button, input, select, summary, a")].filter((e) => {
  const { width, height, top, bottom } = e.getBoundingClientRect();
  const isContent = e.closest(".card, .verdict-row");
  return !isContent && e.checkVisibility() && Math.min(width, height) > 1 && bottom > 0 && top < innerHeight;
}).map((e) => e.className || e.innerText || e.tagName)"""


def test_the_first_screen_has_few_controls_beside_the_cards(viewer):
    viewer.open(viewer.url)
    viewer.wait("document.querySelector('.curves .u-over') && document.querySelectorAll('.dot').length === 20")
    controls = viewer.frame.evaluate(CONTROLS)
    assert "clip-choice" in controls and "score-choice" in controls
    assert len(controls) <= 16, controls
    viewer.frame.click(".more-shown")  # the others are in folds
    viewer.frame.click(".transport .fold")
    assert len(viewer.frame.evaluate(CONTROLS)) >= len(controls) + 10


# Which dots of a row are on top at their centres.
ON_TOP = """(row) => [...document.querySelectorAll(`${row} .dot circle`)].map((dot) => {
  const { left, top, width, height } = dot.getBoundingClientRect();
  return dot.contains(document.elementFromPoint(left + width / 2, top + height / 2));
})"""


@pytest.mark.parametrize("width", [390, 1920])
def test_each_dot_can_be_seen_and_opens_its_run(viewer, width):
    """Runs that are nearly equal have dots that would cover each other. Where there is least room, some are clicked."""
    viewer.page.set_viewport_size({"width": width, "height": 800})
    viewer.open(viewer.url)
    viewer.wait("document.querySelectorAll('.dot').length === 20")
    seen = []
    for place in range(5):
        row = f"li.verdict-row:nth-child({place + 1})"
        viewer.frame.locator(row).scroll_into_view_if_needed()
        (box,), dots = viewer.all(f"{row} .drawn", BOX)[:1], viewer.all(f"{row} .dot circle", BOX)
        for at, dot in enumerate(dots):
            assert box["left"] <= dot["left"] and dot["right"] <= box["right"]
            assert all(distance(dot, other) > 7 for other in dots[:at])
        assert viewer.frame.evaluate(ON_TOP, row) == [True] * 4
        for at in range(4 if (width, place) == (390, 0) else 0):
            viewer.frame.locator(row).scroll_into_view_if_needed()
            dot = viewer.frame.locator(f"{row} .dot").nth(at)
            title = dot.get_attribute("aria-label")
            dot.locator("circle").click()
            viewer.wait("document.querySelector('.trial-view')")
            trial = viewer.frame.evaluate("tuneMedia.app.instance.state.trial")
            assert title.startswith(f"seed {int(trial[1:]) % 4}: ")
            seen.append(trial)
            viewer.page.go_back()
            viewer.wait("document.querySelectorAll('.dot').length === 20")
    assert width > 390 or sorted(seen) == ["t16", "t17", "t18", "t19"]


def distance(one, other):
    """Return how far the centres of two boxes are from each other."""
    return math.hypot(*(one[a] + one[b] - other[a] - other[b] for a, b in (("left", "right"), ("top", "bottom")))) / 2


# The hues of the chart, in steps of 30 degrees, that fill a line: its edges have others.
HUES = """() => {
  const canvas = document.querySelector(".curves canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const found = new Map();
  for (let at = 0; at < data.length; at += 4) {
    const [red, green, blue, alpha] = data.slice(at, at + 4);
    const spread = Math.max(red, green, blue) - Math.min(red, green, blue);
    if (alpha < 100 || spread < 60) continue;
    const hue = Math.round(Math.atan2(Math.sqrt(3) * (green - blue), 2 * red - green - blue) * 6 / Math.PI);
    found.set(hue, (found.get(hue) || 0) + 1);
  }
  return [...found].filter(([, count]) => count > 900).map(([hue]) => hue).sort();
}"""


def test_of_many_curves_the_best_and_the_one_under_the_pointer_have_a_colour(viewer):
    viewer.open(viewer.url, "cards=trials")
    viewer.wait("document.querySelector('.curves .u-over')")
    viewer.wait(f"({HUES})().length === 1")
    assert viewer.frame.evaluate(HUES) == [1]  # gold
    assert "lr 0.005 · seed 1" in viewer.all(".curves .panel-head .muted")[0]
    (over,) = viewer.all(".curves .u-over", BOX)
    viewer.page.mouse.move(over["right"] - 60, over["bottom"] - 7)  # of a colour that is not near gold
    viewer.wait("document.querySelector('.curves .peek b')?.innerText === 'lr 0.001 · seed 3'")
    viewer.wait(f"({HUES})().length === 2")
    viewer.open(viewer.url, "cards=configurations")
    viewer.wait("document.querySelector('.curves .u-over')")
    viewer.wait(f"({HUES})().length >= 4")  # few curves have a colour each


def test_all_dots_and_intervals_are_inside_the_axes(viewer):
    viewer.open(viewer.url, "params=true&chart=false")
    viewer.wait("document.querySelectorAll('.scatter .mark circle').length === 40")
    for plot, marks in zip(
        viewer.all(".scatter .plot > svg", BOX),
        viewer.all(".scatter .plot", f"[...e.querySelectorAll('circle, .interval, .mean')].map((e) => {BOX})"),
        strict=True,
    ):
        for mark in marks:
            assert plot["left"] - 0.5 <= mark["left"] <= mark["right"] <= plot["right"] + 0.5
            assert plot["top"] - 0.5 <= mark["top"] <= mark["bottom"] <= plot["bottom"] + 0.5
