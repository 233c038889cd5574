import itertools

from tune_media.storage.copy_pause import CopyPause

LINE = 450  # bytes


def copied(*, lines, seconds_between, media_bytes, is_local=False):
    """Return the bytes of all copies of an index that grows by a line at a time, and of the last one."""
    now, total = [0.0], 0
    pause = CopyPause(is_local=is_local, clock=lambda: now[0])
    for count in range(1, lines + 1):
        now[0] = count * seconds_between
        pause.add_recorded(media_bytes)
        if pause.is_over(count * LINE):
            pause.begin(count * LINE)
            total += count * LINE
    return total + lines * LINE, lines * LINE


def test_copies_of_a_long_index_cost_little_of_large_media():
    total, _ = copied(lines=3600, seconds_between=10, media_bytes=100_000)
    assert total <= 0.06 * 3600 * 100_000


def test_copies_of_a_long_index_of_tiny_media_cost_a_few_times_its_size():
    total, final = copied(lines=2000, seconds_between=0.01, media_bytes=1000)
    assert total <= 3 * final
    total, final = copied(lines=2000, seconds_between=10, media_bytes=1000)
    assert total <= 6 * final
    total, final = copied(lines=2000, seconds_between=0.01, media_bytes=1000, is_local=True)
    assert total <= 12 * final


def test_an_index_of_large_media_is_copied_every_few_seconds():
    now = [0.0]
    pause = CopyPause(is_local=False, clock=lambda: now[0])
    times = []
    for now[0] in map(float, range(1, 101)):
        pause.add_recorded(1_000_000)
        if pause.is_over(int(now[0]) * LINE):
            pause.begin(int(now[0]) * LINE)
            times.append(now[0])
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
