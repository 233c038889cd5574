"""When the file of an offline W&B run is whole, with files that W&B itself wrote."""

import threading
import time
from pathlib import Path

import pytest

from tests.support.trackers import wandb_records
from tune_media.callbacks.wandb.offline_runs import wait_until_whole

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
