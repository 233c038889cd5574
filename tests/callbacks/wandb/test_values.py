import numpy as np
import pytest

import tune_media as tm
from tune_media.callbacks.wandb.values import as_item, is_excluded
from tune_media.experiment.stored_media import StoredMedium
from tune_media.storage.entry import MediaEntry

pytest.importorskip("wandb")


def entry_of(medium, key="episodes/best", section="evaluation", path="media/x/step_7.mp4"):
    return MediaEntry(medium, section, key, path, 70, 7)


def test_a_clip_is_its_file_with_a_caption_at_its_training_iteration(frames):
    record = tm.EpisodeRecord("e7", 191.0, 191)
    video = tm.Video(frames(3), fps=5, episode=record)
    item = as_item(entry_of(video))
    facts = [item[name] for name in ("kind", "key", "step", "name")]
    assert facts == ["video", "evaluation/episodes/best", 7, "step_7.mp4"]
    assert item["content"] == video.content()
    assert item["caption"] == "return 191, length 191, e7"
    assert item["facts"]["episode_return"] == 191.0
    of_another_tool = {"id": "c", "kind": "video", "path": "a_return_11.mp4", "episode_return": 11.0}
    for facts, caption in ((of_another_tool, "return 11"), ({**of_another_tool, "episode_return": None}, None)):
        assert as_item(entry_of(StoredMedium(facts, str.encode)))["caption"] == caption


def test_a_histogram_has_no_more_bins_than_wandb_takes_and_loses_no_value():
    histogram = tm.Histogram(np.arange(2000.0), bins=2000)
    counts, edges = as_item(entry_of(histogram, "weights"))["histograms"]["evaluation/weights"]
    assert len(counts) <= 512
    assert (sum(counts), edges[0], edges[-1]) == (2000, 0, 1999)
    assert as_item(entry_of(tm.Histogram([]), "none"))["histograms"] == {"evaluation/none": None}


@pytest.mark.parametrize(
    ("excludes", "is_left_out"),
    [
        (["evaluation"], True),
        (["evaluation/env_runners/episodes"], True),
        (["evaluation/epi"], False),
        (["episodes"], False),
    ],
)
def test_a_medium_is_left_out_by_its_name_in_wandb_or_its_place_in_the_result(frames, excludes, is_left_out):
    entry = entry_of(tm.Video(frames(2)))
    assert is_excluded(entry.section, entry.key, excludes) is is_left_out
