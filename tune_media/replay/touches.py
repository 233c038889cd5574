"""Ends a process of a replay before its env touches anything outside: a file, a program, a network, another process.

A replay makes the user's env again with the same config, so it would open the same files. An env that is refused must
not know it, or it would play otherwise: nothing is raised. The process writes one line and ends.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

EXIT_CODE = 77
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_Place = tuple[int, int | None]  # the numbers of the arguments that are a path, and the folder that it is relative to
_ON_PATHS: dict[str, tuple[str, tuple[_Place, ...]]] = {  # by the name of an audit event
    "os.remove": ("removes", ((0, 1),)),
    "os.rmdir": ("removes", ((0, 1),)),
    "os.mkdir": ("makes", ((0, 2),)),
    "os.rename": ("renames", ((0, 2), (1, 3))),
    "os.link": ("makes", ((1, 3),)),
    "os.symlink": ("makes", ((1, 2),)),
    "os.truncate": ("shortens", ((0, None),)),
    "os.chmod": ("changes the mode of", ((0, 2),)),
    "os.chown": ("changes the owner of", ((0, 3),)),
    "os.utime": ("changes the time of", ((0, 3),)),
    "os.setxattr": ("changes an attribute of", ((0, None),)),
    "os.removexattr": ("changes an attribute of", ((0, None),)),
}
_STARTS = ("subprocess.Popen", "os.posix_spawn", "os.exec", "os.system", "os.spawn", "pty.spawn")
# programs that libraries ask about the machine, and those that read what they say
_READERS = frozenset(
    {
        *("ldconfig", "gcc", "cc", "ld", "objdump", "uname", "lscpu", "nproc", "nvidia-smi", "fc-list"),
        *("cat", "grep", "head", "tail", "wc", "which"),
    }
)
_TO_NULL = re.compile(r"\d?>\s*/dev/null")
_SENDS = {"socket.connect": "connects to", "socket.sendto": "sends to", "socket.sendmsg": "sends to"}
_DEVICES = ("/dev/null", "/dev/zero", "/dev/tty", "/dev/urandom", "/dev/random")
_CACHES = ("~/.config/matplotlib", "~/.triton")
_NAMED_CACHES = (
    "MPLCONFIGDIR",
    "NUMBA_CACHE_DIR",
    "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_CACHE_DIR",
    "PYTHONPYCACHEPREFIX",
)
_UNIX = 1  # AF_UNIX
_MAX_TOLD = 2000  # characters: a pipe takes so many at once


def free_folders(own: str) -> list[str]:
    """Return the folders in which a replay may write: its own one, and the caches of libraries."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    named = filter(None, map(os.environ.get, _NAMED_CACHES))
    return [str(Path(path).expanduser().resolve()) for path in (own, cache, *_CACHES, *named)]


def end_at_first_touch(pipe: int, own: str) -> Callable[[str], None]:
    """From now on, end this process, or a fork of it, before it touches anything outside.

    What it would have done is written to ``pipe`` as a line: ``env 'X' opens /a/b.csv for writing``. ``own`` is the
    folder in which it may write. Return what takes the name of the env, when that is known. An audit hook stays until
    the process ends.
    """
    finders, thread = _Finder(tuple(free_folders(own))).of_event, threading.local()
    who = "the env"

    def name(env: str) -> None:
        nonlocal who
        who = f"env {env}"

    def hook(event: str, arguments: Sequence[Any]) -> None:
        find = finders.get(event)
        if find is None or getattr(thread, "looks", False):
            return
        thread.looks = True  # what is asked below is no act of the env's
        try:
            act = find(event, arguments)
        except Exception:  # arguments that the act itself will refuse
            act = None
        finally:
            thread.looks = False
        if act is not None:
            os.write(pipe, f"{who} {act}"[:_MAX_TOLD].encode(errors="replace") + b"\n")
            os._exit(EXIT_CODE)

    sys.addaudithook(hook)
    return name


