"""Where the stores of these tests keep their files."""

import pyarrow.fs
import pytest

from tune_media.storage.location import TrialLocation


@pytest.fixture
def place(tmp_path):
    """Return the location of a trial whose storage is a folder beside the driver's."""
    (tmp_path / "staging").mkdir()
    return TrialLocation(
        pyarrow.fs.LocalFileSystem(), str(tmp_path / "storage" / "trial"), tmp_path / "staging", "trial_1"
    )
