"""Clips that came as tapes: rendered beside training, stored and logged once, at the step of their result."""

import functools
import itertools
import json
import os
import pickle
import signal
import sqlite3
import threading
import uuid
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from ray.tune.logger import CSVLoggerCallback, JsonLoggerCallback, TBXLoggerCallback

import tune_media as tm
from tests.support.driven_sweep import Sweep
from tests.support.fake_trial import FakeTrial, run
from tests.support.faults import At, wait_until
from tests.support.index_lines import valid_lines
from tests.support.taped import Gated, taped_clip
from tests.support.tapes_to_kill import PLACES, Tells, calls, kill_at
from tests.support.trackers import mlflow_store, read_mlflow, read_wandb
from tune_media.callbacks import tape_renderer
from tune_media.callbacks.outbox import FOLDER_VARIABLE, Outbox
from tune_media.encoding.decode import probe_video
from tune_media.replay.process import RenderProcess
from tune_media.replay.render_pool import RenderPool
from tune_media.replay.taped_clip import TapedClip
from tune_media.replay.verdicts import refuse, verdict_on
from tune_media.storage.log import read_log

pytestmark = pytest.mark.usefixtures("sessions_end")


@pytest.fixture(autouse=True)
def free_folder(tmp_path, monkeypatch):
    """The envs here tell what is rendered by files in a folder in which a replay may write."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.fixture
def gate(tmp_path):
    return tmp_path / "gate"


class Notes(tm.Backend):
    name = "notes"

    def __init__(self):
        self.calls = []

    def metrics(self, trial, report):
        self.calls.append(("metrics", report.training_iteration))

    def media(self, trial, entry):
        assert probe_video(entry.content()).frames == 5
        self.calls.append(("media", entry.key, entry.training_iteration, entry.step, entry.medium.id))

    def end(self, trial, status):
        self.calls.append(("end", status))

    def media_of(self, key):
        return [call[2] for call in self.calls if call[:2] == ("media", key)]


class Fatal(Gated):
    def render(self):
        with Path(self.config["told"]).open("a+") as file:
            if file.tell() < self.config["deaths"]:
                file.write("x")
                file.flush()
                os.kill(os.getpid(), signal.SIGKILL)
        return super().render()


class Reset(Gated):
    def reset(self, **how):
        with Path(self.config["told"]).open("a") as file:
            file.write(f"{os.getppid()}\n")  # each tape is played in a fork of the process
        return super().reset(**how)


class OnlyHere(Gated):
    def __init__(self, config):
        super().__init__(config)
        if os.getpid() != config["process"]:
            raise ImportError("its packages are not installed here")


def lines_of(sweep):
    lines = sweep.lines()
    return {(line["key"], line["training_iteration"]): line for line in lines}


def listed(sweep):
    return {place: line["status"] for place, line in lines_of(sweep).items()}


def test_the_result_has_the_path_and_the_file_and_the_trackers_follow(tmp_path, gate, capsys):
    sweep = Sweep(tmp_path, backend=(notes := Notes()), strict=True)
    clip = taped_clip(2, episode_return=7.0, gate=str(gate))
    result = sweep.report(1, timesteps_total=100, best=clip, worst=clip)  # the only episode is both
    shown = result["best"]
    assert result["worst"] == shown
    assert shown.endswith(f"step_000000100-{clip.id[:12]}.mp4")
    sweep.settle()
    sweep.report(2, timesteps_total=200, score=1.0, best=clip)  # RLlib repeats the clips of its last evaluation
    wait_until(lambda: ("metrics", 2) in notes.calls)
    assert not (sweep.path / shown).exists()
    logged = read_log(sweep.trial.storage.storage_filesystem, str(tmp_path / "storage")).lines["t1"]
    assert [(line.key, line.status, line.path, line.facts["episode_return"]) for line in logged] == [
        ("best", "waiting", shown, 7.0),
        ("worst", "waiting", shown, 7.0),
    ]
    gate.touch()
    sweep.end()
    assert probe_video((sweep.path / shown).read_bytes()).frames == 5
    line, other = sweep.lines()
    assert {**line, **{name: other[name] for name in ("key", "row")}} == other
    names = ("id", "status", "path", "step", "training_iteration", "frames")
    assert [line[name] for name in names] == [clip.id, "stored", shown, 100, 1, 5]
    media = [("media", key, 1, 100, clip.id) for key in ("best", "worst")]
    assert notes.calls == [("metrics", 1), ("metrics", 2), *media, ("end", "finished")]
    assert [row["episode_return"] for row in tm.load(tmp_path / "storage")] == [7.0, 7.0]
    assert "stored 1 media file" in capsys.readouterr().out
    assert not list((tmp_path / "outbox").iterdir())


def test_trackers_have_a_clip_that_came_later_at_the_step_of_its_result(ray_session, tmp_path, gate):
    from mlflow import MlflowClient

    callbacks = [
        tm.WandbMediaLoggerCallback(project="later", mode="offline"),
        tm.MLflowMediaLoggerCallback(tracking_uri=mlflow_store(tmp_path)),
        At({2: gate.touch}),
    ]
    better = taped_clip(1, episode_return=9.0, gate=str(gate))
    direct = tm.Video((np.full((32, 32, 3), 9, np.uint8) for _ in range(3)), episode=tm.EpisodeRecord("e2", 1.0, 3))
    trial = FakeTrial(tmp_path)
    run(callbacks, trial, [{"best": better}, {"best": direct}, {"score": 1.0}])
    uri = mlflow_store(tmp_path)
    for held in (read_wandb(tmp_path / "storage/t1"), read_mlflow(uri, str(trial))):
        clips = held.clips["train/best"]
        assert {step: probe_video(clip).frames for step, clip in clips.items()} == {1: 5, 2: 3}
    client = MlflowClient(uri)
    runs = client.search_runs([experiment.experiment_id for experiment in client.search_experiments()])
    assert [run.data.metrics["best_return"] for run in runs if "best_return" in run.data.metrics] == [9.0]


def test_the_tapes_of_each_key_are_rendered_in_order_and_a_few_of_a_recipe_in_a_row(tmp_path, gate):
    sweep = Sweep(tmp_path, backend=(notes := Notes()), strict=True, flush_seconds=600.0)
    told = {"gate": str(gate), "told": str(tmp_path / "told")}
    for number in range(1, 11):
        clips = {key: taped_clip(number, creator=Reset, of=key, **told) for key in ("best", "worst")}  # two recipes
        sweep.report(number, **clips)
    gate.touch()
    sweep.end()
    assert notes.media_of("best") == notes.media_of("worst") == list(range(1, 11))
    processes = [line for line in (tmp_path / "told").read_text().split() if line != str(os.getppid())]
    assert [len(list(tapes)) for _, tapes in itertools.groupby(processes)] == [8, 8, 2, 2]


def test_long_work_of_a_tracker_and_rendering_take_turns_until_the_end(tmp_path, monkeypatch):
    class Slow(Notes):
        niceness, patience, begun, may_end = 5, 0.5, threading.Event(), threading.Event()

        def media(self, trial, entry):
            self.begun.set()
            self.may_end.wait(60)

    rendered, render = [], RenderPool.render
    monkeypatch.setattr(RenderPool, "render", lambda *tape, **how: (rendered.append(1), render(*tape, **how))[1])
    sweep = Sweep(tmp_path, backend=Slow())
    sweep.report(1, clip=tm.Artifact(b"1", name="1.bin"))
    assert Slow.begun.wait(60)
    sweep.report(2, best=taped_clip(2))
    wait_until(lambda: sweep.session._renderer._worker is not None)
    sweep.session._renderer._worker.join(0.5)
    assert not rendered
    sweep.end()
    Slow.may_end.set()
    assert rendered
    assert listed(sweep)["best", 2] == "stored"


def test_what_waits_for_a_tracker_with_long_work_is_done_before_the_next_tape(tmp_path, monkeypatch):
    order, render = [], RenderPool.render

    class Slow(Notes):
        niceness, begun, may_end = 5, threading.Event(), threading.Event()

        def media(self, trial, entry):
            order.append(entry.key)
            self.begun.set()
            self.may_end.wait(60)

    monkeypatch.setattr(RenderPool, "render", lambda *tape, **how: (order.append("tape"), render(*tape, **how))[1])
    sweep = Sweep(tmp_path, backend=Slow())
    sweep.report(1, a=tm.Artifact(b"1", name="1.bin"), b=tm.Artifact(b"2", name="2.bin"))
    assert Slow.begun.wait(60)
    sweep.report(2, best=taped_clip(2))
    wait_until(lambda: sweep.session._renderer._worker is not None)
    Slow.may_end.set()
    wait_until(lambda: "tape" in order)
    sweep.end()
    assert order == ["a", "b", "tape", "best"]


def test_the_views_of_a_tape_are_rendered_at_once_and_the_tapes_in_order_by_one_process(tmp_path, gate):
    sweep = Sweep(tmp_path, backend=(notes := Notes()), strict=True, flush_seconds=600.0)
    views = {"left": "render", "right": "render"}
    places = {name: str(tmp_path / name) for name in ("gate", "told", "tells")}
    for iteration in range(1, 5):
        clip = taped_clip(iteration, creator=Reset, frame=views, **places)
        episodes = {view: replace(clip.episode, view=view) for view in views}
        clips = {view: TapedClip(clip.tape, clip.recipe, episode) for view, episode in episodes.items()}
        sweep.report(iteration, **clips)
        if iteration == 1:
            wait_until((tmp_path / "tells").exists)  # it is under way
    gate.touch()
    sweep.end()
    assert notes.media_of("left") == notes.media_of("right") == [1, 2, 3, 4]
    processes = [line for line in (tmp_path / "told").read_text().split() if line != str(os.getppid())]
    assert len(processes) == 4
    assert len(set(processes)) == 1


def test_an_env_that_cannot_be_made_on_the_driver_is_recorded_directly_from_then_on(tmp_path):
    sweep, clip = Sweep(tmp_path, flush_seconds=600.0), taped_clip(1, creator=OnlyHere, process=os.getpid())
    sweep.report(1, best=clip)
    sweep.end()
    (line,) = sweep.lines()
    assert line["status"] == "failed"
    assert "the env cannot be made again: ImportError: its packages are not installed here" in line["note"]
    assert not verdict_on(clip.recipe.hash).repeats


def test_a_render_process_that_is_killed_is_replaced_and_a_tape_that_kills_two_stays_one(tmp_path, gate, capsys):
    sweep = Sweep(tmp_path, backend=(notes := Notes()), flush_seconds=600.0)  # four processes, on a busy machine
    told = tmp_path / "told"
    sweep.report(1, best=taped_clip(2, creator=Fatal, gate=str(gate), told=str(told), deaths=1))
    sweep.report(2, best=taped_clip(3, creator=Fatal, gate=str(gate), told=str(tmp_path / "other"), deaths=9))
    gate.touch()
    sweep.end()
    assert notes.media_of("best") == [1]
    assert [line["status"] for line in sweep.lines()] == ["stored", "tape"]
    assert "the process that renders died of it twice" in sweep.lines()[1]["note"]
    assert len((tmp_path / "other").read_text()) == 2


def test_what_a_trial_leaves_behind_is_not_rendered_and_what_it_keeps_is(tmp_path, gate):
    sweep = Sweep(tmp_path, backend=(notes := Notes()), strict=True)
    for iteration in (1, 2, 3):
        sweep.report(iteration, best=taped_clip(iteration, gate=str(gate)))
    sweep.report(2, best=taped_clip(7, gate=str(gate)))
    gate.touch()
    sweep.end()
    lines = [(line["training_iteration"], line["status"], "rolled_back" in line) for line in sweep.lines()]
    assert lines == [(1, "stored", False), (2, "tape", True), (3, "tape", True), (2, "stored", False)]
    assert sorted(notes.media_of("best")) == [1, 2]
    assert "the trial went back behind it" in sweep.lines()[1]["note"]


def test_if_rendering_is_slower_the_oldest_stay_tapes_and_it_is_said(tmp_path, gate, monkeypatch, caplog, capsys):
    monkeypatch.setattr(tape_renderer, "_STALE_SECONDS", 0.0)
    sweep = Sweep(tmp_path, backend=(notes := Notes()), strict=True)
    for iteration in range(1, 6):
        begun = tmp_path / "begun"
        clips = {key: taped_clip(iteration, gate=str(gate), tells=str(begun)) for key in ("worst", "best")}
        if iteration == 1:
            clips["worst"] = clips["best"]
        sweep.report(iteration, **clips)
        if iteration == 1:
            wait_until(begun.exists)  # the first one is under way
    gate.touch()
    sweep.end()
    status = listed(sweep)
    tapes = [place for place in status if status[place] == "tape"]
    assert set(status.values()) == {"stored", "tape"}
    assert set(status) - set(tapes) == {("best", 1), ("worst", 1), ("best", 5), ("worst", 5)}
    assert notes.media_of("best") == notes.media_of("worst") == [1, 5]
    assert (
        f"{len(tapes)} of 10 clips wait as tapes; when the experiment has ended, `tune-media render "
        in capsys.readouterr().out
    )
    assert caplog.text.count("rendering is slower than recording") == 1


def test_the_end_of_a_trial_comes_after_its_clips_and_does_not_wait_for_ever(tmp_path, gate):
    sweep = Sweep(tmp_path, backend=(notes := Notes()), flush_seconds=0.5)
    sweep.report(1, best=taped_clip(1))
    wait_until(lambda: notes.media_of("best") == [1])
    sweep.report(2, best=taped_clip(2, gate=str(gate)))
    sweep.end()
    assert listed(sweep) == {("best", 1): "stored", ("best", 2): "tape"}
    assert notes.calls[-1] == ("end", "finished")
    assert "tune-media render" in lines_of(sweep)["best", 2]["note"]


def test_a_clip_that_is_not_its_episode_is_named_and_counted_and_the_others_are_there(tmp_path, capsys, caplog):
    sweep = Sweep(tmp_path, backend=(notes := Notes()))
    sweep.report(1, best=taped_clip(1, drawn=True), median=taped_clip(1))
    sweep.end()
    assert listed(sweep) == {("best", 1): "failed", ("median", 1): "stored"}
    assert "at step" in lines_of(sweep)["best", 1]["note"] or "at the reset" in lines_of(sweep)["best", 1]["note"]
    assert "render='direct'" in caplog.text
    assert notes.media_of("median") == [1]
    assert "1 could not be stored" in capsys.readouterr().out


def test_if_a_replay_differs_the_tapes_that_wait_stay_tapes_and_those_of_other_recipes_are_rendered(tmp_path, capsys):
    own, gate = uuid.uuid4().hex, tmp_path / "gate"
    sweep = Sweep(tmp_path, backend=(notes := Notes()), flush_seconds=600.0)
    sweep.report(1, best=taped_clip(1, jump=1, gate=str(gate), ballast=own))
    sweep.report(2, best=(clip := taped_clip(1, gate=str(gate), ballast=own)), worst=clip)
    sweep.report(3, best=taped_clip(2, shown=0, gate=str(gate), ballast=own))  # with a picture of its own, too
    sweep.report(4, best=taped_clip(3, gate=str(gate)))
    gate.touch()
    sweep.end()
    lines = lines_of(sweep)
    refused = {("best", 1): "failed", ("best", 2): "tape", ("worst", 2): "tape", ("best", 3): "tape"}
    assert listed(sweep) == refused | {("best", 4): "stored"}
    assert lines["best", 1]["note"].startswith("at step 4")
    for place in (("best", 2), ("worst", 2), ("best", 3)):
        note = lines[place]["note"]
        assert note.startswith("not rendered: episodes of this env cannot be played again, and env runners record dir")
        assert "at step 4" in note
    assert notes.media_of("best") == [4]
    told = capsys.readouterr().out
    assert told.count("episodes of this env cannot be played again") == 1
    assert "(2 episodes without a clip)" in told
    assert "1 could not be stored" in told


def test_a_tape_of_a_recipe_that_somebody_else_has_refused_stays_a_tape(tmp_path):
    sweep, clip = Sweep(tmp_path, strict=True), taped_clip(1, ballast=uuid.uuid4().hex)
    refuse(clip.recipe.hash, "another process saw another episode")
    sweep.report(1, best=clip)
    sweep.end()
    assert listed(sweep) == {("best", 1): "tape"}


def test_the_last_line_says_that_a_clip_shows_nothing(tmp_path, capsys):
    sweep = Sweep(tmp_path)
    sweep.report(1, best=taped_clip(0), median=taped_clip(1))
    sweep.end()
    assert capsys.readouterr().out.count("a clip shows nothing: every frame is black") == 1


def test_a_driver_that_is_told_to_end_renders_nothing_and_a_restore_does(tmp_path, gate, capsys):
    sweep = Sweep(tmp_path, backend=(first := Notes()))
    sweep.report(1, best=taped_clip(1, gate=str(gate)))
    sweep.settle()
    state = sweep.callback.get_state()
    sweep.session.end_now()
    assert first.calls[-1] == ("end", "interrupted")
    assert listed(sweep) == {("best", 1): "waiting"}
    assert "1 of 1 clips wait as tapes" in capsys.readouterr().out
    gate.touch()
    again = Sweep(tmp_path, state, backend=(notes := Notes()), last=1, strict=True)
    again.report(2, best=taped_clip(2))
    again.end()
    assert listed(again) == {("best", 1): "stored", ("best", 2): "stored"}
    assert sorted(notes.media_of("best")) == [1, 2]
    assert notes.calls[-1] == ("end", "finished")
    assert not list((tmp_path / "outbox").iterdir())


def test_a_tape_whose_render_process_is_ended_with_the_driver_waits_for_a_restore(tmp_path, monkeypatch):
    begun, killed = threading.Event(), threading.Event()

    def is_read(clip, pool):
        begun.set()
        killed.wait(60)
        raise ValueError("I/O operation on closed file")

    monkeypatch.setattr(TapedClip, "clips_by", is_read)
    monkeypatch.setattr(RenderPool, "kill", lambda pool: killed.set())
    sweep = Sweep(tmp_path)
    sweep.report(1, best=taped_clip(1))
    assert begun.wait(60)
    sweep.session.end_now()
    assert listed(sweep) == {("best", 1): "waiting"}


def test_a_disk_that_is_full_when_tapes_are_left_raises_nothing(tmp_path, gate, monkeypatch, capsys, caplog):
    sweep = Sweep(tmp_path, flush_seconds=0.2)
    sweep.report(1, best=taped_clip(1, gate=str(gate)))
    sweep.settle()

    def refuse(*arguments, **options):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(Outbox, "end", refuse)
    sweep.end()
    assert "database or disk is full" in caplog.text
    assert "tune_media: " in capsys.readouterr().out


@pytest.mark.parametrize("goes_on", [True, False])
def test_tapes_whose_driver_and_its_disk_are_lost_are_listed_as_tapes(tmp_path, monkeypatch, goes_on):
    kill_at(tmp_path, "under way")
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "another machine"))
    trial = FakeTrial(tmp_path, "t1" if goes_on else "another")
    trial.last_result = {"training_iteration": 2 if goes_on else 0}
    run([tm.MediaLoggerCallback(Notes())], trial, [{"score": 1.0, "training_iteration": 3}])
    (line,) = valid_lines((tmp_path / "storage/t1/media/index.jsonl").read_bytes())
    assert line["status"] == "tape"


@pytest.mark.parametrize("place", PLACES)
def test_a_driver_that_ends_between_result_and_clip_yields_the_clip_once(tmp_path, gate, place):
    state = kill_at(tmp_path, place)
    if place == "told to end":
        assert calls(tmp_path) == [["end", "interrupted"]]
    gate.touch()
    again = Sweep(tmp_path, state, backend=Tells(tmp_path), last=2)
    again.report(3, score=1.0)
    again.end()
    (line,) = again.lines()
    assert (line["status"], line["training_iteration"], "rolled_back" in line) == ("stored", 2, False)
    assert [file.name for file in (again.path / "media/train/best").iterdir()] == [line["path"].rpartition("/")[2]]
    media = [call for call in calls(tmp_path) if call[0] == "media"]
    assert media == [["media", 2, line["id"]]] * max(1, len(media))
    assert calls(tmp_path)[-1] == ["end", "finished"]
    assert not list((tmp_path / "outbox").iterdir())


def test_loggers_of_ray_alone_render_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(RenderProcess, "_start", functools.partial(pytest.fail, "a process was started"))
    clip = taped_clip()
    trial = FakeTrial(tmp_path)
    run([JsonLoggerCallback(), CSVLoggerCallback(), TBXLoggerCallback()], trial, [{"best": clip, "score": 1.0}])
    (line,) = map(json.loads, (tmp_path / "driver/staging/t1/result.json").read_text().splitlines())
    assert len(str(line["best"])) < 100
    assert len(pickle.dumps(clip)) < 4000
    assert pickle.loads(pickle.dumps(clip)).facts() == clip.facts()


def test_the_recipe_of_many_tapes_is_once_in_the_outbox_and_goes_with_the_last_one(tmp_path, gate):
    sweep = Sweep(tmp_path, strict=True)
    clips = [taped_clip(number, gate=str(gate), ballast="x" * 100_000) for number in range(4)]
    sweep.report(1, **{f"clip{number}": clip for number, clip in enumerate(clips)})
    outbox = sweep.session.services.outbox
    assert 1 < outbox.nbytes / len(clips[0].recipe.content) < 1.1
    gate.touch()
    sweep.settle()
    wait_until(lambda: outbox.nbytes == 0)
    sweep.report(2, again=taped_clip(1, gate=str(gate), ballast="x" * 100_000))
    sweep.end()
    assert set(listed(sweep).values()) == {"stored"}
