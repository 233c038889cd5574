"""The index of a trial that runs, and the log that it is a view of."""

import json

import tune_media as tm
from tests.support.stores import StoredTrial, index_of
from tune_media.storage.index import Index
from tune_media.storage.index_lines import INDEX_PATH


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
