import numpy as np
import pytest

from tune_media.recording.pictures import ALONE, BLOCK, WHOLE, Pictures


def frame(shade):
    return np.full((8, 8, 3), shade, np.uint8)


def pictures_of(steps, shades=None, how=WHOLE, view="", are_all=False):
    found = Pictures(how, are_all)
    for step in steps:
        found.add(step, {view: frame((shades or {}).get(step, step) % 256)})
    return found


def stored(pictures):
    return Pictures.unpacked(pictures.packed())


def test_a_frame_that_differs_anywhere_is_found_in_its_block():
    tape, steps = stored(pictures_of(range(100))), range(100)
    assert tape.difference(pictures_of(steps), steps) is None
    other = (BLOCK, f"from step {BLOCK} to step {2 * BLOCK - 1}")
    assert tape.difference(pictures_of(steps, {40: 1}), steps) == other
    assert tape.difference(pictures_of(range(99)), steps) == (96, "from step 96 to step 99")
    assert len(tape.blocks()[""]) == 4


def test_single_frames_are_compared_one_by_one_and_frames_between_them_do_not_count():
    tape = stored(pictures_of([7, 8, 30], how=ALONE))
    places = tape.places(every=1, length=40)
    assert places == {7, 8, 30}
    assert tape.difference(pictures_of(range(40), {9: 0, 29: 0}), places) is None
    assert tape.difference(pictures_of(range(40), {8: 0, 30: 0}), places) == (8, "at step 8")
    assert tape.difference(pictures_of(range(40), {8: 0, 30: 0}), {7, 30}) == (30, "at step 30")
    assert tape.difference(pictures_of([]), ()) is None


@pytest.mark.parametrize("stride", [1, 3])
def test_the_places_of_an_episode_that_was_rendered_as_a_whole_are_those_of_its_stride_and_the_last(stride):
    steps = sorted({*range(0, 101, stride), 100})
    assert stored(pictures_of(steps)).places(stride, 100) == set(steps)
    assert pictures_of(steps).places(stride, 100) == set(steps)


def test_the_views_of_an_episode_are_compared_if_all_its_frames_are_known():
    tape, places = stored(pictures_of(range(3), view="front", are_all=True)), range(3)
    shown = pictures_of(range(3), view="side")
    assert tape.difference(shown, places) == (0, "which has the views 'side' instead of 'front'")
    assert tape.difference(pictures_of([]), ()) is None
    part = stored(pictures_of(range(3), view="front"))
    assert part.difference(shown, places) == (0, "from step 0 to step 2 of view 'front'")


def test_what_is_no_picture_is_refused():
    with pytest.raises(ValueError):
        Pictures().add(0, {"": np.zeros(3)})
