import json
import os
import re
import shutil
import threading
import time
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from ray import tune
from tensorboardX import SummaryWriter

import tune_media as tm
from tests.support.browser import opened, served, tensorboard_url, viewer_page
from tests.support.experiment import fit, trial_folders
from tests.support.viewing import write_trial
from tune_media.experiment.trial_folders import LogDirectory, Trials

pytestmark = pytest.mark.ray

FPS, EVERY, STEPS = 30, 3, 200
HTML = "<img src=x onerror=alert(1)>"
SAME_COLOR = """() => {  // TensorBoard's colour of a run is ours
  const element = document.createElement("i");
  try {
    element.style.background = parent.document.createElement("tf-runs-selector").coloring.getColor("trial_0");
  } catch (error) {
    return false; // TensorBoard does not know the run yet
  }
  return element.style.background === document.querySelector(".card[data-trial=trial_0] .swatch").style.background;
}"""
VIDEOS = "[...document.querySelectorAll('.card video')]"


def torque(step):
    return {"torque": float(step.action[0]) if step.action is not None else 0.0, "reward": step.reward}


def swing(config):
    """Three rounds of two episodes of Pendulum, which all have 200 steps; the controller gets stronger.

    Every third frame is kept, and the last one: those of the steps 0, 3, ..., 198 and 200.
    """
    import gymnasium as gym

    env = tm.gym.RecordEpisodes(
        gym.make("Pendulum-v1", render_mode="rgb_array"),
        keep=("best", "worst"),
        video=tm.VideoOptions(height=120, fps=EVERY * FPS, every=EVERY),
        collect=torque,
        trajectories=True,
    )
    for iteration in range(3):
        for episode in range(2):
            (cos, sin, speed), _ = env.reset(seed=episode)
            over = False
            while not over:
                action = [-iteration * (config["gain"] * np.arctan2(sin, cos) + config["damping"] * speed)]
                (cos, sin, speed), _, _, over, _ = env.step(np.float32(action))
        tune.report({"episode_return_mean": float(np.mean(list(env.return_queue)[-2:])), **env.take()})


@pytest.fixture(scope="module")
def sweep(ray_session, tmp_path_factory):
    """Four trials, with HTML in their names, hyperparameters and captions."""
    space = {"gain": tune.grid_search([0.5, 8.0]), "damping": tune.grid_search([0.1, 1.0])}
    callbacks = [tm.JsonMediaLoggerCallback(), tm.TBXMediaLoggerCallback()]
    results = fit(swing, tmp_path_factory.mktemp("viewer"), callbacks, space=space)
    assert not results.errors
    experiment = Path(results.experiment_path)
    for folder in trial_folders(experiment):
        add_html(folder)
    return experiment


def add_html(folder):
    params = json.loads((folder / "params.json").read_text())
    name = f"<b>gain={params['gain']}_damping={params['damping']}"
    (folder / "params.json").write_text(json.dumps({**params, "note": f"{HTML}{name}"}))
    index = folder / "media" / "index.jsonl"
    lines = [{**json.loads(line), "note": HTML} for line in index.read_text().splitlines()]
    index.write_text("".join(json.dumps(line) + "\n" for line in lines))
    folder.rename(folder.with_name(name))


@pytest.fixture(scope="module")
def host(request, sweep, tmp_path_factory):
    with served(request.param, sweep, tmp_path_factory.mktemp("files")) as url:
        yield request.param, url


ON_ONE = pytest.mark.parametrize("host", ["watch"], indirect=True)  # the same page, whoever serves it


@pytest.fixture
def viewer(browser, host):
    with viewer_page(browser, host[0]) as viewer:
        viewer.url = host[1]
        yield viewer
        assert viewer.errors == []


def show_grid(viewer, link=""):
    viewer.open(viewer.url, link)
    viewer.wait(f"{VIDEOS}.length === 4 && {VIDEOS}.every((video) => video.readyState >= 2)")


