import pytest

from tune_media.recording.render_clock import RenderClock


def test_the_time_between_ticks_is_sampling_time(now):
    clock = RenderClock()
    for now.seconds in (10, 11, 14):
        clock.tick()
    assert clock.sampling == 4.0


def test_a_pause_is_no_sampling_time(now):
    clock = RenderClock()
    for now.seconds in (0, 1):
        clock.tick()
    clock.pause()
    for now.seconds in (100, 102):
        clock.tick()
    assert clock.sampling == 3.0


def test_samples_of_one_step_are_sampling_time(now):
    clock = RenderClock()
    for start in (0, 100, 200):
        now.seconds = start
        clock.resume()
        now.seconds = start + 2
        clock.tick()
        now.seconds = start + 3
        clock.pause()
    assert clock.sampling == 9.0


def test_rendering_that_raises_has_taken_its_time(now):
    clock = RenderClock()
    with pytest.raises(OSError, match="gone"), clock.render():
        now.seconds = 2
        raise OSError("the camera is gone")
    with clock.render():
        now.seconds = 3
    assert clock.rendering == 3.0
