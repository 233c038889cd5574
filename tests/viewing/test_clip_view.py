"""A clip beside its chart, the clips of a configuration, their keys, and the axes of hyperparameters, in Chromium."""

import numpy as np
import pytest

import tune_media as tm
from tests.support.browser import opened
from tests.support.stores import StoredTrial
from tests.support.viewing import moving_bar, write_run
from tune_media.values.episodes import EpisodeBatch, EpisodeData, Series, Trajectory

pytestmark = pytest.mark.slow

LENGTH = 20
SIZES = [(390, 844), (1280, 800), (1920, 1080)]
BOX = "(({ left, right, top, bottom }) => ({ left, right, top, bottom }))(e.getBoundingClientRect())"
APP = "tuneMedia.app.instance"


def write_clips(folder, lr, seed):
    """Write a run with two wide clips; the worst one has the trajectory of its episode, too."""
    level = 100 * lr + seed
    result = {"training_iteration": 5, "episode_return_mean": level}
    store = StoredTrial.in_folder(write_run(folder, {"lr": lr, "seed": seed}, result))
    steps = np.arange(LENGTH + 1)
    episodes, trajectories = [], {}
    for key, sign in (("best", 1), ("worst", -1)):
        own = {"goals": sign} if key == "best" else {}
        record = tm.EpisodeRecord(
            f"{folder.name}-{key}", level + 5 * sign, LENGTH, seed=seed, env_index=3, training_iteration=5, metrics=own
        )
        frames = moving_bar(LENGTH + 1, seed)[:, ::8].repeat(10, axis=1).repeat(10, axis=2)[:, :60, :600]
        store.add(tm.Video(frames, fps=10, episode=record), "evaluation", f"episodes/{key}", 5)
        height = np.sin(steps / 3)
        series = {"height": Series(height[1:], 1, LENGTH), "level": Series(np.ones(LENGTH), 1, LENGTH)}
        episodes.append(EpisodeData(record, series))
        columns = {"observation": np.stack([height, np.cos(steps / 3), np.ones(LENGTH + 1)], 1), "action": steps % 2}
        trajectories[record.id] = Trajectory({"step": steps, "reward": np.ones(LENGTH + 1), **columns})
    store.add(EpisodeBatch(tuple(episodes), trajectories), "evaluation", "episodes/data", 5)
    store.finish()


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """Two configurations of three runs."""
    experiment = tmp_path_factory.mktemp("clips") / "my_sweep"
    for lr in (0.1, 0.2):
        for seed in range(3):
            write_clips(experiment / f"lr={lr}_{seed}", lr, seed)
    return experiment


CLIP = "view=clip&trial=lr%3D0.1_1"


def test_a_clip_and_its_chart_are_side_by_side_and_in_step(viewer):
    for width, height in SIZES:
        viewer.page.set_viewport_size({"width": width, "height": height})
        viewer.open(viewer.url, CLIP)
        viewer.wait("document.querySelector('.stage video')?.readyState >= 2 && document.querySelector('.u-over')")
        (video,), (chart, *_), (dock,) = (viewer.all(one, BOX) for one in (".stage", ".inside .u-over", ".dock"))
        if width < 900:
            assert chart["top"] >= video["bottom"] and chart["left"] < video["right"]
        else:
            assert chart["left"] >= video["right"] and chart["bottom"] <= dock["top"]
    viewer.frame.evaluate(f"{APP}.group.pause()")
    line = "document.querySelector('.u-cursor-x')"
    share = f"new DOMMatrix(getComputedStyle({line}).transform).e / {line}.parentElement.clientWidth"
    for frame in (3, 15):
        viewer.frame.evaluate(f"{APP}.group.showFrame({frame})")
        viewer.wait(f"document.querySelector('.frame').innerText === '{frame + 1}'")
        assert viewer.frame.evaluate(share) == pytest.approx(frame / LENGTH, abs=0.01)
    viewer.frame.click(".chip:has-text('observation/1')")
    viewer.wait("document.querySelector('.u-legend').innerText.includes('observation/1')")
    viewer.wait(f"Math.abs({share} - {15 / LENGTH}) < 0.01")  # the chart was drawn anew


def test_the_users_own_values_are_first_each_series_is_there_once_and_how_a_clip_was_recorded_is_in_a_fold(viewer):
    viewer.open(viewer.url, CLIP)
    viewer.wait("document.querySelector('.record td') && document.querySelector('.steps')")
    viewer.wait("document.querySelector('.inside .u-over')")
    names = viewer.all(".record > table th")
    assert names[:2] == ["goals", "episode return"]
    assert not {"env index", "frame stride", "bytes", "path"} & set(names)
    assert {"env index", "bytes", "path"} <= set(viewer.all(".record details th", "e.textContent"))
    series = set(viewer.all(".series-head:not(:has(.swatch)) .chip"))
    assert series == {"height", "level", "reward", "return so far", "observation/1", "observation/2", "action"}


