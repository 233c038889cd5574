"""The log writer for rsl_rl makes a run's log folder a trial, alone and under the real runner."""

import dataclasses
import functools
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import tune_media as tm
from tests.support.commands import command
from tests.support.viewing import moving_bar
from tests.support.waiting import wait_until
from tune_media import rsl_rl
from tune_media.rsl_rl import LogWriter

ROOT = Path(__file__).parents[1]


@functools.cache  # the encoder does not repeat its bytes
def mp4(number=0):
    return tm.Video(moving_bar(4 + number), fps=10).data


def log(writer, folder, iteration, **metrics):
    """Make the calls that rsl_rl makes in an iteration."""
    writer.add_scalar("Loss/value", 0.5, iteration)
    writer.add_scalar("Train/mean_reward", float(metrics.get("reward", iteration)), iteration)
    writer.add_scalar("Train/mean_reward/time", 1.0, 7777)
    for path in folder.rglob("*.mp4"):
        writer.save_video(path, iteration)


def put(folder, name, content):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


@pytest.fixture
def run(tmp_path):
    return tmp_path / "runs" / "one"


@pytest.fixture
def begin(run):
    """Return a function that begins to write as a process does; unended writers are ended, as if they were killed."""
    writers = []

    def begin_now(steps=8, folder=run, **more):
        writer = LogWriter(log_dir=str(folder))
        writer.store_config({}, {"num_steps_per_env": steps, **more})
        writers.append(writer)
        return writer

    yield begin_now
    for writer in writers:
        writer._tell_watch("")


def clips(run):
    (trial,) = tm.load(run).trials
    return [(line["section"], line["step"], line.get("rolled_back", False)) for line in trial.lines]


def test_each_iteration_is_a_result_and_names_its_checkpoint(run, begin):
    writer = begin()
    for iteration in range(4):
        log(writer, run, iteration, reward=10 * iteration)
        if iteration % 2 == 0:
            writer.save_model(str(run / f"model_{iteration}.pt"), iteration)
    writer.save_model(str(run / "model_3.pt"), 3)
    writer.stop()
    (trial,) = tm.load(run.parent).trials
    assert trial.curves()["step"] == [0, 1, 2, 3]
    assert trial.curves()["metrics"]["episode_return_mean"] == [0, 10, 20, 30]
    results = [json.loads(line) for line in (run / "result.json").read_text().splitlines()]
    assert [(one["training_iteration"], one.get("checkpoint_dir_name"), one["done"]) for one in results] == [
        (0, "model_0.pt", False),
        (1, None, False),
        (2, "model_2.pt", False),
        (3, "model_3.pt", False),
        (3, "model_3.pt", True),
    ]
    assert trial.status.word == "terminated"
    told = command("list", run.parent)
    assert "takes each mp4 that is written into its log folder" in told and "record_episodes" not in told


