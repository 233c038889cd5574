import io

import numpy as np
import PIL.Image
import PIL.ImageSequence
import pytest
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator

import tune_media as tm
from tests.support.experiment import tensorboard_events
from tune_media.callbacks.tensorboard.event_file import EventWriter
from tune_media.callbacks.tensorboard.summaries import add_gif, add_histogram, add_image, add_texts
from tune_media.values.episodes import EpisodeBatch, EpisodeData


@pytest.fixture
def written(tmp_path):
    writer = EventWriter(str(tmp_path))

    def read(tag):
        writer.file_writer.flush()
        return [event.tensor_proto for event in EventAccumulator(str(tmp_path)).Reload().Tensors(tag)]

    return writer, read


def test_a_clip_plays_as_a_gif_of_the_wanted_width_below_a_caption(written, frames):
    writer, read = written
    record = tm.EpisodeRecord("e", 9.0, 4)
    clip = tm.Video(frames(5, 64, 96), fps=10, episode=record)
    add_gif(writer, "train/clip", clip.content(), clip.facts(), 7, tm.MediaOptions(gif_width=48))
    add_gif(writer, "train/far", clip.content(), {}, 7, tm.MediaOptions(gif_width=48))  # of another tool, on S3
    (proto,), (far,) = read("train/clip"), read("train/far")
    gif = PIL.Image.open(io.BytesIO(proto.string_val[2]))
    assert (gif.format, gif.n_frames, gif.width) == ("GIF", 5, 48)
    assert gif.height > 32  # the caption is above the picture
    assert list(proto.string_val[:2]) == [b"48", str(gif.height).encode()]
    assert far.string_val[0] == b"48"
    assert [frame.info["duration"] for frame in PIL.ImageSequence.Iterator(gif)] == [100] * 5


def test_a_picture_is_stored_as_it_was_encoded(written, frames):
    writer, read = written
    image = tm.Image(frames()[0])
    add_image(writer, "train/map", image.content(), image.width, image.height, 7)
    (proto,) = read("train/map")
    assert proto.string_val[2] == image.content()
    assert list(proto.string_val[:2]) == [b"48", b"32"]


def test_texts_of_episodes_are_a_table_that_their_characters_do_not_break(written):
    writer, read = written
    texts = ["late", "a|b\nc\\d", "x" * 5000]
    records = [tm.EpisodeRecord(f"e{number}", 1.0, 2) for number in range(len(texts))]
    episodes = [EpisodeData(record, {}, {"phase": text}) for record, text in zip(records, texts, strict=True)]
    add_texts(writer, "train/episodes", EpisodeBatch(tuple(episodes)), 7)
    (proto,) = read("train/episodes/phase/text_summary")
    lines = proto.string_val[0].decode().split("\n")
    assert lines[:4] == ["| episode | text |", "|---|---|", "| e0 | late |", "| e1 | a\\|b c\\\\d |"]
    assert len(lines) == 5
    assert len(lines[4]) < 1100


def test_a_histogram_keeps_its_counts_and_an_empty_one_is_not_shown(tmp_path):
    writer = EventWriter(str(tmp_path))
    add_histogram(writer, "train/weights", tm.Histogram(np.arange(100.0)), 7)
    add_histogram(writer, "train/none", tm.Histogram([]), 7)
    writer.file_writer.flush()
    events = tensorboard_events(tmp_path)
    assert events.Tags()["histograms"] == ["train/weights"]
    (event,) = events.Histograms("train/weights")
    found = event.histogram_value
    assert (event.step, found.num, found.min, found.max, found.sum) == (7, 100, 0, 99, 4950)
    assert sum(found.bucket) == 100
