"""W&B, offline: what fit() leaves in storage, record by record; a helper process that is killed, and one that hangs."""

import contextlib
import logging
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import ray
from ray import tune

import tune_media as tm
from tests.support.experiment import fit, trial_folders
from tests.support.faults import episodes, wait_until
from tests.support.pictures import clip
from tests.support.trackers import read_wandb, wandb_records, wandb_runs
from tune_media.encoding.decode import probe_video


def run_sweep(trainable, folder, *, space=None, callbacks=(), **options):
    own = tm.WandbMediaLoggerCallback(project="p", mode="offline", **options)
    return fit(trainable, folder, [own, *callbacks], space=space, name=folder.name)


def steady(config):
    for step in range(1, 9):
        time.sleep(config["pause"])
        while step == 5 and not Path(config.get("goes_on", "/")).exists():
            time.sleep(0.1)
        tune.report({"score": step, "rollout": clip(10 * step), "text": "words", "array": np.zeros(3)})


def helpers_pids():
    """Return the processes of W&B's helper actors of this Ray; other tests may run beside this one."""
    logs = ray._private.worker._global_node.get_logs_dir_path()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            if b"ray::WandbRuns" in (process / "cmdline").read_bytes():
                found += [int(process.name)] * str((process / "fd" / "1").readlink()).startswith(logs)
    return found


@pytest.fixture(autouse=True)
def only_helpers_of_this_test():
    """Kill the helpers of earlier tests: Ray ends them late, and a test could send its signals to one of them."""
    if ray.is_initialized():
        for pid in helpers_pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not helpers_pids())


@pytest.fixture
def when_there_is_a_run(tmp_path, monkeypatch):
    """Return a function that has the helper process sent a signal once it has logged, and names a file for then."""
    monkeypatch.setenv("TUNE_MEDIA_OUTBOX", str(tmp_path / "outbox"))  # W&B's files are in it until the end
    done, threads = tmp_path / "done", []

    def wait(number):
        try:
            wait_until(lambda: any(file.stat().st_size for file in (tmp_path / "outbox").rglob("*.wandb")))
            time.sleep(1)
            os.kill(helpers_pids()[0], number)
        finally:
            done.touch()

    def begin(number):
        threads.append(threading.Thread(target=wait, args=(number,)))
        threads[0].start()
        return str(done)

    yield begin
    threads[0].join()


def test_an_offline_run_is_complete_and_can_be_synced(ray_session, tmp_path):
    results = run_sweep(
        steady,
        tmp_path,
        space={"pause": 0.0, "lr": tune.grid_search([0.5]), "seed": tune.randint(0, 9)},
        group="ours",
        episodes_artifact=True,
    )
    assert not results.errors
    (trial,) = trial_folders(results.experiment_path)
    held = read_wandb(trial)
    assert sorted(held.clips["train/rollout"]) == list(range(1, 9))
    assert {probe_video(data).fps for data in held.clips["train/rollout"].values()} == {10}
    assert held.scalars["score"] == {step: step for step in range(1, 9)}
    assert held.status == 0
    assert (held.config["lr"], held.config["configuration"]) == (0.5, "lr 0.5")  # runs of all seeds have it
    (file,) = wandb_runs(trial)
    (run,) = [record.run for record in wandb_records(file) if record.WhichOneof("record_type") == "run"]
    assert (run.project, run.run_group) == ("p", "ours")
    stored = {path.name: path.read_bytes() for path in (trial / "media/train/rollout").iterdir()}
    assert set(held.clips["train/rollout"].values()) == set(stored.values())  # the same mp4s, never encoded again
    kinds = [record.artifact.type for record in wandb_records(file) if record.WhichOneof("record_type") == "artifact"]
    assert kinds == ["episodes"]
    assert not list(Path(results.experiment_path).glob("*/*.tmp"))


@pytest.fixture
def wandb_process_of_the_users(tmp_path):
    """W&B's process after a run of the user's own: its address stays in the environment."""
    wandb = pytest.importorskip("wandb")
    wandb.teardown()
    wandb.init(mode="offline", dir=tmp_path, settings=wandb.Settings(silent=True)).finish()
    assert os.environ["WANDB_SERVICE"]
    yield
    wandb.teardown()


@pytest.mark.usefixtures("ray_session", "wandb_process_of_the_users")
def test_a_helper_that_is_killed_is_replaced_and_nothing_is_missing(tmp_path, caplog, when_there_is_a_run):
    results = run_sweep(steady, tmp_path, space={"pause": 0.2, "goes_on": when_there_is_a_run(signal.SIGKILL)})
    assert not results.errors
    (trial,) = trial_folders(results.experiment_path)
    assert len(wandb_runs(trial)) == 1  # of two, W&B would keep the one that is synced last
    held = read_wandb(trial)
    assert held.scalars["score"] == {step: step for step in range(1, 9)}
    assert sorted(held.clips["train/rollout"]) == list(range(1, 9))
    assert "process failed" in caplog.text


