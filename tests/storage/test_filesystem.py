import resource
from pathlib import Path

import fsspec
import pyarrow.fs
import pytest

from tune_media.storage.filesystem import (
    append_whole,
    for_small_files,
    is_local,
    read_if_there,
    save_file,
    write_atomically,
    write_once,
)


def test_writing_leaves_no_half_files(tmp_path):
    filesystem, path = pyarrow.fs.LocalFileSystem(), str(tmp_path / "a" / "b.mp4")
    for content in (b"one", b"two"):
        write_atomically(filesystem, path, content)
    assert [file.name for file in (tmp_path / "a").iterdir()] == ["b.mp4"]
    assert (tmp_path / "a" / "b.mp4").read_bytes() == b"two"


def test_a_file_that_is_there_is_not_written_again_unless_its_size_differs(tmp_path):
    filesystem, file = pyarrow.fs.LocalFileSystem(), tmp_path / "a" / "b.mp4"
    write_once(filesystem, str(file), b"one")
    write_once(filesystem, str(file), b"two")
    assert file.read_bytes() == b"one"
    write_once(filesystem, str(file), b"whole")  # the file that is there is half of it
    assert file.read_bytes() == b"whole"


def test_a_saved_file_is_the_older_one_or_whole_and_a_link_stays_one(tmp_path):
    (tmp_path / "link.gif").symlink_to("there.gif")
    for content in (b"one", b"two"):
        assert save_file(tmp_path / "link.gif", content).read_bytes() == content
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))  # a disk that is full after 10 bytes
    try:
        with pytest.raises(OSError):
            save_file(tmp_path / "there.gif", b"x" * 100)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (tmp_path / "there.gif").read_bytes() == b"two" and (tmp_path / "link.gif").is_symlink()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["link.gif", "there.gif"]
    save_file(Path("/dev/null"), b"one")
    assert Path("/dev/null").is_char_device()


def test_nothing_is_left_of_a_file_that_cannot_be_renamed(tmp_path):
    (tmp_path / "b.mp4" / "inside").mkdir(parents=True)
    with pytest.raises(OSError):
        write_atomically(pyarrow.fs.LocalFileSystem(), str(tmp_path / "b.mp4"), b"one")
    assert [path.name for path in tmp_path.iterdir()] == ["b.mp4"]


def test_an_append_that_fails_half_way_leaves_the_file_as_it_was(tmp_path):
    file = tmp_path / "index.jsonl"
    append_whole(file, b"one\n")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))  # a disk that is full after 10 bytes
    try:
        with pytest.raises(OSError):
            append_whole(file, b"x" * 100)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert file.read_bytes() == b"one\n"


def test_no_file_and_a_folder_have_no_content(tmp_path):
    filesystem = pyarrow.fs.LocalFileSystem()
    assert read_if_there(filesystem, str(tmp_path / "none")) is None
    assert read_if_there(filesystem, str(tmp_path)) is None
    (tmp_path / "empty").touch()
    assert read_if_there(filesystem, str(tmp_path / "empty")) == b""


def test_a_filesystem_in_a_folder_of_this_machine_is_local(tmp_path):
    local = pyarrow.fs.LocalFileSystem()
    assert is_local(pyarrow.fs.SubTreeFileSystem(str(tmp_path), local))
    assert is_local(pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(fsspec.filesystem("file"))))
    assert not is_local(pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(fsspec.filesystem("memory"))))


@pytest.mark.skipif(int(pyarrow.__version__.split(".")[0]) < 20, reason="this pyarrow has no such options")
def test_an_s3_filesystem_is_made_once_that_sends_small_files_in_one_request():
    def s3():
        keys = {"access_key": "a", "secret_key": "b", "region": "us-east-1"}
        return pyarrow.fs.S3FileSystem(endpoint_override="127.0.0.1:1", **keys)

    made = for_small_files(s3())
    options = made.__reduce__()[1][0]
    assert (options["allow_delayed_open"], options["background_writes"]) == (True, False), "pyarrow has changed"
    assert {**options, "allow_delayed_open": False, "background_writes": True} == s3().__reduce__()[1][0]
    assert for_small_files(s3()) is made


def test_an_object_store_gets_objects_and_no_folders():
    class Bucket(fsspec.filesystem("memory").__class__):
        protocol, cachable, store, pseudo_dirs = "s3", False, {}, [""]

        def makedirs(self, path, exist_ok=False):
            raise AssertionError("six requests")

    bucket = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(Bucket()))
    write_atomically(bucket, "/a/b/clip.mp4", b"one")
    assert {path: bytes(file.getvalue()) for path, file in Bucket.store.items()} == {"/a/b/clip.mp4": b"one"}
