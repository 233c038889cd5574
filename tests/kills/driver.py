"""A driver without a Ray cluster: two trials, all callbacks, and a truth of its own of what it reports.

Each process has a staging folder of its own, as each Ray session has, and copies it to the storage as Tune does.
"""

from __future__ import annotations

import os
import pickle
import random
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow.fs
import ray
from ray.train._internal.storage import _FilesystemSyncer

import tune_media as tm
from tests.support.fake_trial import FakeTrial
from tests.support.json_lines import read_lines, write_line
from tests.support.taped import taped_clip
from tune_media.values.episodes import EpisodeBatch, EpisodeData

TRIALS = {"t1": 6, "t2": 9}  # results of each trial
OLD, OLD_TIMESTAMP = "t0", "2025-01-01_00-00-00"  # the trial of an earlier experiment of the same name
PATIENCE = 900.0  # seconds that the end may take, on a busy machine
SHARED, RAW, TAPED = "my key/best of 3?", "raw", "taped"
CLIP_KEYS = ("best", SHARED, TAPED)


@dataclass(frozen=True)
class Places:
    """Where the drivers of a round find everything."""

    folder: Path
    server: str  # of S3; "": this machine's own disk
    experiment: str
    mlflow: str  # the address of a server or a database
    mlflow_experiment: str
    has_tapes: bool  # some clips come as tapes, as with render="auto"


def filesystem_of(server: str) -> pyarrow.fs.FileSystem:
    if not server:
        return pyarrow.fs.LocalFileSystem()
    keys: dict[str, Any] = {"access_key": "x", "secret_key": "x", "region": "us-east-1"}
    keys |= {"request_timeout": 60, "connect_timeout": 60}  # the machine may be busy
    return pyarrow.fs.S3FileSystem(
        endpoint_override=server, scheme="http", allow_bucket_creation=True, allow_bucket_deletion=True, **keys
    )


class Calls(tm.Backend):
    name = "calls"

    def __init__(self, file: Path, process: int) -> None:
        self._file, self._process = file, process

    def _tell(self, **call: Any) -> None:
        write_line(self._file, {**call, "process": self._process})

    def start(self, trial):
        self._tell(call="start", trial=trial.trial_id)

    def metrics(self, trial, report):
        self._tell(call="metrics", trial=trial.trial_id, what=report.flat["number"], row=report.row)

    def media(self, trial, entry):
        assert entry.content()
        self._tell(call="media", trial=trial.trial_id, what=[entry.key, entry.path], row=entry.row, id=entry.medium.id)

    def end(self, trial, status):
        self._tell(call="end", trial=trial.trial_id, what=status)


class Trial(FakeTrial):
    def __init__(self, folder: Path, trial_id: str, filesystem: Any, experiment: str, staging: Path) -> None:
        super().__init__(folder, trial_id, filesystem=filesystem, lr=len(trial_id))
        self.storage.experiment_driver_staging_path = str(staging)
        self.storage.syncer = _FilesystemSyncer(storage_filesystem=filesystem)
        self.local_path = str(staging / trial_id)
        self.init_local_path()
        self.storage.experiment_fs_path = experiment
        self.storage.trial_fs_path = f"{experiment}/{trial_id}"

    def sync(self) -> None:
        staging, storage = self.storage.experiment_driver_staging_path, self.storage.experiment_fs_path
        command, arguments = self.storage.syncer._sync_up_command(staging, storage)
        command(**arguments)