@pytest.mark.parametrize("host", ["watch", "tensorboard"], indirect=True)
def test_clips_of_all_trials_play_together_and_pause_on_the_same_frame(viewer):
    show_grid(viewer)
    viewer.wait(f"{VIDEOS}.every((video) => !video.paused && video.currentTime > 0.3)")
    started = viewer.all(".card video", "e.currentTime")
    viewer.wait(f"(started) => {VIDEOS}.every((video, index) => video.currentTime !== started[index])", started)
    viewer.wait(  # at most a frame apart
        f"(frame) => {{ const times = {VIDEOS}.map((video) => video.currentTime);"
        " return Math.max(...times) - Math.min(...times) <= frame; }",
        1 / FPS,
    )
    viewer.frame.click(".play")
    viewer.wait(f"{VIDEOS}.every((video) => video.paused && !video.seeking)")
    times = viewer.all(".card video", "e.currentTime")
    assert len(set(times)) == 1
    viewer.frame.click(".transport .fold")
    viewer.frame.click("button[aria-label='One frame on']")
    viewer.wait(f"{VIDEOS}.every((video) => !video.seeking)")
    later = viewer.all(".card video", "e.currentTime")
    assert later == pytest.approx([times[0] + 1 / FPS] * 4, abs=1e-3)


@ON_ONE
def test_the_winner_is_marked_and_cards_sort_and_filter(viewer):
    show_grid(viewer)
    viewer.wait("document.querySelectorAll('.card.winner').length === 1")
    ranked = viewer.all(".card", "e.dataset.trial")
    scores = viewer.frame.evaluate("tuneMedia.app.instance.data.trials.map((trial) => [trial.name, trial.score])")
    assert ranked == [name for name, _ in sorted(scores, key=lambda item: -item[1])]
    assert viewer.all(".card.winner", "e.dataset.trial") == ranked[:1]
    viewer.frame.click(".score-choice")
    viewer.frame.select_option(".sort", "param:gain")
    viewer.wait("document.querySelector('.card').dataset.trial.includes('gain=8')")
    viewer.frame.click(".direction")
    viewer.wait("document.querySelector('.card').dataset.trial.includes('gain=0.5')")
    viewer.press("Escape")
    viewer.wait("document.querySelector('.score-choice').innerText.endsWith('max; sorted by gain ↑')")
    viewer.frame.fill(".filter", "gain=8 damping>0.5")
    viewer.wait("document.querySelectorAll('.card').length === 1")
    assert viewer.all(".card", "e.dataset.trial") == ["<b>gain=8.0_damping=1.0"]
    viewer.frame.fill(".filter", "nothing=3")
    viewer.wait("document.querySelector('.problem')?.innerText.includes('nothing')")


@ON_ONE
def test_names_with_html_stay_text(viewer):
    show_grid(viewer)
    assert sorted(viewer.all(".card .name"))[0] == "<b>gain=0.5_damping=0.1"
    assert any(HTML in text for text in viewer.all(".card .params button", "`${e.innerText} ${e.title}`"))
    viewer.frame.click(".card .screen")
    viewer.wait("document.querySelector('.record td')")
    assert HTML in viewer.all(".under em")
    assert HTML in viewer.all(".record td")
    assert viewer.all("img, h2 b, .name b", "1") == []


@ON_ONE
def test_a_trial_shows_its_clips_and_a_click_on_the_curve_goes_to_one(viewer):
    show_grid(viewer)
    viewer.frame.click(".card.winner .name")
    viewer.wait("document.querySelectorAll('.film video').length === 3 && document.querySelector('.u-over')")
    steps = [int(re.sub(r"\D", "", text)) for text in viewer.all(".film-facts span")]
    assert steps == sorted(steps)
    assert viewer.all(".film", "e.getAttribute('aria-current')") == ["false", "false", "true"]
    curve = viewer.frame.locator(".u-over")
    curve.click(position={"x": 3, "y": 40})
    viewer.wait("document.querySelector('.film').getAttribute('aria-current') === 'true'")


