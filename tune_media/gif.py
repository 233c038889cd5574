"""Animated GIFs of finished clips, for viewers that show nothing else that moves."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tune_media.encoding import KeptBuffer, target_size

if TYPE_CHECKING:
    import av
    from av.video.stream import VideoStream

_CENTISECONDS = 100  # in a second; what a GIF counts its delays in


def gif_from_video(data: bytes, max_width: int = 320, max_fps: float = 15.0, max_frames: int = 600) -> bytes:
    """Make an animated GIF of an encoded clip, running at the clip's own speed.

    A GIF's delays are whole hundredths of a second, so frames are left out rather than the speed changed: those above
    ``max_fps``, and more of a clip so long that it would have more than ``max_frames``.

    Args:
        data: The encoded clip.
        max_width: Width above which it is scaled down, pixels.
        max_fps: Most frames a second in the GIF.
        max_frames: Most frames in the GIF, about.

    Raises:
        ValueError: The bytes are no video.
    """
    import av

    try:
        with av.open(io.BytesIO(data), "r") as source:
            stream = source.streams.video[0]
            rate = Fraction(stream.average_rate or stream.base_rate or 25)
            width, height = target_size(
                stream.width, stream.height, min(max_width, stream.width), None, keep_odd_sizes=True
            )
            delay = max(math.ceil(_CENTISECONDS / max_fps), round(_CENTISECONDS / rate))
            delay = max(delay, math.ceil(_CENTISECONDS * stream.frames / rate / max_frames))
            gif_rate = Fraction(_CENTISECONDS, delay)
            graph = _palette_graph(stream, width, height)
            thinned = _thinned(source.decode(stream), rate, gif_rate)
            return _write_gif(_filtered(graph, thinned), width, height)
    except (av.FFmpegError, IndexError) as error:
        raise ValueError(f"These {len(data)} bytes are no video that FFmpeg can read: {error}") from error


def _palette_graph(stream: VideoStream, width: int, height: int) -> Any:
    import av.filter

    graph = av.filter.Graph()
    source = graph.add_buffer(template=stream, time_base=stream.time_base)
    scale = graph.add("scale", f"{width}:{height}:flags=area")
    split = graph.add("split")
    palette = graph.add("palettegen", "stats_mode=diff")
    use = graph.add("paletteuse", "dither=bayer:bayer_scale=4:diff_mode=rectangle")
    sink = graph.add("buffersink")
    source.link_to(scale)
    scale.link_to(split)
    split.link_to(palette, 0, 0)
    split.link_to(use, 1, 0)
    palette.link_to(use, 0, 1)
    use.link_to(sink)
    graph.configure()
    return graph


def _write_gif(pictures: Iterable[av.VideoFrame], width: int, height: int) -> bytes:
    import av

    buffer = KeptBuffer()
    container = av.open(buffer, "w", format="gif", options={"loop": "0"})
    stream = container.add_stream("gif", rate=_CENTISECONDS)
    stream.width, stream.height, stream.pix_fmt = width, height, "pal8"
    for picture in pictures:
        for packet in stream.encode(picture):
            container.mux(packet)
    for packet in stream.encode(None):
        container.mux(packet)
    container.close()
    return buffer.getvalue()


def _thinned(
    pictures: Iterable[av.VideoFrame], rate: Fraction, gif_rate: Fraction
) -> Iterator[tuple[int, av.VideoFrame]]:
    """Yield the frames that a slower rate shows, each with its time in hundredths of a second."""
    shown = -1
    for index, picture in enumerate(pictures):
        place = math.floor(index * gif_rate / rate)
        if place > shown:
            shown = place
            yield round(index / rate * _CENTISECONDS), picture


def _filtered(graph: Any, pictures: Iterable[tuple[int, av.VideoFrame]]) -> Iterator[av.VideoFrame]:
    """Push pictures through a graph and yield what comes out, each at its time."""
    import av

    times = []
    for time, picture in pictures:
        times.append(time)
        graph.push(picture)
    graph.push(None)
    for time in times:
        try:
            result: av.VideoFrame = graph.pull()
        except (av.BlockingIOError, av.EOFError):
            return
        result.pts, result.time_base = time, Fraction(1, _CENTISECONDS)
        yield result
