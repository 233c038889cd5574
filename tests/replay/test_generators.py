"""The random generators of an env: found wherever they are, read, given to another env, and put back by a guard."""

import contextlib
import copy
import functools
import pickle
import random
import threading
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from ray._private.gc_collect_manager import PythonGCThread
from ray.tune.utils.util import UtilMonitor

from tune_media.replay.generators import EnvGenerators, RenderDraws, RenderGuard, Snapshot, layers_of, set_states
from tune_media.replay.tape_recorder import TapeRecorder
from tune_media.values.plain import pack_exactly, unpack


def walked(env):
    """Return the generators of an env, after a walk."""
    generators = EnvGenerators(env)
    generators.walk()
    return generators


def snapshot_of(env):
    return Snapshot(walked(env).places())


def places_of(env):
    return [place.name for place in walked(env).places()]


def test_reading_makes_no_generator_and_the_one_that_is_made_later_is_known_from_its_beginning():
    env, other = gym.make("CartPole-v1"), gym.make("CartPole-v1")
    snapshot = snapshot_of(env)
    assert "_np_random" not in vars(env.unwrapped)
    assert not snapshot.states
    observation, _ = env.reset()
    set_states(other, snapshot.states)
    assert np.array_equal(other.reset()[0], observation)


class SeedsItself(gym.Env):
    """Gymnasium's public ``np_random`` would make a generator, so that this env would not make its own."""

    observation_space, action_space = gym.spaces.Box(0, 1, (1,)), gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if self._np_random is None:
            self._np_random = np.random.default_rng(42)
        return self._np_random.random(1), {}

    def step(self, action):
        return self._np_random.random(1), 0.0, True, False, {}


def test_an_env_that_seeds_itself_if_nobody_else_did_still_does():
    expected = SeedsItself().reset()[0]
    env, other = gym.wrappers.OrderEnforcing(SeedsItself()), SeedsItself()
    recorder = TapeRecorder(env)
    assert env.reset()[0] == expected
    set_states(other, recorder.tape.generators)
    assert other.reset()[0] == expected


def test_each_generator_of_an_env_and_of_those_inside_it_is_found_once():
    shared = np.random.default_rng(1)
    game = SimpleNamespace(rng=np.random.default_rng(6))
    inner = SimpleNamespace(dice=shared, cards=np.random.RandomState(4), wheel=random.Random(5), game=game)
    outer = SimpleNamespace(np_random=np.random.default_rng(2), par_env=inner, alias=shared)
    assert sorted(snapshot_of(outer).states) == ["0/cards", "0/dice", "0/game/rng", "0/wheel", "1/np_random"]


class Slotted:
    __slots__ = ("dice",)

    def __init__(self):
        self.dice = np.random.default_rng(1)


class OfClass(SimpleNamespace):
    deck = random.Random(2)


CARDS = np.random.RandomState(3)


class OfModule(SimpleNamespace):
    def draw(self):
        return CARDS.random_sample()


def closure_over(generator):
    return lambda: generator.random()


def drawn_by(generator):
    return generator.random()


HOLDERS = {
    "0/game/rooms/1/dice": lambda: SimpleNamespace(game=SimpleNamespace(rooms=[None, Slotted()])),
    "0/by_name/left/dice": lambda: SimpleNamespace(by_name={"left": Slotted()}),
    "0/draw/0": lambda: SimpleNamespace(draw=closure_over(random.Random(4))),
    "0/draw/args/0": lambda: SimpleNamespace(draw=functools.partial(drawn_by, random.Random(4))),
    "OfClass/deck": OfClass,
    "tests.replay.test_generators/CARDS": OfModule,
}


@pytest.mark.parametrize("name", HOLDERS)
def test_a_generator_is_found_wherever_it_is_and_another_env_gets_its_state(name):
    env, other = HOLDERS[name](), HOLDERS[name]()
    (place,) = [place for place in walked(env).places() if "np_random" not in place.name]
    states = unpack(pack_exactly(snapshot_of(env).states))
    drawn = place.generator.uniform(0, 1)
    set_states(other, states)
    (of_other,) = [place for place in walked(other).places() if "np_random" not in place.name]
    assert (place.name, of_other.generator.uniform(0, 1)) == (name, drawn)


