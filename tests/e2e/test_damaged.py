import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest
from werkzeug.test import Client

import tune_media as tm
from tests.support.commands import command
from tests.support.damage import WAYS
from tests.support.index_lines import typed, valid_lines
from tests.support.stores import LOCAL, StoredTrial
from tests.support.viewing import write_snapshot, write_trial
from tune_media.experiment.trial_folders import LogDirectory, Trials
from tune_media.storage.log import PartWriter
from tune_media.viewing.gallery import Gallery
from tune_media.viewing.web import ViewerApp

pytestmark = pytest.mark.slow

FILES = {
    "index.jsonl": "bad/media/index.jsonl",
    "params.json": "bad/params.json",
    "result.json": "bad/result.json",
    "snapshot": "experiment_state-*.json",
    "log": ".tune_media_log/*.jsonl",
    "episodes": "bad/episode_data/data-00000020.parquet",
    "clip": "bad/media/evaluation/episodes/best/step_000000020-*.mp4",
}
PAGES = [
    *("first.json", "index.json", "metrics.json", "curves.json?metric=episode_return_mean"),
    *("configurations.json?metric=episode_return_mean", "episodes.json?sort=return"),
]
NAMED = {  # by the way of damage: the files whose readers must say so
    **dict.fromkeys(("a folder", "a pipe", "noise"), FILES.keys() - {"clip"}),
    "a link to elsewhere": FILES.keys() - {"clip"},
    "a link to itself": FILES.keys() - {"clip", "snapshot", "log"},
    "odd lines": {"index.jsonl", "params.json", "result.json", "snapshot", "log"},
    "truncated": {"params.json", "result.json", "snapshot", "episodes"},
    "empty": {"params.json", "snapshot", "episodes"},
}


ON_PAGE = {"index.jsonl", "episodes", "result.json"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    experiment = tmp_path_factory.mktemp("whole") / "exp"
    log = []
    for number, name in enumerate(("bad", "good", "other")):
        folder = write_trial(experiment / name, number)
        log += [typed(line | {"trial": name}) for line in valid_lines((folder / "media" / "index.jsonl").read_bytes())]
    write_snapshot(experiment, bad="ERROR", good="TERMINATED", other="TERMINATED")
    PartWriter(LOCAL, str(experiment), "box").append(1, 99, log)
    return experiment


def look(experiment, folder):
    catalog = tm.load(experiment)
    frame = catalog.to_pandas(params="all")
    assert (frame["trial"] == "good").sum() == 4
    assert (catalog.episodes()["trial"] == "other").sum() == 4
    assert {"good", "other"} <= {name for names in catalog.compare()["trials"] for name in names}
    assert catalog.best()["trial"] == "other"
    assert catalog.taped_episodes() == []
    assert "<table" in catalog._repr_html_()
    assert "other" in command("list", experiment)
    Gallery.of(str(experiment)).write(folder, steps=True)
    app = ViewerApp(Trials([LogDirectory.of(str(experiment))]), "sweep")
    client = Client(app)
    for page in PAGES:
        assert client.get(f"/data/{page}").status_code == 200, page
    assert client.get("/data/episodes.json").json["total"] >= 8
    for trial in app.trials.all():
        assert client.get("/data/trial.json", query_string={"trial": trial.id}).status_code == 200
        for line in trial.lines:
            query = {"trial": trial.id, "path": line["path"]}
            assert client.get("/data/clip.json", query_string=query).status_code == 200
            answer = client.get(f"/media/{trial.id}/{quote(line['path'])}")
            assert answer.status_code in ((200, 404) if trial.name == "bad" else (200,))
    return client.get("/data/metrics.json").json.get("unreadable", [])


@pytest.mark.parametrize("content", [b"[1]", b"{}", b'{"edges": 3, "counts": null}', b"noise"])
def test_a_damaged_histogram_ends_no_export_and_is_named(whole, tmp_path, content):
    experiment = shutil.copytree(whole, tmp_path / "exp")
    store = StoredTrial.in_folder(experiment / "good")
    path = store.add(tm.Histogram([1.0, 2.0]), "train", "angles", 20)
    store.finish()
    (experiment / "good" / path).write_bytes(content)
    done = tm.export.to_tensorboard(experiment, tmp_path / "exported")
    assert (done.trials, [path in problem for problem in done.problems]) == (3, [True])


@pytest.mark.parametrize("way", WAYS)
def test_a_damaged_file_costs_itself_and_is_named(whole, tmp_path, caplog, way):
    luck = random.Random(way)
    for kind, pattern in FILES.items():
        experiment = shutil.copytree(whole, tmp_path / kind / "exp")
        (file,) = experiment.glob(pattern)
        WAYS[way](file, luck)
        caplog.clear()
        with ThreadPoolExecutor() as pool:  # nobody waits for ever
            unreadable = pool.submit(look, experiment, tmp_path / kind / "gallery").result(60)
        assert kind not in NAMED.get(way, ()) or file.name.removesuffix(".parquet") in caplog.text, (kind, caplog.text)
        if kind in ON_PAGE & set(NAMED.get(way, ())):
            assert any(file.name in path for path, _ in unreadable), (kind, unreadable)
