"""Envs that count their episodes in places that a walk through Python objects does not read.

A kind is a store: ``get()`` returns the count, and ``add()`` adds one. A store that is collected leaves no open file,
process or thread.
"""

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
import struct
import subprocess
import sys
import tempfile
import threading
import types
import warnings
import weakref
import xml.etree.ElementTree as ElementTree
import zlib
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import sharedctypes
from typing import Any
from xml.parsers import expat

import gymnasium as gym
import numpy as np

from tests.support.envs.hidden import Theme

STORES: dict[str, type[Store]] = {}
"""All stores by the names of their kinds."""


class Store:
    """Keeps a count: most subclasses keep it in ``kept``, which their ``made()`` makes."""

    def __init_subclass__(cls, name: str = "") -> None:
        if name:
            STORES[name] = cls

    def __init__(self) -> None:
        self.kept = self.made()

    def __del__(self) -> None:
        for each in self.kept if isinstance(self.kept, tuple) else [self.kept]:
            if callable(close := getattr(each, "close", None)):
                close()

    def made(self) -> Any:
        """Return the object that keeps the count; None: it is one that all envs of the process share."""

    def get(self) -> int:
        raise NotImplementedError

    def add(self) -> None:
        self.set(self.get() + 1)

    def set(self, count: int) -> None:
        raise NotImplementedError


class Stored(Theme):
    """Counts in a store."""

    def __init__(self, store: type[Store], config=None):
        self.make_store = store
        super().__init__(config)

    def prepare(self):
        self.store = self.make_store()

    def begin(self):
        self.store.add()

    def count(self):
        return self.store.get()


# The system's


class FilePosition(Store, name="file-position"):
    made = staticmethod(lambda: tempfile.TemporaryFile(buffering=0))  # noqa: SIM115 - it is collected with the env

    def get(self):
        return self.kept.tell()

    def add(self):
        self.kept.seek(1, os.SEEK_CUR)


class FileTime(FilePosition, name="file-time"):
    def __init__(self):
        super().__init__()
        os.utime(self.kept.fileno(), (0, 0))

    def get(self):
        return int(os.fstat(self.kept.fileno()).st_mtime)

    def add(self):
        os.utime(self.kept.fileno(), (0, self.get() + 1))


class FileSize(FilePosition, name="unlinked-file"):
    def get(self):
        return os.fstat(self.kept.fileno()).st_size

    def add(self):
        self.kept.write(b"1")


class Pipe(Store, name="pipe"):
    def made(self):
        ends = tuple(os.fdopen(end, mode, 0) for end, mode in zip(os.pipe(), ("rb", "wb"), strict=True))
        ends[1].write(bytes(8))
        return ends

    def get(self, more=0):
        count = int.from_bytes(self.kept[0].read(8), "little") + more
        self.kept[1].write(count.to_bytes(8, "little"))
        return count

    def add(self):
        self.get(1)


class SocketPair(Store, name="socket-pair"):
    def made(self):
        ends = socket.socketpair()
        ends[0].send(bytes(8))
        return ends

    def get(self):
        return int.from_bytes(self.kept[1].recv(8, socket.MSG_PEEK), "little")

    def set(self, count):
        self.kept[1].recv(8)
        self.kept[0].send(count.to_bytes(8, "little"))


class AnonymousMap(Store, name="mmap-anonymous"):
    made = staticmethod(lambda: mmap.mmap(-1, 8))

    def get(self):
        return struct.unpack_from("q", self.kept)[0]

    def set(self, count):
        struct.pack_into("q", self.kept, 0, count)


class FileMap(AnonymousMap, name="mmap-file"):
    def made(self):
        with tempfile.TemporaryFile() as file:
            file.truncate(8)
            return mmap.mmap(file.fileno(), 8)


class Variable(Store, name="env-variable"):
    def get(self):
        return int(os.environ.get("HIDDEN_EPISODES", "0"))

    def set(self, count):
        os.environ["HIDDEN_EPISODES"] = str(count)


_LIBC = ctypes.CDLL(None)
_LIBC.getenv.restype = ctypes.c_char_p


