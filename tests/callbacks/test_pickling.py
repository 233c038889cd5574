"""Messages as files."""

import numpy as np
import pytest

from tune_media.callbacks.pickling import pickled, unpickled


def test_large_arrays_are_written_without_a_copy():
    arrays = {"C": np.arange(10_000.0), "F": np.asfortranarray(np.ones((30, 40))), "none": np.zeros((0, 3))}
    pieces = pickled({**arrays, "every other": np.arange(10)[::2]})
    assert np.shares_memory(np.frombuffer(pieces[2], np.uint8), arrays["C"])
    assert len(pieces[1]) < 2000


def test_a_file_that_was_cut_off_is_no_message(tmp_path):
    file = tmp_path / "file"
    content = b"".join(pickled({"array": np.arange(100.0)}))
    file.write_bytes(content)
    assert np.array_equal(unpickled(file)["array"], np.arange(100.0))
    file.write_bytes(content[:-1])
    with pytest.raises(EOFError, match="the file is too short"):
        unpickled(file)