def test_a_clip_is_taken_once_when_it_grows_no_more_and_is_whole(run, begin):
    writer, whole = begin(), mp4()
    put(run, "eval/a.mp4", whole[: len(whole) // 2])
    for iteration in (1, 2, 3):  # it grows no more, and is not whole
        log(writer, run, iteration)
    assert clips(run) == []
    put(run, "eval/a.mp4", whole)
    log(writer, run, 4)
    assert clips(run) == []
    for iteration in range(5, 9):
        log(writer, run, iteration)
    assert clips(run) == [("evaluation", 1, False)]  # the iteration that saw it first
    writer.stop()
    assert len(clips(run)) == 1


def test_the_name_of_record_video_tells_the_iteration_and_no_other_number_does(run, begin):
    writer = begin(steps=8)
    for iteration in range(30, 35):
        log(writer, run, iteration)
    put(run, "videos/train/rl-video-step-16.mp4", mp4(0))
    put(run, "videos/train/rl-video-step-999.mp4", mp4(1))  # not yet: its steps are others
    put(run, "videos/play/rl-video-step-24.mp4", mp4(2))
    put(run, "rollout3.mp4", mp4(3))
    for iteration in range(35, 37):
        log(writer, run, iteration)
    steps = [(section, step) for section, step, _ in clips(run)]
    assert sorted(steps) == [("evaluation", 33), ("train", 32), ("train", 35), ("train", 35)]


def test_clips_of_the_last_iteration_are_taken_at_the_end_and_a_broken_one_is_named(run, begin, caplog):
    writer = begin()
    log(writer, run, 1)
    put(run, "a.mp4", mp4())
    put(run, "b.mp4", mp4()[:-100])
    writer.stop()
    assert clips(run) == [("train", 1, False)]
    assert "not a whole mp4, and left out: b.mp4" in caplog.text


def test_a_run_that_goes_on_has_each_clip_once_and_what_it_left_behind_is_rolled_back(run, begin):
    writer = begin(seed=1)
    for iteration in range(8):
        time.sleep(0.02)  # more than the clock of files counts
        put(run, f"videos/train/rl-video-step-{8 * iteration}.mp4", mp4(iteration))
        log(writer, run, iteration)
    with (run / "result.json").open("a") as file:  # killed while it wrote
        file.write('{"trial_id": "one", "training_it')
    writer = begin(seed=1, resume=True)
    put(run, "videos/train/rl-video-step-0.mp4", mp4(20))  # RecordVideo counts from 0 again
    for iteration in range(3, 6):
        log(writer, run, iteration)
    writer.stop()
    found = [(step, is_back) for _, step, is_back in clips(run)]
    back = [(4, True), (5, True), (6, True), (7, True)]
    assert sorted(found) == sorted([(0, False), (1, False), (2, False), (3, False), (3, False), *back])
    (trial,) = tm.load(run).trials
    assert trial.curves()["step"] == [0, 1, 2, 3, 4, 5]
    assert trial.config == {"num_steps_per_env": 8, "seed": 1}
    paths = [run / line["path"] for line in trial.lines]
    assert {path.read_bytes() for path in paths} == {mp4(n) for n in (*range(8), 20)}


def test_a_config_is_flat_without_what_tells_only_runs_apart(tmp_path, begin):
    @dataclasses.dataclass
    class Robot:
        mass: float = 2.0
        sensors: tuple = ("imu",)

    class EnvConfig:  # as Isaac Lab's
        def to_dict(self):
            return {"log_dir": "/somewhere", "robot": Robot(), "device": object}

    for seed in (1, 2):
        writer = LogWriter(str(tmp_path / f"run{seed}"))
        writer.store_config(EnvConfig(), {"seed": seed, "run_name": f"r{seed}", "algorithm": {"gamma": 0.9}})
        writer.add_scalar("Train/mean_reward", seed, 5)
        writer.stop()
    catalog = tm.load(tmp_path)
    assert catalog.differing_params == ["seed"]
    config = catalog.trials[0].config
    assert (config["env/robot/mass"], config["env/robot/sensors"], config["algorithm/gamma"]) == (2.0, '["imu"]', 0.9)
    assert catalog.compare()["n"].tolist() == [2]


def test_a_killed_run_failed_and_runs_beside_it_that_nothing_lists_stay_as_they_are(tmp_path):
    put(tmp_path, "old/rl-video-step-0.mp4", mp4())
    code = (
        "import sys, os, signal, tune_media.rsl_rl as r\n"
        "w = r.LogWriter(sys.argv[1])\n"
        "w.store_config({}, {'seed': 1})\n"
        "w.add_scalar('Train/mean_reward', 1.0, 1)\n"
        "w.save_model('model_1.pt', 1)\n"
        "print('ready', flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "new")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout.readline() == b"ready\n"
        assert status(tmp_path, "new") == "running"
        process.send_signal(signal.SIGKILL)
    wait_until(lambda: status(tmp_path, "new") == "error")
    catalog = tm.load(tmp_path)
    assert {trial.name: trial.is_abandoned for trial in catalog.trials} == {"new": False, "old": False}
    assert "it failed, or was killed" in next(t for t in catalog.trials if t.name == "new").status.error


def test_a_run_that_raises_has_the_traceback_as_its_error(tmp_path):
    code = (
        "import sys, tune_media.rsl_rl as r\n"
        "w = r.LogWriter(sys.argv[1])\n"
        "w.store_config({}, {'seed': 1})\n"
        "def learn():\n"
        "    raise RuntimeError('the ground is gone')\n"
        "learn()\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "new")]
    ended = subprocess.run(command, stderr=subprocess.PIPE, cwd=ROOT, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr.endswith("RuntimeError: the ground is gone\n")
    (trial,) = tm.load(tmp_path).trials
    assert (trial.status.word, trial.status.error) == ("error", "RuntimeError: the ground is gone")
    told = (tmp_path / "new" / "error.txt").read_text()
    assert "in learn\n" in told and "was killed" not in told


@pytest.mark.parametrize("also", [3, {}, {"class_name": 3}])
def test_another_writer_that_is_none_is_refused_before_anything_is_written(tmp_path, also):
    with pytest.raises(TypeError, match=r'LogWriter\(also=...\) takes .*"WandbLogWriter".* or "tensorboard", got '):
        LogWriter(str(tmp_path), also)
    assert not list(tmp_path.iterdir())


def test_an_older_rsl_rl_has_one_sentence_with_the_way_without_a_writer(tmp_path, monkeypatch):
    monkeypatch.setattr(rsl_rl, "_Base", object)  # as the import leaves it if rsl_rl has no writers
    monkeypatch.syspath_prepend(tmp_path)
    put(tmp_path, "rsl_rl_lib-5.3.0.dist-info/METADATA", b"Metadata-Version: 2.1\nName: rsl-rl-lib\nVersion: 5.3.0\n")
    with pytest.raises(ImportError, match=r"rsl_rl 5\.3\.0 takes no log writers, .* 5\.4 .*`tune-media watch logs`"):
        LogWriter(str(tmp_path / "run"))


class Failing:
    """A writer that never works, once it is made."""

    def __init__(self, log_dir, project):
        assert project == "walkers"

    def add_scalar(self, *arguments):
        raise ConnectionError("nobody answers")


@pytest.mark.slow
def test_every_call_reaches_another_writer_and_a_fault_of_it_is_one_warning(run, caplog):
    pytest.importorskip("rsl_rl")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    writer = LogWriter(str(run), "tensorboard")
    for iteration in range(3):
        log(writer, run, iteration)
    writer.stop()
    events = EventAccumulator(str(run)).Reload()
    assert [(event.step, event.value) for event in events.Scalars("Train/mean_reward")] == [(0, 0), (1, 1), (2, 2)]
    assert {event.step for event in events.Scalars("Train/mean_reward/time")} == {7777}

    other = run.with_name("other")
    writer = LogWriter(str(other), {"class_name": f"{__name__}:Failing", "project": "walkers"})
    for iteration in range(3):
        log(writer, other, iteration)
    writer.stop()
    (told,) = [record.getMessage() for record in caplog.records if "nobody answers" in record.getMessage()]
    assert told.startswith(
        "tune_media: not logged by also=: tests.test_rsl_rl:Failing.add_scalar raised ConnectionError"
    )
    assert tm.load(other).trials[0].curves()["step"] == [0, 1, 2]

    with pytest.raises(TypeError, match="project"):  # its own error, before training
        LogWriter(str(other), {"class_name": f"{__name__}:Failing"})


def status(folder, name):
    return next(trial.status.word for trial in tm.load(folder).trials if trial.name == name)


def test_a_full_disk_or_a_vanished_folder_does_not_end_the_training(run, begin, caplog):
    writer = begin()
    put(run, "a.mp4", mp4())
    log(writer, run, 1)
    log(writer, run, 2)
    run.rename(run.with_name("gone"))
    log(writer, run, 3)
    log(writer, run, 4)
    assert "is not stored" in caplog.text


@pytest.mark.slow
def test_the_real_runner_two_seeds_of_two_settings_one_killed_and_resumed(tmp_path):
    pytest.importorskip("rsl_rl")
    started = time.time()

    def start(setting, seed, iterations, killed_at=-1):
        folder = tmp_path / f"{setting}_{seed}"
        arguments = [str(folder), str(seed), str(setting), str(iterations), str(killed_at)]
        command = [sys.executable, "-m", "tests.support.rsl_rl_run", *arguments]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    whole = [(0.001, 1), (0.01, 0), (0.01, 1)]
    killed = start(0.001, 0, 9, killed_at=43)
    processes = [start(*one, 9) for one in whole]
    output = killed.communicate()[0]
    assert killed.returncode == -signal.SIGKILL, output
    wait_until(lambda: status(tmp_path, "0.001_0") == "error")
    (before,) = (trial for trial in tm.load(tmp_path).trials if trial.name == "0.001_0")
    assert [line["step"] for line in before.lines] == [0, 2]
    resumed = start(0.001, 0, 5)  # from model_4.pt
    for process in (*processes, resumed):
        output = process.communicate()[0]
        assert process.returncode == 0, output

    catalog = tm.load(tmp_path)
    trials = {trial.name: trial for trial in catalog.trials}
    assert {trial.status.word for trial in trials.values()} == {"terminated"}
    for name, trial in trials.items():
        # of the killed run: a clip that the kill left unlisted, and one of the same name after it
        steps = [0, 2, 4, 4, 6] if name == "0.001_0" else [0, 2, 4, 6]
        assert [line["step"] for line in trial.lines] == steps
        assert all(started < line["time"] <= time.time() and line["frames"] == 4 for line in trial.lines)
        assert trial.curves()["step"] == [0, 1, 2, 3, 4, 5, 6, 7, 8]
        assert {"Loss/value", "Episode/distance", "episode_return_mean"} <= trial.last_metrics.keys()
    assert set(catalog.differing_params) == {"algorithm/learning_rate", "seed"}
    assert catalog.compare()["n"].tolist() == [2, 2]
