"""Turns frames into clips, GIFs and PNGs, and back again.

In come frames or the bytes of a clip, out go the bytes of a clip or picture. It imports no other wing. It is the only
one that imports PyAV, which takes long: code that only reads results imports it inside the function that needs it.
"""

from tune_media.encoding.decode import decode_video, probe_video
from tune_media.encoding.encoder import EncodedVideo, VideoEncoder, encode_video
from tune_media.encoding.frames import Frame, as_rgb, frames_in_layout, resize, target_size
from tune_media.encoding.gif import gif_from_video
from tune_media.encoding.picture_files import png_from_frame

__all__ = [
    "EncodedVideo",
    "Frame",
    "VideoEncoder",
    "as_rgb",
    "decode_video",
    "encode_video",
    "frames_in_layout",
    "gif_from_video",
    "png_from_frame",
    "probe_video",
    "resize",
    "target_size",
]
