import functools
import io

import numpy as np
import PIL.Image
import pytest

import tune_media as tm
from tests.support.commands import command
from tests.support.recorded import make_trial


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep") / "exp"
    make_trial(folder / "a", {"lr": 1}, {1: 2.0}, frames=40)
    make_trial(folder / "b", {"lr": 2}, {1: 1.0, 2: 3.0}, frames=3)
    return folder


def pixels(content):
    return np.asarray(PIL.Image.open(io.BytesIO(content)).convert("RGB"))


def test_a_clip_is_a_row_of_frames_from_its_first_to_its_last(experiment):
    clip = next(row for row in tm.load(experiment) if row["trial"] == "a")
    picture = clip.filmstrip(frames=4, width=420)
    found = pixels(picture.data)
    frames = list(clip.frames())
    assert found.shape[1] == picture.width == 420
    shown = [int(found[40, 4 + place * 104 + 50].mean()) for place in range(4)]
    assert shown == pytest.approx([int(frames[number].mean()) for number in (0, 13, 26, 39)], abs=2)
    many = clip.filmstrip(frames=30, width=400)
    assert pixels(many.data).shape[1] == 400  # frames that would be too narrow are left out


def test_a_picture_that_would_be_too_large_is_refused_with_its_size(experiment, tmp_path, monkeypatch):
    monkeypatch.setattr("tune_media.viewing.filmstrip._MOST_PIXELS", 2_500_000)
    given = ["filmstrip", experiment, "-o", tmp_path / "x.png", "--frames", 1, "--width", 1800]
    output = command(*given, code=2)
    assert "would have 1800 x 2" in output
    assert "at most 2,500,000: choose a smaller --width, more --frames, or fewer clips." in output


def test_the_command_takes_an_experiment_or_a_clip(experiment, tmp_path):
    run = functools.partial(command, "filmstrip")
    assert "2 clips in" in run(experiment, "-o", tmp_path / "all.png")
    assert "2 clips in" in run(experiment, "--over-training", "b", "-o", tmp_path / "one.png", "--width", 300)
    assert pixels((tmp_path / "one.png").read_bytes()).shape[1] == 300
    file = tm.load(experiment)[0]["file"]
    assert "1 clip in" in run(file, "-o", tmp_path / "clip.png")
    run(file, "-o", tmp_path / "x.png", "--trials", "a", code=2)
    assert "a .png file" in run(experiment, "-o", tmp_path / "x.jpg", code=2)
    run(tmp_path / "none", "-o", tmp_path / "x.png", code=2)
