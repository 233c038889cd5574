"""Media that were lost on the driver: each view says which they are, and why."""

from dataclasses import replace

import numpy as np
import pytest

import tune_media as tm
from tests.support.batches import episodes_of
from tests.support.browser import opened
from tests.support.commands import command
from tests.support.driven_sweep import Sweep
from tests.support.stores import StoredTrial
from tune_media.storage.entry import ONLY_TAPE, STORED
from tune_media.viewing.episode_reading import EpisodeFiles
from tune_media.viewing.payload import index_payload

FRAMES = np.zeros((4, 32, 32, 3), np.uint8)
WHY = "ValueError: there is no simulation"
NO_CLIP = "no clip: encoding its frames raised MemoryError"


class Unreadable(tm.Artifact):
    def content(self):
        raise ValueError(f"there is no simulation {self.facts()['name']}")


class UnreadableClip(tm.Video):
    def content(self):
        raise ValueError("there is no simulation of the clip")


def episodes(iteration):
    """Return the part of a result that has episodes: with a clip, with one that is lost, and without one."""
    names = {"seen": None, "lost": None, "silent": NO_CLIP, "other": None}
    records = {id: tm.EpisodeRecord(f"{id}-{iteration}", 1.0, 4, note=note) for id, note in names.items()}
    clips = {
        "best": tm.Video(FRAMES, episode=records["seen"]),
        "worst": UnreadableClip(FRAMES, episode=records["lost"]),
    }
    return {"episodes": {**clips, "data": episodes_of(*records.values())}}


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    """A trial of two results; of each, a clip and an artifact are lost."""
    sweep = Sweep(tmp_path_factory.mktemp("lost"))
    sweep.report(1, evaluation=episodes(1), own=Unreadable(b"1", name="1.bin"))
    sweep.report(2, evaluation=episodes(2), own=Unreadable(b"2", name="2.bin"))
    sweep.end()
    return sweep.path.parent


@pytest.fixture(scope="module")
def catalog(experiment):
    return tm.load(experiment)


def test_a_trial_has_the_lines_of_lost_media_and_the_catalog_only_rows_with_a_file(catalog):
    (trial,) = catalog.trials
    found = [(line["step"], line["key"], line["status"]) for line in trial.lost]
    assert sorted(found) == [(step, key, "failed") for step in (1, 2) for key in ("episodes/worst", "own")]
    assert all(line["note"].startswith(WHY) for line in trial.lost)
    assert [row["key"] for row in catalog] == ["episodes/best"] * 2


def test_all_episodes_say_why_one_has_no_clip_and_a_filter_finds_it(catalog):
    table = EpisodeFiles().table(catalog.trials)
    rows = [dict(zip(table.names, row, strict=True)) for row in table.rows()["rows"]]
    notes = {row["episode_id"]: row["note"] for row in rows}
    lost = f"its clip was lost: {WHY} of the clip"
    own = {"seen": None, "lost": lost, "silent": NO_CLIP, "other": None}
    assert notes == {f"{id}-{step}": note for step in (1, 2) for id, note in own.items()}
    assert [table.rows(where)["count"] for where in ("simulation", f'note="{NO_CLIP}"', "note!=none")] == [2, 2, 4]


def test_list_names_the_newest_and_counts_the_others(experiment, tmp_path):
    for option in ((), ("--all",)):
        told = command("list", *option, experiment).splitlines()
        lost = [line for line in told if line.startswith("lost: ")]
        assert len(lost) == 4
        assert f"lost: t1: train/own of step 2: {WHY} 2.bin" in lost
        assert lost[-1].startswith("lost: 1 older medium")
        assert told[-1].startswith("2 media in ")
    header, row = command("list", "--csv", experiment).splitlines()
    assert row.split(",")[header.split(",").index("lost")] == "4"
    sweep = Sweep(tmp_path)
    sweep.report(1, own=Unreadable(b"1", name="1.bin"))
    sweep.end()
    only_lost = f"lost: t1: train/own of step 1: {WHY} 1.bin\n"
    assert only_lost in command("list", "--all", sweep.path.parent, code=1)
    told = command("list", sweep.path.parent)
    assert told.endswith(f"{only_lost}0 media in {sweep.path.parent}\n")


@pytest.fixture
def unrendered(tmp_path):
    """A trial with an episode whose clip is not rendered, for a reason that names a path; it can be given another."""
    store = StoredTrial.in_folder(tmp_path / "exp" / "a")
    record = tm.EpisodeRecord("e", 1.0, 3)
    path = store.add(tm.Video(FRAMES, episode=record), step=10)
    store.add(episodes_of(record), "evaluation", "x/data", step=10)

    def listed(status, note):
        store.lines = [
            replace(line, status=status, tries=line.tries + 1, facts={**line.facts, "note": note})
            if line.path == path
            else line
            for line in store.lines
        ]
        store.finish()
        return tmp_path / "exp"

    return listed


def test_a_reason_that_comes_after_the_episode_is_shown_and_goes_with_the_clip(unrendered):
    files = EpisodeFiles()
    (trial,) = tm.load(unrendered(ONLY_TAPE, "not rendered: first")).trials
    found = []
    for status, note in ((ONLY_TAPE, "not rendered: first"), (ONLY_TAPE, "not rendered: then"), (STORED, None)):
        unrendered(status, note)
        trial.read()
        table = files.table([trial])
        found.append(table.values_of("note", np.arange(1)) if "note" in table.names else None)
    assert found == [["not rendered: first"], ["not rendered: then"], None]
    assert trial.lost == []


@pytest.mark.slow
def test_a_card_says_why_its_clip_is_not_rendered_and_a_gallery_names_no_folder(browser, unrendered, tmp_path):
    experiment = unrendered(ONLY_TAPE, "not rendered: OSError: no '/home/me/disk'")
    ((tape,),) = (trial["tapes"] for trial in index_payload(tm.load(experiment).trials, "")["trials"])
    assert tape["note"] == "not rendered: OSError: no '/home/me/disk'"
    with opened(browser, experiment, tmp_path, host="gallery") as viewer:
        viewer.wait("document.querySelectorAll('.card .screen.empty p').length > 0")
        (told,) = viewer.all(".card .screen.empty p")
        assert told.startswith("not rendered: OSError: no '…/disk'. There is its tape: ")


@pytest.mark.slow
def test_the_page_of_a_trial_lists_its_lost_media_folded_if_they_are_many(browser, experiment, tmp_path):
    with opened(browser, experiment, tmp_path, "view=trial&trial=t1") as viewer:
        viewer.wait("document.querySelector('.lost')")
        assert viewer.all(".lost", "e.open") == [False]
        assert viewer.all(".lost summary") == ["4 media were lost"]
        viewer.frame.click(".lost summary")
        assert f"step 2 train/own: {WHY} 2.bin" in viewer.all(".lost li")
        assert viewer.axe_violations() == {}
        viewer.open(viewer.url, "view=episodes")
        viewer.wait("document.querySelectorAll('.episodes tbody tr').length === 8")
        assert viewer.all(".episodes td.note").count(f"its clip was lost: {WHY} of the clip") == 2
