"""Envs that count their episodes in places that a walk through Python objects does not read."""

from __future__ import annotations

import array
import collections
import contextvars
import csv
import ctypes
import decimal
import enum
import functools
import gc
import io
import itertools
import logging
import mmap
import operator
import os
import pickle
import queue
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import types
import warnings
import weakref
import xml.etree.ElementTree as ElementTree
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import sharedctypes
from typing import Any
from xml.parsers import expat

import gymnasium as gym
import numpy as np

from tests.support.envs.hidden import Theme


@dataclass(frozen=True)
class Store:
    """A place for a count.

    Attributes:
        make: Makes the object that keeps the count; it returns None if all envs of the process share the place.
        get: Returns the count that an object keeps.
        add: Adds one to it.
    """

    make: Callable[[], Any]
    get: Callable[[Any], int]
    add: Callable[[Any], Any]


def settable(make: Callable[[], Any], get: Callable[[Any], int], change: Callable[[Any, int], Any]) -> Store:
    """Return a store whose count is set to another number."""
    return Store(make, get, lambda kept: change(kept, get(kept) + 1))


def shared(get: Callable[[], int], change: Callable[[int], Any]) -> Store:
    """Return a store that all envs of the process share."""
    return settable(lambda: None, lambda _: get(), lambda _, count: change(count))


def attribute(make: Callable[[], Any], name: str = "episodes", of: Callable[[Any], Any] = lambda kept: kept) -> Store:
    """Return a store that counts in an attribute; ``of`` returns the object that has it, of the one that is kept."""
    return settable(make, lambda kept: getattr(of(kept), name, 0), lambda kept, count: setattr(of(kept), name, count))


def item(make: Callable[[], Any], key: Any, of: Callable[[Any], Any] = lambda kept: kept) -> Store:
    """Return a store that counts in an item."""
    return settable(make, lambda kept: int(of(kept)[key]), lambda kept, count: operator.setitem(of(kept), key, count))


def eight_bytes(make: Callable[[], Any]) -> Store:
    """Return a store that counts in the bytes of a buffer."""
    return settable(
        make,
        lambda kept: int.from_bytes(kept[:], "little"),
        lambda kept, count: operator.setitem(kept, slice(None), count.to_bytes(8, "little")),
    )


class Stored(Theme):
    """Counts in a store. If the env is collected, it leaves no open file, process or thread."""

    def __init__(self, store: Store, config=None):
        self.store = store
        super().__init__(config)

    def prepare(self):
        self.kept = self.store.make()

    def begin(self):
        self.store.add(self.kept)

    def count(self):
        return self.store.get(self.kept)

    def __del__(self):
        if callable(close := getattr(self.kept, "close", None)):
            close()


def _file() -> Any:
    return tempfile.TemporaryFile(buffering=0)


def _time_of(file: Any) -> int:
    return int(os.fstat(file.fileno()).st_mtime)


def _old_file() -> Any:
    file = _file()
    os.utime(file.fileno(), (0, 0))
    return file


def _mapped_file() -> mmap.mmap:
    with tempfile.TemporaryFile() as file:
        file.truncate(8)
        return mmap.mmap(file.fileno(), 8)


class Pipe:
    """A number on its way through a pipe."""

    def __init__(self):
        self.ends = [os.fdopen(end, mode, 0) for end, mode in zip(os.pipe(), ("rb", "wb"), strict=True)]
        self.ends[1].write(bytes(8))

    def get(self, more=0):
        count = int.from_bytes(self.ends[0].read(8), "little") + more
        self.ends[1].write(count.to_bytes(8, "little"))
        return count

    def close(self):
        for end in self.ends:
            end.close()


class SocketPair:
    """A number on its way through a socket."""

    def __init__(self):
        self.ends = socket.socketpair()
        self.ends[0].send(bytes(8))

    def get(self):
        return int.from_bytes(self.ends[1].recv(8, socket.MSG_PEEK), "little")

    def set(self, count):
        self.ends[1].recv(8)
        self.ends[0].send(count.to_bytes(8, "little"))

    def close(self):
        for end in self.ends:
            end.close()


