import pickle

import numpy as np
import pytest

import tune_media as tm


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
