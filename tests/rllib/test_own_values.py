import numpy as np
import pytest
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from tune_media.recording.series import EpisodeValues
from tune_media.rllib.own_values import add_own_values, values_of
from tune_media.rllib.stacks import EpisodeFields, fields_of


def added(**fields):
    values = EpisodeValues()
    assert not list(add_own_values(EpisodeFields(**{"free": {}, **fields}), values))
    return values


@pytest.mark.parametrize("make", [SingleAgentEpisode, MultiAgentEpisode])
def test_values_of_hooks_are_the_episodes_and_stay_with_it(make):
    episode, other = make(), make()
    values_of(episode)["shots"] = 3
    values_of(episode)["shots"] += 1
    values = EpisodeValues()
    assert not list(add_own_values(fields_of(episode), values))
    assert values.metrics() == {"shots": 4}
    assert values_of(other) == {}


def test_each_kind_of_value_goes_its_own_way():
    picture = np.zeros((8, 8, 3), np.uint8)
    own = {"goals": 2.0, "map": "forest", "path": picture, 7: 1}
    values = added(free={"tune_media": own, "scratch": 1.0}, custom_metrics={"of the old stack": 1.5})
    assert values.metrics() == {"goals": 2.0, "7": 1, "of the old stack": 1.5}
    assert values.values() == {"map": "forest"}
    assert set(values.media()) == {"path"}


def test_hist_data_of_the_old_stack_are_a_series_of_numbers():
    values = added(hist_data={"speed": [1.0, np.array([2.0]), np.float32(3.0)]})
    assert values.series()["speed"].values.tolist() == [1.0, 2.0, 3.0]


def test_arrays_in_the_media_of_the_old_stack_are_kept_whole():
    values = added(media={"row": [1.0, 2.0], "table": np.zeros((2, 2))})
    assert (values.metrics(), values.series()) == ({}, {})
    assert {name: np.asarray(value).shape for name, value in values.values().items()} == {"row": (2,), "table": (2, 2)}


@pytest.mark.parametrize("shape", [(1, 5, 3, 16, 16), (5, 16, 16, 3)])
def test_frames_in_the_media_of_the_old_stack_are_clips_and_no_values(shape):
    assert added(media={"clip": np.zeros(shape, np.uint8)}).values() == {}