class Shell:
    """Another process counts; it ends with its standard input."""

    def __init__(self):
        script = "n=0; while read x; do n=$((n+x)); echo $n; done"
        self.process = subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, number=0):
        self.process.stdin.write(b"%d\n" % number)
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def close(self):
        self.process.communicate()


class Thread:
    """A ``threading.local`` of another thread has the count."""

    def __init__(self):
        self.local, self.pool = threading.local(), ThreadPoolExecutor(1)

    def get(self):
        return self.pool.submit(lambda: getattr(self.local, "count", 0)).result()

    def set(self, count):
        self.pool.submit(lambda: setattr(self.local, "count", count)).result()


_LIBC = ctypes.CDLL(None)
_LIBC.getenv.restype = ctypes.c_char_p
_LIBC.calloc.restype = ctypes.c_void_p
_EPISODES = contextvars.ContextVar("episodes", default=0)
COUNTED = {"episodes": 0}
IN_THREADS = threading.local()


def _attribute_holder():
    """Hold an attribute."""


class Slotted:
    """An object without a dict."""

    __slots__ = ("episodes",)

    def __init__(self):
        self.episodes = 0


class Look:
    """0"""


class Skin(enum.Enum):
    DARK = 1


class Counting(type):
    episodes = 0


def _generator():
    """A local variable of a generator that waits."""

    def counting():
        count = 0
        while True:
            count += yield count

    generator = counting()
    next(generator)
    return generator


def _closure():
    counts = {"episodes": 0}

    def add(number):
        counts["episodes"] += number
        return counts["episodes"]

    return functools.partial(functools.partial(add))


def _function():
    def look(*, count=0):
        return count

    look.__code__ = look.__code__.replace(co_firstlineno=0)
    return look


class Proxy:
    """A read-only view of a dict that only a bound method holds."""

    def __init__(self):
        counts = {"episodes": 0}
        self.set = functools.partial(counts.__setitem__, "episodes")
        self.view = types.MappingProxyType(counts)


class WeakReference:
    """The element stays alive in a generator's frame."""

    def __init__(self):
        def keep(element):
            yield weakref.ref(element)
            yield element

        self.keeper = keep(Look())
        self.reference = next(self.keeper)


class Described:
    """A descriptor that keeps the values of all objects itself."""

    def __init__(self):
        self.values = weakref.WeakKeyDictionary()

    def __get__(self, owner, kind=None):
        return self if owner is None else self.values.get(owner, 0)

    def __set__(self, owner, value):
        self.values[owner] = value


class SlottedLook:
    __slots__ = ("__weakref__",)
    episodes = Described()


def _decompressor():
    """The bytes behind the end of what it has decompressed are still there."""
    decompressor = zlib.decompressobj()
    decompressor.decompress(zlib.compress(b""))
    return decompressor


@functools.cache
def _game():
    """Return what all envs of a process share."""
    return types.SimpleNamespace(episodes=0)


def _handler_count(handler: Any) -> int:
    return getattr(handler, "args", (0,))[0]


