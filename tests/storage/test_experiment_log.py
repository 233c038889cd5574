"""The experiment's log: each line is there for good once it is appended, whoever else writes."""

import pyarrow.fs
import pytest

from tune_media.storage.experiment_log import FOLDER, ExperimentLog, read_log

LOCAL = pyarrow.fs.LocalFileSystem()


class ObjectStore(pyarrow.fs.SubTreeFileSystem):
    """A storage that takes whole files only."""

    def __init__(self, folder):
        super().__init__(str(folder), LOCAL)


@pytest.fixture(params=["local", "remote"])
def storage(request, tmp_path):
    """Return a filesystem and the experiment's folder on it."""
    (tmp_path / "sweep").mkdir()
    return (LOCAL, str(tmp_path / "sweep")) if request.param == "local" else (ObjectStore(tmp_path), "sweep")


def event(number, trial="t1", generation=1):
    return {"trial": trial, "event": "again", "id": f"{generation}.{number}", "at": [generation, number]}


def ids(found, trial="t1"):
    return [line["id"] for line in found.get(trial, [])]


def test_what_is_appended_is_read_in_the_order_of_its_stamps_whatever_the_parts(storage):
    first, second = ExperimentLog(*storage, "box-1"), ExperimentLog(*storage, "box-2")
    for number in range(1, 41):
        first.append([event(number), event(number, trial="t2")])
        second.append([event(number, generation=2)])
    wanted = [f"{generation}.{number}" for generation in (1, 2) for number in range(1, 41)]
    assert ids(read_log(*storage)) == wanted
    assert ids(read_log(*storage), "t2") == wanted[:40]
    parts = storage[0].get_file_info(pyarrow.fs.FileSelector(f"{storage[1]}/{FOLDER}"))
    assert len(parts) <= 2 * (15 + 3)


def test_a_log_that_is_done_is_read_only_by_those_who_ask_for_it_and_loses_nothing(storage):
    for generation in (1, 2):
        log = ExperimentLog(*storage, f"box-{generation}")
        log.append([event(1, generation=generation)])
        log.append([event(2, generation=generation)])
        log.finish()
    assert read_log(*storage) == {}
    assert ids(read_log(*storage, done=True)) == ["1.1", "1.2", "2.1", "2.2"]


def test_a_driver_that_ends_leaves_the_log_of_another_one_that_runs(storage):
    """Two drivers with one name: the lines of the one that goes on are still to be seen."""
    runs, ends = ExperimentLog(*storage, "box-1"), ExperimentLog(*storage, "box-2")
    runs.append([event(1)])
    ends.append([event(1, generation=2)])
    ends.finish()
    runs.append([event(2)])
    assert ids(read_log(*storage)) == ["1.1", "1.2"]
    runs.append([event(3)])
    runs.finish()
    assert ids(read_log(*storage, done=True)) == ["1.1", "1.2", "1.3", "2.1"]


def test_the_log_of_a_driver_that_was_idle_and_goes_on_is_whole(storage):
    idle = ExperimentLog(*storage, "box-1")
    idle.append([event(1)])
    ends = ExperimentLog(*storage, "box-2")
    ends.append([event(1, generation=2)])
    ends.finish()
    idle.append([event(2)])
    idle.finish()
    assert ids(read_log(*storage, done=True)) == ["1.1", "1.2", "2.1"]


BROKEN = [
    b'{"trial": "t1", "event"',
    b"[1]",
    b'{"trial": 3}',
    b"\xff",
    b'{"trial":"t1","event":"back"}',
    b'{"trial":"t1","event":"back","training_iteration":"3","at":[1,2]}',
    b'{"trial":"t1","event":"deleted","path":["x"],"at":[1,2]}',
    b'{"trial":"t1","event":"again","id":"x"}',
    b'{"trial":"t1","event":"suspect","ids":[{}],"at":[1,2]}',
    b'{"trial":"t1","event":{}}',
    b'{"trial":"t1","id":"x","at":[0,1]}',
]


def test_broken_lines_and_events_are_passed_over_and_counted_and_a_half_written_one_is_not(storage, caplog):
    log = ExperimentLog(*storage, "box-1")
    log.append([event(1)])
    filesystem, experiment = storage
    with filesystem.open_output_stream(f"{experiment}/{FOLDER}/box-0.jsonl") as stream:
        stream.write(b"\n".join([*BROKEN, b'{"trial":"t1","event":"again","id":"x","at":[0,1]}', b'{"tri']))
    assert ids(read_log(*storage)) == ["x", "1.1"]
    told = f"{len(BROKEN)} line(s) that are not a line of the log, the first is line 1"
    assert caplog.text.count(told) == 1
    assert "box-0.jsonl" in caplog.text
