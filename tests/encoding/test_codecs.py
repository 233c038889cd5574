import pytest

from tune_media.encoding import codecs
from tune_media.encoding.decode import decode_video
from tune_media.encoding.encoder import encode_video


@pytest.mark.parametrize("codec", ["libvpx-vp9", "mpeg4"])
def test_without_h264_another_codec_is_used_with_one_warning(frames, monkeypatch, caplog, codec):
    real = codecs._try_codec

    def broken(name):
        if list(codecs._CODECS).index(name) < list(codecs._CODECS).index(codec):
            raise RuntimeError("this build cannot open it")
        real(name)

    monkeypatch.setattr(codecs, "_try_codec", broken)
    codecs.working_codec.cache_clear()
    try:
        videos = [encode_video(frames(5), fps=10) for _ in range(2)]
    finally:
        codecs.working_codec.cache_clear()
    assert {video.codec for video in videos} == {codec}
    assert len([r for r in caplog.records if "H.264 cannot be encoded" in r.message]) == 1
    assert len(list(decode_video(videos[0].data))) == 5
