"""What the tests of faults share: trainables, storage that misbehaves when it is told to, and what is left."""

from __future__ import annotations

import contextlib
import hashlib
import json
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.fs
from fsspec.implementations.local import LocalFileSystem
from pyarrow.fs import FSSpecHandler, PyFileSystem
from ray import tune

import tune_media as tm
from tests.support.index_lines import parse_index
from tests.support.trial_life import (
    LOCAL,
    assert_tensorboard_shows_once,
    index_lines,
    load_state,
    report,
    stored_files,
    tell,
    told,
)
from tests.support.waiting import wait_until
from tune_media.callbacks.session import _SESSIONS, MediaSession
from tune_media.encoding.decode import probe_video
from tune_media.values.episodes import EpisodeBatch, EpisodeData, Series

RESULTS = 8  # of each trial
ITERATIONS = list(range(1, RESULTS + 1))
KEYS = ("rollout", "weights", "episodes/data")


def clip(level: int, size: int = 16, **more: Any) -> tm.Video:
    noise = np.random.default_rng(level).integers(0, 255, (3, size, size, 3), np.uint8)
    return tm.Video(iter(noise), fps=5, **more)


def episodes(name: str, step: int) -> EpisodeBatch:
    values = np.arange(5.0) * step
    record = tm.EpisodeRecord(f"{name}-{step}", float(step), len(values), metrics={"speed_avg": values.mean()})
    return EpisodeBatch((EpisodeData(record, {"speed": Series(values, 1, len(values))}),))


def make_result(log: str | Path, trial: str, iteration: int, size: int = 16) -> dict[str, Any]:
    """Make a result with a clip, a histogram and an episode, and tell of them."""
    video, weights = clip(iteration, size), tm.Histogram(np.arange(10.0 * iteration))
    batch = episodes(trial, iteration)
    ids = {"rollout": video.id, "weights": weights.id, "episodes/data": batch.id}
    for key, id in ids.items():
        tell(log, trial=trial, iteration=iteration, key=key, id=id)
    result = {"rollout": video, "weights": weights, "level": float(iteration)}
    return {**result, "evaluation": {"env_runners": {"episodes": {"data": batch}}}}


def train(config: dict[str, Any]) -> None:
    trial = tune.get_context().get_trial_id()
    for iteration in ITERATIONS:
        tune.report(make_result(config["log"], trial, iteration, config.get("size", 16)))
        time.sleep(config["pause"])


def goes_on(config: dict[str, Any]) -> None:
    """Save at each result, and fail at one unless there is a file ``again``."""
    trial = tune.get_context().get_trial_id()
    state = load_state(trial)
    for iteration in range(state["iteration"] + 1, RESULTS + 1):
        state["iteration"] = iteration
        report(make_result(config["log"], trial, iteration), state)
        if iteration == config["fails_at"] and not (Path(config["log"]) / "again").exists():
            raise RuntimeError("the trial fails, as it was told to")


def told_of(log: Path, trial: str) -> list[dict[str, Any]]:
    return [line for line in told(log) if line["trial"] == trial]


class At(tune.Callback):
    """Does things when so many results, of all trials, have come, or when a trial is about to start."""

    def __init__(self, actions: dict[int, Callable[[], None]] | None = None, start: Any = None, each: Any = None):
        self._actions, self._start, self._each = dict(actions or {}), start, each
        self.count = 0
        self.folders: dict[str, Path] = {}

    def __reduce__(self):
        return At, ()  # Tune pickles it, and uses the one that it was given

    def on_trial_start(self, iteration, trials, trial, **info):
        self.folders[trial.trial_id] = Path(trial.local_path)
        if self._start is not None:
            self._start(trial)

    def on_trial_result(self, iteration, trials, trial, result, **info):
        self.count += 1
        if self._each is not None:
            self._each()
        if self.count in self._actions:
            self._actions[self.count]()


def running_session() -> MediaSession:
    """Return the session of the experiment that runs."""
    (session,) = _SESSIONS.values()
    return session


