import copy
from dataclasses import replace

import numpy as np
import pytest

from tests.support.same_clips import are_same
from tune_media.encoding import encoder, held_frames
from tune_media.encoding.encoder import VideoEncoder
from tune_media.encoding.held_frames import HeldFrames

NOISE = np.random.default_rng(0)


def walk(count, height=64, width=96):
    """Return frames on which a bright square moves over a gradient."""
    frames = np.repeat(np.linspace(0, 200, width, dtype=np.uint8)[None, None, :, None], count, 0)
    frames = np.broadcast_to(frames, (count, height, width, 3)).copy()
    for step, frame in enumerate(frames):
        frame[4:12, step % 30 : step % 30 + 8] = (255, 40, step % 256)
    return list(frames)


def noise(count):
    return list(NOISE.integers(0, 256, (count, 64, 96, 3), dtype=np.uint8))


def clip_of(frames, holds, undrawn=None, notes=(), **options):
    clip = VideoEncoder(12, holds=holds, **options)
    for number, frame in enumerate(frames):
        clip.feed(frame, undrawn=None if undrawn is None else undrawn[number])
        for note in notes:
            clip.add_note(note)
    clip.end()
    return clip


SETS = {
    "plain": (walk(40), {}),
    "odd size": (walk(9, 33, 47), {}),
    "resized": (walk(9), {"height": 20}),
    "widened": (walk(9), {"width": 97, "height": 63}),
    "cut": (walk(9), {"max_frames": 4}),
    "one frame": (walk(1), {}),
    "keyframes": (walk(30), {"keyframes_every": 7, "crf": 30, "preset": "fast"}),
    "still": ([np.full((64, 96, 3), 9, np.uint8)] * 5, {}),
    "still picture": (walk(1) * 5, {}),
    "another size": ([*walk(3), *walk(4, 32, 48)], {}),
    "the size comes back": ([*walk(3), *walk(2, 16, 16), *walk(3)], {}),
    "grey": ([frame[:, :, 0] for frame in walk(9)], {}),
    "alpha": ([np.dstack([frame, frame[:, :, :1]]) for frame in walk(9)], {}),
    "upside down": ([frame[::-1] for frame in walk(9)], {}),
    "columns first": ([frame.transpose(1, 0, 2) for frame in walk(9, 96, 64)], {}),
    "planes": ([np.ascontiguousarray(frame.transpose(2, 0, 1)).transpose(1, 2, 0) for frame in walk(9)], {}),
    "two layouts": ([*walk(4), *[np.asfortranarray(frame) for frame in walk(8)[4:]]], {}),
    "noise": (noise(12), {}),
    "noise comes later": ([*walk(20), *noise(12)], {}),
}


@pytest.mark.parametrize("name", SETS)
def test_a_held_clip_is_encoded_from_the_frames_that_it_would_have_been_encoded_from_at_once(name, monkeypatch):
    made, picture_of = [], VideoEncoder._picture
    monkeypatch.setattr(
        VideoEncoder, "_picture", lambda self, rgb, pts: made.append((rgb.tobytes(), pts)) or picture_of(self, rgb, pts)
    )
    frames, options = SETS[name]
    seen = []
    for holds in (True, False):
        clip = clip_of(frames, holds, notes=("a note",), **options)
        seen.append((clip.frames, clip.still, replace(clip.finish(), data=b""), [*made]))
        made.clear()
    assert seen[0] == seen[1]


@pytest.mark.parametrize("size", [(64, 96), (210, 160)])
def test_a_held_clip_has_the_same_pictures(size):
    assert are_same(clip_of(walk(40, *size), True).finish(), clip_of(walk(40, *size), False).finish())
    assert not are_same(clip_of(walk(40, *size), True).finish(), clip_of(noise(40), False).finish())


def test_a_held_clip_knows_whether_it_is_a_still_before_anything_was_drawn():
    drawn, plain = walk(6), walk(1) * 6
    for undrawn, still in ((plain, "the same"), (walk(6), None)):
        held, at_once = (clip_of(drawn, holds, undrawn) for holds in (True, False))
        assert held.still == still
        assert are_same(held.finish(), at_once.finish())


def test_a_buffer_that_the_env_reuses_is_held_as_it_was():
    buffer = np.zeros((64, 96, 3), np.uint8)

    def render():
        for frame in walk(20):
            buffer[:] = frame
            yield buffer

    assert are_same(clip_of(render(), True).finish(), clip_of(walk(20), False).finish())


@pytest.mark.parametrize("frames", [walk(30), noise(6), SETS["columns first"][0]])
def test_frames_are_held_bit_by_bit_and_freed(frames):
    held = HeldFrames(frames[0], 10**9)
    for frame in frames:
        held.add(frame)
    assert held.nbytes > frames[0].nbytes
    assert all(np.array_equal(*pair) for pair in zip(held.drain(), frames, strict=True))
    assert (len(held), held.nbytes) == (0, 0)


def test_held_frames_take_what_they_say_and_little_once_the_clip_has_ended():
    clip = VideoEncoder(12, holds=True)
    for frame in walk(100, 200, 300):
        clip.feed(frame)
    running = clip.nbytes
    assert clip.end()
    assert running - clip.nbytes == 200 * 300 * 3  # the latest frame
    assert 100 * 41 < clip.nbytes < 100 * 200 * 300 * 3 / 50
    clip.finish()
    assert clip.nbytes == 0


def is_held_of(frames, **options):
    clip = VideoEncoder(12, holds=True, **options)
    for frame in frames:
        clip.feed(frame)
    return clip.end()


def test_frames_that_compress_badly_or_are_many_or_large_are_encoded_as_they_arrive(monkeypatch):
    assert is_held_of(walk(60))
    assert not is_held_of(noise(8))
    assert not is_held_of([*walk(2), *walk(2, 32, 48)])
    monkeypatch.setattr(held_frames, "MOST_PIXELS", 50 * 64 * 96)
    assert is_held_of(walk(50))
    assert not is_held_of(walk(51))
    monkeypatch.undo()
    monkeypatch.setattr(encoder, "_BYTES", 25_000 - 120 * 64 * 96)  # an encoder for this size takes 25 kB
    assert is_held_of(walk(2))
    assert not is_held_of(walk(200))


def test_frames_that_would_be_encoded_leanly_beside_others_are_not_once_they_are_held():
    frames = walk(60, 96, 96)
    held, lean, usual = (
        clip_of(frames, holds, is_lean=is_lean).finish()
        for holds, is_lean in ((True, True), (False, True), (False, False))
    )
    assert are_same(held, usual)
    assert len(held.data) < len(lean.data)


def test_a_held_clip_can_be_copied_and_cancelled():
    clip = clip_of(walk(9), True)
    copied = copy.deepcopy(clip)
    clip.cancel()
    with pytest.raises(RuntimeError, match="cancelled"):
        clip.finish()
    assert are_same(copied.finish(), clip_of(walk(9), False).finish())


def test_a_clip_that_has_ended_takes_no_more_frames():
    clip = clip_of(walk(9), True)
    with pytest.raises(RuntimeError, match="ended"):
        clip.feed(walk(1)[0])
