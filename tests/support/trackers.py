"""What trackers hold after a run, read from where they keep it: W&B's offline file, MLflow's and Trackio's stores."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import json
import os
import random
import re
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_BLOCK, _HEADER, _IDENT = 32768, 7, 7


@dataclass
class Held:
    """What a tracker holds of one trial: media by key and training iteration, scalars by name and training iteration.

    ``several``: all clips, where a result had several of one key. ``histograms``: how many values each counts.
    """

    clips: dict[str, dict[int, bytes]] = field(default_factory=lambda: defaultdict(dict))
    several: dict[str, dict[int, list[bytes]]] = field(default_factory=lambda: defaultdict(dict))
    images: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    histograms: dict[str, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    scalars: dict[str, dict[int, float]] = field(default_factory=lambda: defaultdict(dict))
    config: dict[str, Any] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    status: Any = None


def wandb_records(file: Path) -> Iterator[Any]:
    """Yield the records of an offline run: a LevelDB log of protobuf messages."""
    from wandb.proto import wandb_internal_pb2

    data = file.read_bytes()
    at, parts = _IDENT, b""
    while at + _HEADER <= len(data):
        left = _BLOCK - at % _BLOCK
        if left < _HEADER:
            at += left
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + _HEADER])
        parts += data[at + _HEADER : at + _HEADER + length]
        at += _HEADER + length
        if kind in (1, 4):  # whole, or the last part
            record = wandb_internal_pb2.Record()
            record.ParseFromString(parts)
            parts = b""
            yield record


def wandb_runs(trial: Path) -> list[Path]:
    """Return the offline files of a trial, in the order in which they were begun."""
    return sorted(Path(trial).glob("wandb/offline-run-*/*.wandb"))


def read_wandb(trial: Path) -> Held:
    """Read the offline runs of a trial from its storage."""
    held = Held()
    for file in wandb_runs(trial):
        step = -1
        for record in wandb_records(file):
            kind = record.WhichOneof("record_type")
            if kind == "run":
                for item in record.run.config.update:
                    held.config[item.key or "/".join(item.nested_key)] = json.loads(item.value_json)
            if kind == "summary":
                updates = record.summary.update
                held.summary |= {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in updates}
            if kind == "exit":
                held.status = record.exit.exit_code
            if kind != "history":
                continue
            row = _nested(record.history.item)
            own = record.history.step.num if record.history.HasField("step") else row.get("_step")
            assert own is None or own > step, "a row that W&B would drop"
            step = step if own is None else own
            for key, value in row.items():
                _read_wandb_value(held, file.parent / "files", row, key, value)
    return held


def _nested(items: Any) -> dict[str, Any]:
    """Return a row; a medium is several items, with keys below its own."""
    row: dict[str, Any] = {}
    for item in items:
        *path, last = item.nested_key or [item.key]
        inside = row
        for part in path:
            inside = inside.setdefault(part, {})
        inside[last] = json.loads(item.value_json)
    return row


def _read_wandb_value(held: Held, files: Path, row: dict, key: str, value: Any) -> None:
    if isinstance(value, dict) and "_type" in value and "media_step" in row:
        step = row["media_step"]
        if value["_type"] == "videos":
            held.several[key][step] = [(files / one["path"]).read_bytes() for one in value["videos"]]
        elif value["_type"] == "video-file":
            held.clips[key][step] = (files / value["path"]).read_bytes()
        elif value["_type"] == "image-file":
            assert (files / value["path"]).read_bytes()[:4] == b"\x89PNG"
            held.images[key].append(step)
        elif value["_type"] == "histogram":
            held.histograms[key][step] = round(sum(value["values"]))
    elif isinstance(value, (int, float)) and "training_iteration" in row:
        held.scalars[key][row["training_iteration"]] = value


def read_mlflow(tracking_uri: str, trial_name: str) -> Held:
    """Read a trial's only run."""
    from mlflow import MlflowClient

    client, held = MlflowClient(tracking_uri), Held()
    experiments = [experiment.experiment_id for experiment in client.search_experiments()]
    (run,) = client.search_runs(experiments, f"tags.trial_name = '{trial_name}'")
    held.status, held.config = run.info.status, run.data.params
    for name in run.data.metrics:
        for metric in client.get_metric_history(run.info.run_id, name):
            held.scalars[name][metric.step] = metric.value
    for path in _artifacts(client, run.info.run_id, ""):
        name, step = path.rpartition("/")[2], 0
        if name.startswith("step_"):
            step = int(name[5:14])
        key = path.rpartition("/")[0].removeprefix("media/")
        if path.endswith(".mp4"):
            held.clips[key][step] = Path(client.download_artifacts(run.info.run_id, path)).read_bytes()
        elif path.startswith("images/") and path.endswith(".png"):
            parts = name.replace("+", "%").split("%")
            held.images[re.sub("[~#]", "/", parts[0])].append(int(parts[2]))
        elif path.startswith(("media/", "histograms/")) and path.endswith(".json"):
            content = json.loads(Path(client.download_artifacts(run.info.run_id, path)).read_text())
            found = (
                {key: content}
                if path.startswith("media/")
                else {f"{key.removeprefix('histograms/')}/{own}": value for own, value in content.items()}
            )
            for own, histogram in found.items():
                held.histograms[own][step] = histogram["count"]
    return held


