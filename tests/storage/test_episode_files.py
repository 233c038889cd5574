import io
import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet
import pytest

from tests.support.batches import batch_of
from tune_media.storage import episode_files
from tune_media.storage.episode_files import (
    MAX_JSON_POINTS,
    EpisodeReport,
    RecorderEpisodes,
    episode_table,
    parquet_rows,
    report_json,
    report_parquet,
    rows_of_parquet,
    tape_of,
)


def test_many_values_are_in_parquet_alone_and_the_json_says_so():
    points = MAX_JSON_POINTS // 100 + 1
    batch = batch_of(*[({}, {"x": np.zeros(points)})] * 100)
    report = EpisodeReport("t", 1, 7, [RecorderEpisodes("train", "r", batch)])
    row = json.loads(report_json(report, "episode_data/data-00000007.json"))[0]
    assert "series" not in row
    assert "data-00000007.parquet" in row["series_note"]

    table = pyarrow.parquet.read_table(io.BytesIO(report_parquet(report)))
    assert len(dict(table["series"][0].as_py())["x"]) == points


def test_json_is_valid_whatever_the_numbers():
    batch = batch_of(({"a": math.nan, "b": math.inf}, {"x": [1.0, math.nan, -math.inf]}))
    (row,) = json.loads(
        report_json(EpisodeReport("t", 1, 1, [RecorderEpisodes("train", "r", batch)]), "x"), parse_constant=pytest.fail
    )
    assert row["metrics"] == {"a": None, "b": None}
    assert row["series"] == {"x": [1.0, None, None]}


def _file(columns, rows):
    file = io.BytesIO()
    table = pa.table({name: pa.nulls(rows, type) for name, type in columns.items()})
    pyarrow.parquet.write_table(table, file, compression="zstd")
    assert len(file.getvalue()) < 1_000_000
    file.seek(0)
    return file


@pytest.mark.parametrize(
    "read",
    [
        lambda file: episode_table(file, ["episode_id"]),
        lambda file: rows_of_parquet(file.getvalue()),
        lambda file: tape_of(file, "train", "episodes", "a"),
    ],
)
def test_a_file_of_millions_of_episodes_is_refused_before_it_is_read(read):
    names = ("episode_id", "section", "recorder")
    file = _file({**dict.fromkeys(names, pa.string()), "tape": pa.binary()}, 1_000_001)
    before = pa.total_allocated_bytes()
    with pytest.raises(ValueError, match="its 1000001 rows are too large for a report"):
        read(file)
    assert pa.total_allocated_bytes() - before < 10_000_000


def test_a_file_of_steps_that_takes_too_much_memory_is_refused_before_it_is_read(monkeypatch):
    monkeypatch.setattr(episode_files, "_MAX_BYTES", 2**23)
    file = _file({"episode_id": pa.string(), "x": pa.float64()}, 1_000_001)
    assert parquet_rows(file, "a", ["episode_id"]) == []
    with pytest.raises(ValueError, match="its 1000001 rows are too large for a report"):
        parquet_rows(file, "a")
