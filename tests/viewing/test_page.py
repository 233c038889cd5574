"""The page in Chromium, over small experiments that no trial was run for."""

import shutil

import pandas as pd
import pytest

import tune_media as tm
from tests.support.browser import opened, served, viewer_at, viewer_page
from tests.support.viewing import index_lines, write_index, write_results, write_snapshot, write_trial

pytestmark = pytest.mark.slow

NAMES = "[...document.querySelectorAll('.card')].map((card) => card.dataset.trial).sort().join()"


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """Three trials; one has failed, and their hyperparameters have names that clips have facts of, too."""
    experiment = tmp_path_factory.mktemp("page") / "exp"
    write_trial(experiment / "a", 0, lr=0.00112, seed=50000, name="x", gamma=None, **{"my name": 3})
    write_trial(experiment / "b", 1, lr=0.00114, seed=0, name="y", gamma=0.9, **{"my name": 4})
    write_trial(experiment / "c", 2, lr=0.5, seed=1, name="z", gamma=0.5, schedule="<function warm at 0x7f0c>")
    write_snapshot(experiment, a="TERMINATED", b="RUNNING", c="ERROR")
    (experiment / "c" / "error.txt").write_text("Failure # 1\nTraceback ...\nValueError: the actuator is stuck\n")
    return experiment


def show(viewer, link=""):
    viewer.open(viewer.url, link)
    viewer.wait("document.querySelectorAll('.card').length > 0 && tuneMedia.app.instance.data.trials[0].status !== ''")


def test_a_filter_knows_hyperparameters_first_then_the_clips_facts_and_takes_a_click_on_a_value(viewer):
    """tests/viewing/test_filter_language.py has its grammar."""
    show(viewer)
    filters = {"seed=0": "b", "name=z": "c", "trial=b": "b", "clip.step=20": "a,b,c", "clip.return>21": "b,c"}
    for text, found in (filters | {"gamma=None OR schedule=warm": "a,c", "status=error": "c", "failed": "c"}).items():
        viewer.frame.fill(".filter", text)
        viewer.frame.wait_for_selector(".count")
        viewer.wait("(text) => tuneMedia.app.instance.state.filter === text", text)
        assert (text, viewer.frame.evaluate(NAMES)) == (text, found)
    viewer.frame.fill(".filter", "gamam=0.9")
    viewer.wait("() => document.body.innerText.includes('called “gamam”; did you mean “gamma”?')")
    viewer.frame.fill(".filter", "")
    viewer.frame.evaluate("tuneMedia.app.instance.set({ size: 360 })")  # room for three
    viewer.frame.click(".card[data-trial=a] .params button[title*='my name']")
    viewer.wait(f"{NAMES} === 'a'")
    assert viewer.all(".filter", "e.value") == ['"my name"=3']


def test_a_failed_trial_says_so_and_why(viewer):
    show(viewer)
    failed = viewer.all(".card", "[e.dataset.trial, !!e.querySelector('.failed-trial')]")
    assert sorted(failed) == [["a", False], ["b", False], ["c", True]]
    assert viewer.all(".card .params.error") == ["ValueError: the actuator is stuck"]
    viewer.frame.click(".card[data-trial=c] .name")
    viewer.wait("document.querySelector('.trial-view .u-over')")
    viewer.wait("document.querySelector('.tracebacks pre')")
    (shown,) = viewer.all(".tracebacks pre", "e.textContent")
    assert shown.startswith("Failure # 1\n")


def test_the_slider_moves_the_scores_with_the_clips(viewer):
    show(viewer, "step=10")
    viewer.wait("document.querySelector('.card .score')?.innerText.includes('at step 10')")
    scores = viewer.all(".card", "[e.dataset.trial, e.querySelector('.score dd').innerText]")
    assert sorted(scores) == [["a", "10"], ["b", "11"], ["c", "12"]]
    viewer.press("End")
    viewer.wait("document.querySelector('.card .score').innerText.endsWith('22')")
    assert not any("at step" in text for text in viewer.all(".card .score"))


