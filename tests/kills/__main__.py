"""Kill drivers: ``python -m tests.kills 50 --seed 1 [--s3] [--machine-lost] [--old-outbox]``."""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import os
import pickle
import random
import resource
import shutil
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlflow.store.tracking.sqlalchemy_store
import mlflow.tracking  # noqa: F401
import PIL.Image  # noqa: F401
import pyarrow.parquet  # noqa: F401
import ray.train._internal.storage
import ray.tune.callback
import ray.tune.logger  # noqa: F401
import tensorboardX  # noqa: F401
import wandb  # noqa: F401

import tune_media as tm
from tests.kills.check import check_after_kill, check_end, look
from tests.kills.driver import Places, drive, filesystem_of, leave_old_outbox
from tests.kills.mlflow_server import MODES, Proxy, phases
from tests.kills.watched import WATCHED, seen
from tests.support.json_lines import read_lines
from tests.support.killed_process import changes_of
from tests.support.trackers import MlflowServer, free_port, mlflow_store

_IMPORTED = (tm.load, tm.TBXMediaLoggerCallback, tm.WandbMediaLoggerCallback, tm.MLflowMediaLoggerCallback)
LONGEST = 1200.0  # seconds that a driver may take, on a busy machine


def forked(work: Callable[[], Any], log: Path) -> int:
    gc.collect()
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.dup2(output, 1)
        os.dup2(output, 2)
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def ended(pid: int, seconds: float) -> int | None:
    until = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return status
        left = until - time.monotonic()
        if left <= 0:
            return None
        time.sleep(min(0.02, left))


def result_of(work: Callable[[], Any], folder: Path) -> Any:
    """Return what work returns in a process of its own: MLflow, pyarrow and TensorBoard start threads there."""
    file = folder / "result.pickle"
    file.unlink(missing_ok=True)
    pid = forked(lambda: file.write_bytes(pickle.dumps(work())), folder / "check.log")
    status = ended(pid, LONGEST)
    if status is None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    if status != 0:
        raise RuntimeError(f"a check failed:\n{(folder / 'check.log').read_text()[-3000:]}")
    return pickle.loads(file.read_bytes())


@contextlib.contextmanager
def s3_server(folder: Path) -> Any:
    port = free_port()

    def serve() -> None:
        from moto.server import ThreadedMotoServer

        ThreadedMotoServer("127.0.0.1", port, verbose=False).start()
        while os.getppid() == parent:
            time.sleep(1)

    parent = os.getpid()
    pid = forked(serve, folder / "server.log")
    try:
        for _ in range(600):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            time.sleep(0.1)
        yield f"127.0.0.1:{port}"
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


