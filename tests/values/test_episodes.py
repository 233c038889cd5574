import math
import pickle

from tests.support.batches import batch_of
from tune_media import EpisodeRecord
from tune_media.values.episodes import EpisodeBatch, EpisodeData


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
