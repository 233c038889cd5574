"""Tune's snapshots: what is read of them, however they are laid out, and how much memory that takes."""

import json
import tracemalloc

import pyarrow.fs
import pytest

from tune_media.experiment.state import Snapshots

RESULTS = json.dumps({"last_result": {"note": '"], ["' + "x" * 100_000}})  # 0.1 MB, as RLlib's


def read(folder):
    return Snapshots().of(pyarrow.fs.LocalFileSystem(), str(folder)).trials


def write(folder, count, **layout):
    texts = [json.dumps({"trial_id": f"id_{number}", "status": '"], ["'}, indent=2) for number in range(count)]
    content = json.dumps({"trial_data": [[text, RESULTS] for text in texts], "stats": {}}, **layout)
    (folder / "experiment_state-2026-01-01_00-00-00.json").write_text(content)
    return content


@pytest.mark.parametrize("layout", [{}, {"indent": 1}, {"separators": (",", ":")}, {"separators": (", ", ":")}])
def test_all_trials_are_read_however_a_snapshot_is_laid_out(tmp_path, layout):
    write(tmp_path, 50, **layout)
    assert [(id, trial.status) for id, trial in read(tmp_path).items()] == [(f"id_{n}", '"], ["') for n in range(50)]


def test_of_a_large_snapshot_a_part_is_in_memory_at_a_time(tmp_path):
    write(tmp_path, 500)
    tracemalloc.start()
    try:
        assert len(read(tmp_path)) == 500
        assert tracemalloc.get_traced_memory()[1] < 30e6  # of 50 MB
    finally:
        tracemalloc.stop()