def test_a_helper_that_hangs_holds_nothing_up(ray_session, tmp_path, caplog, when_there_is_a_run):
    space = {"pause": 0.2, "goes_on": when_there_is_a_run(signal.SIGSTOP)}
    results = run_sweep(steady, tmp_path, space=space, upload_timeout=3, callbacks=[tm.JsonMediaLoggerCallback()])
    assert not results.errors
    assert "helper process hangs" in caplog.text
    assert "tune_media: W&B lacks " in caplog.text
    assert len(list(tmp_path.glob("*/*/media/train/rollout/*.mp4"))) == 8


def many(config):
    while not Path(config["goes_on"]).exists():
        time.sleep(0.1)
    for step in range(1, 61):
        tune.report({"score": step, "rollout": clip(step), "episodes": {"data": episodes("speed", step)}})


def test_a_helper_that_hangs_for_a_while_gets_all_of_it(ray_session, tmp_path, caplog, monkeypatch):
    def stop_and_go_on():
        wait_until(helpers_pids)
        (pid,) = helpers_pids()
        os.kill(pid, signal.SIGSTOP)
        (tmp_path / "goes on").touch()
        wait_until(lambda: len(list(tmp_path.glob("*/*/media/train/rollout/*.mp4"))) > 40)
        os.kill(pid, signal.SIGCONT)

    thread = threading.Thread(target=stop_and_go_on)
    thread.start()
    results = run_sweep(many, tmp_path, space={"goes_on": str(tmp_path / "goes on")})
    thread.join()
    assert not results.errors
    assert "W&B lacks" not in caplog.text
    (trial,) = trial_folders(results.experiment_path)
    found = read_wandb(trial)
    assert found.scalars["score"] == {step: step for step in range(1, 61)}
    stored = [row["training_iteration"] for row in tm.load(results.experiment_path) if row["kind"] == "video"]
    assert sorted(found.clips["train/rollout"]) == sorted(stored)
    assert found.histograms["train/episodes/speed"] == dict.fromkeys(range(1, 61), 5)
    assert found.status == 0


class Odd(tune.Trainable):
    def step(self):
        import wandb

        return {
            "score": self.iteration,
            "odd": np.zeros((5, 6, 7)),
            "own": wandb.Histogram([1, 2, 3]),
            "hidden": {"clip": clip(10)},
            "all": [clip(10), clip(20), clip(30)],
            "done": self.iteration == 3,
        }

    def save_checkpoint(self, folder):
        return {}


def test_what_ray_logs_is_logged_and_what_it_leaves_out_is_not(ray_session, tmp_path, caplog):
    options = {"excludes": ["hidden", "train/nothing"], "log_config": True}
    options["settings"] = {"api_key": (key := "9876543210" * 4), "silent": True}
    rays_would_raise = [tm.TBXMediaLoggerCallback()]
    with caplog.at_level(logging.DEBUG, "tune_media"):
        results = run_sweep(Odd, tmp_path, space={"deep": {"a": 5}}, callbacks=rays_would_raise, **options)
    assert not results.errors
    (trial,) = trial_folders(results.experiment_path)
    held = read_wandb(trial)
    assert held.scalars["score"] == {1: 0, 2: 1, 3: 2, 4: 3}
    assert not any("hidden" in key for key in held.clips)
    assert {step: len(found) for step, found in held.several["train/all"].items()} == dict.fromkeys((1, 2, 3, 4), 3)
    rows = [record.history for file in wandb_runs(trial) for record in wandb_records(file)
            if record.WhichOneof("record_type") == "history"]  # fmt: skip
    assert sum(any("own" in item.nested_key for item in row.item) for row in rows) == 4
    assert len(rows) <= 4 + 4  # of scalars, and of media that came after the last of them
    assert held.config["deep"] == {"a": 5}
    assert held.scalars["config/deep/a"] == dict.fromkeys((1, 2, 3, 4), 5)
    assert_is_nowhere(key, tmp_path, caplog)


def assert_is_nowhere(key, folder, caplog):
    """Assert that a key is in no message, no pickle and no log of Ray's."""
    assert key not in caplog.text
    logs = Path(ray._private.worker._global_node.get_logs_dir_path())
    files = [path for place in (folder, logs) for path in place.rglob("*") if path.is_file()]
    assert not [path for path in files if key.encode() in path.read_bytes()]


def failing(config):
    tune.report({"score": 1})
    raise RuntimeError("as it was told to")


def test_a_run_has_failed_as_its_trial_and_a_key_is_nowhere(ray_session, tmp_path, caplog, monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "")
    with caplog.at_level(logging.DEBUG, "tune_media"):
        run_sweep(failing, tmp_path, api_key=(key := "0123456789" * 4))
    (trial,) = trial_folders(tmp_path / tmp_path.name)
    assert read_wandb(trial).status == 1
    assert_is_nowhere(key, tmp_path, caplog)
