import pytest

import tune_media as tm
from tune_media.rllib import record_episodes
from tune_media.rllib.settings import RecorderSettings


def settings_of(**arguments) -> RecorderSettings:
    return record_episodes(**arguments).args[0]


@pytest.mark.parametrize(
    ("arguments", "sees_all"),
    [
        ({}, True),
        ({"env_runners": [1]}, False),
        ({"env_indices": [0]}, False),
        ({"trigger": tm.selection.every(2)}, True),  # the data of the others are kept
        ({"trigger": tm.selection.every(2), "collect": False}, False),
    ],
)
def test_a_recorder_knows_whether_it_is_told_of_all_episodes(arguments, sees_all):
    assert settings_of(**arguments).plan.sees_all is sees_all
