"""Event files: read by TensorBoard as one, copied to the storage once, and nothing while nothing is written."""

import pyarrow.fs
import pytest
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator

from tune_media.callbacks.tensorboard import event_file
from tune_media.callbacks.tensorboard.event_file import EventFile, EventLostError, EventWriter, Mark, last_mark


def scalars(folder, tag="a"):
    return [event.step for event in EventAccumulator(str(folder)).Reload().Tensors(tag)]


def test_what_is_written_in_parts_is_read_as_one(tmp_path, monkeypatch):
    monkeypatch.setattr(event_file, "_SEGMENT_BYTES", 500)
    storage = tmp_path / "storage"
    writer = EventWriter(str(tmp_path / "local"))
    written = 0
    for step in range(40):
        writer.add_scalar("a", step, step)
        writer.file_writer.flush()
        writer.file_writer.copy_segment(pyarrow.fs.LocalFileSystem(), str(storage))
    files = sorted(storage.iterdir())
    written = sum(file.stat().st_size for file in files)
    (local,) = (tmp_path / "local").iterdir()
    assert 3 < len(files) < 10
    assert local.stat().st_size < written < 1.5 * local.stat().st_size  # each segment says what version it is
    assert scalars(storage) == scalars(tmp_path / "local") == list(range(40))
    for file in files:  # each is whole
        assert list(EventFileLoader(str(file)).Load())


def test_a_segment_is_written_again_while_it_is_small(tmp_path):
    writer, storage = EventWriter(str(tmp_path / "local")), tmp_path / "storage"
    for step in range(3):
        writer.add_scalar("a", step, step)
        writer.file_writer.flush()
        writer.file_writer.copy_segment(pyarrow.fs.LocalFileSystem(), str(storage))
    (file,) = storage.iterdir()
    assert scalars(storage) == [0, 1, 2]
    before = file.stat().st_mtime_ns
    writer.file_writer.copy_segment(pyarrow.fs.LocalFileSystem(), str(storage))  # nothing new
    assert file.stat().st_mtime_ns == before


def test_who_goes_back_leaves_no_doubled_curve(tmp_path):
    writer = EventWriter(str(tmp_path))
    writer.file_writer.start_from(1)  # the first of all restarts is none
    for step in (1, 2, 3):
        writer.add_scalar("a", step, step)
    writer.file_writer.start_from(2)
    for step in (2, 3, 4):
        writer.add_scalar("a", -step, step)
    writer.file_writer.flush()
    assert scalars(tmp_path) == [1, 2, 3, 4]


def test_an_event_larger_than_what_may_wait_is_written(tmp_path, monkeypatch):
    """An event above 64 MiB vanished, without a warning or a count."""
    monkeypatch.setattr(event_file, "_MAX_WAITING", 1000)
    writer = EventWriter(str(tmp_path))
    writer.add_text("a", "x" * 5000, 1)
    writer.add_scalar("b", 1, 2)
    writer.file_writer.flush()
    assert scalars(tmp_path, "a/text_summary") == [1]
    assert scalars(tmp_path, "b") == [2]


def test_a_full_disk_loses_no_event_but_one_that_memory_does_not_take_which_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(event_file, "_MAX_WAITING", 1000)
    monkeypatch.setattr(event_file, "append_whole", lambda path, content: (_ for _ in ()).throw(OSError("full")))
    writer = EventWriter(str(tmp_path))
    writer.add_scalar("b", 0, 1)
    with pytest.raises(OSError, match="full"):
        writer.file_writer.flush()
    with pytest.raises(EventLostError, match=r"an event of 50\d\d bytes is left out of .*\(full\).*make room there"):
        writer.add_text("a", "x" * 5000, 1)
    writer.add_scalar("b", 1, 2)  # small ones still fit
    monkeypatch.undo()
    writer.file_writer.flush()
    assert scalars(tmp_path, "b") == [1, 2]


def test_checksums_are_computed_natively():
    """The pure-Python CRC of tensorboardX held the GIL for 3 s on a GIF of 9 MB."""
    from tensorboardX.crc32c import crc32c

    assert event_file.crc32c.__module__.split(".")[0] == "crc32c"
    assert event_file.crc32c(b"123456789") == crc32c(b"123456789") == 0xE3069283


@pytest.mark.parametrize("cut", [0, 1, 30, 70, 200, 1000])
def test_the_last_whole_mark_says_how_far_a_file_goes_wherever_it_is_cut(tmp_path, cut):
    file = EventFile(str(tmp_path))
    sizes = {}
    for step in range(1, 30):
        writer = EventWriter(str(tmp_path))
        writer.add_scalar("a", step, step)
        file.add_again(writer.file_writer.take_waiting(), Mark(step, 1000.0 + step, 10 * step, step % 3))
        file.flush()
        (path,) = tmp_path.iterdir()
        sizes[step] = path.stat().st_size
    with path.open("ab") as half:
        half.write(b"half a picture" * 20_000)
    size = sizes[29] - cut if cut else path.stat().st_size
    path.write_bytes(path.read_bytes()[:size])
    found = last_mark(pyarrow.fs.LocalFileSystem(), str(path))
    reached = max(step for step in sizes if sizes[step] - 4 <= size)  # but for the checksum of the mark
    assert found == Mark(reached, 1000.0 + reached, 10 * reached, reached % 3)
    assert scalars(tmp_path)[:reached] == list(range(1, reached + 1))


def test_a_file_of_another_writer_has_no_mark_and_ours_is_read_after_it(tmp_path):
    writer = EventWriter(str(tmp_path))
    writer.add_text("a", "tune_media mark {", 1)
    writer.file_writer.flush()
    (path,) = tmp_path.iterdir()
    assert last_mark(pyarrow.fs.LocalFileSystem(), str(path)) is None
    later = path.rename(path.with_name("events.out.tfevents.9000000000.host"))
    file = EventFile(str(tmp_path))
    file.comes_after([later.name, "events.out.tfevents.odd"])
    file.start_from(1)
    file.flush()
    assert sorted(tmp_path.iterdir())[0] == later
