"""What Windows lacks stops no import, no ``tm.load`` and no ``tune-media list``; the rest needs Linux or macOS."""

import subprocess
import sys
import textwrap
from pathlib import Path

from tests.support.stores import StoredTrial
from tests.support.viewing import moving_bar
from tune_media import Video

ROOT = Path(__file__).parents[1]
OTHERS = "asyncio, click.testing, cloudpickle, concurrent.futures, multiprocessing.connection, numpy, orjson, pandas"
OTHERS += ", pyarrow.fs, pyarrow.parquet, scipy.stats, shutil, socket, subprocess, tempfile, webbrowser"
AS_ON_WINDOWS = f"""
    import os, signal, socket, sys
    import {OTHERS}  # as they are on Linux

    LACKS = {{
        os: "O_ PRIO_ SCHED_ W chown fchmod fchown fork get_blocking getegid geteuid getgid getpgid getpriority getsid "
        "getuid initgroups killpg lchown memfd_ mkfifo nice openpty pidfd_ posix_ pread pwrite register_at_fork sched_ "
        "sendfile set_blocking setpgid setpriority setsid statvfs sysconf uname wait3 wait4 waitid",
        signal: "ITIMER_ SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGTSTP SIGUSR SIGWINCH SIG_B "
        "SIG_UNBLOCK alarm pause pthread_ setitimer sigpending sigtimedwait sigwait",
        socket: "AF_UNIX SOCK_SEQPACKET recv_fds send_fds",
    }}
    STAYS = "O_APPEND O_CREAT O_EXCL O_RDONLY O_RDWR O_TRUNC O_WRONLY W_OK".split()
    for module, beginnings in LACKS.items():
        for name in [name for name in dir(module) if name.startswith(tuple(beginnings.split()))]:
            if name not in STAYS:
                delattr(module, name)
    for name in ("fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"):
        sys.modules[name] = None
"""


def on_windows(script, *arguments, before=""):
    whole = before + textwrap.dedent(AS_ON_WINDOWS) + textwrap.dedent(script)
    command = [sys.executable, "-c", whole, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_windows_lacks_stops_no_import_and_no_reading(tmp_path):
    trial = StoredTrial.in_folder(tmp_path / "sweep" / "trial")
    trial.add(Video(moving_bar(4), fps=10), "evaluation", "episodes/best")
    trial.finish()
    printed = on_windows(
        """
        import click.testing
        import tune_media as tm
        from tune_media.cli import main

        tm.selection, tm.steps, tm.export, tm.evaluate, tm.fork, tm.Video
        (row,) = tm.load(sys.argv[1]).clips
        print(row["key"], sum(1 for _ in row.frames()))
        done = click.testing.CliRunner().invoke(main, ["list", sys.argv[1]])
        assert done.exit_code == 0, done.output
        print("trial" in done.output)
        """,
        tmp_path / "sweep",
    )
    assert printed.splitlines() == ["episodes/best 4", "True"]


def test_what_needs_more_says_so():
    printed = on_windows(
        """
        import tune_media as tm

        for name in ("gate", "JsonMediaLoggerCallback"):
            try:
                getattr(tm, name)
            except ImportError as error:
                print(error)
        """,
        before="import ray.tune.logger",
    )
    assert printed.splitlines() == [
        "Gates need Linux or macOS: on Windows, use WSL",
        "Logger callbacks need Linux or macOS: on Windows, use WSL",
    ]
