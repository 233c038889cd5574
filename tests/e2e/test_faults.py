"""Faults under a real sweep: training goes on, what could be kept is kept, and what could not is counted and named."""

from __future__ import annotations

import threading
from pathlib import Path

import gymnasium
import numpy as np
import pyarrow.fs
import pytest
from ray import tune

import tune_media as tm
from tests.support.faults import (
    ITERATIONS,
    LOCAL,
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
    make_result,
    running_session,
    s3_storage,
    server_of_errors,
    server_of_silence,
    sweep,
    wait_until,
)
from tests.support.trackers import mlflow_store, read_mlflow, read_wandb
from tests.support.trial_life import assert_tensorboard_shows_once, index_lines, told
from tune_media.callbacks.deliver import deliver
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
    for order in ("away", "slow", "hang"):
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


def test_a_disk_that_is_full_to_the_end(ray_session, tmp_path, mounts, caplog, capsys):
    disk, log = mounts.mount(tmp_path / "disk", "size=4m"), tmp_path / "told"
    at = At({4: lambda: fill(disk)})
    results = sweep(disk, [*callbacks(flush_seconds=5), at], log=log)
    assert_trained(results)
    out = capsys.readouterr().out
    assert int(out.partition("did not take ")[2].split()[0]) > 10
    assert f"tune-media deliver {disk / 'sweep'}" in out
    (disk / "filler").unlink()
    (delivered,) = deliver(LOCAL, str(disk / "sweep"), 60)
    assert delivered.is_whole
    for trial, folder in at.folders.items():
        assert_all_stored(str(disk / "sweep" / folder.name), trial, log)


def test_the_drivers_folder_full_or_read_only(ray_session, tmp_path, mounts, caplog):
    """Both at once, in one trial each."""
    options = {0: "size=4k", 1: "ro"}

    def mount(trial):
        mounts.mount(Path(trial.local_path) / "media", options[trial.config["trial"]])

    results = sweep(tmp_path, [At(start=mount), *callbacks()], log=tmp_path / "told")
    assert len(mounts.paths) == 2
    assert_nothing_lost(results, tmp_path / "told")


def test_storage_that_is_away_for_a_while(ray_session, tmp_path, orders, caplog):
    def comes_back():
        wait_until(orders.met)
        orders.take_back("away")

    at = At({4: lambda: orders.give("away"), 13: comes_back})
    results = sweep(tmp_path, [*callbacks(), at], filesystem=faulty(orders), log=tmp_path / "told")
    assert_nothing_lost(results, tmp_path / "told")
    assert "the storage is away" in caplog.text


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


def test_storage_that_hangs(ray_session, tmp_path, orders, caplog, capsys):
    log, at = tmp_path / "told", At({4: lambda: orders.give("hang")})
    results = sweep(tmp_path, [*callbacks(flush_seconds=6), at], filesystem=faulty(orders), log=log)
    assert orders.is_given("hang")  # and yet it ended
    assert orders.met() == 1
    assert_trained(results)
    assert "did not take" in capsys.readouterr().out
    orders.take_back("hang")
    (delivered,) = deliver(faulty(orders), str(tmp_path / "sweep"), 60)
    assert delivered.is_whole
    for result in results:
        assert_all_stored(result.path, result.metrics["trial_id"], log)
        assert_scalars(result.path)


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


class Unmakeable(tm.Artifact):
    def content(self):
        raise RuntimeError("the encoder is broken")


def with_odd_values(config):
    """Report what cannot be made or stored, beside what can."""
    trial = tune.get_context().get_trial_id()
    for iteration in ITERATIONS:
        result = make_result(config["log"], trial, iteration)
        result |= {"bad_shape": np.zeros((4, 16, 24, 2), np.uint8), "no_number": {"train": object()}}
        if not config.get("in_loop"):
            result |= {"unmakeable": Unmakeable(b"x", name="x.bin"), "clip": np.zeros((1, 3, 2, 16, 16), np.uint8)}
        tune.report(result)


class BadFrames(gymnasium.Env):
    """Renders nothing that is a picture."""

    render_mode = "rgb_array"
    action_space = observation_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return 0, {}

    def step(self, action):
        self.steps += 1
        return 0, 1.0, self.steps == 3, False, {}

    def render(self):
        return np.zeros((16, 16, 3), np.uint8)


