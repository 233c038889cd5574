"""Policies that remember earlier episodes are told that another one begins, in an evaluation, a gate and a fork."""

import functools
import itertools
import random
from pathlib import Path
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest

import tune_media as tm
from tests.support.commands import split_runner
from tune_media.cli import main
from tune_media.evaluation.evaluation import Progress
from tune_media.evaluation.memory import reset_of
from tune_media.replay.playing import Trace

pytestmark = pytest.mark.any_ray  # policies of another library, played without Ray

STEPS = 10
ANEW = "the policy acted otherwise when seed 0 was played again, at step 0: without reset(), it is loaded for each ep"
REMEMBERS = ["counter", "chunks", "own_noise", "planned", "needs_argument", "stack"]


class Counts(gym.Env):
    """Each step is rewarded by 1 if the action is the number of steps before it; an episode has 10, or 7 of odd seeds.

    Args:
        config: ``ignores_seed``: observations are drawn by nobody's seed. ``resets``: a list of the seeds so far.
    """

    def __init__(self, config=None):
        self.config = dict(config or {})
        self.observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
        self.action_space = gym.spaces.Box(-np.inf, np.inf, (), np.float64)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.length = 0, STEPS - 3 * (seed % 2)
        RESETS.append(seed)
        return self.seen(), {}

    def seen(self):
        draw = random.SystemRandom() if self.config.get("ignores_seed") else self.np_random
        return np.array([draw.uniform(-1, 1)], np.float32)

    def step(self, action):
        is_right = abs(float(action) - self.steps) < 0.5
        self.steps += 1
        return self.seen(), float(is_right), self.steps == self.length, False, {}


RESETS = []  # the seeds of this process, in the order in which they were played
LOADED = []  # the policies
BEST = [10.0, 7.0, 10.0, 7.0, 10.0]  # returns of the seeds from 0 on


class Counter:
    """A policy that counts its steps; ``reset`` begins again."""

    def __init__(self):
        self.steps = 0

    def act(self, observation):
        self.steps += 1
        return np.float64(self.steps - 1)

    def reset(self, dones=None):
        self.steps = 0


class NeedsArgument(Counter):
    def reset(self, observation):
        self.steps = 0


def load_counter(path):
    counter = itertools.count()
    LOADED.append(counter)
    return lambda observation: np.float64(next(counter))


def load_chunks(path):
    """Plan four actions at a time, and count on where the last episode ended in the middle of a plan."""
    counter, chunk = itertools.count(step=4), []

    def act(observation):
        if not chunk:
            first = next(counter)
            chunk.extend(range(first, first + 4))
        return np.float64(chunk.pop(0))

    return act


def load_stack(path):
    """Keep the last three observations, of which the actions show how many there are."""
    stack = []

    def act(observation):
        stack.append(observation)
        return np.float64(len(stack) - 1)

    return act


def load_planned(path):
    """Plan the actions of one episode."""
    plan = list(range(STEPS))
    return lambda observation: np.float64(plan.pop(0))


def load_own_noise(path):
    """Draw from a generator that is seeded when it is loaded."""
    draws, counter = np.random.default_rng(0), itertools.count()
    return lambda observation: np.float64(next(counter) + draws.uniform(-0.1, 0.1))


def load_noise(path):
    """Draw from a generator that nobody seeds."""
    draws = np.random.default_rng()
    return lambda observation: np.float64(draws.uniform(-0.4, 0.4))


def load_seeded_noise(path):
    """Draw from a generator that each seed seeds, and have weights that are drawn when it is loaded."""
    weight = np.random.normal()
    return lambda observation: np.float64(weight + np.random.uniform(-0.4, 0.4))


@functools.cache
def load_kept(path):
    """Return the same policy each time."""
    return load_counter(path)


def load_needs_argument(path):
    return NeedsArgument().act


def load_method(path):
    counter = Counter()
    LOADED.append(counter)
    return counter.act


def load_object(path):
    class Called(Counter):
        __call__ = Counter.act

    return Called()


def load_plain(path):
    LOADED.append(path)
    return lambda observation: np.float64(round(float(observation[0]), 3))


LOADERS = {name.removeprefix("load_"): load for name, load in globals().items() if name.startswith("load_")}


@pytest.fixture(autouse=True)
def nothing_played():
    RESETS.clear()
    LOADED.clear()


