from dataclasses import replace

import pyarrow as pa

import tune_media as tm
from tests.support.batches import batch_of
from tests.support.fake_trial import FakeTrial, run
from tune_media.storage.episode_files import rows_of_parquet, tape_of, taped_rows
from tune_media.values.episodes import LEFT_OUT, EpisodeBatch

STRICT = tm.MediaOptions(strict=True)


def taped(recipes):
    """Return a batch with a taped episode for each recipe, and one whose tape was left out."""
    episodes = batch_of(*[({"speed": 1.0}, {})] * (len(recipes) + 1)).episodes
    made = [replace(one, tape=f"TMT{hash}".encode(), recipe=hash) for one, hash in zip(episodes, recipes, strict=False)]
    return EpisodeBatch((*made, replace(episodes[-1], tape=LEFT_OUT)), recipes=recipes)


def test_tapes_are_in_the_parquet_and_a_recipe_that_is_there_is_not_written_again(tmp_path):
    recipes = {"ab": b"how one env is made", "cd": b"how another is made"}
    there = tmp_path / "storage/media_recipes/ab.pickle"
    there.parent.mkdir(parents=True)
    there.write_bytes(recipes["ab"])
    before = there.stat()
    results = [{"r/data": taped(recipes)} for _ in range(3)]
    run([tm.JsonMediaLoggerCallback(media=STRICT)], FakeTrial(tmp_path), results)
    assert {file.name: file.read_bytes() for file in there.parent.iterdir()} == {
        "ab.pickle": recipes["ab"],
        "cd.pickle": recipes["cd"],
    }
    assert (there.stat().st_ino, there.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    reports = sorted((tmp_path / "storage/t1/episode_data").glob("*.parquet"))
    assert len(reports) == 3
    for data in reports:
        assert b"TMT" not in data.with_suffix(".json").read_bytes()
        assert "tape" not in rows_of_parquet(data.read_bytes())[0]
        with pa.OSFile(str(data)) as file:
            rows = taped_rows(file)
            assert [(row["recipe"], row["tape_bytes"]) for row in rows] == [("ab", 5), ("cd", 5)]
            assert tape_of(file, "train", "r", rows[1]["episode_id"]) == b"TMTcd"


def test_recipes_are_beside_the_trials_on_an_object_store_too(s3, tmp_path):
    trial = FakeTrial(tmp_path, filesystem=s3)
    trial.storage.experiment_fs_path, trial.storage.trial_fs_path = "results/sweep", "results/sweep/t1"
    run([tm.JsonMediaLoggerCallback(media=STRICT)], trial, [{"r/data": taped({"ab": b"recipe"})} for _ in range(2)])
    with s3.open_input_stream("results/sweep/media_recipes/ab.pickle") as file:
        assert file.read() == b"recipe"
