"""More envs with hidden state: each keeps it where a reader of attributes does not look."""

from __future__ import annotations

import abc
import builtins
import ctypes
import dataclasses
import decimal
import functools
import hashlib
import logging
import os
import queue
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import weakref
import zlib
from itertools import count as counter
from multiprocessing import resource_tracker, shared_memory
from pathlib import Path

import gymnasium as gym
import numpy as np

from tests.support.envs import truth
from tests.support.envs.hidden import EVERY, Hidden, Theme

# Who pickles, copies or compares the env is told something else


class EzPickled(Theme, gym.utils.EzPickle):
    """Pickles as the arguments of its constructor, as many envs of Gymnasium do."""

    def __init__(self, config=None):
        gym.utils.EzPickle.__init__(self, config)
        Theme.__init__(self, config)


@dataclasses.dataclass(slots=True)
class Card:
    name: str = "card"
    played: int = dataclasses.field(default=0, compare=False, repr=False)


class CompareFalse(Theme):
    """Counts in a field of a dataclass with slots that no comparison and no repr shows."""

    def prepare(self):
        self.card = Card()

    def begin(self):
        self.card.played += 1

    def count(self):
        return self.card.played


class Game:
    played = 0

    def __reduce__(self):
        return "GAME"


GAME = Game()


class ByReference(Theme):
    """Counts in an object that pickles and copies as a reference to a global."""

    def prepare(self):
        self.game = GAME

    def begin(self):
        self.game.played += 1

    def count(self):
        return self.game.played


class Score(int):
    episodes = 0


class IntSubclass(Theme):
    """Counts in an attribute of an int."""

    def prepare(self):
        self.score = Score(7)

    def begin(self):
        self.score.episodes += 1

    def count(self):
        return self.score.episodes


class SetattrCounts(Theme):
    """Counts by __setattr__ how often an attribute is set."""

    def __setattr__(self, name, value):
        if name == "drawn":
            self.__dict__["changes"] = self.__dict__.get("changes", 0) + 1
        super().__setattr__(name, value)

    def prepare(self):
        """Nothing."""

    def begin(self):
        """Nothing."""

    def count(self):
        return self.changes


class DictOrder(Hidden):
    """What it shows is the first key of a dict, which is moved to the end now and then."""

    def __init__(self, config=None):
        super().__init__(config)
        self.skins = dict.fromkeys(range(50))

    def begin(self):
        if self.np_random.random() < 0.2:
            first = next(iter(self.skins))
            self.skins[first] = self.skins.pop(first)

    def shown(self):
        return next(iter(self.skins))


class LongDouble(Theme):
    """Counts in the last bits of a long double."""

    def prepare(self):
        self.phase = np.longdouble(1)

    def begin(self):
        self.phase += np.longdouble(2) ** -60

    def count(self):
        return int((self.phase - 1) * np.longdouble(2) ** 60)


class Masked(Theme):
    """Counts in the mask of a masked array, whose data do not change."""

    def prepare(self):
        self.cells = np.ma.array(np.zeros(1000), mask=np.zeros(1000, bool))

    def begin(self):
        self.cells[self.count()] = np.ma.masked

    def count(self):
        return int(np.ma.getmaskarray(self.cells).sum())


class Beast:
    def __init__(self):
        self.age = 0


class ObjectArray(Theme):
    """Counts in an own object in an array of objects."""

    def prepare(self):
        self.beasts = np.array([Beast(), Beast()], dtype=object)

    def begin(self):
        self.beasts[1].age += 1

    def count(self):
        return self.beasts[1].age


class Node:
    __slots__ = ("below",)

    def __init__(self, below):
        self.below = below


class LinkedList(Theme):
    """Counts by a linked list that grows by 100 objects with each episode: no recursion reaches its end."""

    def prepare(self):
        self.top = None

    def begin(self):
        for _ in range(100):
            self.top = Node(self.top)

    def count(self):
        found, node = 0, self.top
        while node is not None:
            found, node = found + 1, node.below
        return found // 100