@pytest.fixture
def files(tmp_path):
    for number in (1, 2):
        (tmp_path / f"a_{number}.pt").write_text(f"policy {number}")
    return tmp_path


def evaluated(files, loader, *, seeds=5, env=Counts, **more):
    return tm.evaluate(files / "a_1.pt", policy=LOADERS[loader], env=env, seeds=seeds, clips=None, **more)


def returns(found):
    return found.catalog.episodes().sort_values(["step", "seed"])["episode_return"].tolist()


@pytest.mark.parametrize("loader", REMEMBERS)
def test_a_policy_with_memory_and_no_reset_is_loaded_for_each_episode(files, loader):
    found = evaluated(files, loader)
    assert returns(found) == BEST
    assert "without reset(), it is loaded for each episode" in found.checkpoints[0].note
    assert not found.problems and found.checkpoints[0].error is None
    alone = evaluated(files, loader, seeds="3:4")
    assert returns(alone) == BEST[3:4] and alone.checkpoints[0].note is None


@pytest.mark.parametrize("loader", ["method", "object"])
def test_reset_is_called_before_each_episode(files, loader):
    found = evaluated(files, loader)
    assert returns(found) == BEST
    assert found.checkpoints[0].note == "Counter.reset() of the policy is called before each episode"
    assert RESETS == [0, 1, 2, 3, 4]  # nothing is played twice
    assert loader == "object" or len(LOADED) == 1


def test_a_reset_that_takes_arguments_is_named(files):
    assert (
        "NeedsArgument.reset(observation) of the policy takes arguments, so it is not called before each episode"
        in (evaluated(files, "needs_argument").checkpoints[0].note)
    )
    assert reset_of(SimpleNamespace(reset=7)) == (None, None)
    counter = Counter()
    assert reset_of(counter)[0] == reset_of(counter.act)[0] == counter.reset
    assert reset_of(SimpleNamespace(reset=dict))[0] is dict  # of a function in C, it is not known what it takes


def test_a_policy_without_memory_is_loaded_once_and_one_episode_of_a_command_is_played_again(files):
    found = evaluated(files, "plain")
    assert (RESETS, len(LOADED)) == ([0, 1, 0, 2, 3, 4], 1)
    assert found.checkpoints[0].note is None and len(returns(found)) == 5
    RESETS.clear()
    given = {"policy": load_plain, "env": Counts, "clips": None, "checkpoint": "all"}
    tm.evaluate(str(files / "*.pt"), seeds=3, env_config={"wind": [0, 1]}, **given)
    assert [0, 1, 0, 2, *[0, 1, 2] * 3] == RESETS
    RESETS.clear()
    gated(files, "plain", at_least=None, env_config={"wind": [0, 1]}, seeds="0:3")
    assert len(RESETS) == 2 * 2 * 3 + 2  # once a side


def test_the_first_checkpoint_decides_how_the_others_are_played(files):
    given = {"policy": load_counter, "env": Counts, "clips": None, "checkpoint": "all"}
    found = tm.evaluate(str(files / "*.pt"), seeds=3, **given)
    assert returns(found) == BEST[:3] * 2
    assert [0, 1, 0, 0, 1, 2, *[0, 1, 2]] == RESETS
    assert len(LOADED) == 4 + 3
    assert {row.note for row in found.checkpoints} == {f"{ANEW}isode"}


class Interrupts(Progress):
    def played(self, episodes):
        if episodes:
            raise KeyboardInterrupt


def test_an_interrupted_evaluation_goes_on_as_it_began(files, monkeypatch):
    for name in ("SOONEST", "SHARE_OF_TIME"):
        monkeypatch.setattr(f"tune_media.evaluation.jobs.{name}", 0.0)  # each episode is stored at once
    with pytest.raises(KeyboardInterrupt):
        evaluated(files, "counter", progress=Interrupts())
    RESETS.clear()
    found = evaluated(files, "counter")
    assert returns(found) == BEST
    assert RESETS[0] == 1 and found.checkpoints[0].episodes == 5  # the first one was stored, and it was right
    RESETS.clear()
    assert evaluated(files, "counter").checkpoints[0].note == found.checkpoints[0].note
    assert RESETS == []


