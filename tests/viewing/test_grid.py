import re

import numpy as np
import pytest

import tune_media as tm
from tests.support.commands import command
from tests.support.recorded import make_trial
from tune_media.encoding.decode import decode_video, probe_video
from tune_media.viewing.grid import write_grid
from tune_media.viewing.grid_choice import choose_tiles


@pytest.fixture(scope="module")
def two_lengths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep") / "exp"
    make_trial(folder / "short", {"lr": 1}, {1: 2.0}, frames=4, fps=10)
    make_trial(folder / "long", {"lr": 2}, {1: 1.0}, frames=40, fps=20)
    return folder


def test_clips_play_side_by_side_and_the_shorter_one_holds_its_last_frame(two_lengths, tmp_path):
    path = write_grid(choose_tiles(tm.load(two_lengths)), tmp_path / "grid.mp4", width=400).path
    frames = list(decode_video(path.read_bytes()))
    assert len(frames) == 40
    assert probe_video(path.read_bytes()).fps == 20
    height, width = frames[0].shape[:2]
    left, right = (slice(width // 4 - 20, width // 4 + 20), slice(3 * width // 4 - 20, 3 * width // 4 + 20))
    middle = slice(height // 2, height // 2 + 20)
    shown = [[float(np.mean(frame[middle, side])) for side in (left, right)] for frame in frames]
    assert shown[-1][0] == pytest.approx(13, abs=2)  # the fourth frame of the short clip: 10 + 3
    assert shown[10][0] == pytest.approx(shown[-1][0], abs=1)
    assert shown[-1][1] == pytest.approx(49, abs=2)  # the last frame of the long clip: 10 + 39
    assert shown[20][1] == pytest.approx(30, abs=2)


def test_the_winner_is_marked_in_green(two_lengths, tmp_path):
    path = write_grid(choose_tiles(tm.load(two_lengths)), tmp_path / "g.mp4").path
    frame = next(decode_video(path.read_bytes()))
    label = frame[:50].astype(int)
    green = (label[..., 1] - label[..., 0] > 50) & (label[..., 1] - label[..., 2] > 10)
    half = frame.shape[1] // 2
    assert green[:, :half].sum() > 20
    assert green[:, half:].sum() == 0


def test_a_grid_that_is_too_large_is_not_written(two_lengths, tmp_path):
    with pytest.raises(ValueError, match=r"The grid would have 16000 x 21[0-9]+ pixels; .* at most 16384"):
        write_grid(choose_tiles(tm.load(two_lengths)), tmp_path / "grid.mp4", width=16_000, columns=1)
    assert not (tmp_path / "grid.mp4").exists()


def test_a_clip_that_cannot_be_read_is_left_out_and_one_that_breaks_off_stops_there(tmp_path):
    clips = {}
    for number, name in enumerate(("whole", "broken", "half", "deleted")):
        make_trial(tmp_path / "exp" / name, {"lr": number}, {1: 1.0}, frames=40, fps=20)
        (clips[name],) = (tmp_path / "exp" / name).rglob("*.mp4")
    content = clips["half"].read_bytes()
    clips["broken"].write_bytes(content[:300])
    clips["half"].write_bytes(content[:-150])
    clips["deleted"].unlink()
    grid = ("grid", tmp_path / "exp", "-o", tmp_path / "g.mp4")
    output = command(*grid, "--width", 400)
    assert "2 clips in" in output
    assert f"A clip is left out: {str(clips['broken'])!r} is no video that FFmpeg can read" in output
    assert re.search(rf"A clip stops at frame [0-9]+: {re.escape(repr(str(clips['half'])))} is no video", output)
    assert f"{clips['deleted']}" in output
    assert probe_video((tmp_path / "g.mp4").read_bytes()).frames == 40
    clips["whole"].write_bytes(b"")
    none = command(*grid, "--trials", "whole", code=2)
    assert f"No clip of the grid can be read: {str(clips['whole'])!r}" in none
    assert "20000 is not in the range 64<=x<=16384" in command(*grid, "--width", 20000, code=2)
