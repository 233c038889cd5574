"""More envs with hidden state: each keeps it where a reader of attributes does not look."""

from __future__ import annotations

import builtins
import subprocess
import sys
import tempfile
import time
import zlib
from itertools import count as counter
from multiprocessing import resource_tracker, shared_memory
from pathlib import Path

import gymnasium as gym
import numpy as np

from tests.support.envs import truth
from tests.support.envs.hidden import Hidden, Theme

# Who pickles, copies or compares the env is told something else


class EzPickled(Theme, gym.utils.EzPickle):
    """Pickles as the arguments of its constructor, as many envs of Gymnasium do."""

    def __init__(self, config=None):
        gym.utils.EzPickle.__init__(self, config)
        Theme.__init__(self, config)


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


# Classes


class Serial(Hidden):
    """Shows how many envs of its class were made before it, in its process."""

    serials = counter()

    def __init__(self, config=None):
        super().__init__(config)
        self.serial = next(Serial.serials)

    def shown(self):
        return self.serial


class InBuiltins(Theme):
    """Counts in an attribute of builtins."""

    def prepare(self):
        """Nothing."""

    def begin(self):
        builtins.fresh_episodes = getattr(builtins, "fresh_episodes", 0) + 1

    def count(self):
        return getattr(builtins, "fresh_episodes", 0)


# Beyond Python's objects


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
        return len(returns) // self.env.unwrapped.every + 16 * int(100 * np.mean(returns) if returns else 0)

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
        return self.count() // self.every if self.number == 3 and self.length == self.longest else 0


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
