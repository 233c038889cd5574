"""``tune-media render --storage``: clips of tapes join their experiment as if they had been recorded."""

import json
import shutil

import pyarrow.fs
import pytest
from click.testing import CliRunner

import tune_media as tm
from tests.support.experiment import media_files, rows_of
from tests.support.stores import StoredTrial
from tests.support.taped import STEPS, taped_clip
from tune_media.callbacks.outbox import Outbox, outbox_root
from tune_media.cli import main
from tune_media.encoding import decode_video
from tune_media.storage.entry import ONLY_TAPE, MediaEntry, line_of
from tune_media.storage.index_lines import event_line
from tune_media.storage.location import TrialLocation
from tune_media.storage.log import LogWriter
from tune_media.values.episodes import EpisodeBatch, EpisodeData
from tune_media.viewing.added_clips import AddedClips

PATH = "media/evaluation/episodes/best/step_000000007-0123456789ab.mp4"


def render(*arguments):
    return CliRunner().invoke(main, ["render", *map(str, arguments)])


@pytest.fixture
def experiment(tmp_path):
    """A trial whose winner was left a tape, and with an episode that nobody chose."""
    folder = tmp_path / "sweep"
    write(TrialLocation(pyarrow.fs.LocalFileSystem(), str(folder / "trial"), folder / "trial", "t1"))
    (folder / "trial" / "params.json").write_text("{}")
    return folder


def write(location):
    store = StoredTrial(location)
    clips = [taped_clip(level, episode_return=float(level)) for level in (1, 2)]
    episodes = [EpisodeData(one.episode, tape=one.tape, recipe=one.recipe.hash) for one in clips]
    recipes = {one.recipe.hash: one.recipe.content for one in clips}
    store.add(EpisodeBatch(tuple(episodes), recipes=recipes), "evaluation", "episodes/data", 7, 1)
    winner = clips[1]
    entry = MediaEntry(winner, "evaluation", "episodes/best", PATH, 7, 1, 5.0)
    left = {**winner.facts(), "status": ONLY_TAPE, "note": "not rendered: the trial ended first"}
    store.lines.append(line_of(entry, location.trial_id, 9, left))
    store.finish()


def index_lines(trial):
    return [json.loads(line) for line in (trial / "media" / "index.jsonl").read_text().splitlines()]


def shade_of(row):
    return int(list(decode_video(row.read_bytes()))[-1].mean())


def test_a_clip_that_was_left_a_tape_gets_its_file_and_keeps_its_place(experiment):
    assert not len(tm.load(experiment))
    found = render(experiment, "--storage")
    assert found.exit_code == 0, found.output
    assert [str(file) for file in media_files(experiment)] == [str(experiment / "trial" / PATH)]
    (row,) = tm.load(experiment)
    assert (row["path"], row["key"], row["row"], row["time"]) == (PATH, "episodes/best", 9, 5.0)
    assert (row["episode_return"], row["frames"]) == (2.0, STEPS + 1)
    assert "note" not in row
    assert abs(shade_of(row) - 160) < 4
    (line,) = [line for line in index_lines(experiment / "trial") if line["kind"] == "video"]
    assert line["status"] == "stored"
    again = render(experiment, "--episodes", "waiting", "--storage")
    assert (again.exit_code, again.output) == (1, "Error: No clip waits to be rendered.\n")


def test_a_view_that_has_no_clip_gets_one_though_another_view_has(experiment):
    episode = max(tm.load(experiment).taped_episodes(), key=lambda one: one.row["episode_return"])
    stored = next(line for line in index_lines(experiment / "trial") if line["kind"] == "video")
    stored |= {"id": "side", "view": "side", "key": "episodes/best/side", "status": "stored", "note": None}
    with (experiment / "trial" / "media" / "index.jsonl").open("a") as index:
        index.write(json.dumps(stored) + "\n")
    with AddedClips() as added:
        assert not added.has(episode)
    found = render(experiment, "--storage")
    assert found.exit_code == 0, found.output
    assert media_files(experiment) == [experiment / "trial" / PATH]
    with AddedClips() as added:
        assert added.has(episode)


def test_every_other_episode_gets_a_clip_of_its_own_and_twice_is_harmless(experiment):
    found = render(experiment, "--storage", "--height", 16)
    assert found.exit_code == 0, found.output
    for _ in range(2):
        found = render(experiment, "--storage", "--trial", "all", "--episodes", "return > 0")
        assert found.exit_code == 0, found.output
    assert "2 of 2 episodes have their clips already" in found.output
    catalog = tm.load(experiment)
    small, other = sorted(rows_of(catalog, key="episodes/rendered"), key=lambda row: row["height"])
    assert (small["episode_return"], small["height"]) == (2.0, 16)
    assert (other["episode_return"], other["step"], other["trial_id"]) == (1.0, 7, "t1")
    assert len(catalog) == len(media_files(experiment)) == 3


