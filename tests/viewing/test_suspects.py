"""Suspect clips in ``tm.load``, the lists and the page, and ``tune-media render --episodes suspect --storage``."""

import json
from dataclasses import replace

import numpy as np
import pyarrow.fs
import pytest
from click.testing import CliRunner

import tune_media as tm
from tests.support.browser import served, viewer_page
from tests.support.experiment import media_files
from tests.support.index_lines import valid_lines
from tests.support.stores import StoredTrial
from tests.support.taped import STEPS, Gated, taped_clip
from tune_media.cli import main
from tune_media.replay.env_state import EnvState
from tune_media.replay.recipe import Recipe
from tune_media.replay.tape_recorder import TapeRecorder
from tune_media.replay.taped_clip import TapedClip
from tune_media.storage.entry import MediaEntry, line_of
from tune_media.storage.location import TrialLocation
from tune_media.storage.log import LogWriter
from tune_media.storage.suspects import DOUBT, suspect_note
from tune_media.values.episodes import EpisodeBatch, EpisodeData
from tune_media.viewing.gallery import Gallery

PATH = "media/evaluation/episodes/best/step_000000007-0123456789ab.mp4"
NOTE = suspect_note("at step 3 of another episode, /home/me/secret.txt was missing")


class Hidden(Gated):
    """Has state of which neither steps nor pictures tell."""

    def __init__(self, config):
        super().__init__(config)
        self.hidden = 0


def of_another_state():
    """Return the clip of an episode at whose end its env had another state than its replay has."""
    env = Hidden({})
    base = EnvState(env).as_baseline()
    recorder = TapeRecorder(env, base=base)
    env.reset(seed=3)
    for _ in range(STEPS):
        env.step(1)
        env.hidden += 1
    recorder.ended()
    record = tm.EpisodeRecord("e" * 32, 1.0, STEPS, seed=3)
    return TapedClip(recorder.tape.packed(), Recipe.of(Hidden, {}, base=base), record)


def write(folder, clip, *, note=NOTE):
    """Write a trial with a suspect clip and its tape, as a driver leaves them; return the experiment's folder."""
    location = TrialLocation(pyarrow.fs.LocalFileSystem(), str(folder / "sweep/trial"), folder / "sweep/trial", "t1")
    store = StoredTrial(location)
    episode = EpisodeData(clip.episode, tape=clip.tape, recipe=clip.recipe.hash)
    batch = EpisodeBatch((episode,), recipes={clip.recipe.hash: clip.recipe.content})
    store.add(batch, "evaluation", "episodes/data", 7, 1)
    made = tm.Video(np.zeros((5, 32, 32, 3), np.uint8), episode=replace(clip.episode, note=None))
    file = folder / "sweep/trial" / PATH
    file.parent.mkdir(parents=True)
    file.write_bytes(made.data)
    marked = {"status": "stored", "compared": "steps", "recipe": clip.recipe.hash, "suspect": True, "note": note}
    entry = MediaEntry(made, "evaluation", "episodes/best", PATH, 7, 1, 5.0)
    line = line_of(entry, "t1", 9, {**made.facts(), **marked})
    store.lines += [line, {**line, "key": "episodes/worst"}]
    log = LogWriter(pyarrow.fs.LocalFileSystem(), str(folder / "sweep"), "box")
    plain = {name: value for name, value in line.items() if name not in ("suspect", "note")}
    lines = [{**one, "key": key} for one in (plain, line) for key in ("episodes/best", "episodes/worst")]
    log.append(9, 10, [{**one, "trial": "trial"} for one in lines])
    log.finish()
    store.finish()
    (folder / "sweep/trial/params.json").write_text("{}")
    return folder / "sweep"


def command(*arguments):
    return CliRunner().invoke(main, [*map(str, arguments)])


def settle(experiment):
    return command("render", experiment, "--episodes", "suspect", "--storage")


def clips_of(experiment):
    lines = valid_lines((experiment / "trial/media/index.jsonl").read_bytes())
    return [line for line in lines if line["kind"] == "video"]


