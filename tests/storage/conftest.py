"""Where the stores of these tests keep their files."""

import pyarrow.fs
import pytest

from tests.support.stores import LOCAL, record_results
from tune_media.storage.location import TrialLocation


@pytest.fixture
def place(tmp_path):
    """Return the location of a trial whose storage is a folder beside the driver's."""
    (tmp_path / "staging").mkdir()
    return TrialLocation(
        pyarrow.fs.LocalFileSystem(), str(tmp_path / "storage" / "trial"), tmp_path / "staging", "trial_1"
    )


@pytest.fixture
def trial(tmp_path, frames):
    """Record three results, each with a clip of an episode and the episode's data; return the trial's folder."""
    location = TrialLocation(LOCAL, str(tmp_path / "sweep/trial"), tmp_path / "driver/trial", "t1")
    record_results(location, frames)
    return tmp_path / "sweep" / "trial"
