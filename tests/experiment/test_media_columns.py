import json

import numpy as np

from tune_media.experiment.media_columns import MediaColumns
from tune_media.values.number import as_number


def columns(*lines):
    whole = [{"section": "train", "key": "k", "kind": "video"} | line for line in lines]
    return MediaColumns.of_lines([(json.dumps(line).encode(), line) for line in whole])


def test_numbers_that_no_float_holds_are_no_numbers():
    assert np.isnan(as_number(10**400))
    assert columns({"step": 2**70, "episode_return": "high"}).step[0] == 2.0**70
