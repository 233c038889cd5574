"""Checkpoints of policies of another library, played while another program writes them, without Ray."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pyarrow.fs
import pytest

import tune_media as tm
from tests.support import aim
from tests.support.commands import split_runner
from tests.support.kills_after import KillsAfter
from tune_media.cli import main
from tune_media.evaluation import evaluated_trial, follow, jobs
from tune_media.evaluation.evaluation import Progress
from tune_media.replay.player import RenderError
from tune_media.replay.process import RenderProcess

pytestmark = pytest.mark.any_ray

FUNCTIONS = {"policy": aim.load_policy, "env": aim.make_env}
NAMES = [f"{aim.__name__}:{name}" for name in ("load_policy", "make_env")]


def written(folder, step, well=0.5):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"aim_{step}.json"
    path.write_text(json.dumps({"aim": well}))
    return path


def stored(evaluation):
    """Return what an evaluation holds of its episodes: all but ids and times."""
    episodes = evaluation.catalog.episodes()
    columns = ["trial", "training_iteration", "step", "seed", "episode_return", "episode_length"]
    return episodes[columns].sort_values(columns[:4]).reset_index(drop=True)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(follow, "_PAUSE", 0.2)
    monkeypatch.setattr(follow, "_SURE", 0.5)


class Acts(Progress):
    """Does something when a checkpoint has been played."""

    def __init__(self, *acts):
        self.acts = list(acts)

    def finished(self, checkpoint):
        if self.acts:
            self.acts.pop(0)()


def test_files_of_another_program_are_played_as_they_come_like_all_afterwards(tmp_path):
    folder = tmp_path / "models"
    written(folder, 100, 0.1)
    (folder / "notes.txt").write_text("no policy")
    later = [lambda: written(folder, 200, 0.9), lambda: written(folder, 1000, 0.5)]
    given = {"seeds": 5, "clips": None, **FUNCTIONS}
    found = tm.evaluate(folder, follow=True, until_idle=2.0, progress=Acts(*later), **given)
    assert [row.training_iteration for row in found.checkpoints] == [100, 200, 1000]
    assert found.best.checkpoint == "aim_200.json" and not found.problems
    afterwards = tm.evaluate(folder, checkpoint="all", name="afterwards", **given)
    assert stored(found).equals(stored(afterwards))
    assert found.to_pandas().equals(afterwards.to_pandas())
    assert set(tm.load(found.path).episodes()["step"]) == {100, 200, 1000}
    assert tm.evaluate(folder, checkpoint="all", **given).path == found.path  # it goes on with the same one


def test_a_file_that_is_being_written_is_not_read(tmp_path):
    folder = tmp_path / "models"
    written(folder, 1)
    broken = folder / "aim_2.json"

    def slowly():
        for end in range(1, 12):
            broken.write_text('{"aim": 0.75}'[: end + 2])
            time.sleep(0.1)

    writes = threading.Thread(target=slowly)
    found = tm.evaluate(
        folder, follow=True, until_idle=1.5, seeds=2, clips=None, progress=Acts(writes.start), **FUNCTIONS
    )
    writes.join()
    assert [(row.training_iteration, row.error) for row in found.checkpoints] == [(1, None), (2, None)]


def test_the_time_in_which_a_checkpoint_is_played_is_not_idle(tmp_path):
    folder = tmp_path / "models"
    written(folder, 1)
    found = tm.evaluate(
        folder,
        follow=True,
        until_idle=1.0,
        seeds=2,
        clips=None,
        progress=Acts(partial(comes_late, folder)),
        **FUNCTIONS,
    )
    assert [row.training_iteration for row in found.checkpoints] == [1, 2]


def comes_late(folder):
    """Write a checkpoint after a long time of playing, so that it is too young to be read at the next look."""
    time.sleep(1.5)
    written(folder, 2)


def test_what_was_deleted_before_it_was_played_is_named_and_what_was_played_stays(tmp_path):
    folder = tmp_path / "models"
    first, second, third = (written(folder, step) for step in (1, 2, 3))

    def deletes():
        second.unlink()
        first.unlink()

    found = tm.evaluate(folder, follow=True, until_idle=1.0, seeds=2, clips=None, progress=Acts(deletes), **FUNCTIONS)
    assert found.problems == ["aim_2.json of models was deleted before it was played"]
    assert [(row.checkpoint, row.episodes) for row in found.checkpoints] == [(first.name, 2), (third.name, 2)]


def test_what_one_folder_has_is_not_missing_in_another(tmp_path):
    for step, folder in enumerate("aab", 1):
        written(tmp_path / folder, step)
    pattern = f"{tmp_path}/*/aim_*.json"
    found = tm.evaluate(pattern, follow=True, until_idle=1.0, seeds=2, clips=None, **FUNCTIONS)
    assert (len(found.checkpoints), found.problems) == (3, [])


def test_one_that_could_not_be_played_is_not_said_to_be_deleted_first(tmp_path):
    folder = tmp_path / "models"
    first, second = (written(folder, step) for step in (1, 2))
    first.write_text("no policy")
    acts = Acts(first.unlink)
    found = tm.evaluate(folder, follow=True, until_idle=1.0, seeds=2, clips=None, progress=acts, **FUNCTIONS)
    (problem,) = found.problems
    assert problem.startswith("aim_1.json of models could not be played: ")
    assert [row.checkpoint for row in found.checkpoints] == [second.name]


def test_clips_that_a_machine_did_not_render_are_made_by_the_same_command(tmp_path, monkeypatch):
    def fails(*arguments, **how):
        raise RenderError("it died", has_died=True)

    given = {"seeds": 3, "clips": ("best", "worst"), **FUNCTIONS}
    path = written(tmp_path, 1)
    with monkeypatch.context() as patch:
        patch.setattr(RenderProcess, "render", fails)
        found = tm.evaluate(path, **given)
    assert len(found.problems) == len(found.catalog.clips) + 2 == 2
    again = tm.evaluate(path, **given)
    assert again.problems == [] and len(again.catalog.clips) == 2
    results = (Path(again.path) / path.name / "result.json").read_text().splitlines()
    assert len(results) == 1 and "lacks_clips" not in json.loads(results[0])


def test_one_checkpoint_is_not_followed(tmp_path):
    with pytest.raises(ValueError, match="--follow, plays all checkpoints: leave out checkpoint="):
        tm.evaluate(tmp_path, follow=True, checkpoint="best", **FUNCTIONS)
    with pytest.raises(ValueError, match="is one checkpoint: follow=True, or --follow, takes a folder"):
        tm.evaluate(written(tmp_path, 1), follow=True, **FUNCTIONS)


def sweep(folder, status="RUNNING", checkpoints=(0,)):
    """Write a trial of Tune's with checkpoints of another library, and its snapshot."""
    trial = folder / "trial_a"
    trial.mkdir(parents=True, exist_ok=True)
    (trial / "params.json").write_text("{}")
    for number in checkpoints:
        results = "".join(
            json.dumps({"training_iteration": at + 1, "timesteps_total": 100 * (at + 1), "trial_id": "a"}) + "\n"
            for at in range(number + 1)
        )
        (trial / "result.json").write_text(results)
        written(trial / f"checkpoint_{number:06d}", 0).rename(trial / f"checkpoint_{number:06d}" / "aim.json")
    state = {"trial_id": "a", "status": status, "relative_logdir": "trial_a", "trainable_name": "t"}
    (folder / "experiment_state-2026.json").write_text(json.dumps({"trial_data": [[json.dumps(state), "{}"]]}))
    return trial


