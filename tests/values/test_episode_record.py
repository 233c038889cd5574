import json
import pickle

import numpy as np
import pytest

import tune_media as tm


def test_facts_that_are_not_known_are_left_out_and_zero_and_false_are_known():
    record = tm.EpisodeRecord("e", 0.0, 0, env_runner=0, terminated=False)
    assert record.facts() == {
        **{"episode_id": "e", "episode_return": 0.0, "episode_length": 0, "env_runner": 0, "terminated": False}
    }


@pytest.mark.parametrize("of", [float, np.float32, np.array, int])
def test_numbers_of_any_library_are_pythons_own(of):
    record = tm.EpisodeRecord("e", of(3), of(5))
    numbers = record.episode_return, record.episode_length
    assert numbers == (3, 5)
    assert tuple(map(type, numbers)) == (float, int)


def test_its_file_is_strict_json_with_its_metrics():
    record = tm.EpisodeRecord("e", float("nan"), 3, metrics={"speed": float("inf"), "height": 2.0})
    found = json.loads(record.content(), parse_constant=pytest.fail)
    assert found["episode_return"] is None
    assert found["metrics"] == {"speed": None, "height": 2.0}
    assert (record.kind, record.suffix) == ("episode", ".json")


def test_two_records_of_equal_facts_are_two_media_and_a_copy_is_the_same_one():
    first, second = tm.EpisodeRecord("e", 1.0, 2), tm.EpisodeRecord("e", 1.0, 2)
    assert first.id != second.id
    assert pickle.loads(pickle.dumps(first)).id == first.id