def test_no_badge_hides_a_wide_clip(viewer):
    for cards in ("trials", "configurations"):
        viewer.open(viewer.url, f"cards={cards}")
        viewer.wait("document.querySelector('.card.winner video')?.readyState >= 2")
        for width, height in SIZES:
            viewer.page.set_viewport_size({"width": width, "height": height})
            viewer.wait("(width) => innerWidth === width", width)
            top = "e.closest('.card').querySelector('video').getBoundingClientRect().top"
            hides = viewer.all(".card.winner :is(.ribbon, .tick)", f"e.getBoundingClientRect().bottom > {top}")
            assert True not in hides


def test_the_worst_the_median_and_the_best_clip_of_all_runs_are_in_one_row(viewer):
    viewer.open(viewer.url, "cards=configurations")
    viewer.wait("document.querySelectorAll('.card.configuration video').length === 2")
    viewer.frame.click(".card[data-trial='lr=0.1_1'] .best-worst")
    viewer.wait("document.querySelectorAll('.side video').length === 3")
    assert viewer.all(".side .big") == ["5", "7", "17"]  # of 5, 6, 7, 15, 16, 17
    assert viewer.all(".side h3") == ["worst · seed 0", "median · seed 2", "best · seed 2"]
    assert len({box["top"] for box in viewer.all(".side", BOX)}) == 1


def test_the_runs_of_a_row_have_keys_and_esc_gives_the_focus_back(viewer):
    viewer.open(viewer.url, "cards=configurations")
    viewer.wait("document.querySelector('.card.configuration')")
    viewer.wait("document.querySelectorAll('.verdict-row .dot').length === 6")
    viewer.frame.focus(".verdict-row .name")
    shown, name = [], "e.getAttribute('aria-label')"
    for _ in range(3):
        viewer.press("o")
        shown += viewer.all(".dot:focus", name)
    assert sorted(shown) == sorted(viewer.all(".verdict-row:focus-within .dot", name))
    viewer.press("Enter")
    viewer.wait("document.querySelector('.trial-view')")
    viewer.press("Escape")
    viewer.wait("document.querySelector('.card.configuration')")
    viewer.frame.focus(".card.configuration")
    viewer.press("/")
    viewer.wait("document.activeElement.matches('.filter')")
    viewer.press("Escape")
    viewer.wait("document.activeElement.matches('.card')")
    viewer.press("m")
    viewer.wait("document.querySelectorAll('.side video').length === 3")
    viewer.press("Escape")
    viewer.wait("document.activeElement.matches('.card.configuration:first-child *, .card.configuration:first-child')")
    viewer.frame.focus(".card.configuration")
    viewer.press("e")
    viewer.wait("document.querySelectorAll('.card:not(.configuration)').length === 3")
    viewer.frame.focus(".card")
    viewer.press("Enter")
    viewer.wait("document.querySelector('.clip-view')")
    viewer.press("Escape")
    viewer.wait("document.activeElement.matches('.film[aria-current=true] .film-facts')")


def test_a_download_is_named_by_experiment_trial_key_and_step_and_its_path_is_copied(viewer, sweep):
    viewer.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    viewer.open(viewer.url, CLIP)
    viewer.frame.click("text=Copy path")
    viewer.wait("document.querySelector('.toast').innerText === 'Path copied'")
    (file,) = (sweep / "lr=0.1_1").rglob("best/*.mp4")
    assert viewer.frame.evaluate("navigator.clipboard.readText()") == str(file)
    viewer.wait("document.querySelector('a[download]')")
    assert viewer.all("a[download]", "e.download") == ["my_sweep_lr=0.1_1_best_step5.mp4"]


GAMMAS = [0.9, 0.95, 0.98, 0.99, 0.995, 0.997, 0.998, 0.999]


def test_hyperparameters_near_one_and_those_that_may_be_none_have_numeric_axes(browser, tmp_path):
    experiment = tmp_path / "axes"
    for number, gamma in enumerate([*GAMMAS, *GAMMAS]):
        params = {"gamma": gamma, "clip": None if number < 4 else 10 * number, "plain": number}
        write_run(experiment / f"t{number}", params, {"episode_return_mean": number})
    with opened(browser, experiment, tmp_path, "params=true&axes=gamma%0Aclip") as viewer:
        viewer.wait("document.querySelectorAll('.scatter .plot').length === 2")
        viewer.wait("document.querySelectorAll('.scatter .plot svg > g .mark circle').length >= 32")
        gamma, clip = (
            dict(plot)
            for plot in viewer.all(
                ".scatter .plot",
                "[...e.querySelectorAll('text.x')].map((e) => [e.textContent, parseFloat(e.getAttribute('x'))])",
            )
        )
        assert list(gamma) == ["0.9", "0.99", "0.999"]
        assert gamma["0.99"] == pytest.approx((gamma["0.9"] + gamma["0.999"]) / 2, abs=0.1)
        first, *numbers = clip.items()
        assert first == ("None", 10.0)
        assert [float(text) for text, _ in numbers] == sorted(float(text) for text, _ in numbers)
        shares = viewer.all(".scatter figure:last-child .mark > svg", "parseFloat(e.getAttribute('x'))")
        assert sorted(set(shares))[0] == 10.0 and min(share for share in shares if share > 10) > 20
        colors = viewer.all(".scatter figure:first-child .mark", "e.style.getPropertyValue('--color')")
        assert sorted(set(colors)) == ["var(--gold)", "var(--muted)"]  # nobody tells sixteen colours apart
        assert colors.count("var(--gold)") == 1