@ON_ONE
def test_a_clips_cursor_follows_the_video_and_a_click_into_a_chart_counts_at_its_own_place(viewer):
    show_grid(viewer)
    viewer.frame.click(".card.winner .screen")
    viewer.wait("document.querySelector('.stage video')?.readyState >= 2 && document.querySelector('.u-over')")
    viewer.wait("Number(document.querySelector('.frame').innerText) > 5")
    assert "torque" in viewer.all(".chip")
    picked = viewer.frame.evaluate("""
        (most) => {  // no pointer moves, while the clip plays: the chart's cursor is at the frame that is shown
            const over = document.querySelector('.u-over'), place = over.getBoundingClientRect();
            over.dispatchEvent(new MouseEvent('click', { clientX: place.left + 200, clientY: place.top + 40 }));
            return Math.round(200 / place.width * most);
        }""", STEPS / EVERY)  # fmt: skip
    viewer.wait("document.querySelector('.stage video').paused")
    viewer.wait("(picked) => Math.abs(Number(document.querySelector('.frame').innerText) - 1 - picked) <= 2", picked)
    viewer.frame.locator(".u-over").click(position={"x": 300, "y": 40})
    viewer.wait("!document.querySelector('.stage video').seeking")
    picked = viewer.frame.evaluate(
        "(most) => Math.round(300 / document.querySelector('.u-over').clientWidth * most)", STEPS / EVERY
    )
    viewer.wait("(picked) => Math.abs(Number(document.querySelector('.frame').innerText) - 1 - picked) <= 2", picked)
    frame = int(viewer.all(".frame")[0]) - 1
    assert viewer.all(".stage video", "e.currentTime")[0] == pytest.approx((frame + 0.5) / FPS, abs=1e-3)
    viewer.frame.click("button[aria-label='One frame on']")
    viewer.wait("(frame) => Number(document.querySelector('.frame').innerText) === frame", frame + 2)
    assert "episode return" in viewer.all(".record th")
    assert viewer.all("a[download]", "e.getAttribute('download')")[0].endswith(".mp4")
    assert f"Step {EVERY * (frame + 1)} " in viewer.all(".steps h3")[0]
    assert viewer.all(".under span:nth-child(2) b") == [str(EVERY * (frame + 1))]


@pytest.mark.parametrize("host", ["gallery", "tensorboard"], indirect=True)
def test_a_link_leads_back_to_exactly_this_view(viewer):
    show_grid(viewer)
    viewer.frame.fill(".filter", "gain=8")
    viewer.frame.evaluate("tuneMedia.app.instance.set({ sort: 'param:damping' })")
    viewer.wait("document.querySelectorAll('.card').length === 2")
    viewer.frame.click(".card .screen")
    viewer.wait("document.querySelector('.stage video')?.readyState >= 2")
    viewer.frame.click(".play")
    viewer.frame.evaluate("tuneMedia.app.instance.group.showFrame(52)")
    viewer.frame.evaluate("tuneMedia.app.instance.copyLink()")
    viewer.wait("document.querySelector('.toast').innerText")
    address = viewer.page.url
    shown = viewer.all(".stage video", "e.src"), viewer.all("h2")
    viewer.page.goto("about:blank")
    viewer.open(address)
    viewer.wait("document.querySelector('.frame')?.innerText === '53'")
    assert viewer.all(".stage video", "e.paused") == [True]
    assert (viewer.all(".stage video", "e.src"), viewer.all("h2")) == shown
    viewer.press("Escape")
    viewer.press("Escape")
    viewer.wait("document.querySelectorAll('.card').length === 2")
    assert "sorted by damping" in viewer.all(".score-choice")[0]


@ON_ONE
def test_every_key_of_the_help_is_described_and_works(viewer):
    show_grid(viewer)
    viewer.press("?")
    assert len(viewer.all(".help kbd")) > 20
    viewer.press("Escape")
    viewer.wait("!document.querySelector('.help')")
    viewer.press("w")
    viewer.wait("document.querySelector('.trial-view')")
    viewer.press("ArrowDown")
    viewer.press("Escape")
    viewer.wait("document.querySelector('.grid-view')")
    viewer.press("k")
    viewer.wait("document.querySelector('.clip-choice').selectedOptions[0].text === 'worst'")
    viewer.press("b")
    viewer.wait("document.querySelector('.step-shown').innerText.includes('best')")
    viewer.press("d")
    viewer.wait(f"{VIDEOS}.every((video) => !video.paused)")
    viewer.press("h")
    viewer.frame.hover(".card:nth-child(2) .screen")
    viewer.wait(f"{VIDEOS}.filter((video) => !video.paused).length === 1 && !{VIDEOS}[1].paused")
    viewer.press("h")
    viewer.wait(f"{VIDEOS}.every((video) => !video.paused)")
    for key in ">>":
        viewer.press(key)
    viewer.wait(f"document.querySelector('.speed').value === '4' && {VIDEOS}.some((video) => video.playbackRate === 4)")
    viewer.press("l")  # at the end of the clips they hold their last frame
    viewer.wait(f"document.querySelector('.play').ariaLabel === 'Play' && {VIDEOS}.every((video) => video.ended)")
    viewer.press("/")
    assert viewer.frame.evaluate("document.activeElement.className") == "filter"


