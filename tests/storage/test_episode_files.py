import io
import json
import math
import threading

import numpy as np
import pyarrow.fs
import pyarrow.parquet
import pytest

from tests.support.batches import batch_of
from tune_media.storage.episode_files import (
    MAX_JSON_POINTS,
    EpisodeReport,
    RecorderEpisodes,
    episode_table,
    report_json,
    report_parquet,
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


def test_a_large_file_is_read_by_no_thread_of_arrows_which_may_abort_the_process_at_its_end():
    threads = set()

    class File(io.BytesIO):
        def read(self, *count):
            threads.add(threading.get_ident())
            return super().read(*count)

    batch = batch_of(({}, {"x": np.random.default_rng(0).random(200_000)}))
    content = report_parquet(EpisodeReport("t", 1, 1, [RecorderEpisodes("train", "r", batch)]))
    table = episode_table(pyarrow.PythonFile(File(content), "r"), ["episode_id", "series"])
    assert (len(content) > 2**20, len(table), threads) == (True, 1, {threading.get_ident()})
