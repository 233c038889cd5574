"""Summaries that tensorboardX cannot make of our values: GIFs, encoded pictures, counted histograms, tables of text."""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping
from typing import Any

from tune_media.callbacks.shown_values import caption_of
from tune_media.callbacks.tensorboard.caption import caption_strip
from tune_media.values.episodes import EpisodeBatch
from tune_media.values.histogram import Histogram
from tune_media.values.options import MediaOptions

_RGB = 3
_MAX_TEXTS, _MAX_CHARACTERS = 100, 1000
_ESCAPES = str.maketrans({"\\": "\\\\", "|": "\\|", "\n": " "})  # of a table's cells


def add_gif(writer: Any, tag: str, video: bytes, facts: Mapping[str, Any], step: int, options: MediaOptions) -> None:
    """Add a clip as an animated GIF."""
    from tune_media.encoding.gif import gif_from_video

    header = functools.partial(caption_strip, caption_of(facts, f"step {step}"))
    gif = gif_from_video(video, options.gif_width, options.gif_fps, header=header)
    width, height = struct.unpack_from("<HH", gif, 6)  # of a clip far away, no header was read
    add_image(writer, tag, gif, width, height, step)


def add_image(writer: Any, tag: str, encoded: bytes, width: int, height: int, step: int) -> None:
    """Add a picture that is encoded already: PNG or GIF."""
    from tensorboardX.proto.summary_pb2 import Summary

    image = Summary.Image(height=height, width=width, colorspace=_RGB, encoded_image_string=encoded)
    writer.file_writer.add_summary(Summary(value=[Summary.Value(tag=tag, image=image)]), step)


def add_texts(writer: Any, tag: str, batch: EpisodeBatch, step: int) -> None:
    """Show the text values of a round's episodes as tables."""
    for name, texts in batch.texts().items():
        cells = [(record.episode_id, text.translate(_ESCAPES)[:_MAX_CHARACTERS]) for record, text in texts[:_MAX_TEXTS]]
        lines = [f"| {id} | {text} |" for id, text in cells]
        writer.add_text(f"{tag}/{name}", "\n".join(["| episode | text |", "|---|---|", *lines]), step)


def add_histogram(writer: Any, tag: str, histogram: Histogram, step: int) -> None:
    """Add a histogram that is counted already; an empty one adds nothing."""
    if not histogram.count:
        return
    writer.add_histogram_raw(
        tag,
        min=histogram.minimum,
        max=histogram.maximum,
        num=histogram.count,
        sum=histogram.total,
        sum_squares=histogram.squares,
        bucket_limits=list(histogram.edges[1:]),
        bucket_counts=list(histogram.counts),
        global_step=step,
    )