class PartialArgs(Theme):
    """Counts in an argument of a functools.partial."""

    def prepare(self):
        self.add = functools.partial(list.append, [])

    def begin(self):
        self.add(1)

    def count(self):
        return len(self.add.args[0])


# Classes


class Serial(Hidden):
    """Shows how many envs of its class were made before it, in its process."""

    serials = counter()

    def __init__(self, config=None):
        super().__init__(config)
        self.serial = next(Serial.serials)

    def shown(self):
        return self.serial


class Registry(type):
    known = []  # noqa: RUF012

    def __init__(cls, *arguments):
        super().__init__(*arguments)
        Registry.known.append(cls)


class Creature(metaclass=Registry):
    pass


class Metaclass(Theme):
    """Defines a class in each reset; the metaclass keeps them."""

    def prepare(self):
        """Nothing."""

    def begin(self):
        Registry("Beast", (Creature,), {})

    def count(self):
        return len(Registry.known)


class Night(abc.ABC):  # noqa: B024
    pass


POOL = [type(f"Skin{number}", (), {}) for number in range(64)]


class AbcRegister(Hidden):
    """Registers classes as virtual subclasses of an abstract one."""

    def begin(self):
        if self.np_random.random() < 0.1 and (left := [kind for kind in POOL if not issubclass(kind, Night)]):
            Night.register(left[0])

    def shown(self):
        return sum(issubclass(kind, Night) for kind in POOL)


def _look():
    return 1


def _day():
    return 1


def _night():
    return 2


class CodeSwapped(Hidden):
    """Exchanges the code of a function now and then."""

    def begin(self):
        if self.np_random.random() < 0.1:
            _look.__code__ = (_day if _look() == 2 else _night).__code__

    def shown(self):
        return _look()


class OwnClass(Hidden):
    """Becomes an env of another class now and then, and later again of its first one."""

    def begin(self):
        if self.np_random.random() < 0.1:
            self.__class__ = OwnClass if type(self) is OwnNight else OwnNight

    def shown(self):
        return 1


class OwnNight(OwnClass):
    def shown(self):
        return 2


class Patched(Theme):
    """Counts in an attribute of gymnasium's own class."""

    def prepare(self):
        """Nothing."""

    def begin(self):
        gym.Env.played = getattr(gym.Env, "played", 0) + 1

    def count(self):
        return getattr(gym.Env, "played", 0)


class InBuiltins(Theme):
    """Counts in an attribute of builtins."""

    def prepare(self):
        """Nothing."""

    def begin(self):
        builtins.fresh_episodes = getattr(builtins, "fresh_episodes", 0) + 1

    def count(self):
        return getattr(builtins, "fresh_episodes", 0)


class Weakly:
    """A descriptor that keeps the values itself."""

    def __init__(self):
        self.values = weakref.WeakKeyDictionary()

    def __get__(self, env, owner=None):
        return self if env is None else self.values.get(env, 0)

    def __set__(self, env, value):
        self.values[env] = value


class WeakDescriptor(Theme):
    """Counts in a descriptor, which keeps the numbers of all envs by weak references."""

    episodes = Weakly()


class Ghost:
    fallen = 0

    def __del__(self):
        Ghost.fallen += 1


class DelCounts(Theme):
    """An object of each episode counts when it dies."""

    def prepare(self):
        """Nothing."""

    def begin(self):
        self.ghost = Ghost()

    def count(self):
        return Ghost.fallen


class League:
    round = 0


LEAGUE = League()


class SharedLeague(Hidden):
    """Its steps now and then change an object that all envs share."""

    def move(self):
        if self.np_random.random() < 0.05:
            LEAGUE.round += 1

    def shown(self):
        return LEAGUE.round


# The standard library's own state


class DecimalContext(Theme):
    """Counts by the precision of the thread's decimal context."""

    def prepare(self):
        """Nothing."""

    def begin(self):
        decimal.getcontext().prec += 1

    def count(self):
        return decimal.getcontext().prec


