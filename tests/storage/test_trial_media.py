"""What everybody but the driver reads of a trial: its index, and what only the log has so far."""

import json
import logging
import shutil

import pyarrow.fs
import pytest
from fsspec.implementations.local import LocalFileSystem

from tests.support.index_lines import typed
from tests.support.stores import StoredTrial
from tune_media.storage.index_lines import BackEvent
from tune_media.storage.location import LOCATION_FILE, TrialLocation
from tune_media.storage.log import PartWriter
from tune_media.storage.trial_media import read_trial, warn_of_unrendered
from tune_media.values.artifact import Artifact

LOCAL = pyarrow.fs.LocalFileSystem()


def line(number, **more):
    return {
        "v": 4, "id": f"{number}" * 32, "kind": "artifact", "section": "train", "key": "my key/best of 3?",
        "path": f"media/train/{number}.bin", "status": "stored", "training_iteration": number, "trial_id": "t1",
        "row": number, "trial": "trial", **more,
    }  # fmt: skip


@pytest.fixture
def experiment(tmp_path):
    """Return an experiment whose trial has three files, of which its index lists the first."""
    folder = tmp_path / "sweep" / "trial"
    (folder / "media" / "train").mkdir(parents=True)
    for number in (1, 2, 3):
        (folder / f"media/train/{number}.bin").write_bytes(b"x")
    (folder / "media" / "index.jsonl").write_text(json.dumps(line(1)) + "\n")
    log = PartWriter(LOCAL, str(folder.parent), "box")
    log.append(1, 4, map(typed, [line(1), line(2), line(3), line(4)]))  # the file of the fourth is still to come
    return folder, log


def found(folder):
    return [line["training_iteration"] for line in read_trial(LOCAL, str(folder)).lines]


def test_files_that_only_the_log_names_are_read_and_nothing_is_changed(experiment):
    folder, _ = experiment
    before = (folder / "media" / "index.jsonl").read_bytes()
    contents = read_trial(LOCAL, str(folder))
    assert found(folder) == [1, 2, 3]
    assert contents.is_coming
    assert contents.may_run
    assert (folder / "media" / "index.jsonl").read_bytes() == before


def test_what_comes_later_is_seen_at_the_next_look(experiment):
    folder, _ = experiment
    assert found(folder) == [1, 2, 3]
    (folder / "media/train/4.bin").write_bytes(b"x")
    assert found(folder) == [1, 2, 3, 4]


def test_a_trial_whose_index_is_gone_or_damaged_is_read_from_the_log_even_after_its_end(experiment):
    folder, log = experiment
    log.finish()
    assert found(folder) == [1]
    index = folder / "media" / "index.jsonl"
    index.unlink()
    assert found(folder) == [1, 2, 3]
    index.write_text(json.dumps(line(1)) + "\n" + json.dumps(line(2))[:40])
    assert found(folder) == [1, 2, 3]
    index.write_text("")
    (folder / "media/train/4.bin").write_bytes(b"x")
    PartWriter(LOCAL, str(folder.parent), "box").append(4, 4, map(typed, [line(4)]))  # the experiment goes on
    assert found(folder) == [1, 2, 3, 4]


def test_two_trials_of_one_experiment_see_their_own_lines(experiment):
    folder, log = experiment
    (folder / "media/train/4.bin").write_bytes(b"x")
    log.append(5, 5, map(typed, [line(5, trial="other", trial_id="t2")]))
    assert found(folder) == [1, 2, 3, 4]
    assert found(folder.parent / "other") == []


def test_clips_that_wait_to_be_rendered_have_no_file_and_are_said_until_they_have(experiment, caplog):
    folder, log = experiment
    (folder / "media/train/4.bin").write_bytes(b"x")
    log.append(5, 6, map(typed, [line(5, status="waiting"), line(6, status="waiting")]))
    contents = read_trial(LOCAL, str(folder))
    assert (found(folder)[-2:], contents.unrendered) == ([5, 6], 2)
    (folder / "media/train/5.bin").write_bytes(b"x")
    log.append(
        7, 7, map(typed, [line(5), line(6, status="tape"), line(5, status="waiting")])
    )  # a killed driver may list it again
    contents = read_trial(LOCAL, str(folder))
    assert [line["status"] for line in contents.lines] == [*["stored"] * 5, "tape"]
    with caplog.at_level(logging.INFO):
        warn_of_unrendered([("'my sweep'", contents), ("s3://bucket/other", contents), ("s3://bucket/other", contents)])
    command = "tune-media render {} --episodes waiting"
    assert [record.getMessage() for record in caplog.records] == [
        f"tune_media: {count} clip(s) of {count} trial(s) are tapes, and not rendered yet. "
        f"`{command.format(place)}` writes these clips into a folder when the experiment has ended."
        for count, place in ((1, "'my sweep'"), (2, "s3://bucket/other"))
    ]
    log.append(8, 8, [BackEvent("trial", "t1", 8, training_iteration=6)])
    assert read_trial(LOCAL, str(folder)).unrendered == 0


def test_a_copy_is_read_from_its_own_files_and_a_drivers_folder_from_the_storage(tmp_path):
    original, driver = tmp_path / "sweep" / "trial", tmp_path / "driver" / "trial"
    store = StoredTrial(TrialLocation(LOCAL, str(original), driver, "t1"))
    for number in (1, 2):
        store.add(Artifact(bytes([number]), "bin"), "train", f"key {number}", number)
    store.finish()
    shutil.copy(driver / LOCATION_FILE, original)  # Tune syncs the driver's folder

    def place(folder):
        return read_trial(LOCAL, str(folder)).media_folder

    assert place(driver) == place(original) == str(original)
    shutil.copytree(original / "media", driver / "media", ignore=shutil.ignore_patterns("*.bin"))
    assert place(driver) == str(original)  # of a driver whose storage was away
    copy = shutil.copytree(original.parent, tmp_path / "copy") / "trial"
    first, second = sorted(copy.rglob("*.bin"))
    first.unlink()
    assert place(copy) == str(copy)
    second.unlink()
    PartWriter(LOCAL, str(copy.parent), "box").append(1, 1, map(typed, [line(1)]))
    assert place(copy) == str(copy)
    (copy / "media" / "index.jsonl").unlink()
    assert place(copy) == str(copy)


def test_an_index_is_opened_once(experiment):
    folder, _ = experiment
    opened = []

    class Noting(LocalFileSystem):
        def _open(self, path, *args, **options):
            opened.append(path)
            return super()._open(path, *args, **options)

    contents = read_trial(pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(Noting())), str(folder))
    assert [line["row"] for line in contents.lines] == [1, 2, 3]
    assert [path for path in opened if path.endswith("index.jsonl")] == [str(folder / "media" / "index.jsonl")]
