"""Clips without a compared picture are marked when it turns out that their env does not repeat its episodes."""

import shutil
import threading
import uuid

import numpy as np
import pyarrow.fs
import pytest
from mlflow import MlflowClient
from ray.tune.callback import CallbackList

import tune_media as tm
from tests.support.driven_sweep import Sweep
from tests.support.experiment import tensorboard_events
from tests.support.fake_trial import FakeTrial, run
from tests.support.faults import wait_until
from tests.support.index_lines import valid_lines
from tests.support.json_lines import read_lines
from tests.support.suspects_to_kill import PLACES, Marks, kill_at
from tests.support.taped import taped_clip
from tests.support.trackers import mlflow_store, read_wandb, wandb_runs
from tune_media.callbacks import maker
from tune_media.callbacks.outbox import FOLDER_VARIABLE
from tune_media.callbacks.session import _SESSIONS
from tune_media.replay.verdicts import Verdict, decide
from tune_media.storage import trial_media
from tune_media.storage.suspects import DOUBT

pytestmark = pytest.mark.usefixtures("sessions_end")

OTHERS = Verdict(False, "somebody saw another episode")


class Notes(tm.Backend):
    """Notes the clips that it gets, and those that are suspect."""

    name = "notes"

    def __init__(self):
        self.media_of, self.suspects, self.ends = [], [], 0

    def media(self, trial, entry):
        self.media_of.append(entry.medium.id)

    def suspect(self, trial, entry):
        assert entry.medium.note.startswith(DOUBT)
        self.suspects.append((trial.trial_id, entry.tag, entry.step, entry.medium.id))

    def end(self, trial, status):
        self.ends += 1


@pytest.fixture
def own():
    """Return a part of an env's config that no other test has: a verdict holds for all of this process."""
    return {"ballast": uuid.uuid4().hex}


def lines_of(sweep):
    """Return the lines by iteration."""
    lines = sweep.lines()
    return {line["training_iteration"]: line for line in lines}


def lines_in(folder):
    return trial_media.read_lines(pyarrow.fs.LocalFileSystem(), str(folder))[0]


def is_marked(sweep, iteration=1):
    return lines_of(sweep)[iteration].get("suspect", False)


def rendered(sweep, iteration, clip):
    """Report a clip, and wait until it is stored."""
    path = sweep.report(iteration, best=clip)["best"]
    wait_until((sweep.path / path).exists)
    return clip


def test_if_a_replay_differs_the_clips_of_its_recipe_without_a_compared_picture_are_marked(
    tmp_path, own, capsys, caplog
):
    sweep = Sweep(tmp_path, backend=(notes := Notes()))
    first = rendered(sweep, 1, taped_clip(1, **own))
    rendered(sweep, 2, taped_clip(2, shown=0, **own))
    rendered(sweep, 3, taped_clip(3, ballast=own["ballast"] + "another recipe"))
    sweep.report(4, best=taped_clip(1, jump=1, **own))
    wait_until(lambda: notes.suspects)
    sweep.report(5, best=taped_clip(1, **own), worst=taped_clip(1, **own))
    rendered(sweep, 6, taped_clip(2, shown=0, **own))
    sweep.end()
    lines = lines_of(sweep)
    assert {at: (line["status"], line.get("suspect", False)) for at, line in lines.items()} == {
        1: ("stored", True),
        2: ("stored", False),
        3: ("stored", False),
        4: ("failed", False),
        5: ("failed", False),
        6: ("stored", False),
    }
    assert [lines[at]["compared"] for at in (1, 2)] == ["steps", "steps, last picture"]
    assert lines[1]["recipe"] == lines[2]["recipe"] == lines[4]["recipe"] == first.recipe.hash
    why, what = lines[1]["note"].split("`tune-media render EXPERIMENT --episodes suspect --storage`")
    assert why.startswith(f"{DOUBT}: at step 4, the replay has another observation")
    assert what == " plays its tape again"
    assert "at step 4" in lines[5]["note"]
    assert notes.suspects == [("t1", "train/best", 1, first.id)]
    assert "1 clip(s) may not show their episodes" in capsys.readouterr().out
    caplog.clear()
    catalog = tm.load(tmp_path / "storage")
    assert "1 clip(s) may not show their episodes" in caplog.text
    assert [row["step"] for row in catalog if row.get("suspect")] == [1]
    assert "suspect" in repr(catalog[0])
    assert catalog.to_pandas()["suspect"].tolist() == [True, False, False, False]
    assert len(catalog.filter(suspect=True)) == 1


