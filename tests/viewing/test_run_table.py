"""The run table, the config of a trial, and a sweep without clips, in Chromium and in the terminal."""

import json
import time

import pandas as pd
import pytest

from tests.support.browser import opened, served, viewer_page
from tests.support.commands import command
from tests.support.viewing import write_results, write_run, write_snapshot, write_trial
from tune_media.experiment.trial_folders import LogDirectory, Trials
from tune_media.viewing.table import laid_out

COUNT = 12
NAMES = ("batch", "clip", "depth", "epochs", "gamma", "zeta_lr")
SECRET = "hunter2-0123456789"
ROWS = "[...document.querySelectorAll('.run-table tbody tr')].map((row) => row.dataset.trial).join(' ')"


def settings_of(number):
    """Six hyperparameters; the score depends on the last one in their alphabetical order only."""
    values = (32 + number % 2, 0.1 + 0.05 * (number % 3), number % 4, 5 + number % 3, 0.9 + 0.01 * (number % 2))
    return dict(zip(NAMES, (*values, 10.0 ** -(1 + number // 3)), strict=True))


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Twelve trials with results of 40 metrics and no clip; one has failed, and one has a secret in its config."""
    experiment = tmp_path_factory.mktemp("results") / "sweep"
    for number in range(COUNT):
        more = {"env_config": {"api_key": SECRET, "url": f"https://me:{SECRET}@host/x"}, "layers": [64, 64]}
        lines = [
            {"episode_return_mean": n * (10 - number // 3) + number % 3 / 10}
            | {"learner": {f"metric_{m:02}": m + n + number for m in range(40)}}
            for n in (1, 2)
        ]
        write_run(experiment / f"train_a1b2c_000{number:02}", {**settings_of(number), **more, "seed": number}, *lines)
    statuses = dict.fromkeys((f"train_a1b2c_000{number:02}" for number in range(COUNT)), "TERMINATED")
    write_snapshot(experiment, **statuses | {"train_a1b2c_00011": "ERROR"})
    (experiment / "tuner.pkl").touch()
    (experiment / "train_a1b2c_00011" / "error.txt").write_text("Traceback ...\nValueError: <b>stuck</b>\n")
    return experiment


@pytest.mark.slow
def test_a_sweep_without_clips_shows_all_that_it_has(browser, results, tmp_path):
    frame = pd.DataFrame(
        json.loads(path.read_text().splitlines()[-1]) | {"trial": path.parent.name}
        for path in sorted(results.glob("*/result.json"))
    ).set_index("trial")
    with opened(browser, results, tmp_path) as viewer:
        viewer.wait(f"{ROWS}.split(' ').length === {COUNT}")
        viewer.wait("document.querySelector('.curves .u-over') && document.querySelector('.failures')")
        assert "tm.gym.RecordEpisodes" in viewer.all(".no-clips", "e.textContent")[0]
        assert viewer.all(".no-clips summary")[0].startswith("No clips were recorded. ")  # it has ended: no "yet"
        best_first = frame.sort_values("episode_return_mean", ascending=False, kind="stable").index
        assert viewer.frame.evaluate(ROWS).split() == list(best_first)
        assert viewer.all(".winner-line .link")[0].startswith("zeta_lr 0.1")
        assert viewer.all(".transport", "1") == []
        viewer.frame.evaluate("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
        for theme, width in (("dark", 390), ("light", 1400)):
            viewer.page.emulate_media(color_scheme=theme)
            viewer.page.set_viewport_size({"width": width, "height": 900})
            viewer.wait("document.documentElement.scrollWidth <= innerWidth")
            assert viewer.axe_violations() == {}
        viewer.frame.click(".run-table th button[title='config/gamma']")
        viewer.wait("document.querySelector('th[aria-sort=descending]')?.innerText.includes('gamma')")
        viewer.frame.click(".run-table th button[title='config/gamma']")
        viewer.wait("document.querySelector('th[aria-sort=ascending]')?.innerText.includes('gamma')")
        assert viewer.frame.evaluate(ROWS).split()[0] == "train_a1b2c_00000"
        viewer.frame.fill(".filter", "depth=3")
        viewer.wait(f"{ROWS} === 'train_a1b2c_00003 train_a1b2c_00007 train_a1b2c_00011'")
        failed = ".run-table tr[data-trial=train_a1b2c_00011] td"
        assert viewer.all(failed, "[e.innerText, e.title]")[0] == (["error", "ValueError: <b>stuck</b>"])
        with viewer.page.expect_download() as download:
            viewer.frame.click("text=Export CSV")
        table = pd.read_csv(download.value.path()).set_index("trial")
        assert download.value.suggested_filename == "sweep.csv"
        assert list(table["last/episode_return_mean"]) == list(frame["episode_return_mean"][table.index])
        assert list(table["config/zeta_lr"]) == [settings_of(int(name[-2:]))["zeta_lr"] for name in table.index]
        viewer.frame.click("text=Charts")
        viewer.frame.click("text=Hyperparameters")
        viewer.wait("document.querySelector('.scatter')?.innerText.includes('to see its trial')")
        viewer.frame.click("text=All episodes")
        viewer.wait("document.querySelector('.message')?.innerText === 'No episodes were recorded.'")


@pytest.mark.slow
def test_columns_are_chosen_and_the_table_is_used_without_a_mouse(browser, results, tmp_path):
    with opened(browser, results, tmp_path) as viewer:
        viewer.wait(f"{ROWS}.split(' ').length === {COUNT} && tuneMedia.app.instance.data.metricNames.length > 40")
        viewer.press("Tab")
        assert viewer.frame.evaluate("document.activeElement.innerText") == "Skip to the table"
        viewer.press("Enter")
        first = viewer.frame.evaluate(ROWS).split()[:2]
        at = "document.activeElement.closest('tr').dataset.trial"
        assert viewer.frame.evaluate(at) == first[0]
        viewer.press("ArrowDown")
        assert viewer.frame.evaluate(at) == first[1]
        viewer.press("Tab")  # one stop for all rows
        assert not viewer.frame.evaluate("!!document.activeElement.closest('tbody')")
        viewer.frame.click("text=columns …")
        viewer.frame.fill("dialog .search", "metric_")
        assert len(viewer.all("dialog .checks label")) == 40
        viewer.frame.fill("dialog .search", "")
        viewer.frame.click("dialog .chip:has-text('all')")
        viewer.press("Escape")
        viewer.wait("document.querySelectorAll('.run-table thead th').length > 44")
        viewer.frame.evaluate("document.querySelector('.table-place').scrollLeft = 1500")
        moved = viewer.all(".run-table tbody tr:first-child > *", "e.getBoundingClientRect().left")
        place = viewer.all(".table-place", "e.getBoundingClientRect().left")[0]
        assert (moved[0] - place < 3, moved[1] < 0) == (True, True)  # the trial stays
        address = viewer.page.url
        viewer.open(address)
        viewer.wait("document.querySelectorAll('.run-table thead th').length > 44")  # the link has the columns
        viewer.frame.focus(".run-table tbody .name")
        viewer.press("Enter")
        viewer.wait("document.activeElement.matches('.trial-view h2')")
        viewer.press("Escape")
        viewer.wait(f"document.activeElement.matches('.name') && {at} === '{first[0]}'")


@pytest.mark.slow
def test_a_trial_has_its_whole_config_without_secrets_and_its_title_the_others(browser, results, tmp_path):
    with opened(browser, results, tmp_path, "view=trial&trial=train_a1b2c_00004", host="gallery") as viewer:
        viewer.wait("document.querySelectorAll('.settings dt').length >= 10")
        shown = dict(viewer.all(".settings div", "[...e.children].map((part) => part.textContent)"))
        assert {name: float(shown[name]) for name in NAMES} == settings_of(4)
        assert (shown["env_config/api_key"], shown["layers"]) == ("***", "[64, 64]")
        assert SECRET not in viewer.frame.evaluate("document.documentElement.outerHTML")
        assert not [path for path in tmp_path.rglob("*.js") if SECRET in path.read_text()]
        title = viewer.all("main h2")[0]
        assert title.startswith("zeta_lr 0.01 · depth 0") and "+3" in title  # both have four values; one matters
        viewer.frame.click("main h2 .more-params")
        viewer.wait("document.querySelector('main h2').innerText.includes('seed 4')")
        assert all(name in viewer.all("main h2")[0] for name in NAMES)


@pytest.mark.slow
def test_cards_show_the_ranking_figure_first_and_largest_and_all_hyperparameters_can_be_seen(browser, tmp_path):
    for number in range(2):
        folder = write_trial(tmp_path / "exp" / f"t{number}", number, steps=(10,), **settings_of(number * 3))
        write_results(folder, {"evaluation": {"env_runners": {"episode_return_mean": -1234567.5 - number}}})
    with opened(browser, tmp_path / "exp", tmp_path) as viewer:
        for size in (180, 280, 640):
            viewer.open(viewer.url)
            viewer.wait("document.querySelectorAll('.card .score').length === 2")
            viewer.frame.evaluate(f"tuneMedia.app.instance.set({{ size: {size} }})")
            viewer.wait("document.querySelector('.card .score dd')?.innerText.includes('e6')")
            figures = viewer.all(".card:first-of-type dd", "[parseFloat(getComputedStyle(e).fontSize), e.scrollWidth]")
            assert figures[0][0] > max(other for other, _ in figures[1:])
            right = "getBoundingClientRect().right"
            is_cut = f"e.scrollWidth > e.clientWidth || e.{right} > e.closest('.facts').{right}"
            assert viewer.all(".card .score dd", is_cut) == [False, False]
        viewer.frame.click("text=table")
        viewer.wait(f"{ROWS} === 't0 t1'")
        assert viewer.all(".cards", "1") == []
        viewer.frame.click(".cards-choice >> text=cards")
        titles = " ".join(viewer.all(".card:first-of-type .params button", "e.title"))
        assert all(name in titles for name in NAMES if name not in ("clip", "epochs"))  # these two do not differ
        assert viewer.all(".card:first-of-type .others")[0].startswith("+")


@pytest.mark.slow
def test_names_of_hyperparameters_on_a_card_are_whole(browser, tmp_path):
    for number in range(2):
        params = {"layers": 2 + number, "lr": 0.02536 + number, "norm": not number, "opt": f"adam{number}"}
        write_trial(tmp_path / "exp" / f"t{number}", number, steps=(10,), **params)
    with served("watch", tmp_path / "exp", tmp_path) as url, viewer_page(browser, "watch") as viewer:
        viewer.page.set_viewport_size({"width": 1220, "height": 800})  # cards are no wider than they must be
        viewer.open(url)
        viewer.wait("document.querySelectorAll('.card .others').length === 2")
        assert True not in viewer.all(".params button span", "e.scrollWidth > e.clientWidth")


@pytest.mark.slow
def test_a_running_sweep_says_how_far_it_is_how_long_it_takes_and_how_old_its_results_are(browser, tmp_path):
    experiment = tmp_path / "exp"
    for number in range(4):  # an iteration of those that run takes 10 s and 5 s: 300 s and 100 s are left
        iteration = 10 * (number + 1)
        folder = write_trial(experiment / f"t{number}", number, steps=(iteration,))
        write_results(folder, {"training_iteration": iteration, "time_total_s": 100.0, "episode_return_mean": 1.0})
    statuses = {"t0": "RUNNING", "t1": "RUNNING", "t2": "TERMINATED", "t3": "ERROR", "t4": "PENDING", "t5": "PENDING"}
    write_snapshot(experiment, {"training_iteration": 40, "kl": 0.1}, **statuses)  # 40 x 7.5 s for each that is pending
    with opened(browser, experiment, tmp_path) as viewer:
        viewer.wait("document.querySelector('.live')?.innerText.includes('pending')")  # not known at first
        told = " ".join(viewer.all(".live")[0].split())
        assert told.startswith("2 running 2 pending 1 ended 1 failed iteration 10 to 20 of 40 about 8 min left newest ")
        assert told.endswith(" s ago") and told.count(" ago") == 1
        viewer.wait("document.querySelectorAll('.card .other').length === 3")  # no clip at the last step yet
        assert viewer.axe_violations() == {}
        viewer.press("Tab")
        viewer.press("Enter")
        assert viewer.frame.evaluate("document.activeElement.matches('.card')")
        write_snapshot(experiment, {"episode_return_mean": 500}, **statuses)  # nobody knows when it stops
        reload_until(viewer, "document.querySelector('.live').innerText.replace(/\\s+/g, ' ').includes('20 newest')")
        write_snapshot(experiment, t0="TERMINATED", t1="TERMINATED", t2="TERMINATED", t3="ERROR")
        reload_until(viewer, "!document.querySelector('.live')")


def reload_until(viewer, condition):
    time.sleep(1.1)  # until the server looks again
    viewer.frame.evaluate("tuneMedia.app.instance.reload()")
    viewer.wait(condition)


def test_pending_trials_are_those_of_the_snapshot_that_have_no_folder(tmp_path):
    write_trial(tmp_path / "t0", 0)
    write_snapshot(tmp_path, t0="PENDING", t1="PENDING", t2="RUNNING")
    trials = Trials([LogDirectory.of(str(tmp_path))])
    trials.all()
    assert trials.pending() == 1


def test_list_shows_the_trials_of_a_sweep_without_clips_and_how_to_record(results):
    head, *lines = command("list", results).split("\n")
    assert head.split()[:2] == ["trial", "status"]
    assert "mean return" in head
    assert [line.split()[:2] for line in lines[:2]] == [
        ["train_a1b2c_00002", "terminated"],
        ["train_a1b2c_00001", "terminated"],
    ]
    failed = lines.index("failed: train_a1b2c_00011: ValueError: <b>stuck</b>")
    assert lines[failed + 1] == "whole errors: error.txt in a trial's folder"
    for recorder in ("tm.rllib.record_episodes", "tm.gym.RecordEpisodes", "tm.Video"):
        assert recorder in lines[-2]


def test_headers_take_lines_of_their_own_on_a_narrow_terminal():
    lines = [["trial", "mean evaluation return", "env_runners/episode_return_mean"], ["a" * 40, "1.5", "2.5"]]
    table = laid_out(lines, 60)
    assert all(len(line) <= 60 for line in table.split("\n"))
    assert "…" not in table.rpartition("\n")[0]
    assert table.split("\n")[-2].split() == ["trial", "return", "mean"]