def raises(env):
    raise RuntimeError("no frame")


def with_bad_frames(config):
    trial = tune.get_context().get_trial_id()
    frame = raises if config["trial"] else lambda env: np.zeros((2, 2, 2, 2))
    env = tm.gym.RecordEpisodes(BadFrames(), frame=frame, keep="last")
    for iteration in ITERATIONS:
        env.reset()
        while not env.step(0)[2]:
            pass
        tune.report({**make_result(config["log"], trial, iteration), "played": env.take()})


def test_what_cannot_be_made_costs_only_itself(ray_session, tmp_path, caplog, capsys):
    log = tmp_path / "told"
    results = sweep(tmp_path, callbacks(), log=log, trainable=with_odd_values)
    assert_trained(results)
    for result in results:
        lines = index_lines(result.path)
        broken = [line for line in lines if line["key"] in ("unmakeable", "clip")]
        rest = [line for line in lines if line not in broken]
        assert_all_stored(result.path, result.metrics["trial_id"], log, lines=rest)
        failed = [line for line in broken if line["key"] == "unmakeable"]
        assert len(failed) == RESULTS
        assert {line["status"] for line in failed} == {"failed"}
        assert "the encoder is broken" in failed[0]["note"]
        assert_scalars(result.path)
        assert_shown(result.path)
    out = capsys.readouterr().out
    assert "could not be stored (media/train/unmakeable/" in out
    assert caplog.text.count("the encoder is broken") == 1  # a kind of fault is said once


def test_frames_that_are_none_cost_only_the_clip(ray_session, tmp_path):
    log = tmp_path / "told"
    results = sweep(tmp_path, callbacks(), log=log, trainable=with_bad_frames)
    assert_trained(results)
    for result in results:
        played = [line for line in index_lines(result.path) if line["key"].startswith("played")]
        assert [line["kind"] for line in played] == ["episodes"] * RESULTS
        rest = [line for line in index_lines(result.path) if line not in played]
        assert_all_stored(result.path, result.metrics["trial_id"], log, lines=rest)
        assert_scalars(result.path)


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
    """Assert that a backend has all of a trial."""
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


def test_a_backend_that_hangs(ray_session, tmp_path, monkeypatch, caplog):
    log = tmp_path / "told"
    monkeypatch.setattr("tune_media.callbacks.mlflow.backend._CHECK_SECONDS", 1.0)
    monkeypatch.setattr(MlflowBackend, "patience", 1.0)
    with server_of_silence() as uri:
        made = all_callbacks(tmp_path, uri)
        del made["wandb"]
        results = sweep(tmp_path, list(made.values()), log=log)
    wait_until(lambda: "tune_media MLflow" not in {thread.name for thread in threading.enumerate()})
    assert_nothing_lost(results, log)
    assert "MLflow had not finished" in caplog.text
    assert "tune_media: MLflow lacks " in caplog.text
    assert "for it, and may wait 1 s." in caplog.text


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
        sweep(tmp_path, callbacks(strict=True), log=tmp_path / "told", trainable=with_odd_values, in_loop=True)


def test_strict_raises_the_first_fault_in_the_background(ray_session, tmp_path, orders):
    at = At({4: lambda: orders.give("away")})
    with pytest.raises(Exception, match="the storage is away"):
        sweep(
            tmp_path, [*callbacks(strict=True, flush_seconds=6), at], filesystem=faulty(orders), log=tmp_path / "told"
        )


def test_threads_are_one_for_the_storage_and_one_a_backend(ray_session, tmp_path):
    seen, before = set(), set(threading.enumerate())  # tests before this one may leave some that come to their end

    def look():
        new = set(threading.enumerate()) - before
        seen.update(thread for thread in new if thread.name.startswith("tune_media"))

    made = all_callbacks(tmp_path)
    del made["wandb"]
    results = sweep(tmp_path, [*made.values(), At(each=look)], log=tmp_path / "told", pause=0.0)
    assert_trained(results)
    names = sorted(thread.name for thread in seen)
    assert names == ["tune_media MLflow", "tune_media TensorBoard", "tune_media storage"]
    wait_until(lambda: not seen & set(threading.enumerate()))