def _artifacts(client: Any, run_id: str, folder: str) -> Iterator[str]:
    for info in client.list_artifacts(run_id, folder or None):
        if info.is_dir:
            yield from _artifacts(client, run_id, info.path)
        else:
            yield info.path


@functools.cache
def _empty_store() -> bytes:
    """Return a database of MLflow's without runs: its tables take seconds, so one process makes them for all tests."""
    from mlflow import MlflowClient

    with contextlib.ExitStack() as until:
        folder = os.environ.get("TUNE_MEDIA_TESTS_SHARE") or until.enter_context(tempfile.TemporaryDirectory())
        fcntl.flock(until.enter_context(Path(folder, "mlflow.lock").open("w")), fcntl.LOCK_EX)
        made = Path(folder, "mlflow.db")
        if not made.exists():
            MlflowClient(f"sqlite:///{folder}/new.db").search_experiments()
            Path(folder, "new.db").rename(made)
        return made.read_bytes()


def mlflow_store(folder: Path, name: str = "mlflow.db") -> str:
    """Return the URI of an MLflow database in a folder; it is made, empty, unless it is there."""
    file = Path(folder, name)
    if not file.exists():
        file.write_bytes(_empty_store())
    return f"sqlite:///{file}"


def trackio_project(folder: Path) -> str:
    """Return the name of a project for a test's folder. Trackio reads ``TRACKIO_DIR`` when it is imported."""
    os.environ.setdefault("TRACKIO_DIR", tempfile.mkdtemp(prefix="tune_media-"))
    return re.sub(r"\W", "-", str(folder).strip("/"))


def trackio_rows(project: str, run: str) -> list[tuple[int, dict[str, Any]]]:
    """Return what Trackio's database has of a run: the step and the values of each row."""
    query = "SELECT step, metrics FROM metrics WHERE run_name = ? ORDER BY id"
    with contextlib.closing(sqlite3.connect(Path(os.environ["TRACKIO_DIR"], f"{project}.db"))) as database:
        return [(step, json.loads(values)) for step, values in database.execute(query, [run])]


def read_trackio(project: str, run: str) -> Held:
    """Read a trial's run, whose steps are training iterations; no value of it may be there twice."""
    held, seen = Held(), set()
    for step, values in trackio_rows(project, run):
        for name, value in values.items():
            assert (step, name) not in seen
            seen.add((step, name))
            kind = value["_type"] if isinstance(value, dict) else ""
            if kind in ("trackio.video", "trackio.image"):
                content = Path(os.environ["TRACKIO_DIR"], "media", value["file_path"]).read_bytes()
            if kind == "trackio.video":
                held.clips[name][step] = content
            elif kind == "trackio.image":
                assert content[:4] == b"\x89PNG"
                held.images[name].append(step)
            elif kind == "trackio.histogram":
                held.histograms[name][step] = round(sum(value["values"]))
            elif not kind:
                held.scalars[name][step] = value
    return held


def free_port() -> int:
    """Return a port that nobody listens at, and that the kernel gives to none that asks for any port."""
    for port in random.SystemRandom().sample(range(20_000, 32_000), 100):
        with socket.socket() as free, contextlib.suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port
    raise RuntimeError("no port is free")


class MlflowServer:
    """A real ``mlflow server`` on sqlite, over HTTP on loopback, that can be stopped and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self.port = free_port()
        self.uri = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--backend-store-uri", mlflow_store(self.folder, "server.db"), "--workers", "1"]
        command += ["--artifacts-destination", str(self.folder / "artifacts")]
        log = (self.folder / "server.log").open("ab")
        env = {**os.environ, "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}  # nine more processes
        self._process = subprocess.Popen(
            command, stdout=log, stderr=log, start_new_session=True, cwd=self.folder, env=env
        )
        for _ in range(720):
            try:
                with urllib.request.urlopen(f"{self.uri}/health", timeout=1) as answer:
                    if answer.status == 200:
                        return
            except OSError:
                time.sleep(0.25)
        raise RuntimeError((self.folder / "server.log").read_text()[-2000:])

    def stop(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Make the server hang: it accepts connections and does not answer."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGCONT)
