"""Event files: read by TensorBoard as one, copied to the storage once, and nothing while nothing is written."""

import json

import pyarrow.fs
import pytest
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator

from tune_media.callbacks.tensorboard import event_file
from tune_media.callbacks.tensorboard.event_file import EventFile, EventLostError, EventWriter, FileMark


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


def test_a_full_disk_loses_no_event(tmp_path, monkeypatch):
    file = EventFile(str(tmp_path))
    file.start_from(1)
    monkeypatch.setattr(event_file, "append_whole", lambda path, content: (_ for _ in ()).throw(OSError("full")))
    writer = EventWriter(str(tmp_path / "b"))
    writer.add_scalar("a", 1, 1)
    for one in (file, writer.file_writer):
        try:
            one.flush()
        except OSError:
            continue
        raise AssertionError
    monkeypatch.undo()
    writer.add_scalar("a", 2, 2)
    writer.file_writer.flush()
    assert scalars(tmp_path / "b") == [1, 2]


def test_an_event_larger_than_what_may_wait_is_written(tmp_path, monkeypatch):
    """An event above 64 MiB vanished, without a warning or a count."""
    monkeypatch.setattr(event_file, "_MAX_WAITING", 1000)
    writer = EventWriter(str(tmp_path))
    writer.add_text("a", "x" * 5000, 1)
    writer.add_scalar("b", 1, 2)
    writer.file_writer.flush()
    assert scalars(tmp_path, "a/text_summary") == [1]
    assert scalars(tmp_path, "b") == [2]


def test_an_event_that_neither_disk_nor_memory_takes_is_an_error_that_names_it(tmp_path, monkeypatch):
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


def write(file, steps):
    for step in steps:
        writer = EventWriter(file.get_logdir())
        writer.file_writer.wall_time = 1000.0 + step
        writer.add_scalar("a", step, step)
        file.add_again(writer.file_writer.take_waiting())
        file.flush()


@pytest.mark.parametrize("killed_at", range(0, 40, 7))
def test_a_file_that_is_reopened_at_a_mark_has_the_bytes_of_one_that_was_never_closed(tmp_path, killed_at, monkeypatch):
    monkeypatch.setattr(event_file, "_SEGMENT_BYTES", 500)
    once, first = EventFile(str(tmp_path / "once")), EventFile(str(tmp_path / "again"))
    here, storage = pyarrow.fs.LocalFileSystem(), tmp_path / "storage"
    write(once, range(40))
    mark = first.mark
    for step in range(min(40, killed_at + 12)):  # twelve more than were noted
        write(first, [step])
        first.copy_segment(here, str(storage))
        mark = first.mark if step < killed_at else mark
    (file,) = (tmp_path / "again").iterdir()
    with file.open("ab") as half:
        half.write(b"half a record")
    again = EventFile.reopen(str(tmp_path / "again"), FileMark(*json.loads(json.dumps(mark))))
    write(again, range(killed_at, 40))
    again.copy_segment(here, str(storage))
    assert file.read_bytes() == next((tmp_path / "once").iterdir()).read_bytes()
    assert scalars(storage) == scalars(tmp_path / "again") == list(range(40))


def test_a_mark_of_another_disk_is_an_error(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        EventFile.reopen(str(tmp_path), FileMark("events.out.tfevents.1.host", 100))
    (tmp_path / "events.out.tfevents.1.host.whole").write_bytes(b"short")
    with pytest.raises(OSError, match="has fewer than 100 bytes"):
        EventFile.reopen(str(tmp_path), FileMark("events.out.tfevents.1.host", 100))