def test_the_tab_follows_tensorboard(browser, tmp_path):
    write_trial(tmp_path / "exp" / "trial_0", 0, steps=(500,))
    with SummaryWriter(str(tmp_path / "exp" / "trial_0")) as writer:
        writer.add_scalar("score", 7.0, 1)
    url = tensorboard_url(tmp_path / "exp")
    with viewer_page(browser, "tensorboard") as viewer:
        viewer.open(url)
        viewer.wait(f"{VIDEOS}.length === 1 && !{VIDEOS}[0].paused && {VIDEOS}[0].currentTime > 0")
        viewer.page.evaluate("location.hash = '#timeseries'")
        viewer.wait(f"{VIDEOS}[0].paused")  # while another tab is shown
        viewer.page.evaluate("location.hash = '#episodes'")
        viewer.wait(f"!{VIDEOS}[0].paused")
        viewer.page.evaluate("document.body.classList.add('dark-mode')")
        viewer.wait("document.documentElement.dataset.theme === 'dark'")
        write_trial(tmp_path / "exp" / "trial_1", 1)
        deadline = time.monotonic() + 120
        while len(viewer.all(".card")) < 2:  # TensorBoard ignores a click while it reloads
            assert time.monotonic() < deadline
            viewer.page.click("app-header-reload button, button.reload-button")
            time.sleep(2)
        viewer.wait(SAME_COLOR)
        state = "eyJ0cmlhbF8xIjpmYWxzZX0="  # {"trial_1":false}, as the Scalars tab writes it
        viewer.page.evaluate(f"location.hash = '#episodes&runSelectionState={state}'")
        viewer.wait("document.querySelectorAll('.card').length === 1")
        assert viewer.errors == []


def test_a_trial_without_a_clip_at_the_sliders_step_shows_its_nearest_earlier_one_and_says_so(browser, tmp_path):
    write_trial(tmp_path / "exp" / "long", 0, steps=(10, 20, 30))
    write_trial(tmp_path / "exp" / "late", 1, steps=(20, 30))
    write_trial(tmp_path / "exp" / "stopped", 2, steps=(10,))
    index = tmp_path / "exp" / "long" / "media" / "index.jsonl"
    lines = [json.loads(line) for line in index.read_text().splitlines()]
    of_training = [{**line, "section": "train"} for line in lines if line["step"] == 20 and line["kind"] == "video"]
    index.write_text("".join(json.dumps(line) + "\n" for line in [*lines, *of_training]))

    def shown():
        """Return the step that each trial shows, and what the page says about it."""
        steps = viewer.all(".card", "[e.dataset.trial, e.querySelector('dl div:nth-child(3) dd').innerText]")
        notes = viewer.all(".card dd.other i", "[e.closest('.card').dataset.trial, e.getAttribute('aria-label')]")
        assert all(("≠" in text) == (name in dict(notes)) for name, text in steps)
        return {name: int(text.split()[0]) for name, text in steps if text[0].isdigit()}, dict(notes)

    with opened(browser, tmp_path / "exp", tmp_path, "step=20") as viewer:
        viewer.wait("document.querySelectorAll('.card video[src]').length === 3")
        before = "no clip at step 20: this is the trial's last one before"
        assert shown() == ({"long": 20, "late": 20, "stopped": 10}, {"stopped": before})
        viewer.frame.evaluate(
            "() => { const slider = document.querySelector('.steps-slider input');"
            " slider.value = 0; slider.dispatchEvent(new Event('input', {bubbles: true})); }"
        )
        viewer.wait("document.querySelector('.step-shown').innerText === 'step 10'")
        after = "no clip at step 10: this is the trial's first one"
        assert shown() == ({"long": 10, "late": 20, "stopped": 10}, {"late": after})
        viewer.press("End")
        viewer.wait("document.querySelector('.step-shown').innerText.includes('last')")
        last = "no clip at step 30: this is the trial's last one before"
        assert shown() == ({"long": 30, "late": 30, "stopped": 10}, {"stopped": last})
        viewer.press("b")
        viewer.wait("document.querySelector('.step-shown').innerText.includes('best')")
        assert shown() == ({"long": 30, "late": 30, "stopped": 10}, {})
        viewer.press("s")
        viewer.wait("document.querySelector('.clip-choice').selectedOptions[0].text.startsWith('train')")
        viewer.wait("document.querySelectorAll('.card video').length === 1")
        assert shown() == ({"long": 20}, {})


