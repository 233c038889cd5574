import types

import pytest

import tune_media as tm
from tune_media.viewing import places


@pytest.mark.parametrize("at", ["from_uri", "get_file_info"])  # S3 asks for a bucket's region before anything is read
def test_a_bucket_that_cannot_be_reached_is_named(at, monkeypatch):
    def fails(*_):
        raise OSError("When resolving region for bucket 'no-such': AWS Error NETWORK_CONNECTION")

    remote = types.SimpleNamespace(get_file_info=fails)
    known = types.SimpleNamespace(from_uri=fails if at == "from_uri" else lambda uri: (remote, "no-such"))
    monkeypatch.setattr(places.pyarrow.fs, "FileSystem", known)
    with pytest.raises(OSError, match=r"load\(\) cannot read 's3://no-such': is it spelled right.* AWS Error NETWORK"):
        tm.load("s3://no-such")
