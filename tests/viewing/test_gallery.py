import functools
import json

import numpy as np
import pytest
from werkzeug.test import Client

import tune_media as tm
from tests.support.commands import command
from tests.support.stores import StoredTrial
from tests.support.viewing import RefusingStorage, on, write_run, write_snapshot, write_trial
from tune_media.experiment.trial_folders import LogDirectory, Trials
from tune_media.viewing.gallery import Gallery
from tune_media.viewing.web import ViewerApp


@pytest.fixture
def experiment(tmp_path):
    for number in range(2):
        write_trial(tmp_path / "exp" / f"trial_{number}", number)
    return tmp_path / "exp"


def delivered(folder, name):
    text = (folder / "data" / f"{name}.js").read_text()
    prefix = f'tuneMedia.deliver("{name}", '
    assert text.startswith(prefix)
    return json.loads(text[len(prefix) :].removesuffix(");\n"))


def test_the_folder_has_the_page_the_clips_their_posters_and_the_data(experiment, tmp_path):
    out = tmp_path / "out"
    output = command("gallery", experiment, "-o", out)
    assert "8 media of 2 trials, 0.0 MB, go to" in output
    assert (out / "index.html").resolve().as_uri() in output
    index = delivered(out, "index")
    assert [trial["name"] for trial in index["trials"]] == ["trial_0", "trial_1"]
    clips = list(out.rglob("*.mp4"))
    assert len(clips) == 8
    assert all(clip.with_name(f"{clip.name}.jpg").read_bytes()[:3] == b"\xff\xd8\xff" for clip in clips)
    page = (out / "index.html").read_text()
    assert 'data-source="files"' in page
    assert "<title>exp</title>" in page
    assert 'rel="preload"' not in page  # a page from disk may not fetch


def test_a_gallery_has_what_the_server_sends(experiment, tmp_path):
    write_snapshot(experiment, trial_0="TERMINATED", trial_1="ERROR")
    Gallery.of(str(experiment)).write(tmp_path / "out", steps=True)
    (trial, _), has = Trials([LogDirectory.of(str(experiment))]).all(), functools.partial(delivered, tmp_path / "out")
    client, metric = Client(ViewerApp(Trials([LogDirectory.of(str(experiment))]), "exp")), "episode_return_mean"

    def sent(name, **query):
        return client.get(f"/data/{name}.json", query_string=query).json

    details, clip = has(f"trial-{trial.id}"), trial.lines[0]["path"]
    assert has("metrics") == sent("metrics")
    for name in ("first", "index"):
        assert has(name) == {key: own for key, own in sent(name).items() if key != "plays"} | {"posters": ".jpg"}
    assert has("configurations")[f"{metric}||max"] == sent("configurations", metric=metric, mode="max")
    assert has("curves")[metric].items() >= sent("curves", metric=metric).items()
    assert details["config"] == sent("config", trial=trial.id)
    assert details["curves"].items() <= sent("trial", trial=trial.id).items()
    assert details["clips"][clip].items() <= sent("clip", trial=trial.id, path=clip).items()


def test_a_published_gallery_does_not_say_where_the_experiment_is(experiment, tmp_path):
    output = Gallery.of(str(experiment)).write(tmp_path / "published", steps=True).parent
    files = [path for path in output.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if str(experiment).encode() in path.read_bytes()]


def test_only_some_clips(experiment, tmp_path):
    command("gallery", experiment, "-o", tmp_path / "out", "--only", "best")
    assert {path.parent.name for path in (tmp_path / "out").rglob("*.mp4")} == {"best"}
    assert Gallery.of(str(experiment), ["evaluation"]).count == 8
    unknown = command("gallery", experiment, "-o", tmp_path / "none", "--only", "besst", code=1)
    assert "the key or section 'besst'; did you mean 'best'?" in unknown
    assert not (tmp_path / "none").exists()
    assert Gallery.of(str(experiment), ["train"]).count == 0


def test_media_that_the_page_cannot_show_are_not_copied(tmp_path):
    media = [tm.Artifact(b"replay buffer", name="buffer.bin"), tm.Artifact(b"<script>", name="page.html")]
    record_all(tmp_path / "exp" / "trial", [*media, tm.Histogram([1.0, 2.0])])
    nothing = command("gallery", tmp_path / "exp", "-o", tmp_path / "out", code=1)
    assert "No clip or picture is recorded" in nothing
    record_all(tmp_path / "exp" / "other", [*media, tm.Image(np.zeros((4, 4, 3), np.uint8))])
    index = tmp_path / "exp" / "other" / "media" / "index.jsonl"
    index.write_text(index.read_text().replace('"artifact"', '"image"'))  # a line that says so
    command("gallery", tmp_path / "exp", "-o", tmp_path / "out")
    assert [path.suffix for path in (tmp_path / "out" / "media").rglob("*.*")] == [".png"]
    assert len(delivered(tmp_path / "out", "index")["trials"]) == 2


