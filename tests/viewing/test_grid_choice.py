import pytest

import tune_media as tm
from tests.support.recorded import make_experiment, make_trial
from tests.support.viewing import index_lines, write_index
from tune_media.viewing import grid_choice
from tune_media.viewing.grid_choice import choose_tiles


@pytest.fixture(scope="module")
def catalog(tmp_path_factory):
    return tm.load(make_experiment(tmp_path_factory.mktemp("sweep") / "exp"))


def told(tiles):
    return [(tile.row["trial"], tile.row["step"]) for tile in tiles]


def test_the_best_clip_of_each_trial_the_winner_first_and_marked(catalog):
    tiles = choose_tiles(catalog)
    assert told(tiles) == [("trial_b", 20), ("trial_a", 20)]
    assert [tile.mark for tile in tiles] == ["winner", ""]
    assert [tile.title for tile in tiles] == ["lr=0.2", "lr=0.1"]
    assert tiles[0].caption == "winner: return 9, 3 steps, at step 20"


def test_the_last_clips_and_the_clips_up_to_a_step(catalog):
    assert told(choose_tiles(catalog, step="last")) == [("trial_b", 30), ("trial_a", 20)]
    assert told(choose_tiles(catalog, step=19)) == [("trial_b", 10), ("trial_a", 10)]
    assert told(choose_tiles(catalog, trials=["trial_a"])) == [("trial_a", 20)]


def test_one_trial_over_its_training(catalog, tmp_path, monkeypatch):
    assert [tile.row["step"] for tile in choose_tiles(catalog, over_training="trial_b")] == [10, 20, 30]
    monkeypatch.setattr(grid_choice, "MAX_TILES", 3)
    make_trial(tmp_path / "exp" / "long", {}, dict.fromkeys(range(7), 1.0))
    tiles = choose_tiles(tm.load(tmp_path / "exp"), over_training="long")
    assert [tile.row["step"] for tile in tiles] == [0, 3, 6]


def test_clips_of_training_are_not_shown_among_those_of_the_evaluation_under_the_same_key(tmp_path):
    folder = make_trial(tmp_path / "exp" / "a", {}, {10: 1.0, 20: 2.0})
    lines = index_lines(folder)
    train = {**lines[0], "section": "train", "id": "t", "path": "media/train/x.mp4"}
    write_index(folder, [*lines, {**train, "step": 15}, {**train, "id": "u", "step": 30}])
    catalog = tm.load(tmp_path / "exp")
    assert told(choose_tiles(catalog, step="last")) == told(choose_tiles(catalog, step=40)) == [("a", 20)]
    assert told(choose_tiles(catalog, over_training="a")) == [("a", 10), ("a", 20)]


def test_a_folder_without_clips_is_named(tmp_path):
    (tmp_path / "tuner.pkl").touch()
    with pytest.raises(ValueError, match=f"no clip in {tmp_path}: nothing was recorded"):
        choose_tiles(tm.load(tmp_path))