def test_what_somebody_else_finds_out_is_noticed_while_training_goes_on(tmp_path, own):
    sweep = Sweep(tmp_path, backend=(notes := Notes()), strict=True)
    clip = rendered(sweep, 1, taped_clip(1, **own))
    decide(clip.recipe.hash, OTHERS)
    wait_until(lambda: notes.suspects)
    wait_until(lambda: is_marked(sweep))
    sweep.report(2, score=1.0)
    sweep.end()
    assert OTHERS.reason in lines_of(sweep)[1]["note"]
    assert notes.suspects == [("t1", "train/best", 1, clip.id)]


def test_a_verdict_after_the_last_result_reaches_the_storage_and_the_trackers(tmp_path, own):
    sweep = Sweep(tmp_path, backend=(notes := Notes()), strict=True)
    clip = rendered(sweep, 1, taped_clip(1, **own))
    sweep.callback.log_trial_end(sweep.trial)
    wait_until(lambda: notes.ends)
    decide(clip.recipe.hash, OTHERS)
    sweep.callback.on_experiment_end([sweep.trial])
    assert is_marked(sweep)
    assert notes.suspects == [("t1", "train/best", 1, clip.id)]
    assert not list((tmp_path / "outbox").iterdir())


def test_a_clip_that_is_still_on_its_way_is_marked_too(tmp_path, own):
    sweep = Sweep(tmp_path, backend=Notes(), strict=True)
    gate = tmp_path / "gate"
    clip = taped_clip(1, gate=str(gate), tells=str(tmp_path / "begun"), **own)
    sweep.report(1, best=clip, worst=clip)
    wait_until((tmp_path / "begun").exists)
    decide(clip.recipe.hash, OTHERS)
    gate.touch()
    sweep.end()
    lines = sweep.lines()
    assert [(line["key"], line.get("suspect")) for line in lines] == [("best", True), ("worst", True)]


def test_direct_clips_and_backends_that_know_no_suspects_are_as_before(tmp_path, own):
    class Old(tm.Backend):
        def media(self, trial, entry):
            assert entry.content()

    sweep = Sweep(tmp_path, backend=Old(), strict=True)
    clip = rendered(sweep, 1, taped_clip(1, **own))
    rendered(sweep, 2, tm.Video(np.zeros((3, 32, 32, 3), np.uint8)))
    decide(clip.recipe.hash, OTHERS)
    sweep.end()
    assert is_marked(sweep)
    assert not is_marked(sweep, 2)
    assert not list((tmp_path / "outbox").iterdir())


@pytest.mark.parametrize("place", PLACES)
def test_a_kill_between_the_verdict_and_the_mark_loses_nothing(tmp_path, place):
    state = kill_at(tmp_path, place)
    again = Sweep(tmp_path, state, backend=Marks(tmp_path), last=2, strict=place[:6] != "outbox")
    again.report(3, score=1.0)
    again.end()
    line = lines_of(again)[1]
    assert (line["status"], line["suspect"]) == ("stored", True)
    assert line["note"].count(DOUBT) == 1
    calls = [call for call in read_lines(tmp_path / "calls.jsonl") if call[0] == "media"]
    assert calls.count(["media", 1, line["id"]]) >= 2  # the clip, and its mark
    assert not list((tmp_path / "outbox").iterdir())


@pytest.fixture
def ended(tmp_path, own, monkeypatch):
    """A sweep that has ended, and its clip; whatever comes is on another machine."""
    sweep = Sweep(tmp_path, strict=True)
    clip = rendered(sweep, 1, taped_clip(1, **own))
    sweep.end()
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "another machine"))
    (tmp_path / "another machine").mkdir()
    return sweep, clip