class CVariable(Store, name="c-env-variable"):
    """``os.environ`` does not know of it."""

    def get(self):
        return int(_LIBC.getenv(b"HIDDEN_C_EPISODES") or 0)

    def set(self, count):
        _LIBC.setenv(b"HIDDEN_C_EPISODES", str(count).encode(), 1)


class Shell(Store, name="shell"):
    """Another process counts; it ends with its standard input."""

    def made(self):
        script = "n=0; while read x; do n=$((n+x)); echo $n; done"
        return subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, number):
        self.kept.stdin.write(b"%d\n" % number)
        self.kept.stdin.flush()
        return int(self.kept.stdout.readline())

    def get(self):
        return self.ask(0)

    def add(self):
        self.ask(1)

    def __del__(self):
        self.kept.communicate()


class Thread(Store, name="thread"):
    """A ``threading.local`` of another thread has it."""

    def made(self):
        self.local = threading.local()
        return ThreadPoolExecutor(1)

    def get(self):
        return self.kept.submit(lambda: getattr(self.local, "count", 0)).result()

    def set(self, count):
        self.kept.submit(lambda: setattr(self.local, "count", count)).result()


class SignalHandler(Store, name="signal-handler"):
    def get(self):
        return getattr(signal.getsignal(signal.SIGUSR2), "args", (0,))[0]

    def set(self, count):
        signal.signal(signal.SIGUSR2, functools.partial(print, count))


# The interpreter's


class SysAttribute(Store, name="sys-attribute"):
    def get(self):
        return getattr(sys, "hidden_episodes", 0)

    def set(self, count):
        sys.hidden_episodes = count


class IntDigits(Store, name="int-digits"):
    def get(self):
        return sys.get_int_max_str_digits() - 4300

    def set(self, count):
        sys.set_int_max_str_digits(4300 + count)


class Threshold(Store, name="gc-threshold"):
    def get(self):
        return gc.get_threshold()[1] - 10

    def set(self, count):
        gc.set_threshold(gc.get_threshold()[0], 10 + count, gc.get_threshold()[2])


class WarningsRegistry(Store, name="warnings-registry"):
    def get(self):
        return warnings.onceregistry.get("hidden episodes", 0)

    def set(self, count):
        warnings.onceregistry["hidden episodes"] = count


class LoggingLevel(Store, name="logging-level"):
    def get(self):
        return logging.getLogger("hidden.episodes").level

    def set(self, count):
        logging.getLogger("hidden.episodes").setLevel(count)


class OwnDecimalContext(Store, name="own-decimal-context"):
    made = decimal.Context

    def get(self):
        return self.kept.Emax - 999_999

    def set(self, count):
        self.kept.Emax = 999_999 + count


class ErrorCall(Store, name="numpy-error-call"):
    def get(self):
        return getattr(np.geterrcall(), "args", (0,))[0]

    def set(self, count):
        np.seterrcall(functools.partial(print, count))


class InContext(Store, name="context-variable"):
    variable = contextvars.ContextVar("episodes", default=0)

    made = staticmethod(contextvars.copy_context)

    def get(self):
        return self.kept.run(self.variable.get)

    def set(self, count):
        self.kept.run(self.variable.set, count)


class Frame(Store, name="generator"):
    """A local variable of a generator that waits."""

    def made(self):
        def counting():
            count = 0
            while True:
                count += yield count

        generator = counting()
        next(generator)
        return generator

    def get(self):
        return self.kept.send(0)

    def add(self):
        self.kept.send(1)


# Code


class Look:
    """0"""


class ClassDoc(Store, name="class-doc"):
    def get(self):
        return int(Look.__doc__)

    def set(self, count):
        Look.__doc__ = str(count)


class KeywordDefault(Store, name="keyword-default"):
    def made(self):
        def look(*, count=0):
            return count

        return look

    def get(self):
        return self.kept()

    def set(self, count):
        self.kept.__kwdefaults__["count"] = count


class Code(KeywordDefault, name="code-object"):
    def __init__(self):
        super().__init__()
        self.set(0)

    def get(self):
        return self.kept.__code__.co_firstlineno

    def set(self, count):
        self.kept.__code__ = self.kept.__code__.replace(co_firstlineno=count)