def test_between_two_walks_a_generator_is_looked_up_in_whatever_holds_it_now():
    env = SimpleNamespace(game=SimpleNamespace(dice=random.Random(1)))
    generators = EnvGenerators(env)
    for _ in range(4):
        generators.begin_episode()
        env.game = SimpleNamespace(dice=random.Random(5))
        (place,) = [place for place in generators.places() if place.generator is not None]
        assert place.generator is env.game.dice
    env.game = None
    assert all(place.generator is None for place in generators.places())


def test_an_env_is_walked_through_when_1_2_3_5_9_episodes_have_begun(monkeypatch):
    walks, begun = [], []
    monkeypatch.setattr(EnvGenerators, "walk", lambda self: walks.append(len(begun)))
    generators = EnvGenerators(SimpleNamespace())
    for number in range(1, 18):
        begun.append(number)
        generators.begin_episode()
    assert walks == [1, 2, 3, 5, 9, 17]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
def test_a_copy_of_a_taped_env_has_generators_of_its_own(copied):
    env = gym.make("CartPole-v1")
    recorder = TapeRecorder(env)
    env.reset(seed=3)
    env.step(0)
    twin, tape = copied(env), recorder.tape
    twin.reset()
    twin.step(1)
    state = twin.unwrapped.np_random.bit_generator.state
    assert recorder.tape is tape
    assert len(tape) == 1
    env.reset()
    assert env.unwrapped.np_random.bit_generator.state == state  # the same draws, each of its own generator
    assert env.unwrapped.np_random is not twin.unwrapped.np_random
    assert recorder.tape.generators.keys() == twin.tune_media_tape_recorder.tape.generators.keys() != set()


def test_states_of_all_kinds_are_plain_data_and_copies():
    env = SimpleNamespace(
        a=np.random.default_rng(1), b=np.random.Generator(np.random.MT19937(2)), c=np.random.RandomState(3)
    )
    env.d, env.e = random.Random(4), random.SystemRandom()

    def draw():
        return env.a.random(), env.b.random(), env.c.normal(), env.d.gauss(0, 1)

    draw()
    states = pack_exactly(snapshot_of(env).states)
    first = draw()
    set_states(env, unpack(states))
    assert draw() == first


def test_the_spaces_generators_are_among_them():
    env, other = (gym.make("CartPole-v1") for _ in range(2))
    spaces = gym.spaces.Dict(left=gym.spaces.Box(0, 1), right=gym.spaces.Discrete(9))
    env.unwrapped.goals, other.unwrapped.goals = spaces, gym.spaces.Dict(spaces.spaces.copy())
    snapshot = snapshot_of(env)
    drawn = env.unwrapped.goals.sample(), env.action_space.sample()
    other.unwrapped.goals = gym.spaces.Dict(left=gym.spaces.Box(0, 1), right=gym.spaces.Discrete(9))
    set_states(other, snapshot.states)
    assert (other.unwrapped.goals.sample(), other.action_space.sample()) == drawn


def test_the_state_of_an_emulator_includes_its_generator():
    import ale_py

    gym.register_envs(ale_py)
    env, other = (gym.make("ALE/Pong-v5", frameskip=1) for _ in range(2))
    env.reset(seed=1), other.reset(seed=2)
    states = unpack(pack_exactly(Snapshot(walked(env).places(), layers_of(env)).states))
    assert "0/ale" in states
    assert "0/ale" not in snapshot_of(env).states
    before = env.unwrapped.clone_state(include_rng=True)
    set_states(other, states)
    assert other.unwrapped.clone_state(include_rng=True) == before


class Refuses:
    @property
    def np_random(self):
        raise RuntimeError("call reset() first")


@pytest.mark.parametrize("env", [object(), SimpleNamespace(np_random=None), Refuses()])
def test_an_env_without_a_generator_has_no_state(env):
    assert snapshot_of(env).states == {}
    set_states(env, {})


def guard_of(env):
    return RenderGuard(walked(env))


def states_of(env):
    """Return the states of all generators that rendering an env might move."""
    of_numpy = np.random.get_state()
    return random.getstate(), of_numpy[1].tolist(), of_numpy[2:], pack_exactly(snapshot_of(env).states)


