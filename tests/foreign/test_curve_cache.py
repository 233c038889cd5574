"""Large files of scalars are parsed once."""

import os

import numpy as np
import pytest
from torch.utils.tensorboard import SummaryWriter

from tests.support.foreign_run import curves_in
from tune_media.foreign import curve_cache, event_files


@pytest.fixture
def log(tmp_path, monkeypatch):
    """A folder with an event file that is worth keeping, and the list of files that were parsed."""
    monkeypatch.setattr(curve_cache, "_WORTH", 100)
    parsed = []
    read = event_files._read
    monkeypatch.setattr(event_files, "_read", lambda files, path: parsed.append(path) or read(files, path))
    folder = tmp_path / "logs"
    with SummaryWriter(str(folder)) as writer:
        for step in range(20):
            writer.add_scalar("a", step, step)
            writer.add_scalar("b/ü", np.nan, 2 * step)
    return folder, parsed


def values_in(folder):
    return {name: (curve.steps, curve.values, list(curve.times)) for name, curve in curves_in(folder).items()}


def test_a_file_is_parsed_again_only_if_its_size_or_time_changes(log, cache):
    folder, parsed = log
    first = values_in(folder)
    np.testing.assert_equal(values_in(folder), first)
    assert len(parsed) == 1
    (path,) = folder.glob("*")
    os.utime(path, (1, 1))
    np.testing.assert_equal(values_in(folder), first)
    assert len(parsed) == 2
    path.write_bytes(path.read_bytes()[:-30])
    assert len(values_in(folder)["b/ü"][0]) == 19
    assert len(parsed) == 3
    assert len(list(cache.iterdir())) == 1  # a file that grows has one place


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 half a file", b"\x93NUMPY"])
def test_a_damaged_file_of_the_cache_is_written_anew(log, cache, content):
    folder, parsed = log
    first = values_in(folder)
    (kept,) = cache.iterdir()
    kept.write_bytes(content)
    np.testing.assert_equal([values_in(folder), values_in(folder)], [first, first])
    assert len(parsed) == 2


def test_without_a_place_to_write_a_file_is_parsed_each_time(log, cache):
    folder, parsed = log
    cache.parent.parent.mkdir(exist_ok=True)
    cache.parent.write_text("a file in the place of the folder")
    assert values_in(folder).keys() == {"a", "b/ü"}
    assert values_in(folder).keys() == {"a", "b/ü"}
    assert len(parsed) == 2


def test_without_a_home_a_file_is_parsed_each_time(log, monkeypatch):
    """As in a container whose user is unknown."""
    folder, parsed = log
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)
    assert values_in(folder).keys() == values_in(folder).keys() == {"a", "b/ü"}
    assert len(parsed) == 2


def test_the_oldest_files_beyond_the_limit_are_deleted(log, cache, monkeypatch):
    folder, _ = log
    cache.mkdir(parents=True)
    for number in range(3):
        old = cache / f"{number}.npz"
        old.write_bytes(b"0" * 1000)
        os.utime(old, (number, number))
    monkeypatch.setattr(curve_cache, "_MOST_BYTES", 2000)
    values_in(folder)
    assert {path.name for path in cache.iterdir()} > {"1.npz", "2.npz"}
    assert not (cache / "0.npz").exists()


def test_small_files_are_not_kept(log, cache, monkeypatch):
    folder, _ = log
    monkeypatch.setattr(curve_cache, "_WORTH", 10**6)
    values_in(folder)
    assert not cache.exists()
