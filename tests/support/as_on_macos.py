"""Takes from this process, and from those that it starts, what Linux has and macOS has not.

``make test-macos`` runs tests so. Not simulated: ``sys.platform``, which other libraries read, and names of files that
differ by the case of a letter.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import importlib
import multiprocessing
import os
import sys
from pathlib import Path
from typing import Any

VARIABLE = "TUNE_MEDIA_TESTS_AS_ON"
_PACKAGE = str(Path(__file__).parents[2] / "tune_media")
_GONE = {
    "os": "sched_ SCHED_ memfd_create MFD_ eventfd EFD_ splice SPLICE_ copy_file_range pipe2 posix_fadvise "
    "POSIX_FADV_ posix_fallocate fdatasync getrandom GRND_ setresuid setresgid getresuid getresgid getxattr setxattr "
    "listxattr removexattr XATTR_ setns unshare CLONE_ waitid P_PIDFD O_PATH O_NOATIME O_DIRECT O_RSYNC",
    "signal": "sigtimedwait sigwaitinfo SIGRT SIGPWR SIGSTKFLT SIGPOLL",
    "fcntl": "F_OFD_ F_SETPIPE_SZ F_GETPIPE_SZ F_ADD_SEALS F_GET_SEALS F_SEAL_ F_NOTIFY F_SETSIG F_GETSIG F_SETLEASE",
    "resource": "prlimit RLIMIT_NICE RLIMIT_RTPRIO RLIMIT_RTTIME RLIMIT_SIGPENDING RLIMIT_MSGQUEUE",
    "time": "CLOCK_BOOTTIME CLOCK_TAI",
}
_STAYS = {"O_DIRECTORY", "sched_yield"}
_OF_LIBC = {"prctl", "memfd_create"}


def is_simulated() -> bool:
    """Return whether this process is to be as on macOS."""
    return os.environ.get(VARIABLE) == "macos"


def remove_what_macos_lacks() -> None:
    """Remove names of the standard library, system calls, ``/proc`` for this package, and the start by fork."""
    for name_of_module, beginnings in _GONE.items():
        module = importlib.import_module(name_of_module)
        for name in [name for name in dir(module) if name.startswith(tuple(beginnings.split()))]:
            if name not in _STAYS:
                delattr(module, name)
    of_libc = ctypes.CDLL.__getattr__
    ctypes.CDLL.__getattr__ = lambda library, name: _refused(name) or of_libc(library, name)  # type: ignore[method-assign]
    sys.addaudithook(_hide_proc)
    _tell_paths_by_fcntl()
    for name in ("stat", "lstat", "readlink"):  # no hook is told of these
        _hide_from(name)
    multiprocessing.set_start_method("spawn")


def _refused(name: str) -> Any:
    """Return the C function that takes the place of one of Linux; None for one that macOS has, too."""
    if name in _OF_LIBC:
        raise AttributeError(f"dlsym({name}): symbol not found")
    return _no_syscall if name == "syscall" else None


def _no_syscall(*arguments: Any) -> int:
    ctypes.set_errno(errno.ENOSYS)
    return -1


def _tell_paths_by_fcntl() -> None:
    """Have ``fcntl`` return the path of an open file, which only macOS has it do."""
    import fcntl

    original, readlink, fcntl.F_GETPATH = fcntl.fcntl, os.readlink, 50  # type: ignore[attr-defined]

    def with_paths(file: Any, command: int, argument: Any = 0) -> Any:
        if command != fcntl.F_GETPATH:  # type: ignore[attr-defined]
            return original(file, command, argument)
        return os.fsencode(readlink(f"/proc/self/fd/{file}")).ljust(len(argument), b"\0")

    fcntl.fcntl = with_paths  # type: ignore[assignment]


def _hide_from(name: str) -> None:
    original = getattr(os, name)

    @functools.wraps(original)
    def hidden(path: Any, **options: Any) -> Any:
        _check(path)
        return original(path, **options)

    setattr(os, name, hidden)
    for known in (os.supports_dir_fd, os.supports_fd, os.supports_follow_symlinks):
        if original in known:
            known.add(hidden)


def _hide_proc(event: str, arguments: tuple[Any, ...]) -> None:
    if event in ("open", "os.listdir", "os.scandir"):
        _check(arguments[0])


def _check(place: Any) -> None:
    """Raise FileNotFoundError if the package asks for something below ``/proc``."""
    path = os.fspath(place) if isinstance(place, str | os.PathLike) else ""
    if isinstance(path, str) and (path == "/proc" or path.startswith("/proc/")) and _is_asked_by_the_package():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def _is_asked_by_the_package() -> bool:
    frame, depth = sys._getframe(2), 0
    while frame is not None and depth < 8:
        if frame.f_code.co_filename.startswith(_PACKAGE):
            return True
        frame, depth = frame.f_back, depth + 1  # type: ignore[assignment]
    return False
