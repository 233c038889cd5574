"""Where the media are, for readers of the driver's folder."""

import json

import pyarrow.fs
import pytest

from tune_media.storage.location import LOCATION_FILE, TrialLocation, media_folder

LOCAL = pyarrow.fs.LocalFileSystem()


def test_the_drivers_folder_leads_to_the_media(tmp_path):
    (tmp_path / "storage").mkdir()
    TrialLocation(LOCAL, str(tmp_path / "storage"), tmp_path / "driver" / "trial", "t").write_pointer()
    assert media_folder(LOCAL, str(tmp_path / "driver" / "trial")) == str(tmp_path / "storage")
    assert media_folder(LOCAL, str(tmp_path / "storage")) == str(tmp_path / "storage")


def test_the_pointer_to_an_object_store_is_a_uri(tmp_path):
    s3 = pyarrow.fs.S3FileSystem(access_key="a", secret_key="b", region="r")  # asks no server
    location = TrialLocation(s3, "bucket/sweep/trial", tmp_path, "t")
    location.write_pointer()
    assert json.loads((tmp_path / LOCATION_FILE).read_text()) == {"media_of": "s3://bucket/sweep/trial"}
    assert location.on_storage("media/x.mp4") == "bucket/sweep/trial/media/x.mp4"


@pytest.mark.parametrize(
    "pointer", ["", "[]", "{", "null", '{"media_of": 3}', '{"media_of": "/no/such"}', '{"media_of": "s3://b/x"}']
)
def test_a_pointer_that_leads_nowhere_is_passed_over(tmp_path, pointer):
    (tmp_path / LOCATION_FILE).write_text(pointer)
    assert media_folder(LOCAL, str(tmp_path)) == str(tmp_path)