def test_numbers_that_no_seed_decides_are_an_error_unless_they_are_meant(files):
    told = (
        "the policy draws numbers of its own, .*: loaded anew, it acted otherwise when seed 0 was played again, at step"
    )
    with pytest.raises(ValueError, match=told) as raised:
        evaluated(files, "noise")
    assert raised.value.args[0].endswith("or pass stochastic=True, or --stochastic")
    assert RESETS == [0, 1, 0, 0]
    with pytest.raises(ValueError, match="or its loader returns the same one again: loaded anew, it acted otherwise"):
        evaluated(files, "kept")
    found = evaluated(files, "noise", stochastic=True)
    assert found.checkpoints[0].episodes == 5
    assert returns(found) == [1.0] * 5
    assert returns(evaluated(files, "seeded_noise")) == returns(evaluated(files, "seeded_noise", name="again"))


@pytest.mark.parametrize("loader", ["plain", "counter", "noise"])
def test_an_env_that_ignores_its_seed_is_a_note(files, loader):
    found = evaluated(files, loader, env_config={"ignores_seed": True})
    assert found.checkpoints[0].note == (
        "the env gave another observation when seed 0 was played again, at step 0, so it is not known whether the "
        "policy remembers earlier episodes"
    )
    assert found.checkpoints[0].episodes == 5 and RESETS == [0, 1, 0, 2, 3, 4]


def gated(files, *loaders, at_least=6.5, **more):
    """Play a gate whose base and candidate are loaded by these."""
    names = {str(files / f"a_{number}.pt"): LOADERS[loader] for number, loader in enumerate(loaders * 2, 1)}
    sides = [files / "a_1.pt"] if at_least is not None else [files / "a_1.pt", files / "a_2.pt"]
    given = {"seeds": "0:60", "clips": 0, "output": str(files / f"gate-{len(list(files.iterdir()))}"), **more}
    return tm.gate(*sides, policy=lambda path: names[path](path), env=Counts, at_least=at_least, **given)


@pytest.mark.parametrize("loader", ["counter", "method", "planned"])
def test_a_gate_plays_a_policy_with_memory_as_it_is(files, loader):
    found = gated(files, loader)
    (verdict,) = found.verdicts
    assert found.verdict == "pass"
    assert set(tm.load(found.path).episodes()["episode_return"]) == {10.0, 7.0}
    assert [note for note in verdict.notes if "without reset()" in note] == (
        [] if loader == "method" else [note for note in verdict.notes if note.startswith("the candidate: the policy ")]
    )


def test_a_gate_knows_each_side_for_itself(files):
    found = gated(files, "plain", "counter", at_least=None, margin=1.0)
    assert found.verdict == "pass"
    assert [note.partition(":")[0] for note in found.verdicts[0].notes if "without reset()" in note] == [
        "the candidate"
    ]
    assert len([path for path in LOADED if isinstance(path, str)]) < 10  # the base is loaded once a chunk


def test_a_gate_of_a_policy_that_draws_numbers_of_its_own_is_an_error_unless_that_is_meant(files):
    found = gated(files, "plain", "noise", at_least=None)
    assert (found.verdict, found.exit_code) == ("error", 2)
    assert "the candidate cannot be played: the policy draws numbers of its own" in found.verdicts[0].error
    assert not any("reset()" in note for note in found.verdicts[0].notes)
    assert gated(files, "noise", at_least=0.5, stochastic=True).verdict == "pass"


@pytest.mark.usefixtures("in_this_process")
def test_the_commands_say_which_option_is_meant(files):
    given = ["--policy", f"{__name__}:load_noise", "--env", f"{__name__}:Counts"]
    gate = ["gate", "--at-least", "0.5"]
    for words in (["evaluate", "--no-clips"], [*gate, "--clips", "0", "-o", str(files / "gate")], [*gate, "--plan"]):
        command, *more = words
        result = split_runner().invoke(main, [command, str(files / "a_1.pt"), *more, *given])
        assert result.exit_code == 2
        assert "are seeded for each episode, or pass --stochastic" in result.stderr + result.stdout
    result = split_runner().invoke(main, ["evaluate", str(files / "a_1.pt"), "--no-clips", "--stochastic", *given])
    assert result.exit_code == 0
    assert "Note: the policy acted otherwise when seed 0 was played again" in result.stdout


@pytest.mark.parametrize("loader", ["counter", "method"])
def test_a_fork_is_continued_by_a_policy_that_has_seen_this_episode_alone(files, loader):
    found = evaluated(files, loader, seeds="0:2")
    forked = tm.fork(f"{found.path}:last", files / "a_1.pt", at=4, policy=LOADERS[loader], times=2, clips=0)
    assert forked.is_same


