import itertools

import pytest

from tune_media.storage.copy_pause import CopyPause

LINE = 450  # bytes


def copies(lines, seconds_between, media_bytes, *, is_local=False):
    """Return the time and the bytes of each copy of an index that grows by a line at a time."""
    now, made = [0.0], []
    pause = CopyPause(is_local=is_local, clock=lambda: now[0])
    for count in range(1, lines + 1):
        now[0] = count * seconds_between
        pause.add_recorded(media_bytes)
        if pause.is_over(count * LINE):
            pause.begin(count * LINE)
            made.append((now[0], count * LINE))
    return made


@pytest.mark.parametrize(
    ("lines", "seconds_between", "media_bytes", "is_local", "most"),
    [
        (3600, 10, 100_000, False, 0.06 * 3600 * 100_000),
        (2000, 0.01, 1000, False, 3 * 2000 * LINE),
        (2000, 10, 1000, False, 6 * 2000 * LINE),
        (2000, 0.01, 1000, True, 12 * 2000 * LINE),
    ],
)
def test_copies_of_a_long_index_cost_little_of_large_media_and_a_few_times_its_size_of_tiny_ones(
    lines, seconds_between, media_bytes, is_local, most
):
    made = copies(lines, seconds_between, media_bytes, is_local=is_local)
    assert sum(nbytes for _, nbytes in made) + lines * LINE <= most


def test_an_index_of_large_media_is_copied_every_few_seconds():
    times = [at for at, _ in copies(100, 1.0, 1_000_000)]
    assert max(after - before for before, after in itertools.pairwise(times)) <= 6


def test_no_copy_waits_longer_than_a_quarter_of_the_trials_age():
    now = [0.0]
    pause = CopyPause(is_local=False, clock=lambda: now[0])
    pause.begin(LINE)
    now[0] = 1000.0
    assert pause.is_over(LINE)
    pause.begin(LINE)
    now[0] = 1200.0
    assert not pause.is_over(LINE)
    now[0] = 1340.0
    assert pause.is_over(LINE)
