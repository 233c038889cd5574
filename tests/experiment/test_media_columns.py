import json
import subprocess
import sys

import numpy as np

from tune_media.experiment.media_columns import MediaColumns
from tune_media.values.number import as_number


def test_numbers_that_no_float_holds_are_no_numbers():
    assert np.isnan(as_number(10**400))
    line = {"section": "train", "key": "k", "kind": "video", "step": 2**70, "episode_return": "high"}
    assert MediaColumns.of_lines([line]).step[0] == 2.0**70


_LOAD = """
import resource, sys
import tune_media as tm
tm.load(sys.argv[1] + "/small")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(len(tm.load(sys.argv[1] + "/large")), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_a_long_index_takes_no_more_than_a_few_times_its_size(tmp_path):
    for name, count in (("small", 1), ("large", 30_000)):
        lines = (
            {
                "v": 4, "id": f"{row:032x}", "kind": "video", "section": "train", "key": "best", "status": "stored",
                "path": f"media/train/best/step_{row:08d}-{row:08x}.mp4", "row": row, "step": row, "bytes": 30_000,
                "episode_return": row % 500, "episode_id": f"{row:032x}", "sha256": f"{row:064x}", "trial_id": "t",
            }
            for row in range(1, count + 1)
        )  # fmt: skip
        index = tmp_path / name / "trial" / "media" / "index.jsonl"
        index.parent.mkdir(parents=True)
        index.write_text("".join(json.dumps(line) + "\n" for line in lines))
    program = [sys.executable, "-c", _LOAD, str(tmp_path)]
    told = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    count, kilobytes = map(int, told.split())
    assert count == 30_000
    assert kilobytes < 6 * count  # the lines have 0.4 kB