STORES: dict[str, Store] = {
    # Python's own places
    "theme-module": item(lambda: None, "episodes", lambda _: COUNTED),
    "theme-function": attribute(lambda: None, of=lambda _: _attribute_holder),
    "theme-thread": attribute(lambda: None, of=lambda _: IN_THREADS),
    "theme-slot": attribute(Slotted),
    "theme-large-array": item(lambda: np.zeros((200, 200), np.int64), (2, 3)),
    "theme-cache": Store(
        lambda: functools.lru_cache(maxsize=None)(lambda number: number),
        lambda kept: kept.cache_info().currsize,
        lambda kept: kept(kept.cache_info().currsize),
    ),
    # The system's
    "file-position": Store(_file, lambda file: file.tell(), lambda file: file.seek(1, os.SEEK_CUR)),
    "file-time": settable(_old_file, _time_of, lambda file, count: os.utime(file.fileno(), (0, count))),
    "unlinked-file": Store(_file, lambda file: os.fstat(file.fileno()).st_size, lambda file: file.write(b"1")),
    "pipe": Store(Pipe, Pipe.get, lambda pipe: pipe.get(1)),
    "socket-pair": settable(SocketPair, SocketPair.get, SocketPair.set),
    "theme-c-buffer": item(lambda: (ctypes.c_int64 * 8)(), 5),
    "c-handle": attribute(lambda: _LIBC.calloc(1, 16), "value", ctypes.c_int.from_address),
    "mmap-anonymous": eight_bytes(lambda: mmap.mmap(-1, 8)),
    "mmap-file": eight_bytes(_mapped_file),
    "env-variable": shared(
        lambda: int(os.environ.get("HIDDEN_EPISODES", "0")),
        lambda count: operator.setitem(os.environ, "HIDDEN_EPISODES", str(count)),
    ),
    "c-env-variable": shared(  # os.environ does not know of it
        lambda: int(_LIBC.getenv(b"HIDDEN_C_EPISODES") or 0),
        lambda count: _LIBC.setenv(b"HIDDEN_C_EPISODES", str(count).encode(), 1),
    ),
    "shell": Store(Shell, Shell.ask, lambda shell: shell.ask(1)),
    "thread": settable(Thread, Thread.get, Thread.set),
    "signal-handler": shared(
        lambda: _handler_count(signal.getsignal(signal.SIGUSR2)),
        lambda count: signal.signal(signal.SIGUSR2, functools.partial(print, count)),
    ),
    # The interpreter's
    "sys-attribute": attribute(lambda: None, "hidden_episodes", lambda _: sys),
    "int-digits": shared(
        lambda: sys.get_int_max_str_digits() - 4300, lambda count: sys.set_int_max_str_digits(4300 + count)
    ),
    "gc-threshold": shared(
        lambda: gc.get_threshold()[1] - 10,
        lambda count: gc.set_threshold(gc.get_threshold()[0], 10 + count, gc.get_threshold()[2]),
    ),
    "warnings-registry": shared(
        lambda: warnings.onceregistry.get("hidden episodes", 0),
        lambda count: operator.setitem(warnings.onceregistry, "hidden episodes", count),
    ),
    "logging-level": shared(
        lambda: logging.getLogger("hidden.episodes").level,
        lambda count: logging.getLogger("hidden.episodes").setLevel(count),
    ),
    "decimal-context": shared(
        lambda: decimal.getcontext().prec, lambda count: setattr(decimal.getcontext(), "prec", count)
    ),
    "own-decimal-context": settable(
        decimal.Context, lambda kept: kept.Emax - 999_999, lambda kept, count: setattr(kept, "Emax", 999_999 + count)
    ),
    "numpy-error-call": shared(
        lambda: _handler_count(np.geterrcall()), lambda count: np.seterrcall(functools.partial(print, count))
    ),
    "context-variable": settable(
        contextvars.copy_context,
        lambda kept: kept.run(_EPISODES.get),
        lambda kept, count: kept.run(_EPISODES.set, count),
    ),
    "generator": Store(_generator, lambda kept: kept.send(0), lambda kept: kept.send(1)),
    # Code
    "class-doc": shared(lambda: int(Look.__doc__), lambda count: setattr(Look, "__doc__", str(count))),
    "keyword-default": item(_function, "count", lambda kept: kept.__kwdefaults__),
    "code-object": settable(
        _function,
        lambda kept: kept.__code__.co_firstlineno,
        lambda kept, count: setattr(kept, "__code__", kept.__code__.replace(co_firstlineno=count)),
    ),
    "closure-in-partial": Store(_closure, lambda kept: kept(0), lambda kept: kept(1)),
    "cell": attribute(lambda: types.CellType(0), "cell_contents"),
    "local-class": attribute(lambda: type("Look", (), {"episodes": 0})(), of=type),
    "metaclass": attribute(lambda: Counting("Look", (), {}), of=type),
    "enum-member": attribute(lambda: None, of=lambda _: Skin.DARK),
    "made-module": attribute(lambda: types.ModuleType("look")),
    # Objects of the standard library
    "namespace": attribute(types.SimpleNamespace),
    "own-thread-local": attribute(threading.local),
    "exception": attribute(Exception),
    "chain-map": item(lambda: collections.ChainMap({}, {"episodes": 0}), "episodes"),
    "user-dict": item(lambda: collections.UserDict(episodes=0), "episodes"),
    "mapping-proxy": settable(Proxy, lambda kept: kept.view["episodes"], lambda kept, count: kept.set(count)),
    "queue": Store(queue.Queue, queue.Queue.qsize, lambda kept: kept.put(None)),
    "simple-queue": Store(queue.SimpleQueue, queue.SimpleQueue.qsize, lambda kept: kept.put(None)),
    "semaphore": Store(threading.Semaphore, lambda kept: kept._value - 1, threading.Semaphore.release),
    "deque": Store(collections.deque, len, lambda kept: kept.append(None)),
    "weak-reference": attribute(WeakReference, of=lambda kept: kept.reference()),
    "slots-and-descriptor": attribute(SlottedLook),
    "list-iterator": Store(lambda: iter([None] * 100_000), lambda kept: 100_000 - operator.length_hint(kept), next),
    "tee": Store(lambda: itertools.tee(itertools.count())[0], lambda kept: next(kept.__copy__()), next),
    "csv-reader": Store(lambda: csv.reader(itertools.repeat("a,b")), lambda kept: kept.line_num, next),
    "bytes-io": Store(io.BytesIO, io.BytesIO.tell, lambda kept: kept.seek(1, os.SEEK_CUR)),
    "memory-view": eight_bytes(lambda: memoryview(bytearray(8))),
    "array": item(lambda: array.array("q", [0]), 0),
    "c-string-buffer": eight_bytes(lambda: ctypes.create_string_buffer(8)),
    "c-pointer": attribute(lambda: ctypes.pointer(ctypes.c_int64(0)), "value", lambda kept: kept.contents),
    "raw-value": attribute(lambda: sharedctypes.RawValue(ctypes.c_int64, 0), "value"),
    # Engines with a state in C
    "sqlite": settable(
        lambda: sqlite3.connect(":memory:", check_same_thread=False),
        lambda kept: kept.execute("PRAGMA user_version").fetchone()[0],
        lambda kept, count: kept.execute(f"PRAGMA user_version = {count}"),
    ),
    "zlib": Store(_decompressor, lambda kept: len(kept.unused_data), lambda kept: kept.decompress(b"1")),
    "expat": Store(expat.ParserCreate, lambda kept: kept.CurrentLineNumber, lambda kept: kept.Parse("\n")),
    "xml-element": settable(
        lambda: ElementTree.Element("look", episodes="0"),
        lambda kept: int(kept.get("episodes")),
        lambda kept, count: kept.set("episodes", str(count)),
    ),
    "pickler": Store(  # it knows what it has pickled
        lambda: pickle.Pickler(io.BytesIO()),
        lambda kept: len(kept.memo.copy()),
        lambda kept: kept.dump(f"episode {len(kept.memo.copy())}"),
    ),
    "random-in-namespace": Store(  # how many numbers it has drawn, modulo 312
        lambda: types.SimpleNamespace(random=random.Random(0)),
        lambda kept: kept.random.getstate()[1][-1] % 624 // 2,
        lambda kept: kept.random.random(),
    ),
    "box-high": item(lambda: gym.spaces.Box(-1, 0, (2,), np.float64), 1, lambda kept: kept.high),
    "structured-array": item(
        lambda: np.zeros(2, [("name", "S4"), ("episodes", "i8")]), "episodes", lambda kept: kept[1]
    ),
    "object-array": attribute(
        lambda: np.array([types.SimpleNamespace(episodes=0), None], object), of=lambda kept: kept[0]
    ),
    "shared-by-sub-envs": attribute(_game),
}
"""All stores by the names of their kinds."""