def record_all(folder, media):
    with StoredTrial.in_folder(write_run(folder, {}), "t") as store:
        for number, medium in enumerate(media):
            store.add(medium, "train", f"key_{number}", 1)


def test_a_gallery_is_brought_up_to_date_and_a_folder_of_other_files_is_left_alone(experiment, tmp_path):
    out = tmp_path / "out"
    command("gallery", experiment, "-o", out)
    clip = next(out.rglob("*.mp4"))
    made_at = clip.stat().st_mtime_ns
    write_trial(experiment / "trial_2", 2)
    command("gallery", experiment, "-o", out)
    assert len(delivered(out, "index")["trials"]) == 3
    assert clip.stat().st_mtime_ns == made_at
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    assert "name another folder with -o" in command("gallery", experiment, "-o", tmp_path / "mine", code=2)


def test_missing_files_are_counted_and_the_rest_is_written(experiment, tmp_path):
    next((experiment / "trial_0").rglob("*.mp4")).unlink()
    output = command("gallery", experiment, "-o", tmp_path / "out", code=1)
    assert "1 file could not be read; the first: trial_0/media/evaluation/episodes/" in output


def test_results_that_cannot_be_read_leave_the_chart_empty(experiment, tmp_path):
    storage = RefusingStorage()
    storage.refused = ["trial_0/result.json"]
    trials = Trials([LogDirectory(on(storage, experiment))])
    trials.metrics_of(trials.all())
    gallery = Gallery("exp", trials.all())
    gallery.write(tmp_path / "out")
    assert gallery.missing == ["trial_0/result.json"]
    curves = [delivered(tmp_path / "out", f"trial-{trial.id}")["curves"]["step"] for trial in gallery.trials]
    assert curves == [[], [10, 20]]


def test_names_with_html_and_odd_characters_do_no_harm(tmp_path):
    write_trial(tmp_path / "<b>exp" / "a=1,b=2 #x%25 <script>", 0)
    command("gallery", tmp_path / "<b>exp", "-o", tmp_path / "out")
    assert "<title>&lt;b&gt;exp</title>" in (tmp_path / "out" / "index.html").read_text()
    assert all(part.isalnum() for part in (path.name for path in (tmp_path / "out" / "media").iterdir()))


def failed_sweep(folder):
    for number in range(2):
        write_trial(folder / f"trial_{number}", number)
    write_snapshot(folder, trial_0="TERMINATED", trial_1="ERROR")
    why = f"OSError: no such file: '{folder}/secret plan/x.npz'"
    (folder / "trial_1" / "error.txt").write_text(f"Traceback ...\n{why}\n")
    return folder


def test_a_gallery_says_why_a_trial_failed_but_names_no_folder(tmp_path):
    sweep = failed_sweep(tmp_path / "exp")
    command("gallery", sweep, "-o", tmp_path / "out")
    assert delivered(tmp_path / "out", "metrics")["status"][1] == ["error", "OSError: no such file: '…/x.npz'"]
    command("gallery", sweep, "-o", tmp_path / "quiet", "--no-errors")
    assert delivered(tmp_path / "quiet", "metrics")["status"][1] == ["error", ""]


def test_the_text_of_a_linked_file_gets_into_no_gallery(tmp_path, caplog):
    sweep = failed_sweep(tmp_path / "exp")
    names = ("error.txt", "params.json", "result.json", "media/index.jsonl")
    for name in names:
        linked = sweep / "trial_1" / name
        linked.symlink_to(linked.rename(tmp_path / linked.name))
    (tmp_path / "params.json").write_text('{"lr": "PRIVATE"}')
    command("gallery", sweep, "-o", tmp_path / "out")
    written = b"".join(path.read_bytes() for path in (tmp_path / "out").rglob("*.js"))
    assert b"PRIVATE" not in written and b"x.npz" not in written
    assert all(f"trial_1/{name}': it is a link to a place outside" in caplog.text for name in names)


def test_a_folder_that_links_to_one_that_it_is_in_is_read_once(tmp_path):
    sweep = failed_sweep(tmp_path / "root" / "exp")
    (tmp_path / "elsewhere").symlink_to(tmp_path / "root")
    (sweep / "again").symlink_to(sweep)
    (sweep / "trial_0" / "up").symlink_to("..")
    (sweep.parent / "root").symlink_to("../root")
    for folder, prefix in ((sweep, ""), (sweep.parent, "exp/"), (tmp_path / "elsewhere", "exp/")):
        names = [trial.name for trial in Trials([LogDirectory.of(str(folder))]).all()]
        assert names == [f"{prefix}trial_0", f"{prefix}trial_1"]
        assert [trial.name for trial in tm.load(folder).trials] == ["trial_0", "trial_1"]


def test_the_home_is_expanded_in_the_name_of_a_gallery(experiment, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    command("gallery", experiment, "-o", "~/folder")
    assert (tmp_path / "home" / "folder" / "index.html").exists()
    assert not (tmp_path / "~").exists()
