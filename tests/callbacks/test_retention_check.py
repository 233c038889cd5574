from types import SimpleNamespace

import pytest

import tune_media as tm
from tune_media.callbacks.retention_check import RetentionCheck
from tune_media.values.options import Retention


def clip(**metrics):
    return [SimpleNamespace(medium=tm.EpisodeRecord("e", 1.0, 3, metrics=metrics))]


@pytest.mark.parametrize(
    ("policy", "rounds", "told"),
    [
        ({"best": 2, "by": "typo"}, [clip(speed=1.0)] * 9, "They have: episode_return, episode_length, speed"),
        ({"best": 2, "by": "goals"}, [clip()] * 3 + [clip(goals=1.0)] + [clip()] * 9, ""),  # it comes late
        ({"best": 2}, [clip()] * 9, ""),
        ({"last": 2, "by": "typo"}, [clip()] * 9, ""),  # nothing is compared
    ],
)
def test_a_misspelt_value_or_metric_is_named_once_with_those_that_there_are(policy, rounds, told):
    check = RetentionCheck(Retention(**policy))
    texts = [problem.text for entries in rounds for problem in check.look(entries)]
    assert len(texts) == bool(told)
    assert all("none of the first 4 " in text and told in text for text in texts)