@contextlib.contextmanager
def _running_mlflow(home: Path) -> Any:
    folder = home / "mlflow"
    folder.mkdir()
    server = MlflowServer(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def mlflow_of(home: Path, folder: Path, mode: str, rng: random.Random, server: MlflowServer | None) -> Any:
    """Give the address of MLflow's database or server, whose proxy lives as long as the round."""
    if mode == "store" or server is None:
        (folder / "mlflow").mkdir()
        shutil.copy(home / "mlflow.db", folder / "mlflow/mlflow.db")
        yield f"sqlite:///{folder}/mlflow/mlflow.db"
        return
    (folder / "mlflow").symlink_to(home / "mlflow")
    port, schedule = free_port(), phases(mode, [rng.uniform(0.2, 2.5) for _ in range(8)])
    proxy = Proxy(server.port, port, schedule)
    pid = forked(proxy.serve, folder / "proxy.log")
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def run_round(
    home: Path, seed: int, server: str, mode: str, mlflow_server: Any, has_tapes: bool, **options: Any
) -> list[str]:
    """Kill an experiment's drivers two to five times, and let the last one end; return what is wrong."""
    rng = random.Random(seed)
    folder = home / f"round-{seed}"
    folder.mkdir()
    for name in ("outbox", "driver"):
        (folder / name).mkdir()
    experiment = f"kills{seed}/experiment" if server else str(folder / "storage")
    if server:
        result_of(lambda: filesystem_of(server).create_dir(f"kills{seed}"), folder)
    options["counts"].update({f"rounds with MLflow: {mode}": 1, "rounds with tapes": has_tapes})
    with mlflow_of(home, folder, mode, rng, mlflow_server) as address:
        places = Places(folder, server, experiment, address, f"kills {seed}", has_tapes)
        return _kill_and_check(places, rng, **options)


def _kill_and_check(
    places: Places,
    rng: random.Random,
    *,
    machine_lost: bool,
    machine_back: bool,
    old_outbox: bool,
    counts: Counter[str],
) -> list[str]:
    """Kill drivers, with somebody who looks at the experiment all the time; return what is wrong."""
    folder, (lost, stored) = places.folder, (-1, {})
    if old_outbox:
        assert ended(forked(lambda: leave_old_outbox(places), folder / "old.log"), LONGEST) == 9 << 8
        counts["rounds with an old outbox"] += 1
    parent = os.getpid()
    watcher = forked(lambda: look(places, lambda: os.getppid() == parent), folder / "looks.log")
    problems: list[str] = []
    kills = rng.randint(2, 5)
    for process in range(kills + 1):
        what, mean = rng.choice([*WATCHED, "a report", "a report"]), rng.choice([0, 0, 0.002, 0.02, 0.2])
        changes, delay = int(rng.expovariate(1 / WATCHED[what][1])) + 1, rng.expovariate(1) * mean
        is_last = process == kills
        status = _run(places, process, rng.randrange(10**6), (what, float("inf") if is_last else changes, delay))
        if not os.WIFSIGNALED(status):
            counts["ended before the kill"] += not is_last
            problems += [f"process {process} failed"] if status else []
            break
        where = f"{delay:.3f} s after change {changes} of {what}"
        (folder / f"kill-{process}").write_text(f"{where}\n")
        counts["kills"] += 1
        counts[f"kills after a change of {what}"] += 1
        found, there = result_of(lambda: check_after_kill(places.server, places.experiment), folder)
        problems += [f"after kill {process} ({where}): {problem}" for problem in found]
        if machine_lost:
            counts["machines lost"] += 1
            counts["machines that came back"] += _lose_machine(folder, machine_back)
            lost, stored = process, there
    found, own = result_of(lambda: _checked(places, lost, stored), folder)
    counts.update(own)
    if ended(watcher, 0) is None:
        os.kill(watcher, signal.SIGKILL)
        os.waitpid(watcher, 0)
    else:
        problems.append(f"tm.load failed in a look: {(folder / 'looks.log').read_text()[-2000:]}")
    looks = read_lines(folder / "looks.jsonl")
    counts["looks"] += len(looks)
    problems += [f"a look has rows that the next one lacks: {missing[:4]}" for missing in looks if missing]
    return problems + found


def _lose_machine(folder: Path, comes_back: bool) -> bool:
    """Go on with an empty machine, or with the one that was lost before; return whether it is that one."""
    gone, before = folder / "gone", sorted(folder.glob("gone/*"))  # W&B's process may still write there
    now = gone / str(len(before))
    now.mkdir(parents=True)
    (folder / "outbox").rename(now / "outbox")
    (folder / "driver").rename(now / "driver")
    is_back = comes_back and len(before) % 2 == 1
    if is_back:
        (before[-1] / "outbox").rename(folder / "outbox")
        (before[-1] / "driver").rename(folder / "driver")
    else:
        (folder / "outbox").mkdir()
    return is_back


def _run(places: Places, process: int, seed: int, kill: tuple[str, float, float]) -> int:
    """Run a driver; kill it some seconds after files have changed so often, unless it has ended; return its status."""
    pid = forked(functools.partial(drive, places, process, seed), places.folder / f"driver-{process}.log")
    (what, changes, delay), status, until = kill, None, time.monotonic() + LONGEST
    count = changes_of(lambda: seen(places, WATCHED[what][0]))
    while status is None and time.monotonic() < until:
        begun = time.monotonic()
        if count() >= changes:
            status = ended(pid, delay)
            break
        status = ended(pid, max(0.002, 2 * (time.monotonic() - begun)))
    if status is None:
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if time.monotonic() >= until:
            raise RuntimeError(f"process {process} hung")
    return status


def _checked(places: Places, lost: int, stored: Any) -> tuple[list[str], Counter[str]]:
    counts: Counter[str] = Counter()
    return check_end(places, lost, stored, counts), counts


def _round_in_process(
    home: Path, seed: int, server: str, mlflow_server: MlflowServer | None, mode: str, shares: dict[str, float]
) -> int:
    """Run a round in a process of its own, and leave what it finds in a file; return the process's id."""

    def work() -> None:
        begun, counts, rng = time.monotonic(), Counter[str](rounds=1), random.Random(-seed)
        how = {fault: rng.random() < share for fault, share in shares.items()}
        try:
            problems = run_round(home, seed, server, mode, mlflow_server, counts=counts, **how)
        except RuntimeError as error:
            problems = [str(error)]
        spent = sum(resource.getrusage(who).ru_utime for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        counts["CPU seconds"] = round(spent)
        found = problems, counts, time.monotonic() - begun
        (home / f"found-{seed}").write_bytes(pickle.dumps(found))

    return forked(work, home / f"round-{seed}.log")


def _tell(home: Path, seed: int, counts: Counter[str], *, keep: bool) -> None:
    """Print what a round has found, and add what it has counted."""
    folder, found = home / f"round-{seed}", home / f"found-{seed}"
    if found.exists():
        problems, own, seconds = pickle.loads(found.read_bytes())
    else:
        problems, own, seconds = [(home / f"round-{seed}.log").read_text()[-3000:]], Counter(rounds=1), 0.0
    counts.update(own)
    if problems:
        counts["rounds with problems"] += 1
        kills = [path.read_text().strip() for path in sorted(folder.glob("kill-*"))]
        print(f"seed {seed}, killed {kills}: {len(problems)} problems in {folder}", flush=True)
        for problem in problems[:12]:
            print(f"  {problem}", flush=True)
    else:
        print(f"seed {seed}: right ({seconds:.1f} s); {counts['kills']} kills so far", flush=True)
    if not (problems and keep):
        shutil.rmtree(folder, ignore_errors=True)


def main() -> int:
    """Run rounds until so many drivers are killed; return 1 if anything is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.kills", description=__doc__)
    parser.add_argument("kills", type=int, help="how many drivers to kill")
    parser.add_argument("--seed", type=int, default=1, help="of the first round")
    parser.add_argument("--jobs", type=int, default=1, help="how many rounds run at a time")
    parser.add_argument("--s3", action="store_true", help="the storage is an S3 server on loopback")
    lost = "the driver's folders are deleted at each kill; in all rounds, or in a share of them"
    share = {"type": float, "metavar": "SHARE"}
    parser.add_argument("--machine-lost", nargs="?", const=1.0, default=0.0, help=lost, **share)
    parser.add_argument("--tapes", default=0.3, help="rounds with clips that are rendered", **share)
    back = "a machine that was lost is there again after the next kill; in all rounds, or in a share of them"
    parser.add_argument("--machine-back", nargs="?", const=1.0, default=0.0, help=back, **share)
    old = "an earlier experiment of the same name left its outbox; in all rounds, or in a share of them"
    parser.add_argument("--old-outbox", nargs="?", const=1.0, default=0.0, help=old, **share)
    parser.add_argument("--mlflow", choices=[*MODES, "all"], default="all", help="what MLflow is in each round")
    parser.add_argument("--keep", action="store_true", help="keep the folders of rounds with problems")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no round after so long")
    given = parser.parse_args()
    os.environ.pop("WANDB_SERVICE", None)  # each driver needs a process of W&B's of its own
    home = Path(tempfile.mkdtemp(prefix="kills-"))
    counts: Counter[str] = Counter()
    until, seed = time.monotonic() + 60 * given.minutes, given.seed
    modes = (*7 * MODES[:1], *MODES[1:]) if given.mlflow == "all" else (given.mlflow,)  # a server takes much longer
    try:
        result_of(lambda: mlflow_store(home), home)  # it takes seconds: each round gets a copy
        with contextlib.ExitStack() as servers:
            server = servers.enter_context(s3_server(home)) if given.s3 else ""
            mlflow_server = servers.enter_context(_running_mlflow(home)) if modes != ("store",) else None
            running: dict[int, int] = {}  # the seeds of the rounds that run, by process
            while running or (counts["kills"] < given.kills and time.monotonic() < until):
                while len(running) < given.jobs and counts["kills"] < given.kills and time.monotonic() < until:
                    mode = modes[seed % len(modes)]
                    shares = {"machine_lost": given.machine_lost, "has_tapes": given.tapes}
                    shares |= {"machine_back": given.machine_back, "old_outbox": given.old_outbox}
                    running[_round_in_process(home, seed, server, mlflow_server, mode, shares)] = seed
                    seed += 1
                for pid in [pid for pid in running if ended(pid, 0) is not None]:
                    _tell(home, running.pop(pid), counts, keep=given.keep)
                time.sleep(0.02)
    finally:
        if not given.keep:
            shutil.rmtree(home, ignore_errors=True)
    print("\n".join(f"{name}: {count}" for name, count in sorted(counts.items())), flush=True)
    return 0 if not counts["rounds with problems"] and counts["kills"] >= given.kills else 1


if __name__ == "__main__":
    sys.exit(main())