def test_the_focus_and_the_place_on_the_page_come_back_and_a_card_is_one_stop(viewer):
    viewer.page.set_viewport_size({"width": 400, "height": 500})
    show(viewer, "sort=name&descending=false")
    viewer.wait("document.querySelector('.curves .u-over')")
    viewer.frame.focus(".card[data-trial=b]")
    viewer.press("Tab")
    assert viewer.frame.evaluate("document.activeElement.dataset.trial") == "c"
    place = viewer.frame.evaluate("scrollY")
    assert place > 0
    viewer.press("Enter")
    viewer.wait("document.activeElement.matches('.clip-view h2')")
    assert viewer.all("a[download]", "e.download") == ["exp_c_best_step20.mp4"]
    viewer.press("Escape")
    viewer.wait("document.activeElement.matches('.trial-view .film[aria-current=true] button')")
    viewer.press("Escape")
    viewer.wait("document.activeElement.dataset.trial === 'c'")
    assert viewer.frame.evaluate("scrollY") == place
    viewer.page.set_viewport_size({"width": 1400, "height": 400})
    viewer.press("?")
    viewer.wait("document.querySelector('dialog[open]').contains(document.activeElement)")
    viewer.wait("/^[0-9.]+ MB: .*clips/.test(document.querySelector('.disk-use').innerText)")
    assert {"▶", "▷", "≠", "⚙"} <= set(viewer.all("dialog dt"))
    assert viewer.frame.evaluate("document.querySelector('dialog[open]').scrollTop") == 0  # its button is at its end
    viewer.press("Tab")
    viewer.press("Tab")
    inside = "document.activeElement === document.body || !!document.activeElement.closest('dialog')"
    assert viewer.frame.evaluate(inside)
    viewer.press("Escape")
    viewer.wait("!document.querySelector('dialog') && document.activeElement.dataset.trial === 'c'")


def test_a_metric_is_searched_for_by_name(viewer):
    show(viewer)
    viewer.frame.click(".score-choice")
    viewer.frame.fill("dialog .search", "iterat")
    assert viewer.all("dialog .names button") == ["training_iteration"]
    viewer.press("Enter")
    viewer.wait("document.querySelector('.score-choice').innerText === 'Winner by training_iteration, max'")
    assert viewer.frame.evaluate("tuneMedia.app.instance.state.score") == "training_iteration"


def test_a_dialog_that_takes_the_place_of_another_stays(viewer):
    show(viewer)
    viewer.frame.evaluate(f"() => {APP}.show(tuneMedia.keys.Help)")
    viewer.wait("document.querySelector('dialog[open]')")
    viewer.frame.evaluate(f"() => {APP}.show(tuneMedia.scatter.Axes)")
    viewer.frame.evaluate("() => new Promise((resolve) => setTimeout(resolve, 200))")  # the other's event came
    assert viewer.frame.evaluate("() => document.querySelectorAll('dialog[open]').length") == 1
    assert viewer.frame.evaluate(f"() => {APP}.state.dialog.view === tuneMedia.scatter.Axes")


def test_a_clip_that_is_deleted_while_it_is_watched_stays_and_its_link_says_so(browser, tmp_path):
    folder = write_trial(tmp_path / "exp" / "a", 0, steps=(10, 20))
    lines = index_lines(folder)
    (clip,) = [line for line in lines if line["step"] == 10 and line["key"] == "episodes/best"]
    link = f"view=clip&trial=a&clip={clip['path']}"
    with opened(browser, tmp_path / "exp", tmp_path, link) as viewer:
        viewer.wait("document.querySelector('.stage video')?.readyState >= 2")
        source = viewer.all(".stage video", "e.src")
        write_index(folder, [line for line in lines if line is not clip])
        (folder / clip["path"]).unlink()
        viewer.frame.evaluate("tuneMedia.app.instance.reload()")
        viewer.wait("document.querySelector('.notice')?.innerText.includes('deleted')")
        assert viewer.all(".stage video", "e.src") == source
        viewer.open(viewer.url, link)
        viewer.wait("document.querySelector('main h2').innerText === 'This clip is no longer there'")
        assert viewer.all("main p")[0] == "a has no clip at this link. It may have been deleted."
        viewer.frame.click("main button.primary")
        viewer.wait("document.querySelector('.stage video')?.readyState >= 2")


