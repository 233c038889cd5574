"""Envs whose pictures depend on state that no observation and no reward shows.

All observations are zeros. The first reward of an episode is a number that its reset drew and that no other episode
has; the other rewards are zeros. A picture shows the number of the step, and a value that is the kind's own. The env
config says in which frames the value shows, and how many steps the episodes have.
"""

from __future__ import annotations

import copy
import itertools
import os
import threading
import time
import zlib
from pathlib import Path

import gymnasium as gym
import numpy as np

from tests.support.envs import truth

EVERY = 12
"""Episodes after which a theme changes, unless the env config says otherwise."""
PLACEMENTS = ("all", "first-two", "last", "middle")
"""The frames that show the value; the others show 0."""


class Hidden(gym.Env):
    """The control: its pictures show a number that was drawn in the reset."""

    observation_space, action_space = gym.spaces.Box(-1, 1, (2,), np.float32), gym.spaces.Discrete(2)
    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012
    render_mode = "rgb_array"
    shortest, longest = 4, 8

    def __init__(self, config=None):
        config = config or {}
        self.cell, self.folder, self.level = config.get("cell", ""), config.get("truth", ""), config.get("level", 1)
        self.placement, self.every = config.get("placement", "all"), config.get("every", EVERY)
        if steps := config.get("steps"):
            self.shortest, self.longest = steps - steps // 6, steps + steps // 6
        self.number, self.drawn, self.mark, self.length = 0, 0, 0, 1

    def reset(self, *, seed=None, options=None):
        truth.will_reset(self)
        super().reset(seed=seed)
        self.number, self.mark = 0, int(self.np_random.integers(1, 2**40))
        self.length = int(self.np_random.integers(self.shortest, self.longest + 1))
        self.drawn = int(self.np_random.integers(200))
        self.begin()
        truth.has_reset(self)
        return np.zeros(2, np.float32), self.info()

    def step(self, action):
        truth.will_step(self)
        self.number += 1
        self.move()
        reward, is_over = self.mark / 2**40 if self.number == 1 else 0.0, self.number >= self.length
        truth.has_stepped(self, reward, is_over=is_over)
        return np.zeros(2, np.float32), reward, is_over, False, self.info()

    def begin(self):
        """Do what a kind does in a reset."""

    def move(self):
        """Do what a kind does in a step."""

    def info(self):
        return {}

    def shown(self):
        """Return what a picture would show now if all frames show the value, and change nothing."""
        return self.drawn

    def placed(self, value):
        """Return what a picture of this step shows: the value, or 0."""
        number, length = self.number, self.length
        shows = {"first-two": number < 2, "last": number >= length, "middle": number == length // 2}
        return value if shows.get(self.placement, True) else 0

    def as_if_rendered(self):
        """Return what the pictures from the reset on show if each is rendered once; None: as ``shown`` says."""

    def picture(self, value):
        value = self.placed(value)
        truth.was_rendered(self, value)
        return truth.draw(self.number, value)

    def render(self):
        return self.picture(self.shown())


# What its owner changes


class Levels(Hidden):
    """Its pictures show its level, an attribute."""

    def shown(self):
        return self.level


class TaskWithGet(Levels):
    """Its level is its task, which it tells."""

    def set_task(self, task):
        self.level = task

    def get_task(self):
        return self.level


class TaskWithoutGet(Levels):
    """Its level is its task, which it does not tell."""

    def set_task(self, task):
        self.level = task


class World:
    """An own object of an env."""

    def __init__(self, level=1):
        self.level = level


class LevelInObject(Hidden):
    """Its level is an attribute of an own object in an own object."""

    def __init__(self, config=None):
        super().__init__(config)
        self.world = World(World(1))

    def shown(self):
        return self.world.level.level


class LevelInDict(Hidden):
    """Its level is in a dict in a dict."""

    def __init__(self, config=None):
        super().__init__(config)
        self.settings = {"look": {"level": 1}}

    def shown(self):
        return self.settings["look"]["level"]


class ColoursOfLevels(Levels):
    """The class that it becomes shows ten times its level."""


class TenfoldLevels(ColoursOfLevels):
    def shown(self):
        return 10 * self.level


class LevelInWrapper(gym.Wrapper):
    """A wrapper that has the level and draws the pictures."""

    def __init__(self, env):
        super().__init__(env)
        self.tint = 1
        truth.shown_by(env.unwrapped, self.shown)

    def shown(self):
        return self.tint

    def render(self):
        return self.env.unwrapped.picture(self.shown())


class OtherLevelInWrapper(LevelInWrapper):
    """Takes the place of another wrapper."""

    def shown(self):
        return 77


class Outermost(gym.Wrapper):
    """Passes everything on."""


def wrapped(config=None):
    return LevelInWrapper(Hidden(config))


def wrapped_twice(config=None):
    return Outermost(LevelInWrapper(Hidden(config)))


# Counts of episodes, kept here and there: the theme of the pictures changes after every twelfth


class Theme(Hidden):
    """Counts its episodes in an attribute."""

    def __init__(self, config=None):
        super().__init__(config)
        self.prepare()

    def prepare(self):
        self.episodes = 0

    def begin(self):
        self.episodes += 1

    def count(self):
        return self.episodes

    def shown(self):
        return self.count() // self.every


class ThemeOfClass(Theme):
    """Counts the episodes of all envs of its class in an attribute of the class."""

    played = 0

    def prepare(self):
        """Nothing."""

    def begin(self):
        type(self).played += 1

    def count(self):
        return self.played


class ThemeInClosure(Theme):
    """Counts in a variable of a function that two functions share."""

    def prepare(self):
        episodes = 0

        def add():
            nonlocal episodes
            episodes += 1

        self.add, self.tell = add, lambda: episodes

    def begin(self):
        self.add()

    def count(self):
        return self.tell()


class ThemeInDefault(Theme):
    """Counts in the default value of a function's argument."""

    def begin(self, seen=[]):  # noqa: B006
        seen.append(1)

    def count(self):
        return len(ThemeInDefault.begin.__defaults__[0])


class ThemeOfWrapper(gym.Wrapper):
    """A wrapper that counts the episodes and draws the pictures."""

    def __init__(self, env):
        super().__init__(env)
        self.episodes = 0
        truth.shown_by(env.unwrapped, self.shown)

    def reset(self, **options):
        truth.will_reset(self.env.unwrapped)
        self.episodes += 1
        return self.env.reset(**options)

    def shown(self):
        return self.episodes // self.env.unwrapped.every

    def render(self):
        return self.env.unwrapped.picture(self.shown())


def theme_of_wrapper(config=None):
    return ThemeOfWrapper(Hidden(config))


class ThemeInCount(Theme):
    """Takes a number from ``itertools.count`` in each reset, and shows that number."""

    def prepare(self):
        self.numbers, self.taken = itertools.count(1), 0

    def begin(self):
        self.taken = next(self.numbers)

    def count(self):
        return self.taken


class ThemeInFile(Theme):
    """Counts in a file."""

    def prepare(self):
        self.file = Path(self.folder, f"{self.cell}.count") if self.folder else Path(os.devnull)

    def begin(self):
        with self.file.open("ab") as file:
            file.write(b"1")

    def count(self):
        return self.file.stat().st_size if self.file.exists() else 0


# What earlier episodes leave behind


class ScoreBoard(Hidden):
    """Shows how many episodes it has won, and how many steps it has made in all."""

    def __init__(self, config=None):
        super().__init__(config)
        self.won = self.steps = 0

    def move(self):
        self.steps += 1
        if self.number == 1 and self.mark > 2**39:
            self.won += 1

    def shown(self):
        return self.won << 16 | self.steps


class FromFrame41(Theme):
    """Shows its episodes from frame 41 on."""

    shortest, longest = 45, 55

    def shown(self):
        return self.episodes if self.number >= 41 else 0


class HeatMap(Hidden):
    """Shows how often each of 100 x 100 cells was visited in all episodes."""

    def __init__(self, config=None):
        super().__init__(config)
        self.heat, self.at = np.zeros((100, 100), np.int32), [0, 0]

    def begin(self):
        self.at = self.np_random.integers(100, size=2).tolist()
        self.heat[tuple(self.at)] += 1

    def move(self):
        self.at[self.number % 2] = (self.at[self.number % 2] + 1) % 100
        self.heat[tuple(self.at)] += 1

    def shown(self):
        return zlib.crc32(self.heat)


class LateTheme(Theme):
    """Draws a theme in its 20th, 40th, ... episode."""

    def prepare(self):
        self.episodes, self.theme = 0, 0

    def begin(self):
        self.episodes += 1
        if self.episodes % 20 == 0:
            self.theme = int(self.np_random.integers(2**20))

    def shown(self):
        return self.theme


class LevelAfterSuccess(Levels):
    """Its level rises in the reset after an episode with a high return."""

    def __init__(self, config=None):
        super().__init__(config)
        self.last = 0

    def begin(self):
        if self.last > 2**39:
            self.level += 1
        self.last = self.mark


class LargeTables(Theme):
    """Has 8 MB of tables that never change, beside its counter."""

    def prepare(self):
        self.tables = [np.arange(250_000, dtype=np.int64) + table for table in range(4)]
        self.rows = {number: tuple(range(number % 7)) for number in range(5000)}
        self.episodes = 0


# What the constructor does


class GlobalTexture(Hidden):
    """Draws a texture with NumPy's global generator when it is made."""

    def __init__(self, config=None):
        super().__init__(config)
        self.texture = np.random.randint(0, 255, (16, 16), np.uint8)

    def shown(self):
        return zlib.crc32(self.texture)


class SystemTheme(Hidden):
    """Asks the system for a random theme when it is made."""

    def __init__(self, config=None):
        super().__init__(config)
        self.theme = int.from_bytes(os.urandom(2), "little")

    def shown(self):
        return self.theme


class ResetsItself(Theme):
    """Calls its own reset when it is made."""

    def prepare(self):
        super().prepare()
        self.reset(seed=5)


# Clocks


class TimeStamps(Theme):
    """Keeps the times of its steps, and shows none of them."""

    def prepare(self):
        super().prepare()
        self.made, self.times = time.time(), []

    def begin(self):
        super().begin()
        self.began = time.monotonic()

    def move(self):
        self.times = [*self.times[-9:], time.time()]

    def shown(self):
        return self.drawn


class ShowsTheClock(Hidden):
    """Shows the time, thousandths of a second."""

    def shown(self):
        return time.monotonic_ns() // 1_000_000


# What render() does


class RenderDraws(Hidden):
    """``render()`` draws the pictures' sparks from ``np_random``."""

    def as_if_rendered(self):
        generator = copy.deepcopy(self.np_random)
        return (int(generator.integers(2**20)) for _ in itertools.count())

    def shown(self):
        return 0

    def render(self):
        return self.picture(int(self.np_random.integers(2**20)))


class RenderCounts(Hidden):
    """``render()`` counts its calls, and shows the count."""

    def __init__(self, config=None):
        super().__init__(config)
        self.renders = 0

    def as_if_rendered(self):
        return itertools.count(self.renders + 1)

    def shown(self):
        return self.renders

    def render(self):
        self.renders += 1
        return self.picture(self.renders)


class RenderCaches(Theme):
    """``render()`` keeps a picture of each value, and values come again."""

    def prepare(self):
        super().prepare()
        self.pictures = {}

    def shown(self):
        return 1000 + self.episodes // 5 % 4

    def render(self):
        value = self.placed(self.shown())
        if value not in self.pictures:
            self.pictures[value] = truth.draw(0, value)
        picture = self.pictures[value].copy()
        picture[: truth.BLOCK] = self.picture(self.shown())[: truth.BLOCK]
        return picture


class Surface:
    """Draws; it cannot be copied, pickled or made from data."""

    __slots__ = ("_lock",)

    def __init__(self):
        self._lock = threading.Lock()

    def draw(self, env, value):
        with self._lock:
            return env.picture(value)


class RenderPrepares(Theme):
    """The first ``render()`` makes a surface and says that it is ready."""

    def prepare(self):
        super().prepare()
        self.ready, self.surface = False, None

    def render(self):
        if not self.ready:
            self.ready, self.surface = True, Surface()
        return self.surface.draw(self, self.shown())


# Random numbers


class DeepGenerator(Hidden):
    """Draws the weather in each reset from a generator deep inside its own objects, which no seed reaches."""

    def __init__(self, config=None):
        super().__init__(config)
        self.world, self.weather = World(World(np.random.default_rng())), 0

    def begin(self):
        self.weather = int(self.world.level.level.integers(2**20))

    def move(self):
        self.weather = int(self.world.level.level.integers(2**20))

    def shown(self):
        return self.weather


class Inner:
    """An env inside another one, which is none of its wrappers."""

    def __init__(self):
        self.np_random, self.weather = np.random.default_rng(), 0

    def reset(self, seed=None, options=None):
        self.weather = int(self.np_random.integers(2**20))

    def step(self, action):
        self.weather = int(self.np_random.integers(2**20))


class BehindAecEnv(Hidden):
    """Has another env in an attribute, with a generator of its own, as PettingZoo's parallel envs do."""

    def __init__(self, config=None):
        super().__init__(config)
        self.aec_env = Inner()

    def begin(self):
        self.aec_env.reset()

    def move(self):
        self.aec_env.step(0)

    def shown(self):
        return self.aec_env.weather


class SamplesNoops(Hidden):
    """Draws no-ops from its action space in each reset, and shows them."""

    def __init__(self, config=None):
        super().__init__(config)
        self.action_space, self.noops = gym.spaces.Discrete(2), 0

    def begin(self):
        self.noops = sum(int(self.action_space.sample()) << bit for bit in range(12))

    def shown(self):
        return self.noops
