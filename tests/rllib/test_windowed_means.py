import math

from tune_media import EpisodeRecord
from tune_media.rllib.windowed_means import WindowedMeans
from tune_media.values.episodes import EpisodeData


def episodes(*scores):
    return [EpisodeData(EpisodeRecord("e", 0.0, 1, metrics={"score": score})) for score in scores]


def test_each_section_has_a_window_of_its_own_without_nan():
    means = WindowedMeans(3)
    means.add("train", episodes(1.0, 2.0, math.nan))
    assert means.add("train", episodes(3.0, 4.0)) == {"score_windowed_mean": 3.0}
    assert means.add("evaluation", episodes(8.0)) == {"score_windowed_mean": 8.0}
    assert means.add("train", []) == {"score_windowed_mean": 3.0}
