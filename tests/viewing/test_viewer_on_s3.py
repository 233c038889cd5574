"""The viewer with an experiment on S3: from the storage, and from the folder that Tune prints."""

import json
import logging
import pickle
import re
import shutil
import threading
import time
import urllib.parse
import urllib.request
from urllib.parse import quote

import pyarrow
import pyarrow.fs
import pyarrow.parquet
import pytest
from werkzeug.test import Client

import tune_media as tm
from tests.support.browser import tensorboard_url
from tests.support.viewing import write_trial
from tune_media.experiment.trial_folders import LogDirectory, Trials, in_parallel
from tune_media.viewing.gallery import Gallery
from tune_media.viewing.web import ViewerApp

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def staging(s3, tmp_path_factory):
    folder = tmp_path_factory.mktemp("staging") / "exp"
    for number in range(2):
        write_trial(folder / f"trial_{number}", number, storage=(s3, f"results/exp/trial_{number}"))
        with s3.open_output_stream(f"results/exp/trial_{number}/params.json") as file:  # as Tune syncs it
            file.write((folder / f"trial_{number}" / "params.json").read_bytes())
    return folder


@pytest.mark.parametrize("is_staging", [False, True])
def test_clips_play_from_the_storage_and_from_the_folder_that_tune_prints(staging, is_staging):
    app = ViewerApp(Trials([LogDirectory.of(str(staging) if is_staging else "s3://results/exp")]), "exp")
    client = Client(app)
    index = client.get("/data/index.json").json
    assert [trial["name"] for trial in index["trials"]] == ["trial_0", "trial_1"]
    assert index["params"] == ["lr"]
    assert index["clips"]["count"] == 8
    trial = app.trials.all()[1]
    line = trial.lines[-1]
    clip = f"/media/{trial.id}/{quote(line['path'])}"
    whole = client.get(clip)
    assert (whole.status_code, len(whole.data), whole.mimetype) == (200, line["bytes"], "video/mp4")
    part = client.get(clip, headers={"Range": "bytes=-7"})
    assert (part.status_code, part.data) == (206, whole.data[-7:])
    assert client.get(clip, headers={"Range": "bytes=9999999-"}).status_code == 416
    details = client.get("/data/clip.json", query_string={"trial": trial.id, "path": line["path"]}).json
    assert details["series"]["angle"][-1] == 2.0


def test_server_and_catalog_read_nothing_from_a_place_of_somebody_else(s3, staging, tmp_path):
    with s3.open_input_stream("results/exp/trial_0/media/index.jsonl") as file:
        index = file.read()
    line = json.loads(index.splitlines()[0])
    shutil.copytree(staging / "trial_0", tmp_path / "exp" / "trial_0")
    (tmp_path / "exp" / "trial_0" / "media").mkdir()
    (tmp_path / "exp" / "trial_0" / "media" / "index.jsonl").write_bytes(index)
    with s3.open_output_stream(f"results/others/private/{line['path']}") as file:
        file.write(b"private")
    for target in ("others/private", "exp/trial_1"):
        pointer = tmp_path / "exp" / "trial_0" / ".tune_media.json"
        pointer.write_text(json.dumps({"media_of": f"s3://results/{target}", "trial_id": line["trial_id"]}))
        app = ViewerApp(Trials([LogDirectory.of(str(tmp_path / "exp"))]), "exp")
        (trial,) = app.trials.all()
        assert Client(app).get(f"/media/{trial.id}/{quote(line['path'])}").status_code == 404
        assert trial.place[1] == trial.path
        catalog = tm.load(tmp_path / "exp")
        assert len(catalog) == 4
        for row in catalog:
            with pytest.raises(FileNotFoundError):
                row.read_bytes()
        assert len(catalog.episodes()) == 0
        row = pickle.loads(pickle.dumps(catalog[0]))
        with pytest.raises(FileNotFoundError):
            list(row.frames())