def test_a_clip_that_was_rolled_back_is_no_best_clip_and_an_abandoned_trial_has_no_rank(browser, tmp_path):
    for number, steps in enumerate([(10, 20, 30), (25,), (40,)]):
        folder = write_trial(tmp_path / "exp" / f"trial_{number}", number, steps=steps)
        (folder / "result.json").unlink()
        if number == 0:
            index = folder / "media" / "index.jsonl"
            lines = [json.loads(line) for line in index.read_text().splitlines()]
            lines = [{**line, "undone": line["row"] + 1 if line["step"] == 30 else 0} for line in lines]
            index.write_text("".join(json.dumps(line) + "\n" for line in lines))
    known = [{"trial_id": f"id_{number}", "relative_logdir": f"trial_{number}"} for number in range(2)]
    state = {"trial_data": [[json.dumps(trial), "{}"] for trial in known]}
    (tmp_path / "exp" / "experiment_state-2026-01-01_00-00-00.json").write_text(json.dumps(state))
    with opened(browser, tmp_path / "exp", tmp_path) as viewer:
        viewer.wait("document.querySelectorAll('.card video[src]').length === 3")
        viewer.wait("document.querySelector('em.abandoned')")
        names = viewer.all(".card", "[e.dataset.trial, !!e.querySelector('em.abandoned'), !!e.querySelector('.rank')]")
        assert sorted(names) == [["trial_0", False, True], ["trial_1", False, True], ["trial_2", True, False]]
        viewer.press("b")
        viewer.wait("document.querySelector('.step-shown').innerText.includes('best')")
        trials = viewer.frame.evaluate("tuneMedia.app.instance.data.trials.map((trial) => [trial.name, trial.score])")
        steps = viewer.all(".card", "[e.dataset.trial, e.querySelector('dl div:nth-child(3) dd').innerText]")
        assert {"trial_0": 21, "trial_1": 27}.items() <= dict(trials).items()
        assert {"trial_0": "20", "trial_1": "25"}.items() <= dict(steps).items()


def test_clips_of_a_running_sweep_come_without_a_reload(browser, tmp_path):
    write_trial(tmp_path / "exp" / "trial_0", 0)
    with opened(browser, tmp_path / "exp", tmp_path) as viewer:
        viewer.wait("document.querySelectorAll('.card').length === 1")
        viewer.frame.evaluate("tuneMedia.app.instance.set({sort: 'name'})")
        write_trial(tmp_path / "exp" / "trial_1", 1)
        viewer.wait("document.querySelectorAll('.card').length === 2")
        assert "sorted by trial name" in viewer.all(".score-choice")[0]
        viewer.frame.click(".card .screen")
        viewer.wait("document.querySelector('.stage video')?.readyState >= 2 && document.querySelector('.u-over')")
        viewer.frame.evaluate("tuneMedia.app.instance.group.pause(); tuneMedia.app.instance.group.showFrame(4)")
        viewer.wait("document.querySelector('.frame').innerText === '5'")
        write_trial(tmp_path / "exp" / "trial_2", 2)
        viewer.wait("tuneMedia.app.instance.data.trials.length === 3")
        viewer.wait("document.querySelector('.u-over')")
        assert viewer.all(".frame") == ["5"]  # a clip that is read again keeps its frame


def test_the_page_with_a_thousand_trials_answers(browser, tmp_path):
    first = write_trial(tmp_path / "exp" / "trial_0000", 0, steps=(10, 20, 30))
    for number in range(1, 1000):
        folder = tmp_path / "exp" / f"trial_{number:04}"
        shutil.copytree(first, folder, copy_function=os.link)
        (folder / "params.json").unlink()
        (folder / "params.json").write_text(f'{{"lr": {number / 1000}}}')
    with opened(browser, tmp_path / "exp", tmp_path) as viewer:
        viewer.wait("document.querySelectorAll('.card').length === 1000")
        viewer.wait(f"{VIDEOS}.some((video) => video.readyState >= 2)")
        viewer.frame.evaluate("scrollTo(0, document.body.scrollHeight / 2)")
        viewer.wait(
            "[...document.querySelectorAll('.card')].slice(300, 700)"
            ".some((card) => card.querySelector('video')?.readyState >= 2)"
        )
        assert len(viewer.all(".card video[src]", "1")) < 150
        viewer.frame.fill(".filter", "lr=0.999")
        viewer.wait("document.querySelectorAll('.card').length === 1")
        viewer.wait(f"{VIDEOS}[0].readyState >= 2")