def test_a_clip_that_does_not_play_says_whether_the_browser_lacks_its_codec(browser, tmp_path):
    for clip in write_trial(tmp_path / "exp" / "a", 0).rglob("*.mp4"):
        clip.write_bytes(b"no clip")  # what no browser can decode
    with served("watch", tmp_path / "exp", tmp_path) as url:
        for support, told in (("", "cannot decode H.264: Firefox"), ("maybe", "may have been deleted")):
            with viewer_page(browser, "watch") as viewer:
                viewer.page.add_init_script(f"HTMLMediaElement.prototype.canPlayType = () => '{support}'")
                viewer.open(url)
                viewer.wait("(told) => document.querySelector('.card .failed')?.innerText.includes(told)", told)


RETURNS = {0.1: [10, 12, 11, 30], 0.2: [20, 21, 19, 22]}  # the best run is of the worse configuration


@pytest.fixture(scope="module")
def seeds(tmp_path_factory):
    experiment = tmp_path_factory.mktemp("seeds") / "exp"
    for lr, returns in RETURNS.items():
        for seed, value in enumerate(returns):
            folder = write_trial(experiment / f"lr={lr}_{seed}", seed, steps=(10,), lr=lr, seed=seed)
            results = [{"training_iteration": 10 * n, "episode_return_mean": value * n / 2} for n in (1, 2)]
            write_results(folder, *results)
    folder = write_trial(experiment / "failed", 9, steps=(10,), lr=0.2, seed=9)
    (folder / "error.txt").write_text("ValueError: stuck\n")
    write_snapshot(experiment, failed="ERROR")
    return experiment


@pytest.fixture(scope="module")
def seeds_url(seeds):
    with served("watch", seeds, seeds) as url:
        yield url


@pytest.fixture
def seeds_viewer(browser, seeds_url):
    with viewer_at(browser, seeds_url) as viewer:
        yield viewer


SMALL = """() => {
  const box = (selector) => document.querySelector(selector).getBoundingClientRect();
  const [header, answer, dock, slider] = [".bar.top", ".winner-line", ".dock", ".steps-slider input"].map(box);
  return {
    bars: (header.height + dock.height) / innerHeight, isAnswerInView: answer.bottom <= dock.top, slider: slider.width,
    overflow: document.documentElement.scrollWidth - innerWidth,
    small: [...document.querySelectorAll(".bar :is(button, select, input)")].filter((e) => e.offsetHeight)
      .filter((e) => e.offsetHeight < 40 || e.offsetWidth < 40).map((e) => e.outerHTML),
  };
}"""


@pytest.mark.parametrize("size", [(390, 844), (640, 400)], ids=["phone", "zoom of 200 %"])
def test_on_a_small_screen_the_answer_is_in_the_first_view(seeds_viewer, size):
    viewer = seeds_viewer
    viewer.page.set_viewport_size({"width": size[0], "height": size[1]})
    viewer.open(viewer.url)
    viewer.wait("document.querySelector('.winner-line video')?.readyState >= 2")
    viewer.wait("document.querySelector('.winner-line').innerText.includes('Another one may be as good')")
    viewer.wait("document.querySelector('.curves .u-over')")
    found = viewer.frame.evaluate(SMALL)
    assert found.pop("bars") < 0.21
    assert found.pop("slider") > 100
    assert found == {"isAnswerInView": True, "overflow": 0, "small": []}
    assert not viewer.frame.is_visible(".filter")
    for fold in viewer.frame.query_selector_all(".fold"):
        fold.click()
    viewer.frame.fill(".filter", "lr=0.1")
    viewer.wait("document.querySelectorAll('.card').length === 1")
    viewer.frame.click("text=loop")
    found = viewer.frame.evaluate(SMALL)
    assert (found["overflow"], found["small"]) == (0, [])


