"""Event files: what is repeated is shown once by TensorBoard's reader, and nothing is lost."""

import fsspec
import pyarrow.fs
import pytest
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator

from tests.support.experiment import tensorboard_events
from tune_media.callbacks.tensorboard import event_file
from tune_media.callbacks.tensorboard.event_file import EventWriter, MediaFile
from tune_media.storage.location import TrialLocation


def steps(folder, tag="a"):
    return [event.step for event in EventAccumulator(str(folder)).Reload().Tensors(tag)]


def write(folder, *written):
    writer = EventWriter(str(folder))
    for step in written:
        writer.add_scalar("a", step, step)
        writer.add_scalar("b", step, step)
        writer.file_writer.flush()


def events(*at, tag="a", value=1.0):
    writer = EventWriter("nowhere")
    for step in at:
        writer.file_writer.wall_time = 1000.0 + step
        writer.add_scalar(tag, value, step)
    return writer.file_writer.take()


def media_file(folder, filesystem=None):
    return MediaFile(TrialLocation(filesystem or pyarrow.fs.LocalFileSystem(), str(folder), folder, "t1"))


@pytest.fixture
def remote(tmp_path):
    class Remote(fsspec.filesystem("file").__class__):
        protocol, cachable = "elsewhere", False

    return pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(Remote(auto_mkdir=True)))


def test_who_goes_back_leaves_no_doubled_curve_nor_takes_media_away(tmp_path):
    write(tmp_path, 1, 2, 3, 4, 2, 3)
    media = media_file(tmp_path)
    for row, step in enumerate((1, 2, 3, 4, 2, 3), 7):
        media.add(row, events(step, tag="clip") + events(step, tag="other"))
        media.write()
    write(tmp_path, 3, 4)  # another process
    assert steps(tmp_path) == steps(tmp_path, "b") == [1, 2, 3, 4]
    assert steps(tmp_path, "clip") == steps(tmp_path, "other") == [1, 2, 3]
    assert sorted(tmp_path.iterdir())[0].name == "events.out.tfevents.0000000000.0000000000000000007.0.tune_media"
    assert len(list(tmp_path.iterdir())) == 3


def test_a_full_disk_loses_only_what_memory_does_not_take_which_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(event_file, "_MOST_WAITING", 1000)
    monkeypatch.setattr(event_file, "append_whole", lambda path, content: (_ for _ in ()).throw(OSError("full")))
    writer = EventWriter(str(tmp_path))
    left_out = r"5\d\d\d bytes are left out of .*\(full\)"
    for step, text, says in ((1, "", "full"), (2, "x" * 5000, left_out), (3, "", "full")):
        writer.add_text("a", text, step)
        with pytest.raises(OSError, match=says):
            writer.file_writer.flush()
    monkeypatch.undo()
    writer.file_writer.flush()  # nothing was added
    writer.add_text("a", "", 4)
    writer.file_writer.flush()
    assert steps(tmp_path, "a/text_summary") == [1, 3, 4]


def test_checksums_are_computed_natively():
    from tensorboardX.crc32c import crc32c

    assert event_file.crc32c.__module__.split(".")[0] == "crc32c"
    assert event_file.crc32c(b"123456789") == crc32c(b"123456789") == 0xE3069283


def test_a_file_that_a_killed_process_has_begun_with_the_same_row_is_begun_anew(tmp_path):
    first = media_file(tmp_path)
    first.add(5, events(1))
    first.write()
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes()[:-3])
    again = media_file(tmp_path)
    again.add(5, events(1))
    again.write()
    again.add(6, events(2))
    again.write()
    assert list(tmp_path.iterdir()) == [path]
    assert steps(tmp_path) == [1, 2]


@pytest.mark.parametrize("place", ["here", "elsewhere"])
def test_what_a_kill_leaves_of_a_file_takes_nothing_away(tmp_path, remote, monkeypatch, place):
    filesystem = remote if place == "elsewhere" else None

    def killed(*_, **__):
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", killed)
        patch.setattr(event_file, "append_whole", killed)
        patch.setattr(fsspec.filesystem("file").__class__, "mv", killed)
        media = media_file(tmp_path, filesystem)
        media.add(5, events(1, value=1.0))
        with pytest.raises(RuntimeError, match="killed"):
            media.write()
    media = media_file(tmp_path, filesystem)
    for row, step, value in ((5, 1, 1.0), (6, 1, 2.0), (7, 2, 2.0)):  # it was started again from nothing
        media.add(row, events(step, value=value))
        media.write()
    shown = tensorboard_events(tmp_path).Scalars("a")
    assert [(event.step, event.value) for event in shown] == [(1, 2.0), (2, 2.0)]


def test_what_the_storage_does_not_take_is_written_later(tmp_path, monkeypatch):
    media = media_file(tmp_path / "trial")
    (tmp_path / "trial").write_text("in the way")
    for step in (1, 2):
        media.add(step, events(step))
        with pytest.raises(OSError, match="trial"):
            media.write()
    assert media.waiting > 0
    (tmp_path / "trial").unlink()
    media.write()
    assert (steps(tmp_path / "trial"), media.waiting) == ([1, 2], 0)
    assert [path.name.split(".")[5] for path in (tmp_path / "trial").iterdir()] == ["0"]


def test_on_other_storage_media_are_objects_that_are_replaced_while_they_are_small(tmp_path, remote):
    media, written = media_file(tmp_path, remote), 0
    for step in range(40):
        media.add(step, events(step, tag="a" * 5000))
        media.write()
        media.write()  # nothing new
        written += max(tmp_path.iterdir()).stat().st_size
    files = sorted(tmp_path.iterdir())
    total = sum(file.stat().st_size for file in files)
    assert 3 <= len(files) <= 5
    assert written < 10 * total
    assert steps(tmp_path, "a" * 5000) == list(range(40))
    for step, row in ((40, 40), (41, 41), (42, 41)):  # two media of a row, each of which fills an object
        media.add(row, events(step, tag="b" * 70_000))
        media.write()
    assert len(list(tmp_path.iterdir())) == len(files) + 2
    assert steps(tmp_path, "b" * 70_000) == [40, 41, 42]
    for file in files:  # each is whole
        assert list(EventFileLoader(str(file)).Load())
