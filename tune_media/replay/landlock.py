"""Has the kernel refuse what no audit hook sees: files written by C code, and by programs that an env starts.

Landlock is in Linux since 5.13. It takes no rights to use, and holds for all processes that are started afterwards.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import sys
from pathlib import Path

from tune_media.replay.touches import free_folders

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # system calls, with these numbers on all architectures
_WRITE_FILE, _REFER, _TRUNCATE = 1 << 1, 1 << 13, 1 << 14
_CHANGES = _WRITE_FILE | sum(1 << number for number in range(4, 13))  # write, remove, make
_ON_FILES = _WRITE_FILE | _TRUNCATE
_TCP = 3  # bind, connect
_NO_NEW_RIGHTS = 38  # of prctl(2)
# Besides those that the hook lets pass: what drivers and C libraries open.
_ALSO_FREE = ("/dev/null", "/dev/zero", "/dev/tty", "/dev/random", "/dev/urandom", "/dev/shm", "/dev/dri", "/dev/kfd")
_DRIVERS = "nvidia*"


def refuse_writes(own: str) -> bool:
    """Refuse this process, and all that it starts, to change files but in some folders; return whether it can.

    ``own`` is the folder in which it may write. It may connect to no other machine, either, from Linux 6.7 on.
    """
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_CREATE, None, 0, 1)
    if version < 1:
        return False
    rights = _CHANGES | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    content = struct.pack("QQ", rights, _TCP)
    rules = libc.syscall(_CREATE, content, len(content) if version >= 4 else 8, 0)
    if rules < 0:
        return False
    try:
        for path in (*free_folders(own), *_ALSO_FREE, *map(str, Path("/dev").glob(_DRIVERS))):
            with contextlib.suppress(OSError):  # it is not there
                place = os.open(path, os.O_PATH)
                allowed = rights if Path(path).is_dir() else rights & _ON_FILES
                libc.syscall(_ADD, rules, 1, struct.pack("=Qi", allowed, place), 0)
                os.close(place)
        libc.prctl(_NO_NEW_RIGHTS, 1, 0, 0, 0)
        return bool(libc.syscall(_RESTRICT, rules, 0) == 0)
    finally:
        os.close(rules)
