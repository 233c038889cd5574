import gzip
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote, unquote

import pytest
from fsspec.implementations.local import LocalFileSystem
from werkzeug.test import Client

from tests.support.viewing import on, write_trial
from tune_media.experiment.trial_files import TrialFiles
from tune_media.experiment.trial_folders import LogDirectory, Trials
from tune_media.viewing.front_end import STATIC, static_files
from tune_media.viewing.web import ViewerApp


@pytest.fixture
def experiment(tmp_path):
    for number in range(2):
        write_trial(tmp_path / f"a=1,b={number} #x%", number)
    return tmp_path


@pytest.fixture
def client(experiment):
    return Client(ViewerApp(Trials([LogDirectory.of(str(experiment))]), "sweep"))


@pytest.fixture
def clip(client):
    index = client.get("/data/index.json").json
    trial = index["trials"][0]
    clips = index["clips"]
    folder = clips["folder"]["of"][clips["folder"]["at"][0]]
    return "/" + trial["url"] + quote(f"{folder}/{clips['file']['all'][0]}")


def test_the_index_is_sent_once_and_then_only_if_it_changed(client, experiment):
    first = client.get("/data/index.json", headers={"Accept-Encoding": "gzip"})
    assert first.headers["Content-Encoding"] == "gzip"
    assert len(json.loads(gzip.decompress(first.data))["trials"]) == 2
    seen = {"seen": first.get_etag()[0]}
    assert client.get("/data/index.json", query_string=seen).json is None
    write_trial(experiment / "c", 2)
    client.application.trials.all(max_age=0)
    assert len(client.get("/data/index.json", query_string=seen).json["trials"]) == 3


def test_it_tells_where_a_clip_lies_and_what_the_folders_take(client, clip, experiment):
    id, path = clip.removeprefix("/media/").split("/", 1)
    told = client.get("/data/clip.json", query_string={"trial": id, "path": unquote(path)}).json
    file = Path(told["file"])
    assert file.is_absolute() and file.read_bytes() == client.get(clip).data
    (experiment / file.relative_to(experiment).parts[0] / "checkpoint_000001").mkdir()
    (experiment / file.relative_to(experiment).parts[0] / "checkpoint_000001" / "x.pt").write_bytes(bytes(2_000_000))
    (experiment / file.relative_to(experiment).parts[0] / "best").symlink_to("checkpoint_000001")
    text = client.get("/data/disk.json").json
    total = sum(one.stat().st_size for one in experiment.rglob("*") if one.is_file()) / 1e6
    assert text.startswith(f"{total:.1f} MB: checkpoints 2.0 MB, ")
    assert all(kind in text for kind in ("clips", "episode data", "other files"))


def test_every_answer_has_a_content_type(client, clip):  # TensorBoard warns in its log if not
    paths = ["/", "/static/app.js", "/data/index.json", "/data/metrics.json", clip, "/media/x", "/nothing"]
    assert all(client.get(path).content_type for path in paths)
    assert client.get(clip, headers={"Range": "bytes=9999999-"}).content_type


def test_metrics_curves_and_episodes_are_told(client, clip):
    trials = client.get("/data/index.json").json["trials"]
    assert client.get("/data/metrics.json").json["metrics"]["episode_return_mean"] == [20, 21]
    curves = client.get("/data/trial.json", query_string={"trial": trials[1]["id"]}).json
    assert curves["metrics"]["episode_return_mean"] == [11, 21]
    path = "/".join(clip.split("/")[3:])
    details = client.get("/data/clip.json", query_string={"trial": trials[0]["id"], "path": path}).json
    assert details["series"]["angle"] == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert details["record"]["episode_return"] == 11


FAR = type("Far", (LocalFileSystem,), {"protocol": "far", "cachable": False})  # as an object store is read


WHOLE = ["items=0-5", "bytes=0-1,3-4", "bytes=5-2", "bytes=-99999999", "bytes=a-b", "bytes=", "bytes", "0-5"]
WHOLE += [f"bytes={'9' * 6000}-", "bytes=\xff-", "bytes=-0"]
PARTS = {
    "bytes=0-": "bytes 0-{last}/{size}",
    "bytes=10-19": "bytes 10-19/{size}",
    "bytes=-5": "bytes {tail}-{last}/{size}",
    "BYTES=0-5": "bytes 0-5/{size}",
    "bytes=0-99999999": "bytes 0-{last}/{size}",
}


@pytest.mark.parametrize("is_far", [False, True])
def test_a_range_that_is_a_single_part_gets_it_and_any_other_the_whole_file(experiment, is_far):
    trials = Trials([LogDirectory(on(FAR(), experiment)) if is_far else LogDirectory.of(str(experiment))])
    client, trial = Client(ViewerApp(trials, "sweep")), trials.all()[0]
    clip = f"/media/{trial.id}/{quote(trial.lines[0]['path'])}"
    whole = client.get(clip)
    size = len(whole.data)
    assert (whole.status_code, whole.headers["Accept-Ranges"], whole.mimetype) == (200, "bytes", "video/mp4")
    beyond = client.get(clip, headers={"Range": "bytes=9999999-"})
    assert (beyond.status_code, beyond.headers["Content-Range"]) == (416, f"bytes */{size}")
    for wanted in (*WHOLE, *PARTS):
        found = client.get(clip, headers={"Range": wanted})
        assert found.status_code == (206 if wanted in PARTS else 200), wanted
        sent = found.headers.get("Content-Range", f"bytes 0-{size - 1}/{size}")
        first, last = sent[6:].partition("/")[0].split("-")
        assert found.data == whole.data[int(first) : int(last) + 1], wanted
        assert ("Content-Range" in found.headers) == (wanted in PARTS), wanted
        if wanted in PARTS:
            assert sent == PARTS[wanted].format(size=size, last=size - 1, tail=size - 5)
        assert "immutable" in found.headers["Cache-Control"]
        assert client.head(clip, headers={"Range": wanted}).status_code == 200