def test_configurations_are_judged_over_their_seeds(browser, seeds, tmp_path):
    table, host = tm.load(seeds).compare(), "tensorboard"  # tests/viewing/test_figures.py has tune-media watch
    with opened(browser, seeds, tmp_path, host=host) as viewer:
        viewer.wait("document.querySelectorAll('.card.configuration').length === 2")
        viewer.wait("document.querySelector('.runs .failed-trial')")
        assert viewer.page.main_frame.evaluate("document.querySelector('iframe[src*=plugin_entry]').title")
        viewer.frame.click(".card.winner .name")
        viewer.wait("document.querySelector('.trial-view')")
        viewer.page.go_back()  # TensorBoard's Back leads back, to the first view, too
        viewer.wait("document.querySelector('.grid-view')")
        shown = viewer.frame.evaluate("tuneMedia.app.instance.judged.all.map(({ n, mean }) => [n, mean])")
        for (n, mean), (_, row) in zip(shown, table.iterrows(), strict=True):
            assert n == row["n"]
            assert mean == pytest.approx([row["mean"], row["low"], row["high"]])
        assert [text.split("\n")[0] for text in viewer.all(".card .name")] == ["lr 0.2", "lr 0.1"]
        told = viewer.all(".winner-line")[0]
        assert "Best so far: lr 0.2. Another one may be as good." in told
        viewer.frame.click(".winner-line summary")
        (told,) = viewer.all(".winner-line")
        assert "ahead of #2, lr 0.1, by " in told
        assert "The highest single run is one of #2, lr 0.1, with 30; their mean is 15.75." in told
        assert len(viewer.all("li.verdict-row:first-child .dot", "1")) == 5  # one of them failed
        viewer.frame.click("li.verdict-row:first-child .dot[aria-label^='seed 3'] circle")
        viewer.wait("document.querySelector('.trial-view')?.innerText.includes('lr=0.2_3')")
        viewer.page.go_back()
        viewer.wait("document.querySelector('.grid-view')")
        viewer.frame.click(".card:first-child .runs .link")
        viewer.wait("document.querySelectorAll('.card:not(.configuration)').length === 5")
        viewer.frame.fill(".filter", "")
        viewer.wait("document.querySelectorAll('.card').length === 9")
        viewer.frame.click(".cards-choice .choice button")
        viewer.wait("document.querySelectorAll('.card.configuration').length === 2")


def test_a_configuration_whose_runs_are_filtered_is_of_those_left(seeds_viewer):
    facts = "[e.querySelector('.runs .link').innerText, e.querySelector('.score dd').innerText]"
    viewer = seeds_viewer.open(seeds_viewer.url, "filter=lr=0.2 seed=3")
    viewer.wait("document.querySelectorAll('.card.configuration').length === 1")
    assert viewer.all(".card", facts) == [["1 of 4 runs, by the filter", f"{RETURNS[0.2][3]}"]]
    viewer.wait("document.querySelector('.curves')?.innerText.includes('Only of runs that pass the filter.')")
    (label,) = viewer.all(".curves [role=img]", "e.getAttribute('aria-label')")
    assert label.endswith("1 lines; the best is lr 0.2 (1 of 4 runs)")
    assert viewer.all("li.verdict-row", "e.classList.contains('outside')") == [False, True]
    assert viewer.all(".card .rank, .card .ends, .card .success, .card .best-worst", "1") == []
    viewer.frame.fill(".filter", "seed>1")  # two of each: the mean of two, the better first
    viewer.wait("document.querySelectorAll('.card.configuration').length === 2")
    of_two = [[f"{sum(RETURNS[lr][2:]) / 2:g}", lr] for lr in RETURNS]
    means = [value for value, _ in sorted(of_two, key=lambda item: -float(item[0]))]
    assert viewer.all(".card", facts) == [["2 of 4 runs, by the filter", mean] for mean in means]
    viewer.frame.fill(".filter", "lr=0.2")
    viewer.wait("document.querySelector('.card .rank')?.innerText === '#1'")
    assert viewer.all(".card", facts)[0][0] == "4 runs"