def test_a_look_at_a_running_trial_lists_no_checkpoints(s3, staging):
    for number in range(3):
        with s3.open_output_stream(f"results/exp/trial_0/checkpoint_{number:06d}/model.pt") as file:
            file.write(b"x")
    requests = []
    handler = logging.Handler()
    handler.emit = lambda record: requests.append(record.getMessage())
    logging.getLogger("werkzeug").setLevel(logging.INFO)  # TensorBoard, if it ran in this process, has changed it
    logging.getLogger("werkzeug").addHandler(handler)
    try:
        trials = Trials([LogDirectory.of("s3://results/exp")])
        for _ in range(2):
            for trial in trials.all(max_age=0):
                trial.read_at = float("-inf")  # it is time to look for files that the index does not name yet
        tm.load("s3://results/exp").to_pandas()
        tm.load("s3://results/exp/trial_0").to_pandas()
    finally:
        logging.getLogger("werkzeug").removeHandler(handler)
    queries = filter(None, map(re.compile(r"GET /results\?(\S*)").search, requests))
    listed = [urllib.parse.parse_qs(query[1]) for query in queries]
    assert listed
    assert not [found["prefix"][0] for found in listed if "delimiter" not in found]  # with all that is below it
    assert not [text for text in requests if "checkpoint_" in text]


@pytest.mark.parametrize("is_staging", [False, True])
def test_a_catalog_is_read_from_the_storage_and_from_the_folder_that_tune_prints(staging, is_staging):
    pyarrow.set_io_thread_count(100 if is_staging else 8)
    catalog = tm.load(str(staging) if is_staging else "s3://results/exp")
    assert pyarrow.io_thread_count() == (100 if is_staging else 64)  # many requests at a time; a larger number stays
    assert len(catalog) == 8
    row = catalog.best()
    assert row["file"] == f"results/exp/trial_1/{row['path']}"
    assert (len(row.read_bytes()), len(list(row.frames()))) == (row["bytes"], row["frames"])
    at_once = threading.Barrier(len(catalog.trials))
    assert sorted(in_parallel(lambda trial: at_once.wait(20), catalog.trials)) == [0, 1]
    episodes = catalog.episodes()
    assert len(episodes) == 8
    assert episodes["series"].iloc[-1]["angle"][-1] == 2.0
    assert "8 media" in catalog._repr_html_()


def test_the_only_experiment_in_a_bucket_is_opened(staging):
    assert tm.load("s3://results").path == tm.load("s3://results/exp").path


def test_tensorboard_has_the_clips_and_the_scalars_of_a_logdir_on_s3(s3, staging, tmp_path):
    pytest.importorskip("boto3")  # TensorBoard itself needs it
    writer = pytest.importorskip("tensorboardX").SummaryWriter(str(tmp_path))
    writer.add_scalar("score", 7.0, 1)
    writer.close()
    (events,) = tmp_path.iterdir()
    with s3.open_output_stream(f"results/exp/trial_0/{events.name}") as file:
        file.write(events.read_bytes())
    url = tensorboard_url("s3://results/exp", reload_interval=0)  # it reads once

    def get(path):
        with urllib.request.urlopen(f"{url}data/plugin/{path}") as answer:
            return json.load(answer)

    deadline = time.monotonic() + 120
    while not (tags := get("scalars/tags")):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert {run: list(found) for run, found in tags.items()} == {"trial_0": ["score"]}
    index = get("episodes/data/index.json")
    assert [trial["name"] for trial in index["trials"]] == ["trial_0", "trial_1"]
    wanted = {"trial": "trial_0", "key": "episodes/best", "step": 20}
    line = next(row for row in tm.load("s3://results/exp") if wanted.items() <= row.items())
    clip = f"{url}data/plugin/episodes/{index['trials'][0]['url']}{line['path']}"
    assert urllib.request.urlopen(clip).read() == line.read_bytes()


def test_a_gallery_is_written_from_s3(staging, tmp_path):
    gallery = Gallery.of("s3://results/exp", ["best"])
    gallery.write(tmp_path / "out")
    assert gallery.missing == []
    assert len(list((tmp_path / "out").rglob("*.mp4"))) == 4
