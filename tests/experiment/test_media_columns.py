import json

import numpy as np

from tune_media.experiment.media_columns import MediaColumns
from tune_media.values.number import as_number


def test_numbers_that_no_float_holds_are_no_numbers():
    assert np.isnan(as_number(10**400))
    line = {"section": "train", "key": "k", "kind": "video", "step": 2**70, "episode_return": "high"}
    assert MediaColumns.of_lines([(json.dumps(line).encode(), line)]).step[0] == 2.0**70
