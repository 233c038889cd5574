import numpy as np
import pytest

import tune_media as tm
from tune_media.storage.file_names import ID_DIGITS
from tune_media.storage.index_lines import MediumLine
from tune_media.storage.known_media import KnownMedia


def known_of(*lines):
    known = KnownMedia("t1")
    known.load(lines)
    known.complete()
    return known


def line_of(medium, path, key="k", **more):
    fields = {"section": "train", "key": key, "path": path, "row": 1, "status": "stored", "trial_id": "t1", **more}
    return MediumLine(id=medium.id, **fields)


def blob(number):
    return tm.Artifact(bytes([number]), name="x.bin")


@pytest.mark.parametrize("status", ["stored", "waiting"])
def test_what_an_earlier_process_recorded_is_not_recorded_again(status):
    medium = blob(1)
    known = known_of(line_of(medium, "media/train/k/step_000000001-x.bin", status=status))
    placed = known.register(medium, "train", "k", step=9)
    assert (placed.is_new, placed.path) == (False, "media/train/k/step_000000001-x.bin")
    assert known.knows(medium)


def test_what_could_not_be_stored_is_tried_again():
    medium = blob(1)
    known = known_of(line_of(medium, "media/train/k/step_000000001-x.bin", status="failed"))
    assert known.register(medium, "train", "k", step=9).is_new
    known.forget(medium.id, "train", "k")
    assert known.register(medium, "train", "k", step=9).is_new


def test_two_media_whose_ids_begin_alike_have_two_files():
    one, other = blob(1), blob(2)
    object.__setattr__(other, "id", one.id[:ID_DIGITS] + "0" * (32 - ID_DIGITS))
    known = known_of()
    paths = {known.register(medium, "train", "k", step=1).path for medium in (one, other)}
    assert len(paths) == 2


def test_a_medium_comes_again_once_the_trial_has_gone_back():
    known, medium = known_of(), blob(1)
    assert known.note_iteration_went_back(1)
    assert not known.register(medium, "train", "k", step=1).comes_again
    assert not known.note_iteration_went_back(2)
    assert not known.register(medium, "train", "k", step=2).comes_again
    assert known.note_iteration_went_back(2)
    assert known.register(medium, "train", "k", step=2).comes_again
    assert not known.register(medium, "train", "k", step=2).comes_again


def test_a_medium_of_an_earlier_process_comes_again():
    medium = blob(1)
    known = known_of(line_of(medium, "media/train/k/step_000000001-x.bin"))
    assert known.note_iteration_went_back(1)
    assert known.register(medium, "train", "k", step=1).comes_again


def test_a_report_has_a_name_of_its_own_whatever_is_known():
    known = known_of(line_of(blob(1), "episode_data/data-00000005.json"))
    assert known.report_path(4) == "episode_data/data-00000004.json"
    assert known.report_path(5) != "episode_data/data-00000005.json"
    assert len({known.report_path(6) for _ in range(3)}) == 3
    unread = KnownMedia("t1")
    assert unread.report_path(4) != "episode_data/data-00000004.json"  # an earlier process may have it


def test_lines_of_another_trial_reserve_their_files_only():
    medium = blob(1)
    placed = KnownMedia("t1").register(medium, "train", "k", step=1)
    known = known_of(line_of(medium, placed.path, trial_id="t0"))
    mine = known.register(medium, "train", "k", step=1)
    assert mine.is_new
    assert mine.path != placed.path


def test_the_lineage_is_that_of_the_last_line_until_the_trial_descends_from_another():
    known = known_of(line_of(blob(1), "media/a.bin", lineage=("t0@3",)), line_of(blob(2), "media/b.bin"))
    assert known.lineage == ("t0@3",)
    known.descends_from([f"t{n}@1" for n in range(100)])
    assert len(known.lineage) == 50
    assert np.all([link.endswith("@1") for link in known.lineage])
