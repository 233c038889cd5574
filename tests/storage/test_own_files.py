"""Only files that tune_media made, inside a trial's own folder, are ever deleted; the border is a whole sweep."""

import json
import shutil
from pathlib import Path

import pyarrow.fs
import pytest

import tune_media as tm
from tests.support.fake_trial import FakeTrial, run
from tune_media.storage.own_files import delete_own, is_own

LOCAL = pyarrow.fs.LocalFileSystem()
NAME = "step_000000001-0123456789ab.mp4"


def line(path, **facts):
    facts = {"id": "a", "section": "train", "key": "clip", "trial_id": "t1", "status": "deleted", **facts}
    return json.dumps({**facts, "path": path}) + "\n"


def restarted(tmp_path, retention=None):
    """Start the trial again, as a restored driver does, with a new clip."""
    options = tm.MediaOptions(retention=retention)
    clip = tm.Artifact(b"new", name="new.bin")
    run([tm.JsonMediaLoggerCallback(media=options)], FakeTrial(tmp_path), [{"score": 1.0, "clip": clip}])


def healed(tmp_path, retention=None):
    """List the files of a trial that has ended, as a restore of a finished experiment does."""
    tm.JsonMediaLoggerCallback().on_experiment_end([FakeTrial(tmp_path)])


@pytest.fixture
def trial(tmp_path):
    folder = tmp_path / "storage" / "t1"
    (folder / "media" / "train").mkdir(parents=True)
    return folder


@pytest.fixture
def elsewhere(tmp_path):
    """A folder of the user's, with files of which nothing may be deleted."""
    for folder in ("elsewhere", "elsewhere/clip", "elsewhere/train/clip"):
        (tmp_path / folder).mkdir(parents=True)
        for name in ("thesis.txt", "thesis.txt.partial", NAME, f"{NAME}.partial"):
            (tmp_path / folder / name).write_text("mine")
    return tmp_path / "elsewhere"


@pytest.mark.parametrize("start", [restarted, healed])
@pytest.mark.parametrize("link", ["media/train/x", "media/x", "media/train", "media"])
def test_a_link_out_of_the_media_folder_leads_to_no_deletion(tmp_path, trial, elsewhere, start, link):
    """An index line that named a file behind a link deleted it at the next start, and all `*.partial` beside it."""
    place, mine = trial / link, set(elsewhere.rglob("*"))
    if place.exists():
        shutil.rmtree(place)
    place.symlink_to(elsewhere, target_is_directory=True)
    names = [f"{link}/{file.relative_to(elsewhere)}" for file in mine if file.is_file()]
    (trial / "media/index.jsonl").write_text("".join(line(name, id=str(id)) for id, name in enumerate(names)))
    start(tmp_path)
    assert mine <= set(elsewhere.rglob("*"))


@pytest.mark.parametrize("start", [restarted, healed])
def test_a_file_of_the_user_in_the_media_folder_is_not_deleted_whatever_the_index_says(tmp_path, trial, start):
    names = ["media/train/clip/thesis.txt", "checkpoint_000001/model.pt", "result.csv"]
    for name in [*names, "media/train/clip/draft.partial", "media/notes.partial"]:
        (trial / name).parent.mkdir(parents=True, exist_ok=True)
        (trial / name).write_text("mine")
    (trial / "media/index.jsonl").write_text("".join(line(name, id=name) for name in names))
    start(tmp_path)
    for name in [*names, "media/train/clip/draft.partial", "media/notes.partial"]:
        assert (trial / name).read_text() == "mine"


@pytest.mark.parametrize(
    "policy", [{"trial_bytes": 2_000}, {"experiment_bytes": 2_000}, {"last": 1}], ids=lambda policy: next(iter(policy))
)
def test_retention_deletes_clips_only(tmp_path, trial, elsewhere, policy):
    """A line that named a checkpoint had it deleted as the oldest file of the trial."""
    (trial / "media/train/link").symlink_to(elsewhere)
    clip, model = f"media/train/clip/{NAME}", "checkpoint_000001/model.pt"
    behind = f"media/train/link/{NAME}"
    for name in (clip, model, "media/train/clip/thesis.txt"):
        (trial / name).parent.mkdir(parents=True, exist_ok=True)
        (trial / name).write_bytes(bytes(1500))
    named = (clip, model, behind, "media/train/clip/thesis.txt")
    (trial / "media/index.jsonl").write_text(
        "".join(line(name, id=name, key="clip", status="stored", bytes=1500, time=1.0) for name in named)
    )
    restarted(tmp_path, tm.Retention(**policy))
    assert (trial / model).stat().st_size == 1500
    assert (trial / "media/train/clip/thesis.txt").exists()
    assert (elsewhere / NAME).read_text() == "mine"
    assert not (trial / clip).exists()
    lines = {found["path"]: found for found in map(json.loads, (trial / "media/index.jsonl").read_text().splitlines())}
    assert lines[clip]["status"] == "deleted"
    assert {lines[name]["status"] for name in (model, behind)} == {"stored"}  # since they are there