def test_if_its_own_picture_is_the_same_the_mark_goes_and_the_clip_stays(tmp_path):
    experiment = write(tmp_path, taped_clip(1, shown=0), note=f"{NOTE}; cut")
    found = settle(experiment)
    assert found.exit_code == 0, found.output
    assert "its clip shows the episode, and is suspect no longer" in found.output
    for line in clips_of(experiment):
        assert "suspect" not in line
        assert (line["status"], line["compared"], line["note"]) == ("stored", "steps, last picture", "cut")
    assert media_files(experiment) == [experiment / "trial" / PATH]
    assert settle(experiment).output == "Error: No clip of an episode with a tape is suspect.\n"
    (experiment / "trial/media/index.jsonl").unlink()
    rows = list(tm.load(experiment))
    assert [(row["compared"], row.get("suspect")) for row in rows] == [("steps, last picture", None)] * 2


@pytest.mark.parametrize(("how", "why"), [({"jump": 1}, "at step 4"), ({"shown": 9}, "other pictures")])
def test_if_it_is_another_episode_the_clip_is_deleted_and_the_line_says_why(tmp_path, how, why):
    experiment = write(tmp_path, taped_clip(1, **how))
    found = settle(experiment)
    assert found.exit_code == 0, found.output
    assert "another episode, so its clip is deleted" in found.output
    for line in clips_of(experiment):
        assert (line["status"], "suspect" in line) == ("failed", False)
        assert why in line["note"]
    assert media_files(experiment) == []
    assert len(tm.load(experiment)) == 0
    (experiment / "trial/media/index.jsonl").unlink()
    assert len(tm.load(experiment)) == 0


@pytest.mark.parametrize(
    ("clip", "why"),
    [
        (taped_clip, "the same again (steps), but nothing on its tape shows its pictures on this machine: it stays"),
        (of_another_state, "has another state than the episode"),
    ],
)
def test_if_nothing_shows_its_pictures_or_the_state_alone_differs_it_stays_suspect(tmp_path, clip, why):
    experiment = write(tmp_path, clip())
    before = clips_of(experiment)
    found = settle(experiment)
    assert found.exit_code == 1
    assert why in found.output
    assert "The clips of 1 of 1 episodes stay suspect." in found.output
    assert clips_of(experiment) == before
    assert media_files(experiment) == [experiment / "trial" / PATH]


def test_a_file_that_is_not_ours_stays(tmp_path):
    experiment = write(tmp_path, taped_clip(1, jump=1))
    folder = experiment / "trial/media/evaluation"
    elsewhere = folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(elsewhere)
    settle(experiment)
    assert [line["status"] for line in clips_of(experiment)] == ["failed"] * 2
    assert list(elsewhere.rglob("*.mp4"))


def test_into_a_folder_suspect_clips_are_rendered_as_any_others(tmp_path):
    experiment = write(tmp_path, taped_clip(1))
    before = clips_of(experiment)
    found = command("render", experiment, "--episodes", "suspect", "-o", tmp_path / "clips")
    assert found.exit_code == 0, found.output
    assert len(list((tmp_path / "clips").rglob("*.mp4"))) == 1
    assert clips_of(experiment) == before
    refused = command("render", experiment, "--episodes", "suspect", "--storage", "--height", "64")
    assert (refused.exit_code, "leave out the options" in refused.output) == (2, True)


def test_lists_name_suspect_clips_and_a_gallery_does_not_say_why(tmp_path):
    experiment = write(tmp_path, taped_clip(1))
    assert "episodes/best (suspect)" in command("list", experiment, "--all").output
    assert "2 (2 suspect)" in command("list", experiment).output
    rows = [json.loads(line) for line in command("list", experiment, "--json").output.splitlines() if line[:1] == "{"]
    assert [(row["suspect"], row["note"]) for row in rows] == [(True, NOTE)] * 2
    output = Gallery.of(str(experiment)).write(tmp_path / "published").parent
    files = b"".join(path.read_bytes() for path in (output / "data").iterdir())
    assert b"secret.txt" not in files
    assert DOUBT.encode() in files


@pytest.mark.slow
def test_the_page_marks_a_suspect_clip_and_says_why(browser, tmp_path):
    experiment = write(tmp_path, taped_clip(1))
    with served("watch", experiment, tmp_path / "files") as url, viewer_page(browser, "watch") as viewer:
        viewer.open(url, "")
        viewer.wait("document.querySelector('.card .suspect')")
        assert viewer.all(".card .suspect", "e.title")[0].startswith(f"This clip {DOUBT}: at step 3")
        viewer.open(url, f"view=clip&trial=trial&clip={PATH}")
        viewer.wait("document.querySelector('.suspect-notice')?.innerText.includes('--episodes suspect --storage')")
        assert viewer.errors == []