def test_all_curves_are_on_one_chart(seeds_viewer):
    viewer = seeds_viewer.open(seeds_viewer.url, "cards=trials")
    viewer.wait("document.querySelector('.curves .u-over') && document.querySelectorAll('.card').length === 9")
    curve = viewer.frame.locator(".curves .u-over")
    curve.scroll_into_view_if_needed()
    place = curve.bounding_box()
    viewer.page.mouse.move(place["x"] + place["width"] / 2, place["y"] + place["height"] / 2)
    viewer.page.mouse.move(place["x"] + place["width"] - 2, place["y"] + 12)
    viewer.wait("document.querySelector('.peek')?.innerText.includes('step 20: 30')")
    viewer.wait("document.querySelector('.peek video')?.readyState >= 2")  # the clip of that point plays
    label = viewer.all(".peek b")[0]
    viewer.page.mouse.click(place["x"] + place["width"] - 2, place["y"] + 12)
    viewer.wait("(label) => document.querySelector('.clip-view h2')?.innerText.includes(label)", label)
    assert label == "lr 0.1 · seed 3"
    viewer.press("Escape")
    viewer.press("Escape")
    viewer.wait("document.querySelector('.curves .u-over')")
    place = viewer.frame.locator(".curves .u-over").bounding_box()
    x, y, width, height = place["x"], place["y"], place["width"], place["height"]
    viewer.page.mouse.move(x + 0.6 * width, y + 1)
    viewer.page.mouse.down()
    viewer.page.mouse.move(x + 0.8 * width, y + 0.2 * height, steps=5)
    viewer.page.mouse.move(x + 0.9 * width, y + 0.3 * height, steps=5)
    viewer.page.mouse.up()
    viewer.wait("document.querySelectorAll('.card').length === 1")  # only the curve that passes there
    assert viewer.all(".card", "e.dataset.trial") == ["lr=0.1_3"]
    assert viewer.frame.evaluate("tuneMedia.app.instance.state.view") == "grid"
    viewer.frame.click(".curves .chip[aria-pressed=true]")
    viewer.wait("document.querySelectorAll('.card').length === 9")


def test_all_episodes_are_a_table(seeds, seeds_viewer):
    frame = tm.load(seeds).episodes()
    viewer = seeds_viewer.open(seeds_viewer.url)
    viewer.frame.click("text=All episodes")
    viewer.wait("document.querySelectorAll('.episodes tbody tr').length > 0")
    viewer.wait(f"document.querySelector('.heading-title p').innerText === '{len(frame)} episodes'")
    viewer.frame.click(".episodes th button[title=episode_return]")
    best = frame["episode_return"].max()
    viewer.wait("document.querySelector('th[aria-sort=descending]')?.innerText.includes('return')")
    column = viewer.all(".episodes th button", "e.title").index("episode_return") + 2
    viewer.wait(f"document.querySelector('.episodes td:nth-child({column})').innerText === '{best:g}'")
    viewer.frame.fill(".where", "return < 8 and seed = None")
    viewer.wait("document.querySelector('.heading-title p').innerText.includes(' of ')")
    count = int((frame["episode_return"] < 8).sum())
    viewer.wait(f"document.querySelectorAll('.episodes tbody tr').length === {count}")
    viewer.frame.click("text=columns …")
    viewer.frame.click("dialog label:has-text('episode_id')")
    viewer.press("Escape")
    viewer.wait("![...document.querySelectorAll('.episodes th')].some((e) => e.innerText === 'id')")
    with viewer.page.expect_download() as saved:
        viewer.frame.click("text=Export CSV")
    assert saved.value.suggested_filename == "exp_episodes.csv"
    rows = pd.read_csv(saved.value.path())
    assert list(rows.columns) == viewer.all(".episodes th button", "e.title") and "episode_id" not in rows
    wanted = frame[(frame["episode_return"] < 8) & frame["seed"].isna()]
    assert rows["episode_return"].tolist() == sorted(wanted["episode_return"], reverse=True)
    viewer.frame.hover(".episodes td button")
    viewer.wait("document.querySelector('.peek video')?.readyState >= 2")
    viewer.frame.click(".episodes td button")
    viewer.wait("document.querySelector('.stage video')?.readyState >= 2")


