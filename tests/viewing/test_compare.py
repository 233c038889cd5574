"""Several trials side by side, and the inside of an episode, in Chromium."""

import shlex

import numpy as np
import pytest

import tune_media as tm
from tests.support.browser import opened
from tests.support.stores import StoredTrial
from tests.support.taped import taped_clip
from tests.support.viewing import moving_bar, write_run, write_trial
from tune_media.values.episodes import EpisodeBatch, EpisodeData, Series

pytestmark = pytest.mark.slow

LENGTH = 40
SPLIT = 13  # the env step at which the two trials begin to differ on the seed that both have


def episode(trial, key, seed):
    """Return a clip of an episode whose reward is the sum of two values, and the episode."""
    steps = np.arange(1, LENGTH + 1)
    thrust = np.where((steps > 5) & (steps < 12), 1.0, 0.1 * np.sin(steps))
    height = np.maximum(10.0 - steps, 0.0)  # it stands still from step 10 on
    if key == "best" or trial == "b":
        thrust[SPLIT - 1 :] += 0.25
    speed, fuel = 0.1 * height, -0.2 * thrust
    speed[29] += 9
    series = {"reward": speed + fuel, "speed": speed, "fuel": fuel, "thrust": thrust, "height": height}
    total = float((speed + fuel).sum()) + (trial == "b")
    record = tm.EpisodeRecord(f"{trial}-{key}", total, LENGTH, seed=seed, terminated=True, training_iteration=10)
    clip = tm.Video(moving_bar(LENGTH + 1, trial == "b"), fps=10, episode=record)
    return clip, EpisodeData(record, {name: Series(values, 1, LENGTH) for name, values in series.items()})


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """Two trials with clips of the same seed under two keys, and of different seeds under the third."""
    experiment = tmp_path_factory.mktemp("compare") / "exp"
    for number, trial in enumerate("ab"):
        result = {"training_iteration": 10, "episode_return_mean": number}
        store = StoredTrial.in_folder(write_run(experiment / trial, {"lr": number / 10, "env": "E"}, result))
        seeds = {"best": 20 - 15 * number, "worst": 5, "first": 7}
        made = [(key, *episode(trial, key, seed)) for key, seed in seeds.items()]
        for key, clip, _ in made:
            store.add(clip, "evaluation", f"episodes/{key}", 10)
        store.add(EpisodeBatch(tuple(data for *_, data in made)), "evaluation", "episodes/data", 10)
        store.finish()
    return experiment


SHOWN = "[...document.querySelectorAll('.side video')].map(({ src }) => /best|worst|first/.exec(src)?.[0]).join()"


def test_ticked_trials_are_compared_on_one_time_line_at_the_same_seed(browser, sweep, tmp_path):
    with opened(browser, sweep, tmp_path, host="gallery") as viewer:
        viewer.wait("document.querySelectorAll('.card .tick').length === 2")
        viewer.frame.focus(".card[data-trial=a]")
        viewer.press("x")
        viewer.frame.click(".card[data-trial=b] .tick")
        viewer.frame.click(".tray .primary")
        viewer.wait(f"{SHOWN} === 'first,first'")  # no seed is common to the clips of the chosen key
        assert "same evaluation seed, 7" in viewer.all(".compare-view .heading-title p")[0]
        assert viewer.all("[aria-label=Seed] button") == ["seed 7 (first)", "seed 5 (worst, best)", "any seed"]
        viewer.frame.select_option("[aria-label=Clip]", label="worst")
        viewer.wait(f"{SHOWN} === 'worst,worst'")
        assert "same evaluation seed, 5" in viewer.all(".compare-view .heading-title p")[0]
        viewer.frame.select_option("[aria-label=Clip]", label="best")
        viewer.wait(f"{SHOWN} === 'best,best'")
        assert "there are clips of equal seeds" in viewer.all(".compare-view .heading-title p")[0]
        viewer.wait("document.querySelector('.inside .muted')?.innerText.startsWith('A first difference needs')")
        assert viewer.all(".inside .primary, .mark.difference") == []
        viewer.frame.click("text=seed 7")
        viewer.wait(f"{SHOWN} === 'first,first'")
        assert viewer.all(".side-key") == ["first", "first"]
        assert "same evaluation seed, 7" in viewer.all(".compare-view .heading-title p")[0]
        viewer.wait("document.querySelectorAll('.overlaid .u-over').length === 2")
        assert viewer.all(".overlaid figcaption") == ["return so far", "reward"]
        labels = sorted(text.rstrip(":") for text in viewer.all(".overlaid:first-of-type .u-label"))
        assert labels[1:] == ["lr 0", "lr 0.1"]
        viewer.frame.click("text=First difference")
        viewer.wait("document.querySelectorAll('.side video').length === 2")
        viewer.wait("document.querySelector('.side video').paused")
        viewer.wait(f"document.querySelector('.track input').value === '{SPLIT}'")
        assert viewer.all(".mark.difference", "e.style.left") == [f"{100 * SPLIT / LENGTH}%"]
        assert "thrust" in viewer.all(".inside .panel-head .muted")[0]
        times = viewer.all(".side video", "e.currentTime")
        assert times == pytest.approx([(SPLIT + 0.5) / 10] * 2, abs=1e-3)
        viewer.frame.click(".series-head .chip:has-text('height')")
        viewer.wait("document.querySelectorAll('.overlaid .u-over').length === 3")
        viewer.frame.evaluate("tuneMedia.app.instance.copyLink()")
        viewer.wait("document.querySelector('.toast').innerText")
        address = viewer.page.url
        viewer.open(address)
        viewer.wait(f"document.querySelector('.track input')?.value === '{SPLIT}'")
        viewer.wait("document.querySelectorAll('.overlaid .u-over').length === 3")
        viewer.frame.click("text=any seed")
        viewer.wait(f"{SHOWN} === 'best,best'")
        viewer.frame.click("text=Decide …")
        commands = [shlex.split(text) for text in viewer.all("[role=dialog] .command, dialog .command")]
        assert commands == [["tune-media", "gate", f"{sweep.name}:a", f"{sweep.name}:b"]]
        assert viewer.errors == []
        assert viewer.axe_violations() == {}
        viewer.errors.clear()  # axe reads the styles, which a page from disk may not
        viewer.press("Escape")
        viewer.press("Escape")
        viewer.wait("document.querySelectorAll('.card.ticked').length === 2")
        viewer.frame.click(".card .screen")  # a page from disk shows the filmstrip that it may not save
        viewer.wait("document.querySelectorAll('.filmstrip canvas').length > 0")
        viewer.wait("document.querySelector('.stage video')?.readyState >= 2")
        viewer.frame.click("button:text('Filmstrip')")
        viewer.wait("document.querySelector('dialog .picture-place canvas')?.width > 100")
        viewer.press("Escape")
        viewer.wait("!document.querySelector('dialog')")