def test_actions_are_compared_while_observations_are_equal():
    def trace(*steps):
        traced = Trace()
        actions = iter([action for _, action in steps])
        policy = traced.watched(lambda observation: next(actions))
        for seen, _ in steps:
            policy(np.array(seen))
        return traced

    one = trace((0, {"a": 1, "b": [np.ones(2), "x"]}), (1, np.array([1e-6, 1.0])))
    assert one.compared(trace((0, {"a": 1, "b": (np.ones(2), "x")}), (1, np.array([2e-6, 1.0])))) == (None, None)
    assert one.compared(trace((0, {"a": 1, "b": [np.ones(2), "y"]}), (1, np.array([1e-6, 1.0])))) == (0, None)
    assert one.compared(trace((0, {"a": 1, "b": [np.ones(2), "x"]}), (1, np.array([1e-6, 1.001])))) == (1, None)
    assert one.compared(trace((0, {"a": 1, "b": [np.ones(2), "x"]}), (2, np.zeros(2)))) == (None, 1)
    assert one.compared(trace((0, {"a": 1, "b": [np.ones(2), "x"]}))) == (None, 1)
    almost = trace((0, 1.0 + 1e-6), (1, 0))
    assert trace((0, 1.0), (1, 0)).compared(almost) == (None, None)
    assert trace((0, 1.0), (5, 0)).compared(almost) == (None, None)  # the env was not given the same
    assert trace((0, 3), (1, np.nan)).compared(trace((0, 3), (1, np.nan))) == (None, None)
    assert trace((0, np.inf)).compared(trace((0, -np.inf))) == (0, None)
    assert trace((0, 3)).compared(trace((0, 4))) == (0, None)


@pytest.mark.parametrize("loader", ["counter", "planned", "method", "plain"])
def test_tasks_play_what_this_process_plays(ray_session, files, loader):
    here, tasks = evaluated(files, loader, seeds=7), evaluated(files, loader, seeds=7, workers=2, name="tasks")
    assert returns(tasks) == returns(here)
    assert [row.note for row in tasks.checkpoints] == [row.note for row in here.checkpoints]
    gates = [gated(files, loader, at_least=0.0, workers=workers).verdicts[0] for workers in (0, 2)]
    assert gates[0].standing == gates[1].standing
    told = [[note for note in gate.notes if "reset()" in note] for gate in gates]
    assert told[0] == told[1] and bool(told[0]) == (loader != "plain")


def test_tasks_tell_of_numbers_that_no_seed_decides(ray_session, files):
    with pytest.raises(ValueError, match="the policy draws numbers of its own"):
        evaluated(files, "noise", workers=2)
    assert evaluated(files, "noise", workers=2, stochastic=True).checkpoints[0].episodes == 5
    assert gated(files, "noise", workers=2).exit_code == 2


class Counted(Progress):
    """Notes how many episodes each batch has."""

    def __init__(self):
        self.batches = []

    def played(self, episodes):
        self.batches.append(episodes)


def test_episodes_that_only_show_the_manner_are_signs_of_life(files, monkeypatch):
    for name in ("SOONEST", "SHARE_OF_TIME"):
        monkeypatch.setattr(f"tune_media.evaluation.jobs.{name}", 0.0)
    progress = Counted()
    evaluated(files, "counter", seeds=3, progress=progress)
    assert progress.batches == [0, 0, 0, 0, 1, 1, 1, 0]


def test_a_checkpoint_that_is_overwritten_before_it_is_loaded_anew_is_an_error(files):
    def load(path):
        LOADED.append(path)
        if len(LOADED) == 5:  # load_counter counts, too
            Path(path).write_text("another policy")
        return load_counter(path)

    found = tm.evaluate(files / "a_1.pt", policy=load, env=Counts, seeds=5, clips=None)
    assert found.checkpoints[0].error == "the checkpoint was overwritten while it was played"
    assert found.checkpoints[0].episodes == 0


def test_a_followed_training_is_probed_once(files, monkeypatch):
    monkeypatch.setattr("tune_media.evaluation.follow._PAUSE", 0.05)
    given = {"policy": load_counter, "env": Counts, "clips": None, "follow": True, "until_idle": 0.5}
    found = tm.evaluate(str(files / "*.pt"), seeds=3, **given)
    assert returns(found) == BEST[:3] * 2
    assert [0, 1, 0, 0, 1, 2, *[0, 1, 2]] == RESETS