def load_in_folder(path):
    return aim.load_policy(str(Path(path, "aim.json")))


def test_it_ends_with_the_sweep_and_names_what_tune_has_deleted(tmp_path):
    experiment = tmp_path / "sweep"
    trial = sweep(experiment)

    def goes_on():
        sweep(experiment, checkpoints=(1, 2, 3))
        shutil.rmtree(trial / "checkpoint_000001")  # as with num_to_keep

    def ends():
        shutil.rmtree(trial / "checkpoint_000000")
        sweep(experiment, "TERMINATED", ())

    given = {"seeds": 3, "clips": None, "policy": load_in_folder, "env": aim.make_env}
    found = tm.evaluate(experiment, follow=True, progress=Acts(goes_on, ends), **given)
    assert found.problems == ["checkpoint_000001 of trial_a was deleted before it was played"]
    assert [row.checkpoint for row in found.checkpoints] == [f"checkpoint_00000{number}" for number in (0, 2, 3)]
    assert sorted(set(stored(found)["step"])) == [100, 300, 400]
    again = tm.evaluate(experiment, follow=True, **given)
    assert again.to_pandas().equals(found.to_pandas())


def test_it_waits_for_the_first_trial_of_a_sweep(tmp_path, monkeypatch):
    monkeypatch.setattr(follow, "_NEXT", 0.2)
    experiment = tmp_path / "sweep"
    (experiment / "trial_a").mkdir(parents=True)
    state = {"trial_id": "a", "status": "PENDING", "relative_logdir": "trial_a"}
    (experiment / "experiment_state-2026.json").write_text(json.dumps({"trial_data": [[json.dumps(state), "{}"]]}))
    threading.Timer(1.5, sweep, (experiment, "TERMINATED")).start()
    given = {"seeds": 1, "clips": None, "policy": load_in_folder, "env": aim.make_env}
    found = tm.evaluate(experiment, trials=["all"], follow=True, **given)
    assert [row.checkpoint for row in found.checkpoints] == ["checkpoint_000000"]


