"""A restored driver deletes what a killed one had half written, and nothing else; the border is a whole sweep."""

import json
import shutil
from pathlib import Path

import pyarrow.fs
import pytest

import tune_media as tm
from tests.support.fake_trial import FakeTrial, run
from tune_media.storage.filesystem import delete_half_written

LOCAL = pyarrow.fs.LocalFileSystem()
NAME = "step_000000001-0123456789ab.mp4"
HALF = f"{NAME}.0a1b2c3d.partial"


def restarted(tmp_path):
    clip = tm.Artifact(b"new", name="new.bin")
    run([tm.JsonMediaLoggerCallback()], FakeTrial(tmp_path), [{"score": 1.0, "clip": clip}])


def healed(tmp_path):
    tm.JsonMediaLoggerCallback().on_experiment_end([FakeTrial(tmp_path)])


def killed(tmp_path):
    restarted(tmp_path)
    (done,) = (tmp_path / "storage" / ".tune_media_log").glob("*.done.json")
    done.unlink()


@pytest.fixture
def trial(tmp_path):
    folder = tmp_path / "storage" / "t1"
    (folder / "media" / "train").mkdir(parents=True)
    return folder


@pytest.fixture
def elsewhere(tmp_path):
    for folder in ("elsewhere", "elsewhere/clip", "elsewhere/train/clip"):
        (tmp_path / folder).mkdir(parents=True)
        for name in ("thesis.txt", "thesis.txt.partial", NAME, HALF):
            (tmp_path / folder / name).write_text("mine")
    return tmp_path / "elsewhere"


@pytest.mark.parametrize("start", [restarted, healed])
@pytest.mark.parametrize("link", ["media/train/x", "media/x", "media/train", "media"])
def test_a_link_out_of_the_media_folder_leads_to_no_deletion(tmp_path, trial, elsewhere, start, link):
    killed(tmp_path)
    place, mine = trial / link, set(elsewhere.rglob("*"))
    if place.exists():
        shutil.rmtree(place)
    place.symlink_to(elsewhere, target_is_directory=True)
    start(tmp_path)
    assert mine <= set(elsewhere.rglob("*"))


def test_the_folder_of_another_trial_behind_a_link_is_left_alone(tmp_path, trial):
    killed(tmp_path)
    running = tmp_path / "another experiment" / "t1"
    shutil.move(trial, running)
    (running / "media" / HALF).write_text("being written")
    trial.symlink_to(running)
    healed(tmp_path)
    assert (running / "media" / HALF).exists()


@pytest.mark.parametrize("start", [restarted, healed])
def test_no_finished_file_is_deleted_whatever_the_index_says(tmp_path, trial, start):
    names = ["media/train/clip/thesis.txt", f"media/train/clip/{NAME}", "checkpoint_000001/model.pt", "result.csv"]
    others = ["media/train/clip/draft.partial", "media/notes.partial"]
    for name in [*names, *others]:
        (trial / name).parent.mkdir(parents=True, exist_ok=True)
        (trial / name).write_text("mine")
    facts = {"section": "train", "key": "clip", "trial_id": "t1", "status": "deleted"}
    lines = [json.dumps({**facts, "id": name, "path": name}) + "\n" for name in names]
    (trial / "media/index.jsonl").write_text("".join(lines))
    start(tmp_path)
    for name in [*names, *others]:
        assert (trial / name).read_text() == "mine"


@pytest.mark.parametrize("over", ["local", "subtree", "fsspec"])
def test_links_are_known_on_every_filesystem_of_this_machine(trial, elsewhere, over):
    from fsspec.implementations.local import LocalFileSystem

    filesystem, folder = {
        "local": (LOCAL, str(trial)),
        "subtree": (pyarrow.fs.SubTreeFileSystem(str(trial.parent), LOCAL), trial.name),
        "fsspec": (pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(LocalFileSystem())), str(trial)),
    }[over]
    (trial / "media/train/link").symlink_to(elsewhere)
    (trial / "media/train/clip").mkdir()
    (trial / "media/train/clip" / HALF).write_text("ours")
    delete_half_written(filesystem, folder, ["media", "not there"])
    assert (elsewhere / HALF).exists()
    assert not (trial / "media/train/clip" / HALF).exists()


def test_few_files_delete_on_a_storage():
    """write_atomically deletes the half that it wrote, the log its own parts, an evaluation unlisted episodes.

    A gate deletes the one that was in its folder if it is played anew.
    """
    package = Path(tm.__file__).parent
    calls = {
        path.name
        for path in package.rglob("*.py")
        if "delete_file(" in (text := path.read_text()) or "delete_dir" in text
    }
    assert calls == {"filesystem.py", "log.py", "evaluated_trial.py", "gate_folder.py"}


@pytest.mark.parametrize("start", [restarted, healed])
def test_what_a_killed_driver_had_half_written_is_deleted(tmp_path, trial, start):
    killed(tmp_path)
    places = [f"media/train/clip/{NAME}", "media/index.jsonl", "episode_data/data-00000001.json"]
    places += ["wandb/offline-run-20261124_114937-t1/files/requirements.txt"]
    halves = [trial / f"{place}.0a1b2c3d.partial" for place in places]
    others = [trial / "media" / "train" / "thesis.txt.partial", trial / "model.pt.0a1b2c3d.partial"]
    others += [trial / "wandb" / "run-x" / "files" / "model.ckpt.partial"]
    for file in (*halves, *others):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("half")
    start(tmp_path)
    assert [file.name for file in halves if file.exists()] == []
    assert all(file.exists() for file in others)