class Orders:
    """What a storage is told, by files in a folder, so that it is told in all processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(exist_ok=True)

    def give(self, order: str) -> None:
        (self.folder / order).touch()

    def take_back(self, order: str) -> None:
        (self.folder / order).unlink(missing_ok=True)

    def is_given(self, order: str) -> bool:
        return (self.folder / order).exists()

    def met(self) -> int:
        """Return how many calls met an order."""
        file = self.folder / "met"
        return len(file.read_bytes()) if file.exists() else 0


class FaultyStorage(LocalFileSystem):
    """This machine's disk; but what our threads (not Tune's) ask of it goes as it is ordered.

    Orders: ``away`` (every call raises), ``slow`` (every write takes its time), ``hang`` (writes wait).
    """

    def __init__(self, orders: str, **more: Any) -> None:
        super().__init__(**{"auto_mkdir": True, **more})
        self.orders = Orders(Path(orders))

    def _meet(self, *, writes: bool = False) -> None:
        if not threading.current_thread().name.startswith("tune_media"):
            return
        if self.orders.is_given("away"):
            self._note()
            raise ConnectionError("the storage is away")
        if writes and self.orders.is_given("slow"):
            self._note()
            time.sleep(0.05)
        if writes and self.orders.is_given("hang"):
            self._note()
            while self.orders.is_given("hang"):
                time.sleep(0.05)

    def _note(self) -> None:
        with (self.orders.folder / "met").open("ab") as file:
            file.write(b".")

    def _meeting(name):  # noqa: N805
        def call(self, *args, **more):
            self._meet()
            return getattr(LocalFileSystem, name)(self, *args, **more)

        return call

    info, find, mkdir, makedirs, mv, rm = map(_meeting, ("info", "find", "mkdir", "makedirs", "mv", "rm"))

    def _open(self, path, mode="rb", **more):
        self._meet(writes="w" in mode)
        return super()._open(path, mode, **more)


def faulty(orders: Orders) -> pyarrow.fs.FileSystem:
    return PyFileSystem(FSSpecHandler(FaultyStorage(str(orders.folder))))


def s3_storage(address: str) -> pyarrow.fs.FileSystem:
    """Return an S3 server as storage; the client does not try again by itself."""
    return pyarrow.fs.S3FileSystem(
        access_key="a",
        secret_key="s",
        scheme="http",
        endpoint_override=address,
        region="us-east-1",
        allow_bucket_creation=True,
        connect_timeout=2,
        request_timeout=5,
        retry_strategy=pyarrow.fs.AwsStandardS3RetryStrategy(max_attempts=1),
    )


class Mounts:
    """Small filesystems of memory, which can be full or read-only; they are gone after the test."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def mount(self, path: str | Path, options: str) -> Path:
        Path(path).mkdir(parents=True, exist_ok=True)
        if run("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)):
            self.paths.append(str(path))
        return Path(path)

    def remount(self, path: str | Path, how: str) -> None:
        wait_until(lambda: run("mount", "-o", f"remount,{how}", str(path)))  # not while a file is being written

    def close(self) -> None:
        for path in self.paths:
            run("umount", "-l", path)


def run(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def fill(folder: Path) -> None:
    """Take all the room that is left."""
    with contextlib.suppress(OSError), (folder / "filler").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


@contextlib.contextmanager
def server_of_errors(status: int = 500) -> Iterator[str]:
    """Serve HTTP on loopback that answers one status to everything."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST = do_PUT = do_PATCH = answer  # noqa: N815

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@contextlib.contextmanager
def server_of_silence() -> Iterator[str]:
    """Listen on loopback, accept, and never answer."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        accepted: list[socket.socket] = []

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    accepted.append(listening.accept()[0])

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)
        for connection in accepted:
            connection.close()


class BrokenWriter:
    """What a TensorBoard writer is to its users, but that it raises at every call."""

    def __init__(self, *args: Any, **more: Any) -> None:
        self.file_writer = self

    def __getattr__(self, name: str) -> Any:
        def fail(*args: Any, **more: Any) -> None:
            raise RuntimeError("TensorBoard is broken")

        return fail


class BrokenRuns:
    """What W&B's helper process does, but that it raises at every call."""

    def begin(self, *args: Any) -> None:
        raise RuntimeError("W&B is broken")

    call = begin


def sweep(
    storage: Path | str,
    callbacks: list[tune.Callback],
    *,
    trainable: Callable[[dict[str, Any]], None] = train,
    filesystem: pyarrow.fs.FileSystem | None = None,
    log: Path,
    trials: int = 2,
    pause: float = 0.1,
    **config: Any,
) -> tune.ResultGrid:
    """Run trials side by side."""
    log.mkdir(exist_ok=True)
    return tune.Tuner(
        trainable,
        param_space={"trial": tune.grid_search(list(range(trials))), "log": str(log), "pause": pause, **config},
        run_config=tune.RunConfig(
            name="sweep", storage_path=str(storage), storage_filesystem=filesystem, verbose=0, callbacks=callbacks
        ),
    ).fit()


def assert_trained(results: tune.ResultGrid) -> None:
    """Assert that no trial was lost, nor a result of one."""
    assert not results.errors
    assert [result.metrics["training_iteration"] for result in results] == [RESULTS] * len(results)


def assert_all_listed(lines: list[dict[str, Any]], trial: str, log: Path) -> None:
    """Assert that all that a trial told is in its index, once."""
    wanted = {line["id"]: (line["key"], line["iteration"]) for line in told_of(log, trial)}
    assert len(wanted) == len(KEYS) * RESULTS
    assert sorted(line["id"] for line in lines) == sorted(wanted)
    assert {line["id"]: (line["key"], line["training_iteration"]) for line in lines} == wanted


def assert_all_stored(
    folder: str,
    trial: str,
    log: Path,
    filesystem: pyarrow.fs.FileSystem = LOCAL,
    lines: list[dict[str, Any]] | None = None,
) -> None:
    """Assert that all that a trial told is in its index once, and that it is there and can be read.

    ``lines`` are those of the index; None: all that there are, and no file is there besides.
    """
    found = index_lines(folder, filesystem) if lines is None else lines
    assert_all_listed(found, trial, log)
    assert {line["status"] for line in found} == {"stored"}
    for line in found:
        with filesystem.open_input_stream(f"{folder}/{line['path']}") as stream:
            content = stream.read()
        assert hashlib.sha256(content).hexdigest() == line["sha256"]
        assert_readable(content, line)
    if lines is None:
        media = {line["path"] for line in found if line["path"].startswith("media/")}
        assert stored_files(folder, filesystem) == sorted(media)


def assert_relisted(folder: str, trial: str, log: Path) -> None:
    """Assert that all media that a trial told are listed once, though their first lines were lost: by their files."""
    lines = parse_index((Path(folder) / "media/index.jsonl").read_bytes())
    media = [line for line in lines if line["key"] != "episodes/data"]
    wanted = {line["id"][:12]: line["key"] for line in told_of(log, trial) if line["key"] != "episodes/data"}
    assert len(wanted) == 2 * RESULTS
    assert sorted(line["id"][:12] for line in media) == sorted(wanted)
    assert {line["id"][:12]: line["key"] for line in media} == wanted
    assert {line["status"] for line in media} == {"stored"}
    assert sorted(line["path"] for line in media) == stored_files(folder, LOCAL)
    for line in media:
        content = (Path(folder) / line["path"]).read_bytes()
        assert len(content) == line["bytes"]
    reports = [line for line in lines if line["key"] == "episodes/data"]
    assert sorted(line["training_iteration"] for line in reports) == ITERATIONS
    assert {(line["kind"], line["status"], line["trial_id"]) for line in reports} == {("episodes", "stored", trial)}
    table = tm.load(folder).episodes()
    assert sorted(table["episode_id"]) == sorted(f"{trial}-{iteration}" for iteration in ITERATIONS)


def assert_readable(content: bytes, line: dict[str, Any]) -> None:
    """Assert that a file can be read and holds what its line says."""
    if line["kind"] == "video":
        assert probe_video(content).frames == 3
    elif line["kind"] == "histogram":
        assert json.loads(content)["count"] == 10 * line["training_iteration"]
    else:
        (episode,) = [one for one in json.loads(content) if one["recorder"] == "episodes"]
        assert episode["episode_return"] == line["training_iteration"]
        assert episode["series"]["speed"] == [value * line["training_iteration"] for value in range(5)]


def assert_scalars(folder: str | Path) -> None:
    """Assert that a trial's (local) result.json is complete."""
    lines = (Path(folder) / "result.json").read_text().splitlines()
    assert [json.loads(line)["level"] for line in lines] == ITERATIONS


def assert_shown(folder: str | Path) -> None:
    """Assert that TensorBoard shows all of a trial once."""
    steps = assert_tensorboard_shows_once(folder)
    assert steps["train/rollout"] == steps["train/weights"] == ITERATIONS
    assert steps["ray/tune/level"] == ITERATIONS
    assert steps["evaluation/episodes/speed"] == ITERATIONS


def assert_nothing_lost(results: tune.ResultGrid, log: Path) -> None:
    """Assert that a sweep is complete on its (local) storage."""
    assert_trained(results)
    for result in results:
        assert_all_stored(result.path, result.metrics["trial_id"], log)
        assert_scalars(result.path)
        assert_shown(result.path)