def test_a_checkpoint_whose_result_is_not_written_waits_for_it(tmp_path):
    experiment = tmp_path / "sweep"
    trial = sweep(experiment)
    results = (trial / "result.json").read_text()
    (trial / "result.json").write_text("")
    writes = threading.Timer(1.0, lambda: ((trial / "result.json").write_text(results), sweep(experiment, "ERROR", ())))
    writes.start()
    given = {"seeds": 1, "clips": None, "policy": load_in_folder, "env": aim.make_env}
    found = tm.evaluate(experiment, follow=True, **given)
    assert set(stored(found)["step"]) == {100}


def follow_until_killed(folder):
    jobs.SOONEST = jobs.SHARE_OF_TIME = 0.0  # each episode is stored at once
    tm.evaluate(folder, follow=True, until_idle=1.0, seeds=5, clips=None, progress=KillsAfter(7), **FUNCTIONS)


def test_killed_it_goes_on_to_the_bit(tmp_path):
    for place in ("killed", "whole"):
        for step, well in ((1, 0.1), (2, 0.9), (3, 0.5)):
            written(tmp_path / place / "models", step, well)
    folder = tmp_path / "killed" / "models"
    code = f"from {__name__} import follow_until_killed as go; go({str(folder)!r})"
    killed = subprocess.run([sys.executable, "-c", code], check=False, cwd=Path(__file__).parents[2])
    assert killed.returncode == -signal.SIGKILL
    (place,) = (folder / "evaluations").iterdir()
    assert len(tm.load(place).episodes()) == 7
    given = {"follow": True, "until_idle": 1.0, "seeds": 5, "clips": None, **FUNCTIONS}
    broken, whole = tm.evaluate(folder, **given), tm.evaluate(tmp_path / "whole" / "models", **given)
    assert stored(broken).equals(stored(whole))
    tapes = [{e.row["seed"]: e.tape() for e in one.catalog.taped_episodes()} for one in (broken, whole)]
    assert tapes[0] == tapes[1] and len(stored(broken)) == 15


