"""Faults under a real sweep: training goes on, what could be kept is kept, and what could not is counted and named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.fs
import pytest
from ray import tune

import tune_media as tm
from tests.support.faults import (
    ITERATIONS,
    RESULTS,
    At,
    BrokenRuns,
    BrokenWriter,
    Mounts,
    Orders,
    assert_all_listed,
    assert_all_stored,
    assert_nothing_lost,
    assert_readable,
    assert_relisted,
    assert_scalars,
    assert_shown,
    assert_trained,
    faulty,
    fill,
    goes_on,
    running_session,
    s3_storage,
    server_of_errors,
    sweep,
    wait_until,
)
from tests.support.trackers import mlflow_store, read_mlflow, read_wandb
from tests.support.trial_life import assert_tensorboard_shows_once, index_lines, told
from tune_media.callbacks.mlflow.backend import MlflowBackend


@pytest.fixture(autouse=True)
def _soon_again(monkeypatch):
    """What failed is tried again soon: half a second and fifteen are too long for a test."""
    monkeypatch.setattr("tune_media.callbacks.outbox_thread._FIRST_PAUSE", 0.05)
    monkeypatch.setattr("tune_media.callbacks.outbox_thread._LONGEST_PAUSE", 0.2)


@pytest.fixture
def mounts():
    made = Mounts()
    yield made
    made.close()


@pytest.fixture
def orders(tmp_path):
    made = Orders(tmp_path / "orders")
    yield made
    for order in ("away", "slow"):
        made.take_back(order)


def callbacks(**options):
    media = tm.MediaOptions(**options)
    return [tm.JsonMediaLoggerCallback(media), tm.TBXMediaLoggerCallback(media)]


@pytest.mark.parametrize("fault", ["No space left", "Read-only file system"])
def test_a_disk_that_is_full_or_read_only_for_a_while(ray_session, tmp_path, mounts, caplog, fault):
    disk = mounts.mount(tmp_path / "disk", "size=4m")
    full = {4: lambda: fill(disk), 13: lambda: (disk / "filler").unlink()}
    read_only = {4: lambda: mounts.remount(disk, "ro"), 13: lambda: mounts.remount(disk, "rw")}
    results = sweep(disk, [*callbacks(), At(full if fault[0] == "N" else read_only)], log=tmp_path / "told")
    assert_nothing_lost(results, tmp_path / "told")
    assert fault in caplog.text
    assert "tried again" in caplog.text


def test_the_drivers_folder_full_or_read_only(ray_session, tmp_path, mounts, caplog):
    """Both at once, in one trial each."""
    options = {0: "size=4k", 1: "ro"}

    def mount(trial):
        mounts.mount(Path(trial.local_path) / "media", options[trial.config["trial"]])

    results = sweep(tmp_path, [At(start=mount), *callbacks()], log=tmp_path / "told")
    assert len(mounts.paths) == 2
    assert_nothing_lost(results, tmp_path / "told")


def test_an_s3_server_that_is_started_again(ray_session, tmp_path, caplog):
    moto = pytest.importorskip("moto.server")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    servers = [server]

    def start():
        wait_until(lambda: running_session().storage.is_away)
        servers.append(moto.ThreadedMotoServer(ip_address=host, port=port, verbose=False))
        servers[-1].start()

    filesystem = s3_storage(f"{host}:{port}")
    filesystem.create_dir("bucket")
    at = At({4: servers[-1].stop, 13: start})
    try:
        results = sweep("bucket/results", [*callbacks(), at], filesystem=filesystem, log=tmp_path / "told")
        assert_trained(results)
        for result in results:
            assert_all_stored(result.path, result.metrics["trial_id"], tmp_path / "told", filesystem)
            local = tmp_path / Path(result.path).name
            local.mkdir()
            pyarrow.fs.copy_files(result.path, str(local), source_filesystem=filesystem)
            assert_scalars(local)
            assert_shown(local)
    finally:
        servers[-1].stop()
    assert "tried again" in caplog.text


BROKEN_INDEX = [
    lambda content: b"",
    lambda content: content[: len(content) // 2],
    lambda content: bytes(range(256)) * 50,
    lambda content: b'[1, 2]\nnull\n{"id": 5}\n"text"\n{"v": 1, "id": "x", "path": "../../x"}\n' + content[100:],
]


def test_indices_that_are_broken_when_a_sweep_is_restored(ray_session, tmp_path, caplog):
    """Empty, cut in half, binary, other JSON: one in each of four trials; the driver's copies are lost."""
    log, first = tmp_path / "told", RESULTS // 2
    results = sweep(tmp_path, callbacks(), log=log, trainable=goes_on, fails_at=first, trials=4)
    assert len(results.errors) == 4
    assert len(told(log)) == 4 * 3 * first
    for index in (tmp_path / "sweep").glob("*/media/index.jsonl"):
        slot = int(index.parents[1].name.split("_")[3])
        index.write_bytes(BROKEN_INDEX[slot](index.read_bytes()))
    (log / "again").touch()
    results = tune.Tuner.restore(str(tmp_path / "sweep"), goes_on, resume_errored=True).fit()
    assert_trained(results)
    for result in results:
        assert_relisted(result.path, result.metrics["trial_id"], log)
        assert_scalars(result.path)
        assert_shown(result.path)
    told_of = [record for record in caplog.records if record.name == "tune_media" and record.levelname != "INFO"]
    assert all("passed over in" in record.getMessage() for record in told_of)


