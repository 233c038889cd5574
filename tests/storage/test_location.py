import json

import pyarrow.fs
import pytest

from tune_media.storage.index_lines import INDEX_PATH
from tune_media.storage.location import LOCATION_FILE, TrialLocation, filesystem_of_trial, media_folder, path_of

LOCAL = pyarrow.fs.LocalFileSystem()


def test_the_drivers_folder_leads_to_the_media_of_the_same_trial_only(tmp_path):
    storage, driver = tmp_path / "storage", tmp_path / "driver" / "trial"
    storage.mkdir()
    TrialLocation(LOCAL, str(storage), driver, "t").write_pointer()
    assert media_folder(LOCAL, str(driver)) == (str(driver), "")  # any folder of this machine
    line = {"v": 4, "row": 1, "id": "a", "section": "train", "key": "k", "path": "media/x.mp4", "trial_id": "t"}
    (storage / INDEX_PATH).parent.mkdir(parents=True)
    (storage / INDEX_PATH).write_text(json.dumps(line) + "\n")
    assert media_folder(LOCAL, str(driver)) == (str(storage), "t")
    assert media_folder(LOCAL, str(storage)) == (str(storage), "")
    TrialLocation(LOCAL, str(storage), driver, "other").write_pointer()
    assert media_folder(LOCAL, str(driver)) == (str(driver), "")


def test_the_pointer_to_an_object_store_is_a_uri(tmp_path):
    s3 = pyarrow.fs.S3FileSystem(access_key="a", secret_key="b", region="r")  # asks no server
    location = TrialLocation(s3, "bucket/sweep/trial", tmp_path, "t")
    location.write_pointer()
    pointer = json.loads((tmp_path / LOCATION_FILE).read_text())
    assert pointer == {"media_of": "s3://bucket/sweep/trial", "trial_id": "t"}
    assert location.on_storage("media/x.mp4") == "bucket/sweep/trial/media/x.mp4"


def test_the_filesystem_of_a_bucket_is_made_once_until_the_settings_change(tmp_path, monkeypatch):
    (tmp_path / LOCATION_FILE).write_text('{"media_of": "s3://bucket/sweep/trial", "trial_id": "t"}')
    place, _ = media_folder(LOCAL, str(tmp_path))
    assert (place, path_of(place)) == ("s3://bucket/sweep/trial", "bucket/sweep/trial")
    monkeypatch.setattr("tune_media.storage.location.is_of_trial", lambda *_: True)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")  # nothing answers there, and nothing is asked
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    trial = frozenset({"t"})
    first = filesystem_of_trial(place, LOCAL, trial)
    assert first.type_name == "s3"
    assert filesystem_of_trial("s3://bucket/sweep/other", LOCAL, trial) is first
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:10")
    assert filesystem_of_trial(place, LOCAL, trial) is not first
    assert filesystem_of_trial(str(tmp_path), LOCAL, trial) is LOCAL


@pytest.mark.parametrize(
    "pointer", ["", "[]", "{", "null", '{"media_of": 3}', '{"media_of": "/no/such"}', '{"media_of": "hdfs://b/x"}']
)
def test_a_pointer_that_leads_nowhere_is_passed_over(tmp_path, pointer):
    (tmp_path / LOCATION_FILE).write_text(pointer)
    assert media_folder(LOCAL, str(tmp_path)) == (str(tmp_path), "")


def test_a_pointer_that_tune_copied_to_the_storage_leads_nowhere_else():
    store = pyarrow.fs._MockFileSystem()
    for folder in ("bucket/sweep/trial", "bucket/driver/trial"):
        store.create_dir(folder, recursive=True)
        with store.open_output_stream(f"{folder}/{LOCATION_FILE}") as stream:
            stream.write(b'{"media_of": "s3://bucket/sweep/trial", "trial_id": "t"}')
    assert media_folder(store, "bucket/sweep/trial") == ("bucket/sweep/trial", "")
    assert media_folder(store, "bucket/driver/trial") == ("s3://bucket/sweep/trial", "t")
