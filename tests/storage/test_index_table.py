"""The valid lines in memory: their size, their order, and the keys of a file that moves."""

import json

from tune_media.storage.index_table import IndexTable


def raw(id, path="media/x.mp4", **more):
    return json.dumps({"id": id, "section": "train", "key": "clip", "path": path, **more}).encode()


def table_of(*lines):
    table = IndexTable()
    table.add_all(b"\n".join(lines))
    return table


def test_a_later_line_of_a_key_takes_the_place_of_the_first():
    table = table_of(raw("a", status="stored"), raw("b"), raw("a", status="deleted"))
    assert [line["id"] for line in table.lines()] == ["a", "b"]
    assert table["a", "train", "clip"]["status"] == "deleted"
    assert len(table.content().splitlines()) == 2


def test_the_size_is_that_of_the_content_after_any_change():
    table = table_of(raw("a"), raw("b"))
    assert table.nbytes == len(table.content())
    table.add_all(raw("a", note="a longer line than the first one"))
    assert table.nbytes == len(table.content())


def test_a_file_that_moves_is_found_by_its_new_path_only():
    table = table_of(raw("a", "media/old.mp4"), raw("b", "media/old.mp4"), raw("a", "media/new.mp4"))
    assert table.keys_of("media/old.mp4") == [("b", "train", "clip")]
    assert table.keys_of("media/new.mp4") == [("a", "train", "clip")]
    assert table.keys_of("media/none.mp4") == []


def test_foreign_lines_stay():
    table = table_of(b"[1]", raw("a"), b'{"half')
    assert table.content() == b"\n".join([b"[1]", b'{"half', raw("a")]) + b"\n"
