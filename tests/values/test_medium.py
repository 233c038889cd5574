import json
import pickle
from typing import Any

import numpy as np
import pytest

import tune_media as tm
from tune_media.values.episodes import EpisodeBatch, EpisodeData


def test_values_are_small_to_print_and_survive_pickling(frames):
    values = [
        tm.Video(frames(50), fps=10),
        tm.Image(frames()[0], caption="c"),
        tm.Histogram(np.arange(1000)),
        tm.Artifact(b"x" * 5000, name="buffer.msgpack"),
    ]
    for value in values:
        copy = pickle.loads(pickle.dumps(value))
        assert (copy.id, copy.content(), copy.facts()) == (value.id, value.content(), value.facts())
        assert len(repr(value)) < 80


def test_values_are_frozen(frames):
    with pytest.raises(AttributeError):
        tm.Video(frames()).fps = 3
    with pytest.raises(AttributeError):
        tm.Histogram([1]).count = 3


def test_pydantic_writes_media_as_text():
    """Ray Train V2 ended the trial: it writes the metrics of a report that has a checkpoint as JSON."""
    pydantic = pytest.importorskip("pydantic", "2")

    class Saved(pydantic.BaseModel):
        metrics: dict[str, Any]

    video, histogram = tm.Video(np.zeros((5, 32, 32, 3), np.uint8)), tm.Histogram([1.0, 2.0])
    batch = EpisodeBatch((EpisodeData(tm.EpisodeRecord("e", 1.0, 3), {}),))
    media = {"clip": video, "of": [histogram, tm.Artifact(b"\xff", name="x.bin")], "episodes": batch}
    saved = json.loads(Saved(metrics={"score": 1.0, **media}).model_dump_json())["metrics"]
    assert (saved["score"], saved["clip"], saved["of"][0]) == (1.0, repr(video), repr(histogram))
    assert set(map(type, (saved["episodes"], saved["of"][1]))) == {str}
