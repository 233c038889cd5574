import json
import math
import pickle

import numpy as np
import pytest

import tune_media as tm
from tune_media.encoding import decode_video, encode_video
from tune_media.gif import gif_from_video
from tune_media.values import json_bytes


def test_a_video_is_made_of_any_named_layout(frames):
    clip = np.stack(frames(4))
    grey = clip[..., 0]
    cases = {
        "THWC": tm.Video(clip, fps=10),
        "generator": tm.Video((frame for frame in clip), fps=10),
        "TCHW": tm.Video(clip.transpose(0, 3, 1, 2), fps=10, layout="TCHW"),
        "float": tm.Video(clip / 255.0, fps=10, value_range=1.0),
        "float TCHW": tm.Video(clip.transpose(0, 3, 1, 2) / 255.0, fps=10, layout="TCHW", value_range=1.0),
    }
    pictures = {name: np.stack(list(decode_video(video.data))).astype(int) for name, video in cases.items()}
    for name, decoded in pictures.items():  # two encodings of the same frames may differ in a few bits
        assert np.abs(decoded - pictures["THWC"]).mean() < 1, name
    assert tm.Video(grey, layout="THW").frames == 4
    assert tm.Video(np.concatenate([clip, clip[..., :1]], axis=-1)).frames == 4  # RGBA


def test_a_video_says_what_is_wrong_with_its_frames(frames):
    with pytest.raises(ValueError, match="layout must be one of"):
        tm.Video(frames(), layout="CTHW")
    with pytest.raises(ValueError, match="value_range"):
        tm.Video(frames(), value_range=2)
    with pytest.raises(ValueError, match="at least one frame"):
        tm.Video([])
    with pytest.raises(ValueError, match="two axes"):
        tm.Video(frames(), layout="THW")


def test_a_video_comes_from_a_file(frames, tmp_path):
    path = tmp_path / "clip.mp4"
    path.write_bytes(encode_video(frames(5), fps=25).data)
    video = tm.Video.from_file(path)
    assert (video.frames, video.fps, video.width, video.height) == (5, 25, 48, 32)
    assert video.content() == path.read_bytes()
    (tmp_path / "broken.mp4").write_bytes(b"0123")
    with pytest.raises(ValueError, match="no video"):
        tm.Video.from_file(tmp_path / "broken.mp4")
    (tmp_path / "clip.gif").write_bytes(gif_from_video(video.data))
    with pytest.raises(ValueError, match="no mp4"):
        tm.Video.from_file(tmp_path / "clip.gif")


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


def test_options_scale_and_bad_options_fail_where_they_are_given(frames):
    assert tm.Video(frames(2, 400, 600), options=tm.VideoOptions(height=64, width=96)).width == 96
    for bad in ({"fps": 0}, {"height": -1}, {"crf": 99}, {"preset": "warp"}, {"max_frames": 0}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            tm.VideoOptions(**bad)
    with pytest.raises(ValueError, match="gif_width"):
        tm.MediaOptions(gif_width=0)


@pytest.mark.parametrize(
    "values",
    [
        [],
        [math.nan],
        [1.0, 1.0],
        [1, 2, math.inf, -math.inf, math.nan],
        [5],
        [0.3, 0.1 + 0.2],
        [1e16, 1e16 + 2],
        [1e308, -1e308],
        [5e-324, 0],
    ],
)
def test_a_histogram_takes_what_would_break_others(values):
    histogram = tm.Histogram(values)
    finite = [value for value in values if math.isfinite(value)]
    assert histogram.count == len(finite) == sum(histogram.counts)
    assert histogram.nonfinite == len(values) - len(finite)
    json.loads(histogram.content())


def test_a_histogram_of_counts_equals_that_of_the_values():
    values = np.random.default_rng(0).normal(size=1000)
    counts, edges = np.histogram(values, bins=20)
    counted, direct = tm.Histogram.from_counts(edges, counts), tm.Histogram(values, bins=20)
    assert (counted.edges, counted.counts, counted.count) == (direct.edges, direct.counts, direct.count)
    with pytest.raises(ValueError, match="one more than counts"):
        tm.Histogram.from_counts([0, 1], [1, 2])


def test_an_artifact_keeps_its_file_as_it_is(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    artifact = tm.Artifact(tmp_path / "notes.txt")
    assert (artifact.content(), artifact.suffix, artifact.name) == (b"hello", ".txt", "notes.txt")
    with pytest.raises(ValueError, match="needs a name"):
        tm.Artifact(b"bytes")


def test_json_is_valid_whatever_the_numbers():
    content = json_bytes({"a": np.float32(1.5), "b": [math.nan, np.inf], "c": np.arange(3), 4: (np.int64(2), None)})
    assert json.loads(content) == {"a": 1.5, "b": [None, None], "c": [0, 1, 2], "4": [2, None]}


def test_decoding_a_video_gives_rgb(frames):
    assert next(iter(decode_video(tm.Video(frames()).data))).shape == (32, 48, 3)