HAS_CLASSES = hasattr(os, "sched_setscheduler")  # of priority, as Linux


def hurry(process):
    """Let a follower have time that other tests want, too."""
    with contextlib.suppress(PermissionError):  # for root alone
        if HAS_CLASSES:
            os.sched_setscheduler(process.pid, os.SCHED_OTHER, os.sched_param(0))
        else:
            os.setpriority(os.PRIO_PROCESS, process.pid, 0)


def stands_back(process):
    if HAS_CLASSES:
        return os.sched_getscheduler(process.pid) == os.SCHED_IDLE
    return os.getpriority(os.PRIO_PROCESS, process.pid) == 19


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 2), (signal.SIGTERM, -signal.SIGTERM)])
def test_the_command_follows_with_low_priority_until_it_is_interrupted_and_says_that_it_goes_on(tmp_path, number, code):
    written(tmp_path / "models", 7)
    words = ["--policy", NAMES[0], "--env", NAMES[1], "--seeds", "0:2", "--no-clips", "--follow"]
    command = [sys.executable, "-m", "tune_media", "evaluate", str(tmp_path / "models"), *words]
    folder, pipe = Path(__file__).parents[2], subprocess.PIPE
    with subprocess.Popen(command, text=True, stdout=pipe, stderr=pipe, cwd=folder) as process:
        assert "waits for checkpoints" in process.stdout.readline()
        assert stands_back(process)
        while "aim_7.json" not in process.stdout.readline():
            hurry(process)
        process.send_signal(number)
        assert ("it was interrupted; run it again, and it goes on" in process.stderr.read()) is (code == 2)
    assert process.returncode == code


def test_one_policy_in_a_file_is_evaluated_and_another_one_under_its_name_anew(tmp_path):
    file = written(tmp_path, 1, 0.9).rename(tmp_path / "best.json")
    words = ["evaluate", str(file), "--policy", NAMES[0], "--env", NAMES[1], "--seeds", "0:3", "--no-clips", "--json"]
    first = json.loads(split_runner().invoke(main, words).stdout)
    assert first["path"].startswith(str(tmp_path / "evaluations")) and first["checkpoints"][0]["episodes"] == 3
    file.write_text(json.dumps({"aim": 0.1}))
    second = json.loads(split_runner().invoke(main, words).stdout)
    assert second["path"] == first["path"] and second["replaced"] == 3
    assert second["checkpoints"][0]["return_mean"] < first["checkpoints"][0]["return_mean"]


def test_two_files_with_one_number_are_refused_unless_a_pattern_tells_them_apart(tmp_path):
    written(tmp_path / "models", 5)
    (tmp_path / "models" / "vecnormalize_5.pkl").write_text("")
    with pytest.raises(ValueError, match=r"have one number: pass a pattern that only policies match"):
        tm.evaluate(tmp_path / "models", checkpoint="all", seeds=1, **FUNCTIONS)
    written(tmp_path / "twins", 5).rename(tmp_path / "twins" / "other_5.json")
    written(tmp_path / "twins", 5)
    with pytest.raises(ValueError, match=r"choose names in which it differs"):
        tm.evaluate(str(tmp_path / "twins" / "*.json"), seeds=1, **FUNCTIONS)
    found = tm.evaluate(str(tmp_path / "models" / "*.json"), seeds=1, clips=None, **FUNCTIONS)
    assert [row.checkpoint for row in found.checkpoints] == ["aim_5.json"]


def test_a_checkpoint_of_a_result_without_a_number_of_steps_has_its_iteration(tmp_path):
    store = evaluated_trial.EvaluatedTrial(pyarrow.fs.LocalFileSystem(), str(tmp_path), "a")
    store.finish(4, {"checkpoint": "checkpoint_000003"})
    (one,) = store.checkpoints("trial")
    assert (one.path, one.number, one.training_iteration, one.step) == ("trial/checkpoint_000003", 3, 4, 4)
