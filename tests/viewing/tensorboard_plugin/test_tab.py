import configparser
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from tensorboard.backend.security_validator import SecurityValidatorMiddleware
from werkzeug.test import Client

from tests.support.viewing import write_trial
from tune_media.experiment.trial_folders import Trials
from tune_media.viewing.tensorboard_plugin import EpisodesLoader, tab


@pytest.fixture
def experiment(tmp_path):
    write_trial(tmp_path / "exp" / "trial_0", 0)
    return tmp_path / "exp"


def context(logdir="", spec=None):
    return SimpleNamespace(logdir=str(logdir), flags=SimpleNamespace(logdir_spec=spec))


def index(plugin):
    app = plugin.get_plugin_apps()["/data/*"]
    return Client(app).get("/data/plugin/episodes/data/index.json").json


def test_the_entry_point_imports_tensorboard_and_nothing_heavy():
    setup = configparser.ConfigParser()
    setup.read(Path(__file__).parents[3] / "setup.cfg")
    name, _, value = setup["options.entry_points"]["tensorboard_plugins"].strip().partition(" = ")
    module, _, loader = value.partition(":")
    code = (
        f"import sys; from {module} import {loader};"
        "print(sorted({'pyarrow', 'av', 'ray', 'werkzeug.wrappers', 'tune_media.viewing.web'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (name, result.stdout.strip()) == ("episodes", "[]")


def test_a_failure_leaves_tensorboard_running_without_the_tab(monkeypatch, caplog):
    monkeypatch.setattr(tab, "EpisodesTab", lambda context: 1 / 0)
    assert EpisodesLoader().load(context("/x")) is None
    assert "no Episodes tab (division by zero)" in caplog.text


def test_tensorboard_3_will_take_what_the_tab_sends(experiment, caplog):
    for route in ("static/index.html", "data/index.json", "index.js"):
        app = SecurityValidatorMiddleware(EpisodesLoader().load(context(experiment)).get_plugin_apps()["/data/*"])
        response = Client(app).get(f"/data/plugin/episodes/{route}")
        assert response.status_code == 200
        assert "default-src 'none'" in response.headers["Content-Security-Policy"]
    assert "will become an error" not in caplog.text


def test_the_tab_is_active_if_there_are_trials_with_or_without_clips(experiment, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "young" / "trial").mkdir(parents=True)
    (tmp_path / "young" / "trial" / "params.json").write_text("{}")
    assert EpisodesLoader().load(context(tmp_path / "young")).is_active()
    assert EpisodesLoader().load(context(experiment)).is_active()
    assert not EpisodesLoader().load(context(tmp_path / "empty")).is_active()
    assert not EpisodesLoader().load(context(tmp_path / "nothing")).is_active()


def test_a_tab_becomes_active_when_the_first_trial_starts(tmp_path):
    plugin = EpisodesLoader().load(context(tmp_path))
    assert not plugin.is_active()
    write_trial(tmp_path / "trial", 0)
    plugin._trials.all(max_age=0)
    assert plugin.is_active()


def test_a_storage_that_hangs_has_one_thread_waiting_for_it(tmp_path, monkeypatch):
    over, begun = threading.Event(), []
    monkeypatch.setattr(Trials, "read_ahead", lambda self: begun.append(1) or over.wait(60))
    monkeypatch.setattr(tab, "_FIRST_LOOK", 0.0)
    plugin = EpisodesLoader().load(context(tmp_path))
    assert [plugin.is_active() for _ in range(5)] == [False] * 5
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "tune_media-episodes"]
    over.set()
    thread.join()
    assert len(begun) == 1
    plugin.is_active()
    plugin._look_thread.join()
    assert len(begun) == 2


def test_trials_are_named_like_tensorboards_runs(experiment):
    assert [t["name"] for t in index(EpisodesLoader().load(context(experiment)))["trials"]] == ["trial_0"]
    assert [t["name"] for t in index(EpisodesLoader().load(context(experiment.parent)))["trials"]] == ["exp/trial_0"]
    spec = f"a:{experiment},b:{experiment / 'trial_0'}"
    plugin = EpisodesLoader().load(context(spec=spec))
    assert [trial["name"] for trial in index(plugin)["trials"]] == ["a/trial_0", "b/."]


def test_the_tabs_script_and_a_path_prefix_are_served(experiment):
    apps = EpisodesLoader().load(context(experiment)).get_plugin_apps()
    script = Client(apps["/index.js"]).get("/data/plugin/episodes/index.js")
    assert (script.mimetype, b"export async function render" in script.data) == ("text/javascript", True)
    assert Client(apps["/static/*"]).get("/prefix/data/plugin/episodes/static/app.js").status_code == 200
    assert Client(apps["/static/*"]).get("/data/plugin/episodes/static/../web.py").status_code == 404