def test_a_copy_of_an_experiment_gets_the_clips_and_the_original_stays_as_it_is(experiment, tmp_path):
    assert render(experiment, "--storage").exit_code == 0
    copy = shutil.copytree(experiment, tmp_path / "copy")
    (copy / "trial" / index_lines(copy / "trial")[0]["path"]).unlink()
    before = {path: path.stat().st_mtime_ns for path in experiment.rglob("*")}
    found = render(copy, "--storage", "--episodes", "return < 2")
    assert found.exit_code == 0, found.output
    assert {path: path.stat().st_mtime_ns for path in experiment.rglob("*")} == before
    assert [file.parent.name for file in media_files(copy)] == ["best", "rendered"]


def test_a_driver_folder_leads_to_the_storage_which_gets_the_clips(tmp_path):
    write(TrialLocation(pyarrow.fs.LocalFileSystem(), str(tmp_path / "sweep" / "trial"), tmp_path / "here" / "t", "t1"))
    found = render(tmp_path / "here", "--storage")
    assert found.exit_code == 0, found.output
    assert media_files(tmp_path / "sweep") == [tmp_path / "sweep" / "trial" / PATH]


def test_a_killed_process_leaves_lines_that_readers_and_the_next_run_take(experiment, monkeypatch):
    monkeypatch.setattr(AddedClips, "close", lambda added: None)
    assert render(experiment, "--storage").exit_code == 0
    monkeypatch.undo()
    assert len(tm.load(experiment)) == 1
    again = render(experiment, "--storage")
    assert (again.exit_code, len(media_files(experiment))) == (0, 1), again.output
    index = index_lines(experiment / "trial")
    assert [line["status"] for line in index if line["kind"] == "video"] == ["stored"]


def test_while_a_driver_lives_nothing_is_written(experiment):
    outbox = Outbox.open(outbox_root(), str(experiment), "1")
    log = LogWriter(pyarrow.fs.LocalFileSystem(), str(experiment), outbox.id)
    log.append(20, 20, [event_line("back", "trial", "t1", 20, training_iteration=9)])
    found = render(experiment, "--storage")
    assert found.exit_code == 1
    assert "is being written: its driver, on this machine" in found.output
    assert not media_files(experiment)
    outbox.close(remove=False)  # it was killed: its log is not done, and a restore writes the index once more
    found = render(experiment, "--storage")
    assert found.exit_code == 0, found.output
    assert not list((experiment / ".tune_media_log").glob("*.done.json"))
    assert len(tm.load(experiment)) == 1
    outbox.folder.rename(outbox.folder.with_name("gone"))
    assert "a driver on another machine wrote" in render(experiment, "--storage").output


def test_on_s3_it_is_the_same(tmp_path, s3):
    write(TrialLocation(s3, f"results/{tmp_path.name}/trial", tmp_path, "t1"))
    for _ in range(2):
        found = render(f"s3://results/{tmp_path.name}", "--storage", "--trial", "all", "--episodes", "return > 0")
        assert found.exit_code == 0, found.output
    catalog = tm.load(f"s3://results/{tmp_path.name}")
    assert sorted(row["key"] for row in catalog) == ["episodes/best", "episodes/rendered"]
    assert all(abs(shade_of(row) - 80 * row["episode_return"]) < 4 for row in catalog)


def test_clips_that_wait_are_those_of_one_recorder_and_keep_their_place(experiment):
    left = next(line for line in index_lines(experiment / "trial") if line["kind"] == "video")
    with (experiment / "trial" / "media" / "index.jsonl").open("a") as index:
        for more in ({"key": "others/best"}, {"section": "train"}):  # there are no tapes of these
            index.write(json.dumps(left | more | {"id": "other", "path": "media/other.mp4"}) + "\n")
    episodes = tm.load(experiment).taped_episodes()
    assert [one.waits for one in sorted(episodes, key=lambda one: one.row["episode_return"])] == [False, True]
    refused = render(experiment, "--episodes", "waiting", "--storage", "--height", "64")
    assert refused.exit_code == 2
    assert "leave out the options that change them" in refused.output


def test_a_clip_that_waits_and_has_no_tape_on_the_storage_is_said(experiment):
    left = next(line for line in index_lines(experiment / "trial") if line["kind"] == "video")
    with (experiment / "trial" / "media" / "index.jsonl").open("a") as index:
        index.write(json.dumps(left | {"id": "other", "episode_id": "gone", "path": "media/other.mp4"}) + "\n")
    found = render(experiment, "--episodes", "waiting", "--storage")
    assert "1 episodes wait whose tapes are not on the storage; Tuner.restore(...) brings them." in found.output
    assert [str(file) for file in media_files(experiment)] == [str(experiment / "trial" / PATH)]
