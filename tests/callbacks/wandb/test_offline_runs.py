import shutil
import threading
import time
from contextlib import nullcontext
from pathlib import Path

import pyarrow.fs
import pytest

from tests.support.trackers import wandb_records
from tune_media.callbacks.wandb import offline_runs
from tune_media.callbacks.wandb.offline_runs import copy_runs, wait_until_whole
from tune_media.storage.location import TrialLocation

wandb = pytest.importorskip("wandb")

BLOCK = 32768


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Return the file of a run of about 140 kB."""
    silent = wandb.Settings(silent=True)
    run = wandb.init(project="p", mode="offline", dir=tmp_path_factory.mktemp("run"), settings=silent)
    for step in range(100):
        run.log({f"metric_{index}": step for index in range(50)})
    path = run.settings.sync_file
    run.finish()
    assert wait_until_whole(Path(path).parent, 60)
    assert next(reversed(list(wandb_records(Path(path))))).WhichOneof("record_type") == "exit"
    return Path(path)


def test_waiting_ends_when_the_rest_of_the_file_is_there(file, tmp_path):
    content, late = file.read_bytes(), tmp_path / "run.wandb"
    assert len(content) > 4 * BLOCK
    for end in (7, BLOCK, 4 * BLOCK):
        late.write_bytes(content[:end])
        assert not wait_until_whole(tmp_path, 0.05)

    def write_the_rest():
        time.sleep(0.2)
        with late.open("ab") as opened:
            opened.write(content[4 * BLOCK :])

    thread = threading.Thread(target=write_the_rest)
    thread.start()
    assert wait_until_whole(tmp_path, 60)
    thread.join()
    assert late.read_bytes() == content


def test_a_run_without_a_file_is_not_waited_for(tmp_path):
    assert wait_until_whole(tmp_path, 0)


def test_a_log_may_grow_while_it_is_copied_and_rows_may_not(tmp_path, monkeypatch):
    location = TrialLocation(pyarrow.fs.LocalFileSystem(), str(tmp_path / "storage"), tmp_path / "driver", "t1")
    copy_once = offline_runs.write_atomically

    def copy_while_it_grows(filesystem, path, content):
        copy_once(filesystem, path, content)
        if path.endswith(growing):
            with (run / growing).open("ab") as file:
                file.write(b"more")

    monkeypatch.setattr(offline_runs, "write_atomically", copy_while_it_grows)
    for growing in ("run-t1.wandb", "logs/debug-core.log"):
        run = tmp_path / "scratch/t1/wandb/offline-run-20260101_000000-t1"
        (run / "logs").mkdir(parents=True)
        (run / "run-t1.wandb").write_bytes(b"rows")
        (run / "logs/debug-core.log").write_bytes(b"log")
        fails = (
            pytest.raises(OSError, match="had 4 bytes when it was copied, and has 8")
            if growing.endswith(".wandb")
            else nullcontext()
        )
        with fails:
            copy_runs(tmp_path / "scratch/t1", location)
        assert run.exists() == growing.endswith(".wandb")
        shutil.rmtree(run, ignore_errors=True)
    assert (tmp_path / "storage/wandb" / run.name / growing).read_bytes() == b"log"
