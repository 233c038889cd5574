"""Envs whose pictures, or whose episodes, do not follow from their resets and actions."""

import contextlib
import os
import random
import signal
import socket
import threading
import time
from pathlib import Path

import gymnasium as gym
import numpy as np


class Plain(gym.Env):
    """Shows a number that it drew in its reset, and the number of the step."""

    observation_space, action_space = gym.spaces.Box(-1, 1, (2,)), gym.spaces.Discrete(2)
    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012
    render_mode = "rgb_array"

    def __init__(self, config=None):
        self.config, self.episodes, self.count = dict(config or {}), 0, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episodes, self.count = self.episodes + 1, 0
        self.drawn = int(self.np_random.integers(200))
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.count += 1
        return np.zeros(2, np.float32), 1.0, self.count == 5, False, {}

    def shade(self):
        return self.drawn

    def render(self):
        picture = np.full((16, 16, 3), self.shade(), np.uint8)
        picture[0, 0] = self.count
        return picture


class CountsEpisodes(Plain):
    """Its pictures show the number of the episode."""

    def shade(self):
        return self.episodes


class NotesItsEpisodes(Plain):
    """Writes down, as SB3's Monitor does, which process has reset it."""

    def reset(self, **options):
        with Path(self.config["file"]).open("a") as file:
            file.write(f"{os.getpid()}\n")
        return super().reset(**options)


class RenderDraws(Plain):
    """Its pictures are drawn from the env's generator, so that it plays another episode if it is rendered."""

    def step(self, action):
        _, *rest = super().step(action)
        return self.np_random.random(2).astype(np.float32), *rest

    def shade(self):
        return int(self.np_random.integers(250))


class RenderDrawsFromGlobal(Plain):
    """Its pictures are drawn from the generator of the process, of which its steps take nothing."""

    def shade(self):
        random.random()
        return self.drawn


class RenderDrawsLater(Plain):
    """Its pictures take a number of NumPy's global generator from the third step on, which none shows."""

    def shade(self):
        if self.count > 2:
            np.random.random()
        return self.drawn


class SamplesFromANewSpace(Plain):
    """Its reset makes an action space, and samples from it, which nobody seeds: highway-env does so."""

    def reset(self, **options):
        answer = super().reset(**options)
        self.action_space = gym.spaces.Discrete(2)
        self.action_space.sample()
        return answer


class ImportDraws(Plain):
    """Its maker draws from the generators of the process the first time, as modules do when they are imported."""

    is_imported = False

    def __init__(self, config=None):
        super().__init__(config)
        if not ImportDraws.is_imported and self.config["process"] != os.getpid():
            random.random()
            np.random.random()
        ImportDraws.is_imported = True


class InstancesDiffer(Plain):
    """From the second env that a process makes on, frames after the reset look otherwise."""

    made = 0

    def __init__(self, config=None):
        super().__init__(config)
        type(self).made += 1
        self.instance = type(self).made

    def shade(self):
        return super().shade() + (self.instance > 1 and self.count > 0)


class RenderAges(Plain):
    """Each picture of an episode makes the next one darker."""

    def reset(self, **options):
        self.age = 0
        return super().reset(**options)

    def shade(self):
        self.age += 1
        return 200 - self.age


class ShowsTheClock(Plain):
    def shade(self):
        return time.monotonic_ns() // 1000 % 251


class DrawsFromTheSystem(Plain):
    """Its observations come from a generator that no seed reaches."""

    def step(self, action):
        _, *rest = super().step(action)
        return np.frombuffer(os.urandom(8), np.float32), *rest


class DrawsFromGlobalRandom(Plain):
    """Its observations come from the generator that all code of a process shares."""

    def step(self, action):
        _, *rest = super().step(action)
        return np.float32([random.random(), 0]), *rest


class HoldsAPort(Plain):
    """Listens on an address that one process only may hold."""

    HELD: list = []  # noqa: RUF012

    def __init__(self, config=None):
        super().__init__(config)
        port = socket.socket(socket.AF_UNIX)
        port.bind(f"\0tune_media {self.config['salt']}")
        self.HELD.append(port)


class ReusesBuffers(Plain):
    """Returns the same arrays in each step, with other numbers in them."""

    def __init__(self, config=None):
        super().__init__(config)
        self.observation, self.picture = np.zeros(2, np.float32), np.zeros((16, 16, 3), np.uint8)

    def step(self, action):
        _, *rest = super().step(action)
        self.observation[:] = self.np_random.random(2)
        return self.observation, *rest

    def render(self):
        self.picture[:] = super().render()
        return self.picture


class SharesASimulator(Plain):
    """Uses the one simulator of its process; an env that is made there later takes it away."""

    user = None

    def __init__(self, config=None):
        super().__init__(config)
        type(self).user = self

    def step(self, action):
        if self.user is not self:
            raise RuntimeError("not connected to the simulator")
        return super().step(action)


class HasNoPicture(Plain):
    def render(self):
        return None


class CannotBeMade(Plain):
    """Can be made in one process only."""

    def __init__(self, config=None):
        super().__init__(config)
        if os.getpid() != self.config["process"]:
            raise OSError("the port is taken")


class DiesElsewhere(Plain):
    """Ends any process but the one that made it first, as for want of memory."""

    def step(self, action):
        if os.getpid() != self.config["process"]:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)


class Slow(Plain):
    """Renders for so long that another thread runs meanwhile."""

    def render(self):
        time.sleep(0.003)
        return super().render()


@contextlib.contextmanager
def drawing(seed=None):
    """Draw numbers from ``random`` in a thread meanwhile; yields their list."""
    random.seed(seed)
    drawn, is_over = [], threading.Event()

    def draw():
        while not is_over.is_set():
            drawn.append(random.random())
            time.sleep(0.001)

    thread = threading.Thread(target=draw, name="loader")
    thread.start()
    try:
        yield drawn
    finally:
        is_over.set()
        thread.join()