def test_the_page_is_told_what_could_not_be_read(tmp_path, monkeypatch):
    for number, name in enumerate(("good", "bad")):
        write_trial(tmp_path / "exp" / name, number)
    refresh = TrialFiles.refresh

    def refused(trial, version):
        if trial.name == "bad":
            raise OSError("no permission: api_key=abcdefgh1")
        refresh(trial, version)

    monkeypatch.setattr(TrialFiles, "refresh", refused)
    client = Client(ViewerApp(Trials([LogDirectory.of(str(tmp_path / "exp"))]), "sweep"))
    assert client.get("/data/index.json").status_code == 200
    unreadable = client.get("/data/metrics.json").json["unreadable"]
    assert unreadable == [[str(tmp_path / "exp" / "bad"), "OSError: no permission: api_key=***"]]


def test_an_error_of_the_storage_brings_no_key_onto_the_page_or_into_the_log(experiment, caplog, monkeypatch):
    trials = Trials([LogDirectory.of(str(experiment))])
    client = Client(ViewerApp(trials, "sweep"))

    def refuse(*arguments, **more):
        raise OSError("GET https://host/x?sig=Zm9v0123: 403")

    monkeypatch.setattr(trials, "all", refuse)
    answer = client.get("/data/index.json")
    assert (answer.status_code, answer.text) == (500, "OSError: GET https://host/x?sig=***: 403")
    assert "Zm9v0123" not in caplog.text


def test_media_are_cached_for_ever_and_pages_are_not(client, clip):
    response = client.get(clip)
    assert response.headers["Cache-Control"] == "private, max-age=31536000, immutable"
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert client.get(clip, headers={"If-None-Match": response.headers["ETag"]}).status_code == 304
    assert client.get("/static/app.js").headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize(
    "path",
    [
        "/media/{id}/../../params.json",
        "/media/{id}/media/../params.json",
        "/media/{id}/%2e%2e/params.json",
        "/media/{id}/..%2fparams.json",
        "/media/{id}//etc/passwd",
        "/media/{id}/params.json",
        "/media/{id}/media/index.jsonl",
        "/media/nobody/media/index.jsonl",
        "/static/../web.py",
        "/static/%2e%2e/web.py",
        "/web.py",
        "/data/secrets.json",
        "/data/trial.json?trial=..",
        "/data/clip.json?trial={id}&path=params.json",
    ],
)
def test_nothing_else_is_served(client, path):
    id = client.get("/data/index.json").json["trials"][0]["id"]
    assert client.get(path.format(id=id)).status_code == 404


def test_files_that_a_browser_might_run_are_downloads(client, experiment):
    folder = sorted(experiment.iterdir())[0]
    index = folder / "media" / "index.jsonl"
    line = json.loads(index.read_text().splitlines()[0])
    name = "media/evaluation/page/step_000000001-abcdefabcdef.html"
    (folder / name).parent.mkdir()
    (folder / name).write_text("<script>alert(1)</script>")
    index.write_text(json.dumps({**line, "path": name}) + "\n")
    client.application.trials.all(max_age=0)
    id = client.get("/data/index.json").json["trials"][0]["id"]
    response = client.get(f"/media/{id}/{name}")
    assert (response.mimetype, response.headers["Content-Disposition"]) == ("application/octet-stream", "attachment")


def test_a_file_that_is_gone_or_something_else_in_its_place_is_not_found(client, clip, experiment):
    (file,) = experiment.glob(f"*/{'/'.join(clip.split('/')[3:])}")
    file.rename(experiment / "elsewhere")
    assert client.get(clip).status_code == 404
    (experiment / "elsewhere").rename(file)
    for make in (os.mkfifo, lambda path: path.symlink_to(path.name), Path.mkdir):
        file.unlink()
        make(file)
        with ThreadPoolExecutor() as pool:
            answer = pool.submit(client.get, clip).result(20)
        assert answer.status_code == 404
        assert "not a file" in answer.text
        if file.is_dir():
            file.rmdir()
            file.touch()


def test_only_reading_is_allowed_and_failures_are_told(client, monkeypatch):
    assert client.post("/data/index.json").status_code == 405
    monkeypatch.setattr(Trials, "metrics_of", lambda self, trials: 1 / 0)
    response = client.get("/data/metrics.json")
    assert (response.status_code, response.text) == (500, "ZeroDivisionError: division by zero")


def test_the_front_end_has_no_inline_script_and_names_no_other_host():
    page = (STATIC / "index.html").read_text()
    scripts = [line for line in page.splitlines() if "<script" in line]
    assert all('src="static/' in line and line.endswith("></script>") for line in scripts)
    for name in static_files():
        text = (STATIC / name).read_text()
        assert "innerHTML" not in text or name.startswith("vendor/")
        assert "://" not in text.replace("http://www.w3.org/2000/svg", "") or name.startswith("vendor/"), name


def test_no_line_of_the_front_end_is_longer_than_120_columns():
    names = [name for name in static_files() if name.endswith((".js", ".css", ".html")) and "vendor/" not in name]
    assert len(names) > 30
    lines = {name: (STATIC / name).read_text().splitlines() for name in names}
    assert [f"{name}:{at + 1}" for name in names for at, line in enumerate(lines[name]) if len(line) > 120] == []