class PartialClosure(Store, name="closure-in-partial"):
    def made(self):
        counts = {"episodes": 0}

        def add(number):
            counts["episodes"] += number
            return counts["episodes"]

        return functools.partial(functools.partial(add))

    def get(self):
        return self.kept(0)

    def add(self):
        self.kept(1)


class Cell(Store, name="cell"):
    made = staticmethod(lambda: types.CellType(0))

    def get(self):
        return self.kept.cell_contents

    def set(self, count):
        self.kept.cell_contents = count


class LocalClass(Store, name="local-class"):
    made = staticmethod(lambda: type("Look", (), {"episodes": 0})())

    def get(self):
        return type(self.kept).episodes

    def set(self, count):
        type(self.kept).episodes = count


class Counting(type):
    episodes = 0


class Metaclass(Store, name="metaclass"):
    made = staticmethod(lambda: Counting("Look", (), {}))

    def get(self):
        return self.kept.episodes

    def set(self, count):
        type(self.kept).episodes = count


class Skin(enum.Enum):
    DARK = 1


class EnumMember(Store, name="enum-member"):
    def get(self):
        return getattr(Skin.DARK, "episodes", 0)

    def set(self, count):
        Skin.DARK.episodes = count


class MadeModule(SysAttribute, name="made-module"):
    made = staticmethod(lambda: types.ModuleType("look"))

    def get(self):
        return getattr(self.kept, "episodes", 0)

    def set(self, count):
        self.kept.episodes = count


# Objects of the standard library


class Namespace(MadeModule, name="namespace"):
    made = types.SimpleNamespace


class ThreadLocal(MadeModule, name="own-thread-local"):
    made = threading.local


class ExceptionAttribute(MadeModule, name="exception"):
    made = Exception


class ChainMap(Store, name="chain-map"):
    made = staticmethod(lambda: collections.ChainMap({}, {"episodes": 0}))

    def get(self):
        return self.kept["episodes"]

    def set(self, count):
        self.kept["episodes"] = count


class UserDict(ChainMap, name="user-dict"):
    made = staticmethod(lambda: collections.UserDict(episodes=0))


class MappingProxy(ChainMap, name="mapping-proxy"):
    def made(self):
        counts = {"episodes": 0}
        self.set = functools.partial(counts.__setitem__, "episodes")
        return types.MappingProxyType(counts)


class Queue(Store, name="queue"):
    made = queue.Queue

    def get(self):
        return self.kept.qsize()

    def add(self):
        self.kept.put(None)


class SimpleQueue(Queue, name="simple-queue"):
    made = queue.SimpleQueue


class Semaphore(Store, name="semaphore"):
    made = threading.Semaphore

    def get(self):
        return self.kept._value - 1

    def add(self):
        self.kept.release()


class Deque(Store, name="deque"):
    made = collections.deque

    def get(self):
        return len(self.kept)

    def add(self):
        self.kept.append(None)


class Element:
    """Something that a weak reference may refer to."""

    count = 0


class WeakReference(Store, name="weak-reference"):
    """The element stays alive in a generator's frame."""

    def made(self):
        def keep(element):
            yield weakref.ref(element)
            yield element

        self.keeper = keep(Element())
        return next(self.keeper)

    def get(self):
        return self.kept().count

    def set(self, count):
        self.kept().count = count


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


class Descriptor(MadeModule, name="slots-and-descriptor"):
    made = SlottedLook


class Iterator(Store, name="list-iterator"):
    made = staticmethod(lambda: iter([None] * 100_000))

    def get(self):
        return 100_000 - operator.length_hint(self.kept)

    def add(self):
        next(self.kept)


class Tee(Store, name="tee"):
    made = staticmethod(lambda: itertools.tee(itertools.count())[0])

    def get(self):
        return next(self.kept.__copy__())

    def add(self):
        next(self.kept)


class Reader(Store, name="csv-reader"):
    made = staticmethod(lambda: csv.reader(itertools.repeat("a,b")))

    def get(self):
        return self.kept.line_num

    def add(self):
        next(self.kept)