class Counting(logging.Handler):
    seen = 0

    def emit(self, record):
        self.seen += 1


class LogHandler(Theme):
    """Counts by a handler that only the tree of the loggers holds."""

    def prepare(self):
        logger = logging.getLogger("fresh.game")
        if not logger.handlers:
            logger.propagate = False
            logger.setLevel(logging.INFO)
            logger.addHandler(Counting())

    def begin(self):
        logging.getLogger("fresh.game").info("an episode")

    def count(self):
        return logging.getLogger("fresh.game").handlers[0].seen


class WorkerThread(Theme):
    """Counts in a local variable of a function that a thread runs."""

    def prepare(self):
        self.orders, self.answers = queue.Queue(), queue.Queue()
        threading.Thread(target=_serve, args=(self.orders, self.answers), daemon=True).start()

    def begin(self):
        self.ask("add")

    def count(self):
        return self.ask("tell")

    def ask(self, order):
        self.orders.put(order)
        return self.answers.get(timeout=10)


def _serve(orders, answers):
    episodes = 0
    while True:
        episodes += orders.get() == "add"
        answers.put(episodes)


# Beyond Python's objects


class Digest(Hidden):
    """Shows a digest of all episodes' marks."""

    def __init__(self, config=None):
        super().__init__(config)
        self.sha = hashlib.sha256()

    def begin(self):
        self.sha.update(self.mark.to_bytes(8, "little"))

    def shown(self):
        return int.from_bytes(self.sha.digest()[:2], "little")


class InSqlite(Theme):
    """Counts in a database in memory."""

    def prepare(self):
        self.base = sqlite3.connect(":memory:", check_same_thread=False)
        self.base.execute("create table played (mark integer)")

    def begin(self):
        self.base.execute("insert into played values (?)", (self.mark,))

    def count(self):
        return self.base.execute("select count(*) from played").fetchone()[0]


_SIMULATOR = """
import sys
played = 0
for line in sys.stdin:
    played += line == "reset\\n"
    print(played, flush=True)
"""