def test_the_folder_of_another_trial_behind_a_link_is_left_alone(tmp_path, trial):
    """A link to another experiment's trial, made to compare both, led to deletions while that trial ran."""
    running = tmp_path / "another experiment" / "t2" / "media" / "train" / "clip"
    running.mkdir(parents=True)
    (running / f"{NAME}.partial").write_text("being written")
    (tmp_path / "storage" / "t2").symlink_to(running.parents[2])
    healed(tmp_path)
    assert (running / f"{NAME}.partial").exists()


@pytest.mark.parametrize("over", ["local", "subtree", "fsspec"])
def test_links_are_followed_on_every_filesystem_of_this_machine(trial, elsewhere, over):
    from fsspec.implementations.local import LocalFileSystem

    filesystem, folder = {
        "local": (LOCAL, str(trial)),
        "subtree": (pyarrow.fs.SubTreeFileSystem(str(trial.parent), LOCAL), trial.name),
        "fsspec": (pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(LocalFileSystem())), str(trial)),
    }[over]
    (trial / "media/train/link").symlink_to(elsewhere)
    (trial / "media/train/clip").mkdir()
    (trial / "media/train/clip" / NAME).write_text("ours")
    assert not delete_own(filesystem, folder, f"media/train/link/{NAME}")
    assert (elsewhere / NAME).exists()
    assert delete_own(filesystem, folder, f"media/train/clip/{NAME}")
    assert not (trial / "media/train/clip" / NAME).exists()
    assert delete_own(filesystem, folder, f"media/train/clip/{NAME}")  # it is gone, as it should be


def test_names_that_tune_media_does_not_give_are_not_its_own():
    own = [f"media/train/a/{NAME}", f"media/evaluation/a/b/c/{NAME}.partial", "media/index.jsonl.partial"]
    own += ["episode_data/data-00000001.json", "episode_data/data-00000001-0123ab.parquet"]
    own += ["episode_data/steps-00000001.parquet.partial"]
    assert all(map(is_own, own))
    foreign = [f"media/{NAME}", f"media/../train/a/{NAME}", f"media/train/./a/{NAME}", f"/media/train/a/{NAME}"]
    foreign += [f"media/train/a/{NAME}\n", "media/train/a/step_1-0123456789ab.mp4", "media/index.jsonl", "media"]
    foreign += ["episode_data/notes.json", "result.json", f"checkpoint_000001/media/train/a/{NAME}", ""]
    foreign += [f"media/train/a/{NAME}.partial.partial", f"media/train//{NAME}"]
    assert not any(map(is_own, foreign))


def test_nothing_deletes_on_a_storage_but_the_gate():
    """A deletion elsewhere in a trial would not be checked.

    write_atomically removes the half that it wrote, and the log its own parts.
    """
    package = Path(tm.__file__).parent
    calls = {
        path.name
        for path in package.rglob("*.py")
        if "delete_file(" in (text := path.read_text()) or "delete_dir" in text
    }
    assert calls == {"own_files.py", "filesystem.py", "log.py"}


@pytest.mark.parametrize("start", [restarted, healed])
def test_what_a_killed_driver_had_half_written_is_deleted(tmp_path, trial, start):
    """A kill between writing and renaming left files that nothing ever removed, in 3 of 13 rounds of kills."""
    restarted(tmp_path)
    (done,) = (tmp_path / "storage" / ".tune_media_log").glob("*.done.json")
    done.unlink()  # as a killed driver leaves it
    places = [f"media/train/clip/{NAME}", "media/index.jsonl", "episode_data/data-00000001.json"]
    places += ["wandb/offline-run-20261124_114937-t1/files/requirements.txt"]
    halves = [trial / f"{place}.0a1b2c3d.partial" for place in places]
    others = [trial / "media" / "train" / "thesis.txt.partial", trial / "model.pt.0a1b2c3d.partial"]
    others += [trial / "wandb" / name for name in ("notes.txt.0a1b2c3d.partial", "run-x/files/model.ckpt.partial")]
    for file in (*halves, *others):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("half")
    start(tmp_path)
    assert [file.name for file in halves if file.exists()] == []
    assert all(file.exists() for file in others)