def test_each_hyperparameter_stands_against_the_score(browser, seeds, tmp_path):
    scores = {f"lr={lr}_{seed}": value for lr, values in RETURNS.items() for seed, value in enumerate(values)}
    with opened(browser, seeds, tmp_path, "params=true", host="gallery") as viewer:
        viewer.wait("document.querySelectorAll('.card.configuration').length === 2")
        viewer.wait("document.querySelectorAll('.scatter .cross').length === 2")  # of the trial that failed
        assert [text.split()[0] for text in viewer.all(".scatter figcaption")] == ["lr", "seed"]
        dots, means = (viewer.all(f".scatter figure:first-child {mark}", "1") for mark in (".mark circle", ".mean"))
        assert (len(dots), len(means)) == (len(scores), 2)
        viewer.frame.focus(".scatter-place")
        viewer.page.keyboard.press("ArrowRight")
        best = max(scores, key=scores.__getitem__)
        viewer.wait("document.querySelector('.scatter .peek video')?.readyState >= 2")
        assert viewer.all(".scatter .peek p")[1].endswith("30 #1")
        viewer.page.keyboard.press("Enter")
        viewer.wait("document.querySelector('.stage video')?.readyState >= 2")
        assert viewer.frame.evaluate("tuneMedia.app.instance.state.trial") == best
        viewer.open(viewer.url, "score=training_iteration")  # a gallery has curves and configurations of every metric
        viewer.wait("document.querySelector('.curves .u-over') && document.querySelector('.card.configuration')")


VIEWS = {
    "configurations": ("params=true", ""),
    "trials": ("cards=trials&filter=nothing%3D3", ""),
    "table": ("cards=table", ""),
    "trial": ("view=trial&trial=lr=0.2_0", ""),
    "failed trial": ("view=trial&trial=failed", ""),
    "clip": ("view=clip&trial=lr=0.2_0", ""),
    "compare": ("view=compare&ticked=lr=0.2_0%0Alr=0.1_3", ""),
    "clip that is gone": ("view=clip&trial=lr=0.2_0&clip=step_000000010", ""),
    "episodes": ("view=episodes&order=episode_return", ""),
    "some episodes": ("view=episodes&where=return<100", ""),
    "help": ("", "show(tuneMedia.keys.Help)"),
    "hyperparameters": ("", "show(tuneMedia.scatter.Axes)"),
    "metrics": ("", "show(tuneMedia.bars.Ranking)"),
    "columns": ("", "show(tuneMedia.episodes.Columns, { columns: ['trial', 'metrics/x'] })"),
    "columns of the table": ("cards=table", "show(tuneMedia.table.Columns)"),
}


APP = "tuneMedia.app.instance"


def test_axe_finds_nothing_on_any_view_and_none_is_wider_than_its_screen(seeds_viewer):
    viewer, found = seeds_viewer, {}
    for size, theme in (((1400, 900), "light"), ((390, 844), "dark")):
        viewer.page.set_viewport_size({"width": size[0], "height": size[1]})
        viewer.page.emulate_media(color_scheme=theme)
        viewer.open(viewer.url)
        viewer.wait("tuneMedia.app.instance.data?.trials[0].status !== ''")
        for name, (link, dialog) in VIEWS.items():
            viewer.frame.evaluate(f"(link) => {{ location.hash = link; {APP}.close(); }}", link)
            viewer.frame.evaluate(f"() => {{ {APP}.readLink(); {APP}.{dialog or 'close()'}; }}")
            if dialog:
                viewer.wait("document.querySelector('dialog[open]')")
            elif name == "table":
                viewer.wait("document.querySelectorAll('.run-table tbody tr').length === 9")
            elif not link.startswith("view"):
                viewer.wait("document.querySelector('.curves .u-over')")
            elif "episodes" in link:
                viewer.wait("document.querySelector('.episodes tbody tr')")
            elif name == "clip":
                viewer.wait("document.querySelector('.record td') && document.querySelector('.moment')")
            elif name == "compare":
                viewer.wait("document.querySelectorAll('main video').length === 2")
                viewer.wait("document.querySelector('.overlaid .u-over')")
            viewer.wait("document.documentElement.scrollWidth <= innerWidth")  # once charts have their width
            found |= {f"{name}, {theme}: {fault}": nodes for fault, nodes in viewer.axe_violations().items()}
    assert (found, viewer.errors) == ({}, [])