class _Finder:
    """Says of an audit event what it would change outside, as the end of a sentence; None: nothing."""

    def __init__(self, free: tuple[str, ...]) -> None:
        self._free = free
        self.of_event: dict[str, Callable[[str, Sequence[Any]], str | None]] = {
            "open": self._open,
            "sqlite3.connect": self._database,
            "socket.bind": self._bind,
            "os.kill": _kill,
            "os.killpg": _kill,
            **dict.fromkeys(_ON_PATHS, self._change),
            **dict.fromkeys(_STARTS, _start),
            **dict.fromkeys(_SENDS, _send),
        }

    def _is_free(self, path: str) -> bool:
        if path in _DEVICES or path.startswith(("/dev/dri/", "/dev/shm/pym-")) or "__pycache__" in path.split("/"):
            return True
        return any(path == folder or path.startswith(f"{folder}/") for folder in self._free)

    def _open(self, _: str, arguments: Sequence[Any]) -> str | None:
        path, flags = arguments[0], arguments[2] or 0
        if not flags & _WRITES or isinstance(path, int) or self._is_free(place := _absolute(path)):
            return None
        return f"opens {place} for writing"

    def _change(self, event: str, arguments: Sequence[Any]) -> str | None:
        does, places = _ON_PATHS[event]
        for number, relative_to in places:
            if isinstance(arguments[number], int):
                continue
            folder = arguments[relative_to] if relative_to is not None and relative_to < len(arguments) else None
            path = _absolute(arguments[number], folder, follows=event not in ("os.remove", "os.rename"))
            changes_nothing = (event == "os.mkdir" and Path(path).is_dir()) or (
                event in ("os.remove", "os.rmdir") and not os.path.lexists(path)
            )
            if not changes_nothing and not self._is_free(path):
                return f"{does} {path}"
        return None

    def _database(self, _: str, arguments: Sequence[Any]) -> str | None:
        name = os.fsdecode(arguments[0])
        is_uri = name.startswith("file:")
        if name in ("", ":memory:") or (is_uri and any(k in name for k in ("mode=ro", "mode=memory", "immutable=1"))):
            return None
        path = _absolute(name.removeprefix("file:").partition("?")[0] if is_uri else name)
        return None if self._is_free(path) else f"opens the database {path} for writing"

    def _bind(self, _: str, arguments: Sequence[Any]) -> str | None:
        bound, address = arguments
        if bound.family == _UNIX:
            return None if not address or self._is_free(_absolute(address)) else f"binds {os.fsdecode(address)}"
        is_any = isinstance(address, tuple) and address[1] == 0  # a free port, or a test for IPv6
        return None if is_any else f"binds {_address(address)}"


def _send(event: str, arguments: Sequence[Any]) -> str | None:
    return None if arguments[0].family == _UNIX else f"{_SENDS[event]} {_address(arguments[1])}"


def _start(event: str, arguments: Sequence[Any]) -> str | None:
    program, words = arguments[1:3] if event == "os.spawn" else (*arguments, None)[:2]
    if isinstance(program, (list, tuple)):  # of pty.spawn
        program, words = program[0], program
    words = [os.fsdecode(word) for word in words] if isinstance(words, (list, tuple)) else []
    program = os.fsdecode(program if program is not None else words[0])
    is_shell = event == "os.system" or (Path(program).name in ("sh", "bash") and words[1:2] == ["-c"])
    line = program if event == "os.system" else words[2] if is_shell else program
    only_reads = _only_reads(line) if is_shell else Path(program).name in _READERS
    return None if only_reads else f"starts {line!r}"


def _only_reads(line: str) -> bool:
    """Return whether a shell starts programs alone that read.

    >>> _only_reads("cat /sys/module/amdgpu/initstate |grep live"), _only_reads("uname; touch a")
    (True, False)
    """
    plain = _TO_NULL.sub("", line)
    if set(plain) & set(";&<>$`\n()"):
        return False
    programs = [shlex.split(part)[:1] for part in plain.split("|")]
    return all(Path(name).name in _READERS for first in programs for name in first or [""])


def _kill(event: str, arguments: Sequence[Any]) -> str | None:
    process, number = arguments
    is_harmless = number == 0 or process == 0 or _is_own(process)
    return None if is_harmless else f"sends a signal to process {process}"


def _is_own(process: int) -> bool:
    """Return whether a process is this one or was started by it."""
    while process > 1 and process != os.getpid():
        try:
            process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return False
    return process == os.getpid()


def _absolute(path: Any, folder: Any = None, *, follows: bool = True) -> str:
    """Return a path without links; ``folder`` is the descriptor of the folder that it is relative to."""
    place = Path(os.fsdecode(path))
    if isinstance(folder, int) and folder >= 0 and not place.is_absolute():
        place = _path_of(folder) / place
    # what is removed or renamed is the link itself
    return str(place.resolve() if follows else place.parent.resolve() / place.name)


def _path_of(folder: int) -> Path:
    """Return the path of an open folder, as Linux or as macOS tells it. Raises OSError if it is not open."""
    try:
        return Path(f"/proc/self/fd/{folder}").readlink()
    except FileNotFoundError:
        import fcntl

        if not hasattr(fcntl, "F_GETPATH"):
            raise
        path: bytes = fcntl.fcntl(folder, fcntl.F_GETPATH, bytes(1024))
        return Path(os.fsdecode(path.rstrip(b"\0")))


def _address(address: Any) -> str:
    return ":".join(map(str, address[:2])) if isinstance(address, tuple) else str(address)