class BytesPosition(Store, name="bytes-io"):
    made = io.BytesIO

    def get(self):
        return self.kept.tell()

    def add(self):
        self.kept.seek(1, os.SEEK_CUR)


class View(Store, name="memory-view"):
    made = staticmethod(lambda: memoryview(bytearray(8)))

    def get(self):
        return int.from_bytes(self.kept, "little")

    def set(self, count):
        self.kept[:] = count.to_bytes(8, "little")


class Array(Store, name="array"):
    made = staticmethod(lambda: array.array("q", [0]))

    def get(self):
        return self.kept[0]

    def set(self, count):
        self.kept[0] = count


class StringBuffer(View, name="c-string-buffer"):
    made = staticmethod(lambda: ctypes.create_string_buffer(8))


class Pointer(Store, name="c-pointer"):
    made = staticmethod(lambda: ctypes.pointer(ctypes.c_int64(0)))

    def get(self):
        return self.kept.contents.value

    def set(self, count):
        self.kept.contents.value = count


class RawValue(Store, name="raw-value"):
    made = staticmethod(lambda: sharedctypes.RawValue(ctypes.c_int64, 0))

    def get(self):
        return self.kept.value

    def set(self, count):
        self.kept.value = count


# Engines with a state in C


class Database(Store, name="sqlite"):
    made = staticmethod(lambda: sqlite3.connect(":memory:", check_same_thread=False))

    def get(self):
        return self.kept.execute("PRAGMA user_version").fetchone()[0]

    def set(self, count):
        self.kept.execute(f"PRAGMA user_version = {count}")


class Decompressor(Store, name="zlib"):
    """The bytes behind the end of what it has decompressed are still there."""

    def made(self):
        decompressor = zlib.decompressobj()
        decompressor.decompress(zlib.compress(b""))
        return decompressor

    def get(self):
        return len(self.kept.unused_data)

    def add(self):
        self.kept.decompress(b"1")


class Parser(Store, name="expat"):
    made = staticmethod(expat.ParserCreate)

    def get(self):
        return self.kept.CurrentLineNumber

    def add(self):
        self.kept.Parse("\n")


class XmlElement(Store, name="xml-element"):
    made = staticmethod(lambda: ElementTree.Element("look", episodes="0"))

    def get(self):
        return int(self.kept.get("episodes"))

    def set(self, count):
        self.kept.set("episodes", str(count))


class Pickler(Store, name="pickler"):
    """It knows what it has pickled."""

    made = staticmethod(lambda: pickle.Pickler(io.BytesIO()))

    def get(self):
        return len(self.kept.memo.copy())

    def add(self):
        self.kept.dump(f"episode {self.get()}")


class RandomState(Store, name="random-in-namespace"):
    """How many numbers it has drawn, modulo 312."""

    made = staticmethod(lambda: types.SimpleNamespace(random=random.Random(0)))

    def get(self):
        return self.kept.random.getstate()[1][-1] % 624 // 2

    def add(self):
        self.kept.random.random()


class BoxHigh(Store, name="box-high"):
    made = staticmethod(lambda: gym.spaces.Box(-1, 0, (2,), np.float64))

    def get(self):
        return int(self.kept.high[1])

    def set(self, count):
        self.kept.high[1] = count


class StructuredArray(Store, name="structured-array"):
    made = staticmethod(lambda: np.zeros(2, [("name", "S4"), ("episodes", "i8")]))

    def get(self):
        return int(self.kept[1]["episodes"])

    def set(self, count):
        self.kept[1]["episodes"] = count


class ObjectArray(Store, name="object-array"):
    made = staticmethod(lambda: np.array([types.SimpleNamespace(episodes=0), None], object))

    def get(self):
        return self.kept[0].episodes

    def set(self, count):
        self.kept[0].episodes = count


_GAMES: list[types.SimpleNamespace] = []


class Shared(Namespace, name="shared-by-sub-envs"):
    """All envs of a process have the same object."""

    def made(self):
        if not _GAMES:
            _GAMES.append(types.SimpleNamespace(episodes=0))
        return _GAMES[0]
