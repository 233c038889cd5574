"""Kinds of envs whose pictures depend on state that observations and rewards do not show, and who changes that state.

Each env writes down itself what its pictures show (``tests.support.envs.truth``). Where ``render()`` itself draws or
counts, a picture that was rendered while the episode ran is right if it is what ``render()`` returned there, and a
replay is right if it shows what the episode would have shown if each of its steps had been rendered once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from tests.support.envs import hidden, hidden_fresh, truth

Change = Callable[[Any, int], None]


@dataclass(frozen=True)
class Kind:
    """A kind of env.

    Attributes:
        make: Makes one, told the env config.
        says: What is special about it, in one line.
        before_evaluation: Changes an env before each evaluation, told its number; a callback of RLlib does it.
        between: Does the same, from the loop around the evaluations.
        after_reset: Changes an env after each reset, told how many there were; a callback of RLlib does it.
        after_end: The same, after the end of each episode.
        new_config: Returns what the env config of new envs holds; told the number of the evaluation before which the
            owner makes new envs, which is every tenth.
    """

    make: Callable[[dict], gym.Env]
    says: str
    before_evaluation: Change | None = None
    between: Change | None = None
    after_reset: Change | None = None
    after_end: Change | None = None
    new_config: Callable[[int], dict] | None = None


def made(name: str, cell: str, folder: str, config: Any) -> gym.Env:
    """Make an env of a kind."""
    skin = 1000 * getattr(config, "worker_index", 0) + getattr(config, "vector_index", 0)
    return KINDS[name].make({**config, "cell": cell, "truth": folder, "skin": skin})


def _set_level(env: Any, number: int) -> None:
    env.unwrapped.level = 1 + number // 3


def _set_tint(env: Any, number: int) -> None:
    _layer(env, hidden.LevelInWrapper).tint = 1 + number // 3


def _set_level_in_object(env: Any, number: int) -> None:
    env.unwrapped.world.level.level = 1 + number // 3


def _set_level_in_dict(env: Any, number: int) -> None:
    env.unwrapped.settings["look"]["level"] = 1 + number // 3


def _set_task(env: Any, number: int) -> None:
    env.unwrapped.set_task(1 + number // 3)


def _exchange_wrapper(env: Any, number: int) -> None:
    if number == 10:
        outer = _layer(env, hidden.Outermost)
        outer.env = hidden.OtherLevelInWrapper(outer.env.env)


def _exchange_class(env: Any, number: int) -> None:
    if number == 10:
        env.unwrapped.__class__ = hidden.TenfoldLevels


def _replace_render(env: Any, number: int) -> None:
    if number == 10:
        core = env.unwrapped
        core.shown = core.other_look
        core.render = core.render_other


class _OtherRender(hidden.Hidden):
    """Has another method that draws."""

    def other_look(self):
        return 1000 + self.drawn

    def render_other(self):
        return self.picture(self.other_look())


def _layer(env: Any, kind: type) -> Any:
    while not isinstance(env, kind):
        env = env.env
    return env


KINDS: dict[str, Kind] = {
    "plain": Kind(hidden.Hidden, "shows what its reset drew: the control"),
    "new-env-config": Kind(
        hidden.Levels,
        "its owner makes new envs with another env_config",
        new_config=lambda number: {"level": 1 + number // 10},
    ),
    "task": Kind(hidden.TaskWithGet, "set_task and get_task", between=_set_task),
    "task-untold": Kind(hidden.TaskWithoutGet, "set_task without get_task", between=_set_task),
    "set-after-reset": Kind(
        hidden.Levels,
        "a callback sets an attribute in on_episode_start",
        after_reset=lambda env, number: setattr(env.unwrapped, "level", number // 5),
    ),
    "set-after-end": Kind(
        hidden.Levels,
        "a callback sets an attribute in on_episode_end",
        after_end=lambda env, number: setattr(env.unwrapped, "level", number // 5),
    ),
    "set-before-evaluation": Kind(
        hidden.Levels, "a callback sets an attribute in on_evaluate_start", before_evaluation=_set_level
    ),
    "set-by-loop": Kind(hidden.Levels, "the loop sets an attribute of all evaluation envs", between=_set_level),
    "set-on-wrapper": Kind(hidden.wrapped, "a callback sets an attribute of a wrapper", before_evaluation=_set_tint),
    "set-in-object": Kind(
        hidden.LevelInObject, "a callback sets an attribute of an own object", before_evaluation=_set_level_in_object
    ),
    "set-in-dict": Kind(
        hidden.LevelInDict, "a callback sets an item of a dict in a dict", before_evaluation=_set_level_in_dict
    ),
    "wrapper-exchanged": Kind(
        hidden.wrapped_twice, "a wrapper is exchanged in place before the tenth evaluation", between=_exchange_wrapper
    ),
    "class-exchanged": Kind(
        hidden.ColoursOfLevels, "the env's class is exchanged before the tenth evaluation", between=_exchange_class
    ),
    "render-replaced": Kind(
        _OtherRender, "render() is replaced on the env before the tenth evaluation", between=_replace_render
    ),
    "score-board": Kind(hidden.ScoreBoard, "a score board over all episodes"),
    "theme": Kind(hidden.Theme, "the theme changes after 12 episodes: an attribute counts them"),
    "theme-class": Kind(hidden.ThemeOfClass, "the same, counted by an attribute of the class"),
    "theme-module": Kind(hidden.ThemeOfModule, "counted by a global of the module"),
    "theme-closure": Kind(hidden.ThemeInClosure, "counted in a closure"),
    "theme-default": Kind(hidden.ThemeInDefault, "counted in the default value of an argument"),
    "theme-function": Kind(hidden.ThemeInFunction, "counted by an attribute of a function"),
    "theme-wrapper": Kind(hidden.theme_of_wrapper, "counted by a wrapper"),
    "theme-slot": Kind(hidden.ThemeInSlot, "counted in a slot of an own object"),
    "theme-large-array": Kind(hidden.ThemeInLargeArray, "counted in an array of 320 kB"),
    "theme-count": Kind(hidden.ThemeInCount, "counted by itertools.count"),
    "theme-cache": Kind(hidden.ThemeInCache, "counted by functools.lru_cache"),
    "theme-c-buffer": Kind(hidden.ThemeInCBuffer, "counted in a buffer of ctypes"),
    "theme-file": Kind(hidden.ThemeInFile, "counted in a file"),
    "theme-thread": Kind(hidden.ThemeInThread, "counted in a threading.local"),
    "late-theme": Kind(hidden.LateTheme, "a theme is drawn from np_random in the 20th episode"),
    "from-frame-41": Kind(hidden.FromFrame41, "counts episodes, and shows it from frame 41 on"),
    "heat-map": Kind(hidden.HeatMap, "a heat map of the cells visited in all episodes, 100 x 100"),
    "after-success": Kind(hidden.LevelAfterSuccess, "the level rises after an episode with a high return"),
    "large-tables": Kind(hidden.LargeTables, "has 8 MB of constant tables beside its count of episodes"),
    "texture": Kind(hidden.GlobalTexture, "its constructor draws a texture with NumPy's global generator"),
    "system-theme": Kind(hidden.SystemTheme, "its constructor asks the system for a theme"),
    "resets-itself": Kind(hidden.ResetsItself, "its constructor calls reset()"),
    "time-stamps": Kind(hidden.TimeStamps, "keeps times and does not show them"),
    "clock": Kind(hidden.ShowsTheClock, "shows the time"),
    "render-draws": Kind(hidden.RenderDraws, "render() draws from np_random"),
    "render-counts": Kind(hidden.RenderCounts, "render() counts its calls and shows the count"),
    "render-caches": Kind(hidden.RenderCaches, "render() keeps a picture of each level"),
    "render-prepares": Kind(hidden.RenderPrepares, "the first render() makes a surface and says that it is ready"),
    "deep-generator": Kind(hidden.DeepGenerator, "a generator deep inside own objects, which no seed reaches"),
    "behind-aec-env": Kind(hidden.BehindAecEnv, "a generator behind an attribute that is an env"),
    "samples-noops": Kind(hidden.SamplesNoops, "its reset draws from action_space.sample()"),
    "ezpickle": Kind(hidden_fresh.EzPickled, hidden_fresh.EzPickled.__doc__ or ""),
    "dict-order": Kind(hidden_fresh.DictOrder, hidden_fresh.DictOrder.__doc__ or ""),
    "linked-list": Kind(hidden_fresh.LinkedList, hidden_fresh.LinkedList.__doc__ or ""),
    "serial": Kind(hidden_fresh.Serial, hidden_fresh.Serial.__doc__ or ""),
    "builtins": Kind(hidden_fresh.InBuiltins, hidden_fresh.InBuiltins.__doc__ or ""),
    "decimal-context": Kind(hidden_fresh.DecimalContext, hidden_fresh.DecimalContext.__doc__ or ""),
    "simulator": Kind(hidden_fresh.Simulator, hidden_fresh.Simulator.__doc__ or ""),
    "c-handle": Kind(hidden_fresh.Handle, hidden_fresh.Handle.__doc__ or ""),
    "shared-block": Kind(hidden_fresh.SharedBlock, hidden_fresh.SharedBlock.__doc__ or ""),
    "temporary-folder": Kind(hidden_fresh.TemporaryFolder, hidden_fresh.TemporaryFolder.__doc__ or ""),
    "pygame-surface": Kind(hidden_fresh.PygameSurface, hidden_fresh.PygameSurface.__doc__ or ""),
    "torch-generator": Kind(hidden_fresh.TorchGenerator, hidden_fresh.TorchGenerator.__doc__ or ""),
    "string-set": Kind(hidden_fresh.StringSet, hidden_fresh.StringSet.__doc__ or ""),
    "shows-seed": Kind(hidden_fresh.ShowsSeed, hidden_fresh.ShowsSeed.__doc__ or ""),
    "worker-index": Kind(hidden_fresh.WorkerIndex, hidden_fresh.WorkerIndex.__doc__ or ""),
    "statistics": Kind(hidden_fresh.by_statistics, hidden_fresh.by_statistics.__doc__ or ""),
    "slow-builtins": Kind(hidden_fresh.SlowBuiltins, hidden_fresh.SlowBuiltins.__doc__ or ""),
    "slow-first": Kind(hidden_fresh.SlowFirst, hidden_fresh.SlowFirst.__doc__ or ""),
    "rare-frame": Kind(hidden_fresh.RareFrame, hidden_fresh.RareFrame.__doc__ or ""),
    "space-attribute": Kind(hidden_fresh.SpaceAttribute, hidden_fresh.SpaceAttribute.__doc__ or ""),
}
"""All kinds by name."""

__all__ = ["KINDS", "Kind", "made", "truth"]
