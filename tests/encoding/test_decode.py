import pytest

from tune_media.encoding.decode import decode_video, probe_video
from tune_media.encoding.encoder import encode_video
from tune_media.encoding.gif import gif_from_video


def test_speed_and_length_are_those_asked_for(frames):
    for fps in (4, 12.5, 50, 29.97):
        video = encode_video(frames(7), fps=fps)
        probed = probe_video(video.data)
        assert (probed.frames, probed.width, probed.height, probed.data) == (7, 48, 32, video.data)
        assert probed.fps == pytest.approx(fps, rel=1e-3)


def broken(frames) -> dict[str, bytes]:
    clip = encode_video(frames(30), fps=30).data
    pictures = clip.find(b"mdat") + 4
    return {
        "empty": b"",
        "text": b"hello" * 20,
        "cut in its index": clip[:300],
        "without pictures": clip[:pictures] + bytes(len(clip) - pictures),
        "cut": clip[: pictures + 200],
    }


@pytest.mark.parametrize("what", ["empty", "text", "cut in its index", "without pictures", "cut"])
@pytest.mark.parametrize("read", [lambda *clip: list(decode_video(*clip)), lambda *clip: gif_of(*clip)])
def test_a_broken_clip_is_told_by_its_name(frames, what, read):
    content = broken(frames)[what]
    with pytest.raises(ValueError, match=r"^'a/clip\.mp4' is no video that FFmpeg can read: [^\[]+$"):
        read(content, "a/clip.mp4")
    with pytest.raises(ValueError, match=rf"^These {len(content)} bytes are no video that FFmpeg can read: "):
        read(content)


def gif_of(content: bytes, name: str = "") -> bytes:
    return gif_from_video(content, name=name)