DRAWS = {
    "np_random": lambda env: env.np_random.integers(9),
    "random": lambda env: random.random(),
    "random, a second normal number": lambda env: random.gauss(0, 1),
    "NumPy": lambda env: np.random.random(),
    "NumPy, a second normal number": lambda env: np.random.normal(),
    "a space": lambda env: env.action_space.sample(),
    "all": lambda env: [draw(env) for name, draw in DRAWS.items() if name != "all"],
}


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("name", DRAWS)
def test_what_rendering_draws_is_put_back_and_noted_also_if_it_fails(name, fails):
    env = gym.make("CartPole-v1").unwrapped
    env.reset(seed=1)
    env.action_space.seed(1)
    random.gauss(0, 1), np.random.normal()  # each leaves a second number
    guard, before = guard_of(env), states_of(env)

    def render():
        DRAWS[name](env)
        return 1 / 0 if fails else "a frame"

    for _ in range(2):
        if fails:
            with pytest.raises(ZeroDivisionError):
                guard(render)
        else:
            assert guard(render) == "a frame"
    assert guard.has_moved
    assert states_of(env) == before


def test_rendering_that_draws_nothing_is_not_noted():
    env = gym.make("CartPole-v1").unwrapped
    env.reset(seed=1)
    guard = guard_of(env)
    for _ in range(3):
        guard(lambda: "a frame")
        np.random.random(), random.random(), env.np_random.random()  # of the run itself
    np.random.seed(1)
    guard(lambda: "a frame")
    assert not guard.has_moved


def test_a_generator_that_the_env_makes_anew_is_guarded_from_the_next_episode_on():
    env = SimpleNamespace(np_random=np.random.default_rng(1))
    guard = guard_of(env)
    guard(lambda: None)
    env.np_random = np.random.default_rng(2)
    guard.begin_episode()
    guard(lambda: env.np_random.random())
    assert guard.has_moved
    assert env.np_random.random() == np.random.default_rng(2).random()


def test_the_global_generators_are_guarded_although_the_env_is_out_of_reach():
    guard, before = RenderGuard(None), random.getstate()
    guard.begin_episode(walks=True)
    guard(random.random)
    assert guard.has_moved
    assert random.getstate() == before


@contextlib.contextmanager
def thread_named(name):
    """Have a thread that lives meanwhile."""
    is_over = threading.Event()
    thread = threading.Thread(target=is_over.wait, name=name)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def is_put_back(guard):
    """Return whether a number that was drawn while a guard renders comes again."""
    before = random.getstate()
    guard(random.random)
    return random.getstate() == before


@pytest.mark.parametrize("name", ["loader", "tune_media prover", "ray_print_logs"])
@pytest.mark.parametrize("is_older", [False, True])
def test_while_nothing_is_known_no_number_is_put_back_that_a_later_thread_may_have_drawn(name, is_older):
    with thread_named(name) if is_older else contextlib.nullcontext():
        guard = RenderGuard(None, RenderDraws())
        with contextlib.nullcontext() if is_older else thread_named(name):
            may_be_its = name == "loader" and not is_older
            assert is_put_back(guard) is not may_be_its
    assert guard.others == (["loader"] if may_be_its else [])
    assert guard.has_moved is not may_be_its
    assert guard.moved == {"random"}


def test_a_thread_that_ends_while_a_frame_is_rendered_may_have_drawn():
    guard, before = RenderGuard(None, RenderDraws()), random.getstate()
    thread = threading.Thread(target=lambda: (may_go.wait(), random.random()), name="loader")
    may_go = threading.Event()
    thread.start()
    guard(lambda: (may_go.set(), thread.join()))
    assert not guard.has_moved
    assert guard.others == ["loader"]
    assert random.getstate() != before


@pytest.mark.parametrize(("names", "puts_back"), [(["random"], True), (["numpy.random"], False), ([], False)])
def test_beside_other_threads_only_generators_that_rendering_is_known_to_draw_from_are_put_back(
    names, puts_back, monkeypatch
):
    with thread_named("loader"):  # older
        guard = RenderGuard(None, RenderDraws(names))
        assert is_put_back(guard) is puts_back
    assert guard.has_moved is puts_back
    assert guard.others == []
    monkeypatch.setattr(threading, "enumerate", lambda: [threading.current_thread()])  # none that other tests left
    assert is_put_back(guard), "alone, rendering alone can draw"


def test_a_copy_of_the_draws_knows_the_names():
    draws = RenderDraws(["random"])
    draws.add(["torch"])
    assert copy.deepcopy(draws).names == {"random", "torch"}


@pytest.mark.any_ray
def test_threads_of_rays_that_every_algorithm_has_draw_nothing():
    threads = [UtilMonitor(start=False), PythonGCThread(gc_collect_func=int)]
    assert RenderDraws([]).others(threads) == []
    assert RenderDraws([]).others([threading.Thread(name="loader")]) == ["loader"]
