import json
from dataclasses import replace

import pyarrow.fs
import pyarrow.parquet

import tune_media as tm
from tests.support.batches import batch_of
from tune_media.storage.entry import MediaEntry, PendingWrite, line_of
from tune_media.storage.episode_files import clips_of_parquet, tape_of, taped_rows
from tune_media.storage.location import TrialLocation
from tune_media.storage.trial_store import TrialStore
from tune_media.values.episodes import LEFT_OUT, EpisodeBatch, Trajectory


def test_what_parquet_cannot_hold_costs_no_json(tmp_path):
    batch = batch_of(({"a": 1.0}, {}))
    steps = Trajectory({"step": [0, 1], "reward": [None, 1.0], "observation": [False, 1], "action": [None, "x"]})
    batch = EpisodeBatch(batch.episodes, {batch.episodes[0].record.id: steps})
    store = TrialStore(TrialLocation(pyarrow.fs.LocalFileSystem(), str(tmp_path / "s"), tmp_path / "l", "t"))
    store.load()
    _, entry = store.registry.register(batch, "train", "r/data", 1, 1, lambda: store.registry.report_path(1))
    store.write(PendingWrite("t", [entry]))
    assert {path.name for path in (tmp_path / "s/episode_data").iterdir()} == {
        "data-00000001.json",
        "data-00000001.parquet",
        "steps-00000001.parquet",
    }


def entry_of(medium, key="episodes/best", path="media/x", section="evaluation"):
    return MediaEntry(medium, section, key, path, 7, 3)


def test_backends_show_episodes_under_their_recorder_with_a_histogram_of_each_value():
    entry = entry_of(batch_of(({"speed": 1.0}, {}), ({"speed": 2.0}, {})), "episodes/data")
    assert entry.tag == "evaluation/episodes"
    found = {tag: histogram.count for tag, histogram in entry.histograms().items()}
    assert found == dict.fromkeys(
        [f"evaluation/episodes/{n}" for n in ("speed", "episode_return", "episode_length")], 2
    )


def test_a_clip_has_no_histogram_and_a_histogram_is_its_own(frames):
    assert entry_of(tm.Video(frames(2))).histograms() == {}
    histogram = tm.Histogram([1.0, 2.0])
    assert entry_of(histogram, "weights").histograms() == {"evaluation/weights": histogram}


def test_an_index_line_leaves_out_facts_that_are_not_known():
    entry = entry_of(tm.Artifact(b"x", name="x.bin"))
    entry.status = "stored"
    line = line_of(entry, "t1", {"bytes": 1, "note": None})
    assert line.keys().isdisjoint({"note", "lineage"})
    assert (line["status"], line["bytes"], line["key"], line["trial_id"]) == ("stored", 1, "episodes/best", "t1")
    entry.lineage = ("b@4",)
    assert line_of(entry, "t1", {"status": "failed"})["status"] == "failed"
    assert line_of(entry, "t1", {})["lineage"] == ["b@4"]


def test_the_rows_of_episodes_name_the_clips_of_the_same_result(frames):
    batch = batch_of(({}, {}), ({}, {}))
    data = entry_of(batch, "episodes/data", "episode_data/data-00000007.json")
    clip = entry_of(tm.Video(frames(2), episode=batch.episodes[1].record), path="media/best.mp4")
    files = PendingWrite("t1", [data], [data, clip]).files()
    (found,) = clips_of_parquet(files["episode_data/data-00000007.parquet"]).items()
    assert (found[0], found[1]["episode_id"], found[1]["id"]) == ("media/best.mp4", "e1", clip.medium.id)
    assert len(json.loads(data.content())) == 2


def test_tapes_are_in_the_parquet_only_and_recipes_beside_the_trials_once(tmp_path):
    first, second = (episode for episode in batch_of(({"speed": 1.0}, {}), ({"speed": 2.0}, {})).episodes)
    first, second = replace(first, tape=b"TMT1", recipe="ab"), replace(second, tape=LEFT_OUT)
    place = TrialLocation(pyarrow.fs.LocalFileSystem(), str(tmp_path / "exp/trial"), tmp_path / "l", "t")
    store = TrialStore(place)
    store.load()

    def write(step):
        batch = EpisodeBatch((first, second), recipes={"ab": b"how it is made"})
        _, entry = store.registry.register(
            batch, "train", "r/data", step, step, lambda: store.registry.report_path(step)
        )
        store.write(PendingWrite("t", [entry]))

    write(1)
    recipe = tmp_path / "exp/media_recipes/ab.pickle"
    assert recipe.read_bytes() == b"how it is made"
    recipe.unlink()
    write(2)
    assert not recipe.exists()  # it travels with each report, and is written once
    assert b"TMT1" not in (tmp_path / "exp/trial/episode_data/data-00000001.json").read_bytes()
    with (tmp_path / "exp/trial/episode_data/data-00000001.parquet").open("rb") as file:
        (row,) = taped_rows(file)
        assert (row["episode_id"], row["tape_bytes"], row["recipe"]) == (first.record.episode_id, 4, "ab")
        assert tape_of(file, "train", "r", first.record.episode_id) == b"TMT1"
    assert place.on_storage("../media_recipes/ab.pickle") == str(recipe)