def test_the_page_loads_its_own_files_only_and_no_other_site_may_frame_it(browser, seeds_url):
    with viewer_page(browser, "watch") as viewer:
        answer = viewer.page.goto(seeds_url)
        policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
        assert (policy["default-src"], policy["script-src"], policy["base-uri"]) == ("'none'", "'self'", "'none'")
        assert policy["frame-ancestors"].split()[0] == "'self'"
        viewer.open(seeds_url)
        viewer.wait("document.querySelectorAll('.card video').length > 0")
        assert viewer.errors == []
        ran = """() => new Promise((done) => {
            document.addEventListener("securitypolicyviolation", () => done(false));
            const script = document.createElement("script");
            script.textContent = "window.ran = true";
            document.body.append(script);
            setTimeout(() => done(window.ran === true), 500);
        })"""
        assert viewer.frame.evaluate(ran) is False
        elsewhere = f"data:text/html,<iframe src='{seeds_url}'></iframe>"
        viewer.page.goto(elsewhere)
        assert not any(frame.query_selector("#viewer") for frame in viewer.page.frames)


def test_no_two_cards_have_one_title_and_what_differs_most_comes_first(browser, tmp_path):
    for number in range(24):
        params = {"a_gamma": 0.9 + number % 2 / 10, "clip": number // 2 % 3, "entropy": number // 6, "z": "y" * 30}
        write_trial(tmp_path / "exp" / f"t{number}", 0, steps=(10,), **params)
    titles = "e.innerText.split('\\n')[0]"
    with opened(browser, tmp_path / "exp", tmp_path, "cards=configurations") as viewer:
        for size in (280, 180):
            viewer.frame.evaluate("(size) => tuneMedia.app.instance.set({ size })", size)
            viewer.wait("document.querySelectorAll('.card .name').length > 3")
            shown = viewer.all(".card .name", "[e.innerText, e.scrollHeight <= e.clientHeight + 1]")
            assert len({text for text, _ in shown}) == len(shown)
            assert {(text.split(" ")[0], is_whole) for text, is_whole in shown} == {("entropy", True)}
        viewer.frame.fill(".filter", "entropy=1")
        viewer.wait("document.querySelectorAll('.card').length === 6")
        assert {text.split(" ")[0] for text in viewer.all(".card .name", titles)} == {"clip"}
        viewer.frame.fill(".filter", "entropy=1 clip=2")
        viewer.wait("document.querySelectorAll('.card').length === 2")
        assert {text.split(" ")[0] for text in viewer.all(".card .name", titles)} == {"a_gamma"}


def test_a_configuration_whose_runs_all_failed_shows_the_clips_that_there_are(browser, tmp_path):
    for number in range(4):
        folder = write_trial(tmp_path / "exp" / f"t{number}", number, steps=(10,), lr=number // 2, seed=number)
        if number == 2:
            shutil.rmtree(folder / "media")
        if number == 3:
            (folder / "params.json").write_text('{"lr": 1, "se')
    write_trial(tmp_path / "exp" / "t4", 4, steps=(10,), lr=1, seed=4)
    write_snapshot(tmp_path / "exp", t2="ERROR", t4="ERROR")
    with opened(browser, tmp_path / "exp", tmp_path) as viewer:
        viewer.wait("document.querySelectorAll('.card.configuration video').length === 3")
        titles = viewer.all(".card .name", "e.innerText.split('\\n')[0]")
        assert titles == ["unknown (params.json damaged) (trial t3)", "lr 0", "lr 1"]
        assert "clip: seed 4" in viewer.all(".card.configuration")[2]
        (banner,) = viewer.all("details.banner", "e.textContent")
        assert "t3/params.json: it is no JSON object" in banner.replace("\n", "")
