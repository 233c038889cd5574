"""What a replay may not do outside its own folder: the process ends before it, and tells what it would have done."""

import ctypes
import functools
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest

import tune_media as tm
from tests.support import odd_envs
from tests.support.faults import wait_until
from tune_media.replay.landlock import refuse_writes
from tune_media.replay.process import RenderProcess
from tune_media.replay.recipe import Recipe
from tune_media.replay.tape_recorder import TapeRecorder
from tune_media.replay.touches import EXIT_CODE, end_at_first_touch

pytestmark = pytest.mark.any_ray


def in_guarded_fork(act, own, guard=end_at_first_touch):
    """Do something where a replay may write in ``own`` alone; return the exit code, and what was told."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if guard is end_at_first_touch:
                guard(writer, str(own))
            else:
                assert guard(str(own))
            act()
            code = 0
        finally:
            os._exit(code)
    os.close(writer)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reader) as told:
        return os.waitstatus_to_exitcode(status), told.read().strip()


def open_in_folder(folder):
    descriptor = os.open(folder, os.O_RDONLY)
    os.unlink("old.txt", dir_fd=descriptor)


def connect(address):
    with socket.socket() as end:
        end.connect_ex(address)


TOUCHES = {
    "opens {}/a.csv for writing": lambda path: (path / "a.csv").open("a"),
    "opens {}/old.txt for writing": lambda path: os.open(path / "old.txt", os.O_RDWR),
    "removes {}/old.txt": lambda path: open_in_folder(path),
    "makes {}/new": lambda path: (path / "new").mkdir(),
    "renames {}/old.txt": lambda path: (path / "old.txt").rename(path / "own" / "moved.txt"),
    "makes {}/link": lambda path: (path / "link").symlink_to("own"),
    "changes the mode of {}/old.txt": lambda path: (path / "old.txt").chmod(0o600),
    "changes the time of {}/old.txt": lambda path: os.utime(path / "old.txt"),
    "shortens {}/old.txt": lambda path: os.truncate(path / "old.txt", 0),
    "opens the database {}/a.db for writing": lambda path: sqlite3.connect(path / "a.db"),
    "connects to 127.0.0.1:9": lambda path: connect(("127.0.0.1", 9)),
    "binds 127.0.0.1:65001": lambda path: socket.socket().bind(("127.0.0.1", 65001)),
    "starts 'touch'": lambda path: subprocess.run(["touch", path / "b"], check=False),
    "starts 'uname; touch b'": lambda path: os.system("uname; touch b"),
    "starts 'cat old.txt > b'": lambda path: subprocess.run("cat old.txt > b", shell=True, check=False),
    "sends a signal to process 1": lambda path: os.kill(1, signal.SIGTERM),
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "old.txt").write_text("old")
    return tmp_path


@pytest.mark.parametrize("told", TOUCHES)
def test_what_would_change_anything_outside_ends_the_process_before(told, folder):
    before = sorted(folder.rglob("*")), (folder / "old.txt").stat()
    code, what = in_guarded_fork(functools.partial(TOUCHES[told], folder), folder / "own")
    assert (code, what) == (EXIT_CODE, f"the env {told.format(folder)}")
    assert (sorted(folder.rglob("*")), (folder / "old.txt").stat()) == before


FREE = {
    "its own folder": lambda path: (path / "own" / "a.txt").write_text("a"),
    "a cache of bytecode": lambda path: (path / "__pycache__").mkdir(),
    "a device": lambda path: Path("/dev/null").write_text("a"),
    "reading": lambda path: (path / "old.txt").read_text(),
    "a descriptor": lambda path: os.fdopen(os.pipe()[1], "w"),
    "a folder that is there": lambda path: path.mkdir(exist_ok=True),
    "a file that is not": lambda path: (path / "none").unlink(missing_ok=True),
    "a database in memory": lambda path: sqlite3.connect(":memory:").execute("create table t (a)"),
    "a free port": lambda path: socket.socket().bind(("127.0.0.1", 0)),
    "a pair of sockets": lambda path: socket.socketpair(),
    "asking about the machine": lambda path: subprocess.run(["uname"], stdout=subprocess.DEVNULL, check=True),
    # the import of Ray 2.50 asks so whether there is a GPU
    "reading in a shell": lambda path: subprocess.run(
        "cat /proc/version 2>/dev/null |grep -c x", shell=True, check=False
    ),
    "a signal to itself": lambda path: os.kill(os.getpid(), signal.SIGCHLD),
    "a child process": lambda path: os.waitpid(os.fork() or os._exit(0), 0),
}


@pytest.mark.parametrize("name", FREE)
def test_what_changes_nothing_outside_passes(name, folder):
    assert in_guarded_fork(functools.partial(FREE[name], folder), folder / "own") == (0, "")


def test_caches_of_libraries_are_free(folder, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(folder / "numba"))
    for name in ("cache", "numba"):
        (folder / name).mkdir()
        assert in_guarded_fork((folder / name / "a").touch, folder / "own") == (0, "")


def write_by_c(path):
    libc = ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    if libc.fopen(os.fsencode(path), b"w") is None:
        raise PermissionError(path)


HIDDEN = {  # from audit hooks
    "by C": write_by_c,
    "by pyarrow": lambda path: pa.csv.write_csv(pa.table({"a": [1]}), path),
    "by another interpreter": lambda path: subprocess.run(
        [sys.executable, "-c", f"open({str(path)!r}, 'w')"], check=True, stderr=subprocess.DEVNULL
    ),
}


@pytest.mark.skipif(in_guarded_fork(os.getpid, tempfile.gettempdir(), refuse_writes)[0] != 0, reason="an old kernel")
@pytest.mark.parametrize("name", HIDDEN)
def test_the_system_refuses_what_no_hook_sees(name, folder):
    outside, inside = folder / "a", folder / "own" / "a"
    assert in_guarded_fork(lambda: HIDDEN[name](outside), folder / "own", refuse_writes)[0] == 1
    assert not outside.exists()
    assert in_guarded_fork(lambda: HIDDEN[name](inside), folder / "own", refuse_writes) == (0, "")
    assert inside.exists()


class Touches(odd_envs.Plain):
    """Does something in its third step."""

    def __init__(self, act):
        super().__init__()
        self.act = act

    def step(self, action):
        found = super().step(action)
        if self.count == 3:
            self.act()
        return found


def written_if_it_can(path):
    """Write as a library does that does not mind if it cannot."""
    try:
        with path.open("a") as file:
            file.write("line\n")
    except OSError:
        os.environ["COULD_NOT"] = "1"


def written_by_a_child(path):
    child = os.fork()
    if child == 0:
        written_if_it_can(path)
        os._exit(0)
    os.waitpid(child, 0)


def played(make, rounds=4):
    env = tm.gym.RecordEpisodes(make(), None, env_fn=make, render="auto", keep="best")
    env.reset(seed=1)
    clips = []
    for _ in range(rounds):
        for _ in range(3):
            over = False
            while not over:
                *_, over, _, _ = env.step(0)
            env.reset()
        clips.append(env.take()["best"].episode.rendered)
    env.close()
    return clips


@pytest.mark.parametrize("write", [written_if_it_can, written_by_a_child])
def test_an_env_that_writes_is_recorded_directly_and_its_file_is_that_of_the_run(write, tmp_path, caplog):
    path = tmp_path / "episodes.csv"
    assert played(functools.partial(Touches, functools.partial(write, path))) == ["direct"] * 4
    assert path.read_text().count("line") == 12
    (told,) = [record.getMessage() for record in caplog.records if "replay would" in record.getMessage()]
    assert f"env 'Touches' opens {path} for writing, and a replay would do so, too" in told


def write_a_temporary_file():
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"a")


def test_an_env_that_writes_nothing_outside_is_replayed():
    assert played(functools.partial(Touches, write_a_temporary_file))[-1] == "replay"


@pytest.mark.parametrize("ends", ["close", "kill"])
def test_the_folder_of_a_process_goes_with_it(ends, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    make = functools.partial(Touches, lambda: Path(tempfile.mkdtemp(), "a").touch())
    env = make()
    taping = TapeRecorder(env)
    env.reset(seed=1)
    process = RenderProcess(Recipe.of(lambda config: make(), {}, env).content)
    process.prove(taping.tape.packed())
    assert any(path.name.startswith("tm-") for path in tmp_path.iterdir())
    getattr(process, ends)()
    wait_until(lambda: not any(path.name.startswith("tm-") for path in tmp_path.iterdir()))
    process.close()
