"""Animated GIFs of finished clips, for viewers that play no mp4 (TensorBoard's Images tab)."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any

import av
import av.filter
import numpy as np
from av.video.stream import VideoStream

from tune_media.encoding.decode import open_video, probe_video
from tune_media.encoding.frames import Frame, target_size

_CENTISECONDS = 100  # in a second; GIF delays are counted in them
_TIME_BASE = Fraction(1, _CENTISECONDS)
_SHORTEST, _LONGEST = 2, 2**16 - 1  # delays, in hundredths of a second: browsers show shorter ones as 10
_FASTEST = _CENTISECONDS // _SHORTEST  # frames per second


def gif_from_video(
    data: bytes,
    max_width: int = 320,
    max_fps: float = 15.0,
    max_frames: int = 600,
    header: Callable[[int], Frame | None] = lambda width: None,
    name: str = "",
) -> bytes:
    """Convert an encoded clip to an animated GIF that runs at the clip's own speed. Raises ValueError.

    GIF delays are whole hundredths of a second, and at least two. To keep the speed right, frames are left out: those
    above ``max_fps`` (50 at most), and, in a long clip, as many as it takes to stay below ``max_frames``. ``header``
    gets the width of the GIF, and returns an HWC uint8 picture of that width to put above all frames, or None.
    """
    frames = probe_video(data, name).frames
    with open_video(data, name) as (source, stream):
        rate = Fraction(stream.average_rate or stream.base_rate or 25)
        size = stream.width, stream.height, min(max_width, stream.width), None
        width, height = target_size(*size, keep_odd_sizes=True)
        gif_rate = min(rate, Fraction(min(float(max_fps), _FASTEST)), max_frames * rate / max(1, frames))
        above = header(width)
        graph, source_filter = _palette_graph(stream, width, height, above)
        times = _times(frames, rate, gif_rate)
        last_delay = round(frames * _CENTISECONDS / rate) - max(times.values(), default=0)
        shown = ((times[index], picture) for index, picture in enumerate(source.decode(stream)) if index in times)
        height += 0 if above is None else above.shape[0]
        file = io.BytesIO()
        options = {"loop": "0", "final_delay": str(min(max(_SHORTEST, last_delay), _LONGEST))}
        with av.open(file, "w", format="gif", options=options) as container:
            gif = container.add_stream("gif", rate=_CENTISECONDS)
            gif.width, gif.height, gif.pix_fmt = width, height, "pal8"
            for picture in _filtered(graph, source_filter, shown):
                container.mux(gif.encode(picture))
            container.mux(gif.encode(None))
    return file.getvalue()


def _palette_graph(stream: VideoStream, width: int, height: int, above: Frame | None) -> tuple[Any, Any]:
    """Return a filter graph and its source; ``above`` is a still picture that is put above each frame."""
    graph = av.filter.Graph()
    if hasattr(graph, "threads"):  # PyAV 13 has no such setting
        graph.threads = 1  # else FFmpeg starts a thread for each core, for frames that it takes one by one
    source = graph.add_buffer(template=stream, time_base=stream.time_base)
    scale = graph.add("scale", f"{width}:{height}:flags=area")
    split = graph.add("split")
    palette = graph.add("palettegen", "stats_mode=diff")
    use = graph.add("paletteuse", "dither=bayer:bayer_scale=4:diff_mode=rectangle")
    sink = graph.add("buffersink")
    source.link_to(scale)
    still = None
    if above is None:
        scale.link_to(split)
    else:
        still = graph.add_buffer(
            width=width, height=above.shape[0], format=av.VideoFormat("rgb24"), time_base=stream.time_base
        )
        pad = graph.add("pad", f"iw:ih+{above.shape[0]}:0:{above.shape[0]}")
        overlay = graph.add("overlay", "0:0:eof_action=repeat:format=rgb")
        scale.link_to(pad)
        pad.link_to(overlay, 0, 0)
        still.link_to(overlay, 0, 1)
        overlay.link_to(split)
    split.link_to(palette, 0, 0)
    split.link_to(use, 1, 0)
    palette.link_to(use, 0, 1)
    use.link_to(sink)
    graph.configure()
    if still is not None and above is not None:
        picture = av.VideoFrame.from_ndarray(np.ascontiguousarray(above), format="rgb24")
        picture.pts, picture.time_base = 0, stream.time_base
        still.push(picture)
        still.push(None)
    return graph, source


def _times(frames: int, rate: Fraction, gif_rate: Fraction) -> dict[int, int]:
    """Return the frames that are shown with their times, hundredths of a second: the first of each interval of the GIF.

    >>> _times(6, Fraction(60), Fraction(50))
    {0: 0, 2: 2, 3: 4, 4: 6, 5: 8}
    """
    times: dict[int, int] = {}
    for index in range(frames):
        interval = index * gif_rate // rate
        if interval == len(times):
            times[index] = round(interval * _CENTISECONDS / gif_rate)
    return times


def _filtered(graph: Any, source: Any, pictures: Iterable[tuple[int, av.VideoFrame]]) -> Iterator[av.VideoFrame]:
    """Push frames through a filter graph and yield the results, each at its time."""
    times = []
    for time, picture in pictures:
        times.append(time)
        source.push(picture)
    source.push(None)
    for time in times:
        try:
            result: av.VideoFrame = graph.pull()
        except (av.BlockingIOError, av.EOFError):
            return
        result.pts, result.time_base = time, _TIME_BASE
        yield result
