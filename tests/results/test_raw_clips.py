import numpy as np
import pytest

from tests.support.results import clip, places, read
from tune_media.encoding.decode import decode_video
from tune_media.results.reader import replace_media
from tune_media.storage.known_media import KnownMedia

NOISE = np.random.default_rng(0)


@pytest.mark.parametrize(
    "value",
    [
        clip(),
        [clip()],
        [clip(0), clip(1)],
        [[clip(0), clip(1)], [clip(2)]],
        [clip(0, frames=3), clip(1, frames=5)],  # ragged
        np.concatenate([clip(0), clip(1)]),
        clip(layout="THWC"),
        clip() / 255.0,
        clip().astype(np.int64),
        clip().astype(np.float32),
        clip(layout="THWC")[0],  # one clip, without the axis of several
        [clip(layout="THWC")[0], clip(1, layout="THWC")[0]],
        clip(layout="THWC")[0] / 255.0,
        clip(layout="THWC")[0].astype(np.float32),
        clip() / 255.0 * 1.0000001,  # rounded up
        np.array([clip(), None], dtype=object)[:1],
    ],
)
def test_raw_clips_as_people_send_them(value):
    result = {"evaluation": {"env_runners": {"videos_best": value}}}
    found = read(result)
    assert set(places(found)) == {("evaluation", "videos_best")}
    standing = result["evaluation"]["env_runners"]["videos_best"]
    assert standing == "path0" or standing == tuple(f"path{i}" for i in range(len(found)))
    for item in found:
        facts = item.medium.facts()
        assert (facts["width"], facts["height"]) == (24, 16)
        assert item.medium.content()[4:8] == b"ftyp"


@pytest.mark.parametrize(
    "value",
    [
        *(
            np.zeros(5),
            np.zeros((16, 16), np.uint8),
            np.zeros((2, 3, 16, 16), np.uint8),
            np.zeros((2, 20, 30), np.uint8),
        ),
        np.zeros((1, 4, 7, 16, 16), np.uint8),  # seven channels
        np.zeros((20, 30, 5), np.uint8),  # five channels
        *(np.zeros((2, 2, 3, 2, 2), np.uint8), np.zeros((3, 3, 3), np.uint8)),  # too small to be a picture
        # weights, not light
        *(NOISE.normal(size=shape) for shape in ((1, 4, 3, 16, 16), (4, 16, 24, 3), (3, 20, 30))),
        *(np.full((1, 4, 3, 16, 16), -1, np.int64), np.full((1, 4, 3, 16, 16), 256.0)),
        *(np.full((20, 30, 3), value) for value in (np.nan, 300.0, 1.5)),
        np.zeros((20, 30, 3), np.int64),  # counts
        *(np.zeros((1, 4, 3, 16, 16), bool), np.zeros((20, 30, 3), bool)),
        *(np.zeros((0, 4, 3, 16, 16), np.uint8), np.zeros((0, 20, 3), np.uint8)),
        NOISE.dirichlet(np.ones(3), (4, 16, 24)),  # probabilities of three classes
        NOISE.dirichlet(np.ones(3), (20, 30)).astype(np.float32),
        NOISE.dirichlet(np.ones(30), (4, 20)),  # attention
        *(np.zeros((3, 3, 64, 3)), np.zeros((8, 8, 3))),  # a small table
        *([1.0, 2.0], ["a", "b"], [[1, 2], [3, 4]], [np.zeros(3), np.zeros(4)], [[]], [], "text", None),
    ],
)
def test_numbers_are_left_alone(value):
    result = {"env_runners": {"x": value}}
    assert read(result) == []
    assert result["env_runners"]["x"] is value


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("scale", [None, 1.0, 1 / 255, 1.0000001 / 255], ids=["uint8", "0..255", "0..1", "rounded up"])
def test_a_clip_is_as_bright_as_its_frames(several, scale):
    frames = np.zeros((20, 64, 96, 3), np.uint8)
    frames[5:], frames[:, 0, 0] = 200, 255
    frames = frames if scale is None else frames * scale
    result = {"rollout": frames[np.newaxis] if several else frames}
    (found,) = read(result)
    assert result == {"rollout": "path0"}
    facts = found.medium.facts()
    assert (facts["frames"], facts["width"], facts["height"]) == (20, 96, 64)
    shown = decode_video(found.medium.content())
    assert [int(frame.mean() > 100) for frame in shown] == [0] * 5 + [1] * 15


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (clip() / 128.0, "its floats are in 0..1.984, neither in 0..1 nor in 0..255"),
        (clip(layout="THWC")[0] / 128.0, "its floats are in 0..1.984, neither in 0..1 nor in 0..255"),
        (np.zeros((20, 4, 64, 4), np.uint8), "its channels may come first or last"),
        (clip(layout="THWC")[0].astype(np.int64), "its pixels are int64"),
    ],
)
def test_what_may_be_a_clip_stays_and_the_message_says_what_to_report(value, words):
    result, unread = {"rollout": value}, []
    replace_media(result, lambda found: pytest.fail("it is taken for a clip"), unread=lambda *told: unread.append(told))
    assert result["rollout"] is value
    ((key, reason),) = unread
    assert key == "rollout"
    assert words in reason
    assert "report tune_media.Video(frames" in reason


def large(changed: int | None = None) -> np.ndarray:
    """Return a clip of 9 MB, with one other byte."""
    frames = np.zeros((1, 50, 3, 200, 300), np.uint8)
    if changed is not None:
        frames.reshape(-1)[changed] = 7
    return frames


def registered(known, values):
    media = [read({"clip": value})[0].medium for value in values]
    return [(known.register(medium, "train", "clip", step=step), medium) for step, medium in enumerate(media)]


@pytest.mark.parametrize("is_encoded_before", [False, True])
def test_large_clips_with_one_other_byte_are_two_and_equal_ones_are_one(is_encoded_before):
    known = KnownMedia("trial")
    (first,) = registered(known, [large()])
    if is_encoded_before:  # and its pixels are gone
        first[1].content()
    found = [placed for placed, _ in registered(known, [large(20_000), large(), large(20_000), large(100)])]
    assert [placed.is_new for placed in found] == [True, False, False, True]
    assert found[0].path == found[2].path
    assert len({placed.path for placed in found}) == 3


@pytest.mark.parametrize("counters", [{}, {"env_runners": {}}])
def test_an_evaluation_is_repeated_if_its_pixels_are(counters):
    known = KnownMedia("trial")
    results = [{**counters, "evaluation": {"clip": value}} for value in (large(), large(20_000), large())]
    media = [read(result)[0].medium for result in results]
    found = [known.register(medium, "evaluation", "clip", step=step).is_new for step, medium in enumerate(media)]
    assert found == [True, True, False]
