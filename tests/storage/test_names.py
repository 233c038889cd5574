import tune_media as tm
from tune_media.storage.names import FILE_NAME, file_name


def test_a_file_name_is_recognised_again():
    medium = tm.Artifact(b"x", name="run.tar.gz")
    name = file_name(1_234_567_890_123, medium)
    step, id, suffix = FILE_NAME.search(name).groups()
    assert (int(step), id, suffix) == (1_234_567_890_123, medium.id[:12], "gz")
