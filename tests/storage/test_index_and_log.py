"""The index of a trial that runs, and the log that it is a view of."""

import json

import tune_media as tm
from tests.support.stores import StoredTrial, index_of
from tune_media.storage.index import Index
from tune_media.storage.index_lines import INDEX_PATH
from tune_media.storage.trial_store import TrialStore


def test_a_medium_that_comes_again_after_it_was_lost_is_stored(tmp_path):
    """The log said that it is stored, the index that a killed driver had not made it: the index stayed as it was."""
    trial = StoredTrial.in_folder(tmp_path / "t1")
    trial.add(tm.Artifact(b"x", name="x.bin"))
    trial.finish()
    (line,) = index_of(tmp_path / "t1")
    (tmp_path / "t1" / INDEX_PATH).write_text(json.dumps({**line, "status": "failed"}) + "\n")
    index = Index(trial.location)
    index.load([{**line, "trial": "t1", "at": [2, 2]}])
    assert [line["status"] for line in index.lines()] == ["stored"]


def test_the_tables_of_a_report_that_a_killed_driver_had_not_finished_are_deleted(tmp_path):
    """No line of the index named them, and no report took their names."""
    trial = StoredTrial.in_folder(tmp_path / "t1")
    trial.add(tm.Artifact(b"x", name="x.bin"))
    trial.finish()
    (line,) = index_of(tmp_path / "t1")
    folder = tmp_path / "t1/episode_data"
    folder.mkdir()
    names = [f"{table}-0000000{step}.parquet" for table in ("data", "steps") for step in (3, 4, 5)]
    for name in [*names, "data-00000004.json"]:
        (folder / name).write_bytes(b"x")
    facts = {**line, "trial": "t1", "kind": "episodes", "key": "episodes/data"}
    events = [{**facts, "id": f"{step}" * 32, "path": f"episode_data/data-0000000{step}.json"} for step in (3, 4, 5)]
    events[2]["trial_id"] = "another"  # of a driver that lives, in the same folder
    TrialStore(trial.location).load(events, events)
    assert sorted(file.name for file in folder.glob("*.parquet")) == sorted(name for name in names if "3." not in name)
