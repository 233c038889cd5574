import io

from tune_media.encoding.memory_file import MemoryFile


def test_the_content_outlives_its_closing():
    file = MemoryFile()
    file.write(b"abc")
    file.close()
    assert file.getvalue() == b"abc"


def test_it_is_read_at_one_position_and_written_at_another():
    file = MemoryFile()
    file.write(b"0123456789")
    view = file.reopen("", 1, {})
    assert view.read(4) == b"0123"
    file.write(b"ab")
    assert (view.tell(), view.read(2)) == (4, b"45")
    assert (view.seek(-2, io.SEEK_END), view.read(9)) == (10, b"ab")
    assert (view.seek(-1, io.SEEK_CUR), view.read(1)) == (11, b"b")
    assert (view.seek(1), view.read(1)) == (1, b"1")


def test_opened_again_for_writing_it_is_itself():
    file = MemoryFile()
    assert file.reopen("", 2, {}) is file
