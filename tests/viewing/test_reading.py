"""The trials are read for the first time while somebody looks: how far it is, and those that are read by now."""

import json
import os
import threading

import pytest
from werkzeug.test import Client

from tests.support.browser import opened, served, viewer_page
from tests.support.faults import wait_until
from tests.support.viewing import write_trial
from tune_media.experiment import trial_folders as module
from tune_media.experiment.trial_files import TrialFiles
from tune_media.experiment.trial_folders import LogDirectory, Trials
from tune_media.viewing.web import ViewerApp

COUNT = 8


@pytest.fixture
def sweep(tmp_path):
    """Trials of which the last is the oldest."""
    for number in range(COUNT):
        folder = write_trial(tmp_path / "exp" / f"trial_{number}", number)
        os.utime(folder / "media" / "index.jsonl", (1e9 - number, 1e9 - number))
    return tmp_path / "exp"


@pytest.fixture
def gate(monkeypatch):
    """Let trials be read one by one."""
    gate = threading.Semaphore(0)
    real = TrialFiles.refresh

    def refresh(self, version):
        assert gate.acquire(timeout=60)
        return real(self, version)

    monkeypatch.setattr(TrialFiles, "refresh", refresh)
    monkeypatch.setattr(module, "_PATIENCE", 0.05)
    yield gate
    gate.release(100)


def test_the_newest_trials_are_shown_while_the_others_are_read(sweep, gate):
    trials = Trials([LogDirectory.of(str(sweep))])
    client = Client(ViewerApp(trials, "exp"))
    assert trials.reading is None
    gate.release(3)
    trials.known()
    wait_until(lambda: trials.reading == (3, COUNT))
    first = client.get("/data/first.json").json
    assert first["reading"] == [3, COUNT]
    assert [trial["name"] for trial in first["trials"]] == ["trial_0", "trial_1", "trial_2"]
    assert first["metrics"]["metrics"]["episode_return_mean"] == [20, 21, 22]
    line = trials.known()[0].lines[0]
    assert client.get(f"/media/{first['trials'][0]['id']}/{line['path']}").status_code == 200
    gate.release(100)
    wait_until(lambda: trials.reading is None)
    whole = client.get("/data/first.json").json
    assert "reading" not in whole
    assert len(whole["trials"]) == COUNT
    assert len(client.get("/data/index.json").json["trials"]) == COUNT


def test_a_trial_that_cannot_be_read_holds_up_nobody(sweep):
    (sweep / "trial_0" / "media" / "index.jsonl").unlink()
    (sweep / "trial_0" / "media" / "index.jsonl").mkdir()
    trials = Trials([LogDirectory.of(str(sweep))])
    assert len(trials.known()) >= COUNT - 1
    assert trials.reading is None


@pytest.mark.slow
def test_the_page_says_how_many_trials_are_read_and_shows_them(sweep, gate, browser, tmp_path):
    gate.release(2)
    with opened(browser, sweep, tmp_path) as viewer:
        viewer.wait("document.querySelector('.banner.reading')?.innerText.includes('2 of 8 trials are read')")
        viewer.wait("document.querySelectorAll('.card video').length === 2")
        assert sorted(viewer.all(".card", "e.dataset.trial")) == ["trial_0", "trial_1"]
        gate.release(100)
        viewer.wait("document.querySelectorAll('.card').length === 8 && !document.querySelector('.banner.reading')")
        viewer.wait("tuneMedia.app.instance.data.trials[0].clipCount === 4")


@pytest.mark.slow
def test_a_link_waits_for_all_trials_and_says_how_far_they_are(sweep, gate, browser, tmp_path):
    gate.release(2)
    with served("watch", sweep, tmp_path) as url, viewer_page(browser, "watch") as viewer:
        viewer.page.goto(f"{url}#view=trial&trial=trial_7")
        viewer.frame = viewer.page.main_frame
        viewer.wait("document.body.innerText.includes('Reading the trials: 2 of 8 trials')")
        gate.release(100)
        viewer.wait("document.querySelector('.trial-view')?.innerText.includes('trial_7')")
        assert viewer.errors == []
        assert json.dumps(viewer.all(".banner.reading")) == "[]"
