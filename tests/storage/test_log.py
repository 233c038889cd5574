import pyarrow.fs
import pytest

from tests.support.index_lines import typed
from tune_media.storage import log as log_module
from tune_media.storage.index_lines import as_json
from tune_media.storage.log import FOLDER, PartWriter, list_parts, read_log

LOCAL = pyarrow.fs.LocalFileSystem()


class ObjectStore(pyarrow.fs.SubTreeFileSystem):
    def __init__(self, folder):
        super().__init__(str(folder), LOCAL)


@pytest.fixture(params=["local", "remote"])
def storage(request, tmp_path):
    (tmp_path / "sweep").mkdir()
    return (LOCAL, str(tmp_path / "sweep")) if request.param == "local" else (ObjectStore(tmp_path), "sweep")


def event(number, trial="t1"):
    return typed({"v": 4, "trial": trial, "event": "again", "id": str(number), "row": number})


def ids(log, trial="t1"):
    return sorted(int(line.id) for line in log.lines.get(trial, []))


@pytest.mark.parametrize("merged_seconds", [-1.0, 60.0])
def test_what_is_appended_is_read_once_whatever_the_parts(storage, monkeypatch, merged_seconds):
    monkeypatch.setattr(log_module, "_MERGED_SECONDS", merged_seconds)
    first, second = PartWriter(*storage, "box1"), PartWriter(*storage, "box2")
    for number in range(1, 301):
        first.append(number, number, [event(number), event(number, trial="t2")])
        second.append(number, number, [event(1000 + number)])
        if number % 50 == 0:
            assert ids(read_log(*storage), "t2") == list(range(1, number + 1))
    log = read_log(*storage)
    assert ids(log) == [*range(1, 301), *range(1001, 1301)]
    assert log.last_row == 300
    assert sorted(line.row for line in log.newest["t1"]) == [300, 1300]
    if merged_seconds < 0:
        assert len(log.parts) <= 2 * 3 * 17


def test_a_log_that_is_done_is_read_only_by_those_who_ask_for_it_and_loses_nothing(storage):
    for number in (1, 3):
        log = PartWriter(*storage, "box")
        log.append(number, number, [event(number)])
        log.append(number + 1, number + 1, [event(number + 1)])
        log.finish()
    assert read_log(*storage).lines == {}
    assert ids(read_log(*storage, done=True)) == [1, 2, 3, 4]


def test_a_writer_that_ends_leaves_the_log_of_another_one_that_runs(storage):
    runs, ends = PartWriter(*storage, "box"), PartWriter(*storage, "box")
    runs.append(1, 1, [event(1)])
    ends.append(2, 2, [event(2)])
    ends.finish()
    assert ids(read_log(*storage)) == [1]
    runs.append(3, 3, [event(3)])
    runs.finish(list_parts(storage[0], f"{storage[1]}/{FOLDER}"))
    assert ids(read_log(*storage)) == []
    assert ids(read_log(*storage, done=True)) == [1, 2, 3]


BROKEN = [
    b'{"trial": "t1", "event"',
    b"[1]",
    b'{"v":4,"row":2,"trial": 3}',
    b"\xff",
    b'{"v":4,"row":2,"trial":"t1","event":"back"}',
    b'{"v":4,"row":2,"trial":"t1","event":"back","training_iteration":"3"}',
    b'{"v":4,"trial":"t1","event":"again","id":"x"}',
    b'{"v":3,"row":2,"trial":"t1","event":"again","id":"x"}',
    b'{"row":2,"trial":"t1","event":"again","id":"x"}',
    b'{"v":4,"row":2,"trial":"t1","event":{}}',
    b'{"v":4,"row":1,"trial":"t1","id":"x"}',
]


def test_broken_lines_and_events_are_passed_over_and_counted_and_files_with_other_names_are_not(storage, caplog):
    PartWriter(*storage, "box").append(5, 5, [event(5)])
    filesystem, experiment = storage
    for name in ("1-9-other-00000000-1-0.jsonl", "20260101-000000-00000000-1.jsonl"):
        with filesystem.open_output_stream(f"{experiment}/{FOLDER}/{name}") as stream:
            stream.write(b"\n".join([*BROKEN, as_json(event(4))]))
    assert ids(read_log(*storage)) == [4, 5]
    assert caplog.text.count(f"{len(BROKEN)} line(s) that are not a line of the log, the first is line 1") == 1


def test_a_note_of_what_is_done_that_is_broken_costs_nothing(storage, caplog):
    log = PartWriter(*storage, "box")
    log.append(1, 1, [event(1)])
    for number, content in enumerate([b"{", b"[" * 100_000, b"3", b'[3, {"a": 1}]']):
        with storage[0].open_output_stream(f"{storage[1]}/{FOLDER}/{number}.done.json") as stream:
            stream.write(content)
    assert ids(read_log(*storage)) == [1]