class Simulator(Theme):
    """Counts in a process of its own, as envs around simulators do."""

    def prepare(self):
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-E", "-c", _SIMULATOR], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ask(self, order):
        self.process.stdin.write(order + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def begin(self):
        self.ask("reset")

    def count(self):
        return self.ask("tell")


class FileNumber(Theme):
    """Counts in a file without a name, of which it has the descriptor's number."""

    def prepare(self):
        self.fd = os.memfd_create("game")

    def begin(self):
        os.write(self.fd, b"x")

    def count(self):
        return os.fstat(self.fd).st_size


_LIBC = ctypes.CDLL(None)
_LIBC.calloc.restype = ctypes.c_void_p


class Handle(Theme):
    """Counts in memory of a C library, of which it has the address."""

    def prepare(self):
        self.handle = _LIBC.calloc(1, 16)

    def begin(self):
        ctypes.c_int.from_address(self.handle).value += 1

    def count(self):
        return ctypes.c_int.from_address(self.handle).value


class View(Theme):
    """Counts in a buffer of which it has a memoryview."""

    def prepare(self):
        self.view = memoryview(bytearray(8)).cast("I")

    def begin(self):
        self.view[0] += 1

    def count(self):
        return self.view[0]


class SharedBlock(Theme):
    """Counts in a block of shared memory that has a name: all processes see it."""

    def prepare(self):
        name = f"hsf_{zlib.crc32(f'{self.folder} {self.cell}'.encode()):08x}"
        try:
            self.block = shared_memory.SharedMemory(name, create=True, size=64)
        except FileExistsError:
            self.block = shared_memory.SharedMemory(name)
        resource_tracker.unregister(self.block._name, "shared_memory")

    def begin(self):
        np.ndarray((1,), np.int64, self.block.buf)[0] += 1

    def count(self):
        return int(np.ndarray((1,), np.int64, self.block.buf)[0])


class TemporaryFolder(Theme):
    """Counts in a file of a folder that its constructor made and named."""

    def prepare(self):
        self.home = tempfile.mkdtemp(prefix="fresh-home-")

    def begin(self):
        with Path(self.home, "played").open("ab") as file:
            file.write(b"x")

    def count(self):
        try:
            return Path(self.home, "played").stat().st_size
        except FileNotFoundError:
            return 0


class PygameSurface(Theme):
    """Counts in the pixels of a surface."""

    def prepare(self):
        import pygame

        self.canvas = pygame.Surface((64, 64))

    def begin(self):
        number = self.count() + 1
        self.canvas.set_at((0, 0), (number & 255, number >> 8 & 255, 0))

    def count(self):
        low, high, *_ = self.canvas.get_at((0, 0))
        return low + 256 * high


class TorchGenerator(Hidden):
    """Draws from a generator of torch."""

    def __init__(self, config=None):
        import torch

        super().__init__(config)
        self.torch_random, self.skin = torch.Generator(), 0
        self.torch_random.seed()

    def begin(self):
        import torch

        self.skin = int(torch.randint(100000, (1,), generator=self.torch_random))

    def shown(self):
        return self.skin


# What differs from process to process


class StringSet(Hidden):
    """Shows the order of a set of strings."""

    names = frozenset(f"skin-{number}" for number in range(64))

    def shown(self):
        return int(next(iter(self.names)).removeprefix("skin-"))


class IdColour(Hidden):
    """Its colour is its address."""

    def shown(self):
        return id(self) >> 4 & 0xFFFF


class ShowsSeed(Hidden):
    """Shows its seed."""

    def shown(self):
        return self.np_random_seed & 0xFFFFFF


class WorkerIndex(Hidden):
    """Shows RLlib's numbers of its worker and of itself in the vector env, of its env config."""

    def __init__(self, config=None):
        super().__init__(config)
        self.skin = (config or {}).get("skin", 0)

    def shown(self):
        return self.skin


# Wrappers


class ThemeByReturns(gym.Wrapper):
    """Its theme depends on the mean return and the number of the last episodes."""

    def __init__(self, env):
        super().__init__(env)
        truth.shown_by(env.unwrapped, self.shown)

    def step(self, action):
        result = self.env.step(action)
        truth.has_changed(self.env.unwrapped)  # the wrapper below counts an episode after its env's last step
        return result

    def shown(self):
        returns = self.env.return_queue
        return len(returns) // EVERY + 16 * int(100 * np.mean(returns) if returns else 0)

    def render(self):
        return self.env.unwrapped.picture(self.shown())


def by_statistics(config=None):
    return ThemeByReturns(gym.wrappers.RecordEpisodeStatistics(Hidden(config)))


# Where the net of compared pictures may have holes


class SlowBuiltins(InBuiltins):
    """Counts in builtins, and takes 0.1 s for a frame."""

    seconds = 0.1

    def render(self):
        time.sleep(self.seconds)
        return super().render()


class SlowFirst(InBuiltins):
    """Counts in builtins, and takes 2 s for its first frame."""

    def render(self):
        if not hasattr(self, "window"):
            time.sleep(2)
            self.window = True
        return super().render()


class RareFrame(InBuiltins):
    """Counts in builtins, and shows it in frame 3 of its longest episodes only."""

    def shown(self):
        return self.count() // EVERY if self.number == 3 and self.length == self.longest else 0


class CountingSpace(gym.spaces.Discrete):
    played = 0


class SpaceAttribute(Theme):
    """Counts in an attribute of its action space."""

    def prepare(self):
        self.action_space = CountingSpace(2)

    def begin(self):
        self.action_space.played += 1

    def count(self):
        return self.action_space.played


class Level:
    spec = 0


class ObjectSpec(Theme):
    """Counts in an attribute of an own object that is called spec."""

    def prepare(self):
        self.look = Level()

    def begin(self):
        self.look.spec += 1

    def count(self):
        return self.look.spec