def make_result(trial_id: str, iteration: int, number: int, *, has_tapes: bool) -> dict[str, Any]:
    frames = [np.full((16, 24, 3), (7 * number + 40 * index) % 256, np.uint8) for index in range(3)]
    clip = tm.Video(frames, fps=5)
    result: dict[str, Any] = {"training_iteration": iteration, "number": number, "level": float(iteration)}
    result |= {"timestamp": int(time.time()), "time_total_s": time.monotonic()}  # as Tune adds them
    result |= {"best": clip, SHARED: clip, "weights": tm.Histogram(np.arange(10.0 * iteration))}
    rng = np.random.default_rng(iteration if iteration % 2 else 1000 + number)  # every second one comes again
    result[RAW] = rng.integers(0, 255, (4, 16, 24, 3), np.uint8)
    record = tm.EpisodeRecord(f"{trial_id} {number}", float(number), 5, metrics={"speed": 1.0})
    result["episodes"] = {"data": EpisodeBatch((EpisodeData(record, {}),))}
    if has_tapes and iteration % 2:
        result[TAPED] = taped_clip(number % 12, float(number))
    if iteration % 3 == 0:
        result["large"] = tm.Artifact(np.random.default_rng(abs(number)).bytes(50_000), name="large.bin")
    return result


def use_folder(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    tempfile.tempdir = str(folder)
    names = ("TMPDIR", "WANDB_DIR", "WANDB_CONFIG_DIR", "WANDB_CACHE_DIR", "WANDB_DATA_DIR", "WANDB_ARTIFACT_DIR")
    os.environ.update(dict.fromkeys(names, str(folder)))


class InThisProcess:
    """An actor that lives in this process: there is no Ray here, and with it W&B's helper would die with the driver."""

    def __init__(self, kind: type, *arguments: Any) -> None:
        self._made = kind(*arguments)

    def __getattr__(self, method: str) -> Any:
        return SimpleNamespace(remote=getattr(self._made, method))


def have_no_ray() -> None:
    ray.remote = lambda kind: SimpleNamespace(
        options=lambda **_: SimpleNamespace(remote=lambda *arguments: InThisProcess(kind, *arguments))
    )
    ray.get_runtime_context = lambda: SimpleNamespace(get_node_id=lambda: 56 * "0")
    ray.wait = lambda answers, **_: (answers, [])
    ray.get = lambda answer: answer


def callbacks_of(places: Places, process: int) -> list[Any]:
    options = tm.MediaOptions(flush_seconds=PATIENCE)
    os.environ["MLFLOW_HTTP_REQUEST_TIMEOUT"] = "10"  # seconds: a server that hangs must not take a round's time
    is_store = places.mlflow.startswith("sqlite:")
    artifacts = f"file://{places.folder}/mlflow/artifacts" if is_store else None
    mlflow = tm.MLflowMediaLoggerCallback(
        places.mlflow, experiment_name=places.mlflow_experiment, artifact_location=artifacts, media=options
    )
    wandb = tm.WandbMediaLoggerCallback(project="kills", mode="offline", settings={"console": "off"}, media=options)
    own = tm.MediaLoggerCallback(Calls(places.folder / "calls.jsonl", process), options)
    return [tm.JsonMediaLoggerCallback(options), tm.TBXMediaLoggerCallback(options), wandb, mlflow, own]


def use_machine(places: Places) -> None:
    have_no_ray()
    use_folder(places.folder / "driver" / "tmp")
    os.environ["TUNE_MEDIA_OUTBOX"] = str(places.folder / "outbox")
    os.environ["TUNE_MEDIA_RENDER_NICENESS"] = "0"  # the machine is busy, and the end does not wait for ever


def leave_old_outbox(places: Places) -> None:
    """Be the driver of an earlier experiment of the same name, which is killed right after its results."""
    from ray.tune.callback import CallbackList

    use_machine(places)
    filesystem, staging = filesystem_of(places.server), places.folder / "driver" / "session_old" / "artifacts"
    trial = Trial(places.folder, OLD, filesystem, places.experiment, staging)
    trial.storage._timestamp = OLD_TIMESTAMP
    every, truth = CallbackList(callbacks_of(places, -1)), places.folder / "old.jsonl"
    every.setup(stop=None, num_samples=1, total_num_samples=1)
    every.on_trial_start(iteration=0, trials=[trial], trial=trial)
    for number in range(1, 6):
        _report(every, truth, [trial], trial, make_result(OLD, number, -number, has_tapes=False), -1)
    os._exit(9)


def drive(places: Places, process: int, seed: int) -> None:
    """Run the experiment, from the last snapshot if there is one; the seed is for pauses and snapshots.

    No thread starts until so many results are reported: from before the trials start, or from after that.
    """
    from ray.tune.callback import CallbackList

    folder, staging = places.folder, places.folder / "driver" / f"session_{process}" / "artifacts"
    rng, filesystem = random.Random(seed), filesystem_of(places.server)
    use_machine(places)
    truth, state_file = folder / "truth.jsonl", folder / "snapshot.pickle"
    callbacks = callbacks_of(places, process)
    trials = {id: Trial(folder, id, filesystem, places.experiment, staging) for id in TRIALS}
    reached = dict.fromkeys(TRIALS, 0)
    ended: set[str] = set()
    if state_file.exists():
        saved = pickle.loads(state_file.read_bytes())
        for callback, state in zip(callbacks, saved["states"], strict=True):
            if state is not None:
                callback.set_state(state)
        reached, ended = saved["checkpoints"], saved["ended"]
        for id, trial in trials.items():
            trial.last_result = saved["last"][id]
            trial.checkpoint = bool(trial.last_result)  # Ray reads the storage's result.json only if there is one
    every_trial, every = list(trials.values()), CallbackList(callbacks)
    every.setup(stop=None, num_samples=1, total_num_samples=1)

    def save() -> None:
        states = [callback.get_state() for callback in callbacks]
        last = {id: trial.last_result for id, trial in trials.items()}
        behind = {id: 0 if id in ended else min(reached[id], rng.randrange(2)) for id in TRIALS}
        checkpoints = {id: reached[id] - behind[id] for id in TRIALS}  # the last one may be older than the last result
        snapshot = {"states": states, "checkpoints": checkpoints, "ended": set(ended), "last": last}
        try:
            every_trial[0].sync()
        except OSError as error:  # Tune says so, too, and goes on without a snapshot
            print(f"no snapshot: {error}", flush=True)
            return
        state_file.with_suffix(".new").write_bytes(pickle.dumps(snapshot))
        state_file.with_suffix(".new").rename(state_file)

    number = sum(line["event"] == "report" for line in read_lines(truth))
    for id in ended:
        trials[id].status = "TERMINATED"
    if not state_file.exists():
        save()  # without it, nothing could be restored
    for id in trials.keys() - ended:
        write_line(truth, {"event": "start", "trial": id, "process": process})
        every.on_trial_start(iteration=0, trials=every_trial, trial=trials[id])
    while len(ended) < len(trials):
        id = rng.choice(sorted(trials.keys() - ended))
        trial = trials[id]
        if reached[id] >= TRIALS[id]:
            trial.status = "TERMINATED"
            every.on_trial_complete(iteration=1, trials=every_trial, trial=trial)
            ended.add(id)
            write_line(truth, {"event": "end", "trial": id, "process": process})
        else:
            number, reached[id] = number + 1, reached[id] + 1
            result = make_result(id, reached[id], number, has_tapes=places.has_tapes)
            _report(every, truth, every_trial, trial, result, process)
        if rng.random() < 0.3:
            save()
        time.sleep(rng.choice([0, 0, 0.02, 0.2]))
    save()
    every.on_experiment_end(trials=every_trial)
    write_line(truth, {"event": "over", "process": process, "time": time.time()})


def _report(every: Any, truth: Path, trials: list[Trial], trial: Trial, result: dict[str, Any], process: int) -> None:
    """Show a result to all callbacks, and tell of it before and afterwards."""
    iteration, number = result["training_iteration"], result["number"]
    places = {"episodes/data": result["episodes"]["data"], **result}
    media = {key: value for key, value in places.items() if hasattr(value, "kind") or key == RAW}
    told = {key: getattr(medium, "id", None) for key, medium in media.items()}
    line = {"trial": trial.trial_id, "iteration": iteration, "number": number, "process": process}
    write_line(truth, {"event": "report", **line, "media": told})
    every.on_trial_result(iteration=iteration, trials=trials, trial=trial, result=result)
    paths = {key: result["episodes"]["data"] if key == "episodes/data" else result[key] for key in media}
    write_line(truth, {"event": "returned", "number": number, "paths": paths})
    trial.last_result = result