def with_a_bad_shape(config):
    tune.report({"clip": np.zeros((4, 16, 24, 2), np.uint8)})


NAMES = {"json": "JSON", "tensorboard": "TensorBoard", "wandb": "W&B", "mlflow": "MLflow"}


def all_callbacks(folder, uri=None, **options):
    media = tm.MediaOptions(**options)
    return {
        "json": tm.JsonMediaLoggerCallback(media),
        "tensorboard": tm.TBXMediaLoggerCallback(media),
        "wandb": tm.WandbMediaLoggerCallback(project="faults", mode="offline", media=media),
        "mlflow": tm.MLflowMediaLoggerCallback(
            uri or mlflow_store(folder), artifact_location=f"file://{folder}/mlruns", media=media
        ),
    }


def assert_backend_complete(kind, folder, trial):
    if kind == "json":
        return assert_scalars(trial)
    if kind == "tensorboard":
        return assert_shown(trial)
    held = read_wandb(trial) if kind == "wandb" else None
    held = held or read_mlflow(mlflow_store(folder), "_".join(trial.name.split("_")[:3]))
    assert sorted(held.clips["train/rollout"]) == ITERATIONS
    assert held.histograms["train/weights"] == {step: 10 * step for step in ITERATIONS}
    assert held.histograms["evaluation/episodes/speed"] == dict.fromkeys(ITERATIONS, 5)
    assert {step: held.scalars["level"][step] for step in ITERATIONS} == {step: step for step in ITERATIONS}
    return None


@pytest.mark.parametrize("broken", [("json", "wandb"), ("tensorboard", "mlflow")], ids="+".join)
def test_backends_that_raise_at_every_call(ray_session, tmp_path, monkeypatch, caplog, broken):
    def block(trial):
        if "json" in broken:
            (Path(trial.local_path) / "result.json").mkdir(parents=True)

    log = tmp_path / "told"
    start = lambda folder: ray_session.remote(BrokenRuns).options(num_cpus=0).remote()  # noqa: E731
    with server_of_errors() as uri:
        made = all_callbacks(tmp_path, uri if "mlflow" in broken else None)
        monkeypatch.setattr(MlflowBackend, "patience", 1.0 if "mlflow" in broken else None)
        if "tensorboard" in broken:
            made["tensorboard"]._summary_writer_cls = BrokenWriter
        if "wandb" in broken:
            monkeypatch.setattr("tune_media.callbacks.wandb.helper._start_actor", start)
        results = sweep(tmp_path, [At(start=block), *made.values()], log=log)
    assert_trained(results)
    for kind in broken:
        assert f"tune_media: {NAMES[kind]}: " in caplog.text
    for result in results:
        assert_all_stored(result.path, result.metrics["trial_id"], log)
        for kind in NAMES.keys() - set(broken):
            assert_backend_complete(kind, tmp_path, Path(result.path))


def test_a_slow_storage_and_slow_gifs_lose_nothing(ray_session, tmp_path, orders, capsys):
    log = tmp_path / "told"
    orders.give("slow")
    waiting = []

    def note():
        outbox = running_session().services.outbox
        waiting.append(outbox.last - outbox.position("storage"))

    own = [*callbacks(gif_width=16), At({16: note})]
    results = sweep(tmp_path, own, filesystem=faulty(orders), log=log, pause=0.0, size=64)
    assert_trained(results)
    assert waiting[0] > 10, "the last result came only after most was written: Tune's loop was held"
    for result in results:
        lines, trial = index_lines(result.path), result.metrics["trial_id"]
        assert_all_listed(lines, trial, log)
        assert {line["status"] for line in lines} == {"stored"}
        for line in lines:
            assert_readable((Path(result.path) / line["path"]).read_bytes(), line)
        assert_scalars(result.path)
        assert sorted(tm.load(result.path).episodes()["episode_return"]) == ITERATIONS
        steps = assert_tensorboard_shows_once(result.path)
        assert steps["ray/tune/level"] == steps["evaluation/episodes/speed"] == ITERATIONS
    assert "could not be stored" not in capsys.readouterr().out


def test_strict_raises_the_first_fault_in_tunes_loop(ray_session, tmp_path):
    with pytest.raises(Exception, match="an array of shape"):
        sweep(tmp_path, callbacks(strict=True), log=tmp_path / "told", trainable=with_a_bad_shape)


def test_strict_raises_the_first_fault_in_the_background(ray_session, tmp_path, orders):
    at = At({4: lambda: orders.give("away")})
    with pytest.raises(Exception, match="the storage is away"):
        sweep(tmp_path, [*callbacks(strict=True, flush_seconds=6), at], filesystem=faulty(orders), log=tmp_path / "log")
