import math
import pickle

import numpy as np

from tests.support.batches import batch_of
from tune_media import EpisodeRecord
from tune_media.values.episodes import EpisodeBatch, EpisodeData, Series, histograms_of


def test_the_histograms_of_a_batch_are_made_once_and_do_not_travel():
    batch = batch_of(({"goals": 3.0}, {}))
    size = len(pickle.dumps(batch))
    assert batch.histograms() is batch.histograms()
    assert len(pickle.dumps(batch)) == size


def test_metrics_leave_nan_out_and_late_episodes():
    batch = batch_of(({"a": math.nan, "b": 1.0}, {}), ({"a": 3.0, "b": 2.0}, {}))
    assert batch.metrics() == {"a_mean": 3, "a_min": 3, "a_max": 3, "b_mean": 1.5, "b_min": 1, "b_max": 2}
    late = EpisodeData(EpisodeRecord("e", 1.0, 1, metrics={"x": 1.0}), is_late=True)
    assert EpisodeBatch((late,)).metrics() == {}
    assert EpisodeBatch((late,)).histograms() == {}


def episode(episode_return=1.0, series=None, **metrics):
    record = EpisodeRecord("e", episode_return, 3, metrics=metrics)
    return EpisodeData(record, series or {})


def test_each_episode_counts_once_in_its_return_its_length_and_its_metrics():
    found = histograms_of([episode(1.0, speed=4.0), episode(2.0, speed=6.0), episode(3.0)])
    assert {name: histogram.count for name, histogram in found.items()} == {
        **{"episode_return": 3, "episode_length": 3, "speed": 2}
    }
    assert (found["episode_return"].minimum, found["episode_return"].maximum) == (1.0, 3.0)
    assert found["speed"].total == 10.0


def test_the_statistics_of_a_series_have_no_histogram_of_their_own():
    speed = Series(np.array([1.0, 5.0]), 1, 2)
    found = histograms_of([episode(series={"speed": speed}, speed_avg=3.0, speed_max=5.0, other_avg=1.0)])
    assert found.keys() == {"episode_return", "episode_length", "speed", "other_avg"}
    assert found["speed"].count == 2


def test_a_thinned_series_weighs_as_much_as_the_values_that_it_stands_for():
    thinned = episode(series={"speed": Series(np.array([1.0, 3.0]), 50, 100)})
    whole = episode(series={"speed": Series(np.array([9.0]), 1, 1)})
    speed = histograms_of([thinned, whole])["speed"]
    assert round(speed.count) == 101
    assert round(speed.total) == 50 * 1 + 50 * 3 + 9


def test_a_series_of_text_has_no_histogram():
    phases = Series(["early", "late"], 1, 2)
    assert "phase" not in histograms_of([episode(series={"phase": phases})])
