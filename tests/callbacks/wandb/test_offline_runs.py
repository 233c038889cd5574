"""When the file of an offline W&B run is whole, with files that W&B itself wrote."""

import shutil
import struct
import threading
import time
from contextlib import nullcontext
from pathlib import Path

import pyarrow.fs
import pytest

from tune_media.callbacks.wandb import offline_runs
from tune_media.callbacks.wandb.offline_runs import copy_runs, is_whole, wait_until_whole
from tune_media.storage.location import TrialLocation

wandb = pytest.importorskip("wandb")

BLOCK = 32768


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Return the file of a run of about 140 kB."""
    run = wandb.init(
        project="p", mode="offline", dir=tmp_path_factory.mktemp("run"), settings=wandb.Settings(silent=True)
    )
    for step in range(100):
        run.log({f"metric_{index}": step for index in range(50)})
    path = run.settings.sync_file
    run.finish()
    deadline = time.monotonic() + 60
    while not is_whole(Path(path)):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return Path(path)


def test_a_file_that_ends_at_a_block_is_not_whole(file, tmp_path):
    content = file.read_bytes()
    assert len(content) > 4 * BLOCK
    for end in (7, 100, BLOCK, 4 * BLOCK, len(content) - 1):
        cut = tmp_path / f"{end}.wandb"
        cut.write_bytes(content[:end])
        assert not is_whole(cut)
    assert is_whole(file)


def fragment(content, kind):
    return struct.pack("<IHB", 0, len(content), kind) + content


def test_the_exit_record_is_found_around_the_end_of_a_block(tmp_path):
    from wandb.proto import wandb_internal_pb2

    ends = wandb_internal_pb2.Record(exit=wandb_internal_pb2.RunExitRecord(exit_code=3)).SerializeToString()
    for left in range(40):  # bytes of a block that are left for it
        data = b":W&B\0\0\0" + fragment(bytes(BLOCK - 14), 3) + fragment(bytes(BLOCK - 7 - left), 3)
        assert len(data) == 2 * BLOCK - left
        room = left - 7
        if room < 0:
            data += bytes(left) + fragment(ends, 1)
        elif room < len(ends):
            data += fragment(ends[:room], 2) + fragment(ends[room:], 4)
        else:
            data += fragment(ends, 1)
        path = tmp_path / "run.wandb"
        path.write_bytes(data)
        assert is_whole(path), left
        path.write_bytes(data[:-1])
        assert not is_whole(path), left


def test_waiting_ends_when_the_rest_of_the_file_is_there(file, tmp_path):
    content, late = file.read_bytes(), tmp_path / "run.wandb"
    late.write_bytes(content[: 4 * BLOCK])
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
    """W&B's own process goes on writing its logs after a run; that was told as a fault of the storage."""
    location = TrialLocation(pyarrow.fs.LocalFileSystem(), str(tmp_path / "storage"), tmp_path / "driver", "t1")
    copy_once = offline_runs.write_once

    def copy_while_it_grows(filesystem, path, content):
        copy_once(filesystem, path, content)
        if path.endswith(growing):
            with (run / growing).open("ab") as file:
                file.write(b"more")

    monkeypatch.setattr(offline_runs, "write_once", copy_while_it_grows)
    for growing in ("run-t1.wandb", "logs/debug-core.log"):
        run = tmp_path / "scratch/t1/wandb/offline-run-20260101_000000-t1"
        (run / "logs").mkdir(parents=True)
        (run / "run-t1.wandb").write_bytes(b"rows")
        (run / "logs/debug-core.log").write_bytes(b"log")
        fails = (
            pytest.raises(OSError, match="has 4 bytes on the storage") if growing.endswith(".wandb") else nullcontext()
        )
        with fails:
            copy_runs(tmp_path / "scratch/t1", location, unsent=False)
        assert run.exists() == growing.endswith(".wandb")
        shutil.rmtree(run, ignore_errors=True)
    assert (tmp_path / "storage/wandb" / run.name / growing).read_bytes() == b"log"
