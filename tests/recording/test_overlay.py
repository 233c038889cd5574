import numpy as np
import pytest

from tune_media.recording.overlay import Overlay
from tune_media.steps import StepFacts


def facts(step=3, reward=0.5, total=1.5, action=1):
    return StepFacts(step, reward, total, action, None)


def drawn(parts, height=64, width=96, steps=1):
    overlay = Overlay(parts)
    frame = np.full((height, width, 3), 200, np.uint8)
    for step in range(steps):
        overlay.follow(facts(step, total=float(step)))
        texts = ["any text"] * sum(map(callable, parts))
        picture = overlay.draw(frame, facts(step, total=float(step)), texts)
    assert np.array_equal(frame, np.full_like(frame, 200))  # the env's own buffer is left alone
    return picture


@pytest.mark.parametrize(("height", "width"), [(64, 96), (426, 640), (210, 160), (8, 8)])
@pytest.mark.parametrize("parts", [("step",), ("step", "reward", "return", "action", "curve"), (lambda f: "any text",)])
def test_something_is_drawn_and_the_shape_stays(parts, height, width):
    picture = drawn(parts, height, width, steps=4)
    assert picture.shape == (height, width, 3)
    assert picture.dtype == np.uint8
    assert (picture != 200).any()


def test_text_is_bright_on_dark_at_the_size_of_a_thumbnail():
    top = drawn(("step", "return"))[:14]
    assert top.min() < 80
    assert top.max() > 230


def test_what_does_not_fit_goes_into_another_line():
    narrow, wide = (
        drawn(("step", "reward", "return", "action"), width=40),
        drawn(("step", "reward", "return", "action")),
    )
    dark_rows = [int((picture != 200).any(axis=(1, 2)).sum()) for picture in (narrow, wide)]
    assert dark_rows[0] > dark_rows[1]


def test_the_curve_follows_the_return():
    rising = drawn(("curve",), steps=20)
    rows = [np.flatnonzero(rising[:, column, 2] < 100) for column in (4, 90)]
    bright = [np.flatnonzero(rising[:, column, 0] > 200)[-1] for column in (4, 90)]
    assert bright[0] > bright[1], rows  # it ends higher up than it begins


def test_texts_are_drawn_in_the_order_of_the_parts():
    frame, texts = np.full((64, 200, 3), 200, np.uint8), ["first", "second"]
    shown = Overlay((lambda step: "", "step", lambda step: "")).draw(frame, facts(), texts)
    named = [Overlay((lambda step: "",)).draw(frame, facts(), [text]) for text in ("first  t 3  second", "first")]
    assert np.array_equal(shown, named[0]) and not np.array_equal(shown, named[1])


@pytest.mark.parametrize(
    "action", [1, np.int64(2), 0.25, np.zeros(3), np.zeros(20), {"left": 1, "right": np.zeros(2)}, None]
)
def test_any_action_can_be_drawn(action):
    overlay = Overlay(("action",))
    overlay.draw(np.zeros((64, 96, 3), np.uint8), facts(action=action))
