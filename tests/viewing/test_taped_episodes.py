import json
import math

import pytest

import tune_media as tm
from tests.support.batches import episodes_of
from tests.support.commands import command
from tests.support.recorded import make_trial
from tests.support.stores import StoredTrial
from tests.support.taped import STEPS, taped_clip
from tune_media.encoding.decode import decode_video
from tune_media.storage.entry import ONLY_TAPE, MediaEntry, line_of
from tune_media.values.episodes import EpisodeBatch, EpisodeData
from tune_media.viewing.episode_table import EpisodeTable
from tune_media.viewing.taped_episodes import TapedEpisode, choose


def episode(id, score, iteration, section="evaluation", *, rolled_back=False):
    row = {"episode_id": id, "episode_return": score, "training_iteration": iteration, "section": section}
    return TapedEpisode(None, "", row | {"finished_at": 0.0, "rolled_back": rolled_back, "metrics": {}})


@pytest.mark.parametrize(("which", "id"), [("best", "b"), ("worst", "a"), ("last", "b")])
def test_episodes_that_the_trial_left_behind_are_chosen_only_if_there_are_no_others(which, id):
    left = [episode("x", 9.0, 8, rolled_back=True), episode("y", -9.0, 9, rolled_back=True)]
    kept = [episode("n", math.nan, 0), episode("a", 1.0, 1), episode("b", 2.0, 2), episode("t", 99.0, 99, "train")]
    assert [one.id for one in choose([[*left, *kept]], which)] == [id]
    assert {one.id for one in choose([left], which)} <= {"x", "y"}
    assert [one.id for one in choose([[*left, *kept]], "return > 5")] == ["x", "t"]
    assert [one.id for one in choose([[*left, *kept]], "(return=1..2 or section=train) not iteration=2")] == ["a", "t"]


def test_a_metric_that_one_trial_lacks_and_an_id_are_looked_for_in_all_trials():
    one, other = episode("a", 1.0, 1), episode("b", 2.0, 2)
    other.row["metrics"]["distance"] = 3.0
    assert choose([[one], [], [other]], "distance > 1") == choose([[one], [other]], "b") == [other]
    assert choose([[one], [], [other]], "best") == [one, other]
    with pytest.raises(ValueError, match="did you mean 'distance'"):
        choose([[one], [other]], "distnace > 1")


def test_comparisons_hold_of_the_rows_of_a_data_frame(tmp_path):
    records = [tm.EpisodeRecord("e1", 1.0, 2, metrics={"distance": 4.0}), tm.EpisodeRecord("e2", 2.0, 2, task="far")]
    with StoredTrial.in_folder(make_trial(tmp_path / "exp" / "a", {}, {})) as store:
        store.add(episodes_of(*records), "train", "x/data", 10)
    rows = tm.load(tmp_path / "exp").episodes().to_dict("records")
    expected = {"return > 1": {"e2"}, "distance > 1": {"e1"}, "task=None": {"e1"}, "return>0 far": {"e2"}}
    for where, ids in expected.items():
        assert {rows[at]["episode_id"] for at in EpisodeTable.of_rows(rows).found(where)} == ids, where


@pytest.fixture
def left(tmp_path):
    """An experiment with two taped episodes, of which the sweep left the winner a tape."""
    store = StoredTrial.in_folder(make_trial(tmp_path / "sweep" / "trial", {}, {}))
    clips = [taped_clip(level, episode_return=float(level)) for level in (1, 2)]
    episodes = tuple(EpisodeData(one.episode, tape=one.tape, recipe=one.recipe.hash) for one in clips)
    recipes = {one.recipe.hash: one.recipe.content for one in clips}
    store.add(EpisodeBatch(episodes, recipes=recipes), "evaluation", "episodes/data", 7, 1)
    entry = MediaEntry(clips[1], "evaluation", "episodes/best", "media/evaluation/best.mp4", 7, 1, 5.0)
    facts = {**clips[1].facts(), "note": "not rendered: the trial ended first"}
    store.lines.append(line_of(entry, store.location.trial_id, 9, ONLY_TAPE, facts))
    store.finish()
    return tmp_path / "sweep"


def list_also(experiment, **more):
    """List the clip that waits once more, as another one."""
    index = experiment / "trial" / "media" / "index.jsonl"
    line = next(line for line in map(json.loads, index.read_text().splitlines()) if line["kind"] == "video")
    with index.open("a") as file:
        file.write(json.dumps(line | {"id": "other", "path": "media/other.mp4"} | more) + "\n")


def test_clips_that_wait_are_rendered_into_a_folder_and_the_experiment_stays_as_it_is(left, tmp_path):
    before = {path: path.stat().st_mtime_ns for path in left.rglob("*")}
    command("render", left, "--episodes", "waiting", "-o", tmp_path / "clips")
    (file,) = (tmp_path / "clips").rglob("*.mp4")
    frames = list(decode_video(file.read_bytes()))
    assert len(frames) == STEPS + 1
    assert abs(int(frames[-1].mean()) - 160) < 4
    assert {path: path.stat().st_mtime_ns for path in left.rglob("*")} == before


def test_clips_that_wait_are_those_of_one_recorder(left):
    list_also(left, key="others/best")  # there are no tapes of these
    list_also(left, section="train")
    episodes = tm.load(left).taped_episodes()
    assert [one.waits for one in sorted(episodes, key=lambda one: one.row["episode_return"])] == [False, True]


def test_a_clip_that_waits_and_has_no_tape_on_the_storage_is_said(left, tmp_path):
    list_also(left, episode_id="gone")
    output = command("render", left, "--episodes", "waiting", "-o", tmp_path / "clips")
    assert "1 episodes wait whose tapes are not on the storage; Tuner.restore(...) brings them." in output
    assert len(list((tmp_path / "clips").rglob("*.mp4"))) == 1
