import pytest

import tune_media as tm


def test_an_artifact_keeps_its_file_as_it_is(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    artifact = tm.Artifact(tmp_path / "notes.txt")
    assert (artifact.content(), artifact.suffix, artifact.name) == (b"hello", ".txt", "notes.txt")
    with pytest.raises(ValueError, match="needs a name"):
        tm.Artifact(b"bytes")
