import array
import collections
import enum
import random
import sys
import types

import gymnasium as gym
import numpy as np
import pytest

from tune_media.replay.env_state import MOST_LEAVES, Baseline, Change, EnvState
from tune_media.replay.restoring import restore
from tune_media.values.plain import pack_exactly, unpack


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Thing:
    def __init__(self, kind=0, at=(0, 0)):
        self.kind, self.at = kind, at


class Slotted:
    __slots__ = ("level",)


class Board(dict):
    """A dict with a class of its own."""


Mark = collections.namedtuple("Mark", "x y")

LIVES = 3


class Maze(gym.Env):
    """Has state of many kinds, of which no observation tells."""

    observation_space, action_space = gym.spaces.Box(0, 1, (1,)), gym.spaces.Discrete(2)
    played = 0
    memory: list = []  # noqa: RUF012

    def __init__(self):
        self.level, self.wins, self.names = 1, [], {"a": 1}
        self.heat = np.zeros((4, 4))
        self.colour, self.mark, self.board = Colour.RED, Mark(1, 2), Board(theme=1)
        self.things = [Thing(), Thing(1)]
        self.recent = collections.deque([1], maxlen=3)
        self.seen = {(1, 2)}
        self.slots = Slotted()
        self.slots.level = 1
        self.alias = self.wins
        self.buffer = array.array("i", [1, 2])
        self.shade = self._shades()

    def _shades(self):
        count = 0

        def shade():
            nonlocal count
            count += 1
            return count

        return shade

    def lives(self):
        return LIVES


def change_level(env):
    env.level = 3


def change_list(env):
    env.wins.append(5)


def change_dict(env):
    env.names["b"] = [2, {"c": None}]


def change_array(env):
    env.heat[1, 2] = 7


def change_enum(env):
    env.colour = Colour.BLUE


def change_named_tuple(env):
    env.mark = Mark(3, 4)


def change_dict_of_a_class(env):
    env.board["theme"] = 2


def change_own_object(env):
    env.things[1].kind = 8


def add_own_object(env):
    env.things.append(Thing(9, (4, 4)))


def remove_own_object(env):
    del env.things[0]


def change_deque(env):
    env.recent.extend([2, 3, 4])


def change_set(env):
    env.seen |= {(3, 4), (5, 6)}


def change_slot(env):
    env.slots.level = 4


def change_closure(env):
    env.shade()
    env.shade()


def change_buffer(env):
    env.buffer[0] = 9


def change_class(env):
    Maze.played += 12


def change_list_of_class(env):
    Maze.memory.append(4)


def change_module(env):
    globals()["LIVES"] = 1


def add_attribute(env):
    env.theme = "dark"


def remove_attribute(env):
    del env.level


CHANGES = [value for name, value in list(globals().items()) if name.startswith(("change_", "add_", "remove_"))]


@pytest.fixture(autouse=True)
def clean():
    yield
    Maze.played, Maze.memory = 0, []
    globals()["LIVES"] = 3


def through_a_tape(change):
    return Change.unpacked(unpack(pack_exactly(change.packed())))


@pytest.mark.parametrize("make_change", CHANGES, ids=lambda one: one.__name__)
def test_state_of_each_kind_is_found_and_restored(make_change):
    env = gym.wrappers.TimeLimit(Maze(), 5)
    base = Baseline.unpacked(EnvState(env).as_baseline().packed())
    assert EnvState(env).change(base).packed() == {}
    make_change(env.unwrapped)
    state = EnvState(env)
    change, digests = state.change(base), state.digests(base)
    assert digests
    Maze.played, Maze.memory = 0, []
    globals()["LIVES"] = 3
    other = gym.wrappers.TimeLimit(Maze(), 5)
    assert restore(other, base, through_a_tape(change)) == []
    assert EnvState(other).digests(base) == digests


def test_objects_that_two_attributes_share_stay_shared():
    env, other = Maze(), Maze()
    base = EnvState(env).as_baseline()
    env.wins.append(1)
    restore(other, base, EnvState(env).change(base))
    other.wins.append(2)
    assert other.alias == [1, 2]


def test_what_the_constructor_draws_is_that_of_the_first_env():
    class Drawn(Maze):
        def __init__(self):
            super().__init__()
            self.level = random.randrange(10**9)

    env, other = Drawn(), Drawn()
    base = EnvState(env).as_baseline()
    assert not EnvState(env).change(base).leaves
    restore(other, base, EnvState(env).change(base))
    assert other.level == env.level


def test_an_attribute_that_holds_what_cannot_be_made_again_stays_as_it_is():
    env, other = Maze(), Maze()
    base = EnvState(env).as_baseline()
    env.things.append(sys.stdin)
    failed = restore(other, base, EnvState(env).change(base))
    assert failed == ["Maze.things (it holds what cannot be made again)"]
    assert len(other.things) == 2
    assert EnvState(other).digests(base) != EnvState(env).digests(base)


def test_an_attribute_beyond_the_bounds_is_left_out_and_its_neighbours_are_not():
    env = Maze()
    env.table = [Thing(number) for number in range(MOST_LEAVES)]
    env.huge = {number: [number] for number in range(30_000)}
    state = EnvState(env)
    assert state.left_out == {(0, "table"), (0, "huge")}
    assert (0, "level") in state.leaves


def test_a_large_array_is_compared_and_not_stored():
    env = Maze()
    env.map = np.zeros(20_000)
    base = EnvState(env).as_baseline()
    env.map[777] = 1
    state = EnvState(env)
    assert state.digests(base)
    assert state.change(base).leaves.keys() == {(0, "map")}
    assert len(str(state.change(base).packed())) < 200


def test_reading_a_state_changes_nothing_and_never_raises():
    class Refuses(Maze):
        def __getattr__(self, name):
            raise RuntimeError(name)

        @property
        def np_random(self):
            raise RuntimeError("call reset() first")

    env = Refuses()
    env.itself = env
    env.endless = [env]
    env.endless.append(env.endless)
    before = dict(vars(env))
    assert EnvState(env).leaves == EnvState(env).leaves
    assert vars(env) == before
    assert EnvState(object()).leaves.keys() == {(0, "layer")}


def test_a_class_that_is_not_of_the_env_is_not_made():
    env = Maze()
    base = EnvState(env).as_baseline()
    change = Change({(0, "level"): ("object", ["subprocess", "Popen"])})
    assert "is no class of the env's" in str(restore(env, base, change))
    assert env.level == 1


def test_attributes_that_rendering_changes_are_found_one_by_one():
    env = types.SimpleNamespace(game=Thing(1), wins=0)
    before = EnvState(env)
    env.game.screen = "made by the first frame"
    assert EnvState(env).changed_since(before) == {(0, "game", "screen")}
