import dataclasses

import pytest

import tune_media as tm
from tests.support.stores import lines, opened, raw, store_one
from tune_media.storage.entry import PendingWrite
from tune_media.storage.registry import Registry
from tune_media.storage.rollback import Rollbacks
from tune_media.storage.trial_store import TrialStore
from tune_media.values.episodes import EpisodeBatch, EpisodeData


def test_the_same_medium_is_written_and_listed_once(place, frames, tmp_path):
    store, video = opened(place), tm.Video(frames(3))
    first = store_one(store, video, step=7)
    assert store_one(store, video, step=8) == first
    assert len(lines(tmp_path / "staging")) == 1


def test_one_episode_under_two_keys_is_one_file_and_two_lines(place, frames, tmp_path):
    store, video = opened(place), tm.Video(frames(3))
    assert store_one(store, video, key="episodes/best") == store_one(store, video, key="episodes/worst")
    assert [line["key"] for line in lines(tmp_path / "staging")] == ["episodes/best", "episodes/worst"]
    assert len(list((tmp_path / "storage").rglob("*.mp4"))) == 1


def test_a_second_trial_in_the_same_folder_takes_no_name_twice(place, frames, tmp_path):
    first = opened(place)
    assert first.registry.report_path(5) == "episode_data/data-00000005.json"
    batch = EpisodeBatch((EpisodeData(tm.EpisodeRecord("e", 1.0, 2), {}),))
    _, entry = first.registry.register(batch, "train", "episodes/data", 5, 1, lambda: "episode_data/data-00000005.json")
    first.write(PendingWrite("trial_1", [entry]))
    second = opened(dataclasses.replace(place, trial_id="trial_2"))
    assert second.registry.report_path(5) != "episode_data/data-00000005.json"


def test_a_clone_says_whose(place, frames, tmp_path):
    store = opened(place)
    store_one(store, tm.Video(frames(2)))
    store.registry.descends_from(["b@4", "c@2"])
    store_one(store, tm.Video(frames(2)))
    assert [line.get("lineage") for line in lines(tmp_path / "staging")] == [None, ["b@4", "c@2"]]
    assert opened(place).registry.lineage == ("b@4", "c@2")


def test_a_medium_that_could_not_be_stored_is_tried_again_when_it_comes_again():
    registry, medium = registry_of(), tm.Artifact(b"x", name="x.bin")
    _, entry = registry.register(medium, "train", "weights", 7, 3)
    assert registry.register(medium, "train", "weights", 8, 4)[1] is None
    registry.forget(entry)
    assert not registry.knows(medium)
    assert registry.register(medium, "train", "weights", 9, 5)[1] is not None


def test_a_medium_that_is_forgotten_late_leaves_the_one_of_the_next_round_known():
    """The repeat of the next round was stored twice."""
    registry, (first, second, repeat) = registry_of(), map(round_of, ("1", "2", "0"))
    _, entry = registry.register(first, "train", "clip", 7, 3)
    path, _ = registry.register(second, "train", "clip", 8, 4)
    registry.forget(entry)
    object.__setattr__(repeat, "may_repeat", CONTENT)
    assert registry.register(repeat, "train", "clip", 9, 5) == (path, None)


CONTENT = "a" * 24


def round_of(digit):
    """Return a medium whose id says its content, and the round that recorded it."""
    medium = tm.Artifact(b"x", name="x.bin")
    object.__setattr__(medium, "id", CONTENT + 8 * digit)
    return medium


def test_a_file_name_that_is_taken_is_not_given_again():
    registry, medium = registry_of(), tm.Artifact(b"x", name="x.bin")
    path = f"media/train/weights/step_000000007-{medium.id[:12]}.bin"
    registry.reserve([path])
    assert registry.register(medium, "train", "weights", 7, 3) == (path, None)  # a run that was killed wrote it


def test_episodes_get_no_plain_name_while_the_files_of_earlier_runs_are_unknown():
    registry = Registry("t1", Rollbacks())
    assert not registry.wait_until_complete(0)
    registry.load([])
    assert registry.report_path(5) != "episode_data/data-00000005.json"
    registry.complete()
    assert registry.wait_until_complete(0)
    assert registry.report_path(6) == "episode_data/data-00000006.json"


@pytest.mark.parametrize("status", ["failed", "dropped"])
def test_a_medium_that_an_earlier_run_lost_is_stored_if_it_comes_again(place, tmp_path, status):
    """Its file name was taken, as if a killed run had written it: the result named a path without a file."""
    first = opened(place)
    _, entry = first.registry.register(raw(b"clip"), "train", "clip", 7, 3)
    first.give_up(entry, status, "there was no room")
    first.finish()
    path = store_one(opened(place), raw(b"clip"), "train", "clip", 7, 3)
    assert (tmp_path / "storage/trial" / path).read_bytes() == b"clip"
    assert [line["status"] for line in lines(tmp_path / "staging")] == ["stored"]


def test_a_lost_medium_that_comes_again_before_the_index_is_read_is_stored(place, tmp_path):
    first = opened(place)
    _, entry = first.registry.register(raw(b"clip"), "train", "clip", 7, 3)
    first.give_up(entry, "dropped", "there was no room")
    second = TrialStore(place)
    path, entry = second.registry.register(raw(b"clip"), "train", "clip", 7, 3)
    second.load()
    second.write(PendingWrite("trial_1", [entry]))
    assert (tmp_path / "storage/trial" / path).read_bytes() == b"clip"


def test_the_name_of_a_lost_report_is_not_given_again():
    """Its file may be in the driver's folder, from which the user copies it to the storage."""
    registry, path = Registry("t1", Rollbacks()), "episode_data/data-00000005.json"
    registry.load([{"id": "e", "section": "train", "key": "k", "path": path, "trial_id": "t1", "status": "failed"}])
    registry.complete()
    assert registry.report_path(5) != path


def test_a_lineage_of_endless_clones_is_cut():
    registry = registry_of()
    registry.descends_from(f"t{number}@1" for number in range(1000))
    assert registry.lineage == tuple(f"t{number}@1" for number in range(50))


def registry_of():
    registry = Registry("t1", Rollbacks())
    registry.load([])
    registry.complete()
    return registry