def test_names_that_javascript_has_itself_are_names_like_others(browser, tmp_path):
    names = ["constructor", "__proto__", "hasOwnProperty", "a\nb", ""]
    write_trial(tmp_path / "exp" / "good", 0)
    odd = write_trial(tmp_path / "exp" / "odd", 1, **dict.fromkeys(names[:3], 7))
    index = odd / "media" / "index.jsonl"
    lines = [json.loads(line) for line in index.read_text().splitlines()]
    clip = next(line for line in lines if line["kind"] == "video")
    lines += [{**clip, "section": name, "key": name, "id": f"id {name}"} for name in names]
    lines += [{**clip, "section": "evaluation", "key": name, "id": f"key {name}"} for name in names]
    index.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with (odd / "result.json").open("a") as results:
        results.write(json.dumps({"training_iteration": 30, "evaluation": dict.fromkeys(names, 1)}) + "\n")
        results.write(json.dumps({"training_iteration": 40, **dict.fromkeys(names, 1)}) + "\n")
    with opened(browser, tmp_path / "exp", tmp_path, "section=evaluation&key=episodes/best", host="gallery") as viewer:
        viewer.wait("document.querySelectorAll('.card video[src]').length === 2")
        assert sorted(viewer.all(".card", "e.dataset.trial")) == ["good", "odd"]
        for name in names[:4]:
            section = quote(name)
            viewer.open(viewer.url, f"section={section}&key={section}&score=constructor")
            viewer.wait("document.querySelectorAll('.card video[src]').length === 1")
            assert viewer.frame.evaluate("tuneMedia.app.instance.state.section") == name
            assert viewer.frame.evaluate("tuneMedia.app.instance.state.key") == name
        viewer.frame.fill(".filter", "constructor=7")
        viewer.wait("document.querySelectorAll('.card').length === 1")
        for name in ["evaluation", *names[:4]]:
            viewer.open(viewer.url, f"view=trial&trial=odd&section={quote(name)}")
            viewer.wait("document.querySelectorAll('.film video[src]').length > 0 && document.querySelector('.u-over')")
        viewer.frame.click(".film-facts")
        viewer.wait("document.querySelector('.record td')")


def lives(config):
    """Five rounds with a clip, a raw array and a clip that an episode belongs to."""
    rng = np.random.default_rng(0)
    for step in range(5):
        frames = rng.integers(0, 255, (12, 48, 64, 3), np.uint8)
        episode = tm.EpisodeRecord(f"e{step}", float(step), 11)
        tune.report({"score": step, "clip": tm.Video(frames, fps=10, episode=episode), "raw": frames})
        time.sleep(0.3)


def test_no_clip_of_a_live_run_says_that_its_driver_was_killed(ray_session, tmp_path):
    """Such a clip had no frames and no rate, so that the clock stood at 0 / 0."""
    trials = Trials([LogDirectory.of(str(tmp_path))])
    seen, is_over = {}, threading.Event()

    def look():
        while not is_over.is_set():
            for trial in trials.all(max_age=0):
                for line in trial.lines:
                    seen.setdefault(line["id"], []).append(line)
            time.sleep(0.02)

    looker = threading.Thread(target=look)
    looker.start()
    callbacks = [tm.JsonMediaLoggerCallback(), tm.TBXMediaLoggerCallback()]
    results = fit(lives, tmp_path, callbacks, name="live")
    is_over.set()
    looker.join()
    assert not results.errors
    clips = {line["id"] for line in tm.load(results.experiment_path)}
    assert len(clips) == 10
    assert len(clips & seen.keys()) > 5  # while it ran
    for line in [line for lines in seen.values() for line in lines]:
        assert (line.get("frames"), line["status"], line.get("note")) == (12, "stored", None), line
        assert line["fps"] > 0