def test_an_episode_shows_its_reward_terms_its_moments_and_its_frames(browser, sweep, tmp_path):
    with opened(browser, sweep, tmp_path) as viewer:
        viewer.frame.click(".card[data-trial=a] .screen")
        viewer.wait("document.querySelector('.stage video')?.readyState >= 2 && document.querySelector('.moment')")
        assert viewer.all(".series-head:has(.swatch) .chip[aria-pressed=true]") == ["speed", "fuel"]
        moments = dict(viewer.all(".moment", "[e.querySelector('span').innerText, e.classList[2]]"))
        assert moments["thrust stays at 1 for 6 steps"] == "limit"
        assert moments["standstill for 30 steps"] == "still"
        assert any(text.startswith("largest reward: 8.9") for text in moments)
        assert moments["the env ended the episode"] == "end"
        viewer.frame.evaluate("tuneMedia.app.instance.group.pause(); tuneMedia.app.instance.group.showFrame(0)")
        viewer.wait("document.querySelector('.frame').innerText === '1'")
        shown = []
        for _ in range(3):
            viewer.press("n")
            viewer.wait("(before) => Number(document.querySelector('.track input').value) > before", (shown or [0])[-1])
            shown.append(int(viewer.all(".track input", "e.value")[0]))
        assert shown == [6, 10, 30]
        viewer.press("N")
        viewer.wait("document.querySelector('.frame').innerText === '11'")
        viewer.wait("[...document.querySelectorAll('.filmstrip canvas')].every((canvas) => canvas.height === 48)")
        for name in ("reward", "speed", "fuel"):
            viewer.frame.click(f".series-head:has(h4:text-is('Series')) .chip:text-is('{name}')")
        viewer.wait("document.querySelectorAll('.series-head + .chart .u-marker').length === 3 + 7")  # with the steps
        looks = viewer.all(".series-head + .chart .u-marker", "e.style.border")[4:]
        assert len(set(looks)) == 6  # four colours, and other borders
        viewer.frame.click(".chip:has-text('fuel') >> nth=0")
        viewer.wait("tuneMedia.app.instance.state.terms === 'speed'")
        assert "chosen by you" in viewer.all(".series-head .muted")[0]
        with viewer.page.expect_download() as saved:
            viewer.frame.click("text=Filmstrip as PNG")
        assert saved.value.suggested_filename == "exp_a_best_step10_filmstrip.png"
        viewer.frame.click("text=Fork here …")
        (at,) = (shlex.split(text) for text in viewer.all("[role=dialog] .command, dialog .command"))
        assert at[:2] == ["tune-media", "fork"] and at[2].startswith(f"{sweep.name}:")
        assert at[at.index("--at") + 1] == "10"
        assert viewer.errors == []
        assert viewer.axe_violations() == {}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A trial with clips at two steps, and four episodes that have tapes and no clips: two begin as no other does."""
    experiment = tmp_path_factory.mktemp("trained") / "exp"
    folder = write_trial(experiment / "t", 1)
    store = StoredTrial.in_folder(folder)
    for step, drawn in ((30, False), (40, True)):
        clips = [taped_clip(level, episode_return=level, drawn=drawn) for level in (1, 2)]
        episodes = tuple(EpisodeData(one.episode, tape=one.tape, recipe=one.recipe.hash) for one in clips)
        recipes = {one.recipe.hash: one.recipe.content for one in clips}
        store.add(EpisodeBatch(episodes, recipes=recipes), "evaluation", "tapes/data", step)
    store.finish()
    return experiment


def test_two_steps_and_two_kinds_of_clips_of_one_trial_are_compared(browser, trained, tmp_path):
    sources = "[...document.querySelectorAll('.side video')].map(({ src }) => /step_0*(\\d+)/.exec(src)?.[1]).join()"
    with opened(browser, trained, tmp_path, "view=trial&trial=t", host="gallery") as viewer:
        viewer.frame.click(".film >> nth=0 >> .tick")
        viewer.frame.click("text=first and last step")
        viewer.wait(f"{sources} === '10,20'")
        assert viewer.all(".side h3") == ["step 10", "step 20"]
        assert viewer.all(".compare-view h2") == ["Compare 2 clips"]
        assert viewer.all(".bar [aria-label=Clip], .steps-slider") == []  # they would change nothing
        viewer.wait("document.querySelectorAll('.overlaid .u-over').length === 1")
        viewer.page.go_back()
        viewer.frame.click("text=best, worst at step 20")
        viewer.wait("[...document.querySelectorAll('.side h3')].map((e) => e.innerText).join() === 'best,worst'")
        viewer.frame.click("[aria-label='Leave out worst']")
        viewer.frame.click("[aria-label='Leave out t']")
        viewer.wait("document.querySelector('.grid-view')")
        assert ["step 10" in text for text in viewer.all(".tray .chip")] == [True]  # neither ticked anything
        viewer.page.go_back()
        viewer.wait("document.querySelectorAll('.film .tick').length === 2")
        viewer.frame.click(".film >> nth=1 >> .tick")
        viewer.frame.click(".tray .primary")
        viewer.wait(f"{sources} === '10,20'")
        viewer.frame.click("[aria-label='Leave out step 20']")
        viewer.wait(f"{sources} === '10'")
        viewer.frame.evaluate("() => { const app = tuneMedia.app.instance, { ticked } = app.state;"
                              " app.set({ ticked: [ticked, ticked].join('\\n') }); }")  # fmt: skip
        viewer.wait(f"{sources} === '10' && tuneMedia.app.instance.state.ticked.includes('\\n')")  # as best and first
        viewer.open(viewer.url, "view=clip&trial=t")
        viewer.wait("document.querySelector('.stage video')?.readyState >= 2")
        viewer.press("x")
        viewer.wait("document.querySelectorAll('.tray .chip').length === 1")
        assert "step 20" in viewer.all(".tray .chip")[0]


def compare_episodes(viewer):
    viewer.wait("document.querySelectorAll('.clip-cell .tick').length === 2")
    for number in (0, 1):
        viewer.frame.click(f".clip-cell .tick >> nth={number}")
    viewer.frame.click(".tray .primary")


def test_two_episodes_with_tapes_are_compared_and_played_on_a_click(browser, trained, tmp_path):
    with opened(browser, trained, tmp_path, "token=t&view=episodes&where=step%3D40", token="t") as viewer:
        compare_episodes(viewer)  # they have one seed, which their env ignores
        viewer.wait(
            "document.querySelector('.heading-title p').innerText.endsWith('begin differently: the env ignores it.')"
        )
        assert viewer.all(".inside .primary, .mark.difference") == []
        viewer.open(viewer.url, "view=episodes&where=step%3D30&order=episode_return")
        compare_episodes(viewer)
        viewer.wait("document.querySelector('.inside .primary')?.innerText.endsWith('First difference: step 1')")
        viewer.wait("document.querySelectorAll('.tape-play').length === 2")
        viewer.wait("document.querySelectorAll('.overlaid .u-over').length === 2")  # before anything is played
        assert viewer.all(".overlaid figcaption") == ["return so far", "reward"]
        assert viewer.all(".side-facts .big") == ["2", "1"]
        assert viewer.all(".side h3") == ["return 2", "return 1"]
        assert viewer.all("[aria-label=Seed] button") == ["seed 3", "any seed"]
        for _ in range(2):
            viewer.frame.click(".tape-play >> nth=0")
        viewer.wait("document.querySelectorAll('.side video').length === 2")
        viewer.wait("[...document.querySelectorAll('.side video')].every((video) => video.readyState >= 2)")
        viewer.wait("document.querySelectorAll('.filmstrip').length === 2")