def test_after_a_restore_the_clips_of_trials_that_had_ended_are_marked(tmp_path, ended):
    sweep, clip = ended
    decide(clip.recipe.hash, OTHERS)
    other = FakeTrial(tmp_path, "t2")
    run([tm.JsonMediaLoggerCallback()], other, [{"score": 1.0}])
    assert is_marked(sweep)


def test_marks_whose_trial_was_let_go_before_their_row_was_read_are_logged(tmp_path, ended, monkeypatch):
    sweep, clip = ended
    goes_on, made = threading.Event(), maker.made_medium
    monkeypatch.setattr(maker, "made_medium", lambda medium: made(medium) if goes_on.wait(60) else None)
    trial, callback = FakeTrial(tmp_path, "t2"), tm.JsonMediaLoggerCallback()
    callback.log_trial_start(trial)
    raw = np.zeros((4, 16, 24, 3), np.uint8)
    callback.log_trial_result(1, trial, {"raw": raw, "training_iteration": 1})  # the rows after it wait
    session = _SESSIONS[str(trial.storage.experiment_driver_staging_path)]
    decide(clip.recipe.hash, OTHERS)
    wait_until(lambda: session.services.outbox.read_kinds(0, ["suspect"]))
    wait_until(lambda: "t1" not in session.storage._trials)
    goes_on.set()
    callback.log_trial_end(trial)
    callback.on_experiment_end([trial])
    assert is_marked(sweep)


def test_an_index_that_is_lost_is_made_again_with_the_marks(tmp_path, own):
    sweep = Sweep(tmp_path, strict=True)
    clip = rendered(sweep, 1, taped_clip(1, **own))
    decide(clip.recipe.hash, OTHERS)
    sweep.end()
    (sweep.path / "media/index.jsonl").unlink()
    (row,) = tm.load(tmp_path / "storage")
    assert row["suspect"]
    assert row["note"].startswith(DOUBT)


@pytest.mark.parametrize("has_ended", [False, True])
def test_the_trackers_show_it_beside_the_clip(ray_session, tmp_path, own, has_ended):
    clip = taped_clip(1, **own)
    trial, uri = FakeTrial(tmp_path), mlflow_store(tmp_path)
    stored = tmp_path / "storage/t1/media/index.jsonl"
    callbacks = CallbackList(
        [
            tm.TBXMediaLoggerCallback(),
            tm.WandbMediaLoggerCallback(project="suspects", mode="offline"),
            tm.MLflowMediaLoggerCallback(tracking_uri=uri, artifact_location=f"file://{tmp_path}/mlruns"),
        ]
    )
    callbacks.setup(stop=None, num_samples=1, total_num_samples=1)
    callbacks.on_trial_start(iteration=0, trials=[trial], trial=trial)
    result = {"best": clip, "training_iteration": 1}
    callbacks.on_trial_result(iteration=1, trials=[trial], trial=trial, result=result)
    wait_until(lambda: [line["status"] for line in lines_in(stored.parents[1])] == ["stored"])
    if has_ended:
        callbacks.on_trial_complete(iteration=1, trials=[trial], trial=trial)
        wait_until(lambda: wandb_runs(tmp_path / "storage/t1"))  # W&B is the slowest
    decide(clip.recipe.hash, OTHERS)
    if not has_ended:
        callbacks.on_trial_complete(iteration=1, trials=[trial], trial=trial)
    callbacks.on_experiment_end(trials=[trial])
    (line,) = valid_lines(stored.read_bytes())
    assert line["suspect"]
    events = tensorboard_events(tmp_path / "storage/t1")
    (text,) = events.Tensors("train/best/suspect/text_summary")
    assert (text.step, OTHERS.reason in text.tensor_proto.string_val[0].decode()) == (1, True)
    assert read_wandb(tmp_path / "storage/t1").summary["suspect/train/best"].startswith(f"media_step 1: {DOUBT}")
    client = MlflowClient(uri)
    (found,) = client.search_runs([one.experiment_id for one in client.search_experiments()])
    assert found.data.tags["tune_media.suspect"] == "true"
    assert found.info.status == "FINISHED"
    (note,) = (tmp_path / "mlruns").rglob("media/train/best/*.mp4.suspect.txt")
    assert OTHERS.reason in note.read_text()
    shutil.rmtree(tmp_path / "driver")
