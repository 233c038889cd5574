import pytest

import tune_media as tm
from tune_media.storage.names import FILE_NAME, file_name, safe_id, safe_key


@pytest.mark.parametrize("key", ["a/../../etc/passwd", "..", "", "/", "x" * 500, "ключ/😀", "a\x00b\nc", "con:*?<>|"])
def test_keys_become_safe_path_parts(key):
    parts = safe_key(key).split("/")
    assert all(part and part not in (".", "..") and len(part) <= 60 and part.isascii() for part in parts)
    assert all(part.isprintable() and not set(part) & set('\\:*?"<>|') for part in parts)


def test_keys_that_differ_in_the_cut_part_have_folders_of_their_own():
    assert safe_key("x" * 500 + "a") != safe_key("x" * 500 + "b")
    deep = "/".join(["part"] * 1000)
    assert len(safe_key(deep)) <= 500
    assert safe_key(deep) != safe_key(deep + "/more")


def test_a_file_name_is_recognised_again():
    medium = tm.Artifact(b"x", name="run.tar.gz")
    name = file_name(1_234_567_890_123, medium)
    step, id, suffix = FILE_NAME.search(name).groups()
    assert (int(step), id, suffix) == (1_234_567_890_123, medium.id[:12], "gz")


def test_a_foreign_id_becomes_twelve_characters_that_depend_on_all_of_it():
    found = {safe_id(id) for id in ("../../etc/passwd", "../../etc/passwe", "", "A" * 32)}
    assert len(found) == 4
    assert all(len(id) == 12 and id.isalnum() for id in found)
