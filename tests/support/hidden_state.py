"""Kinds of envs whose pictures depend on state that observations and rewards do not show, and who changes that state.

Each env writes down itself what its pictures show (``tests.support.envs.truth``). Where ``render()`` itself draws or
counts, a picture that was rendered while the episode ran is right if it is what ``render()`` returned there, and a
replay is right if it shows what the episode would have shown if each of its steps had been rendered once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium as gym

from tests.support.envs import hidden, hidden_fresh
from tests.support.envs.hidden_stores import STORES, Stored

Change = Callable[[Any, int], None]


@dataclass(frozen=True)
class Kind:
    """A kind of env.

    Attributes:
        make: Makes one, told the env config.
        before_evaluation: Changes an env before each evaluation, told its number; a callback of RLlib does it.
        between: Does the same, from the loop around the evaluations.
        after_reset: Changes an env after each reset, told how many there were; a callback of RLlib does it.
        after_end: The same, after the end of each episode.
        new_config: Returns what the env config of new envs holds; told the number of the evaluation before which the
            owner makes new envs, which is every tenth.
        placement: Where the kind itself shows its value, like that of a cell; None: where the cell says.
    """

    make: Callable[[dict], gym.Env]
    before_evaluation: Change | None = None
    between: Change | None = None
    after_reset: Change | None = None
    after_end: Change | None = None
    new_config: Callable[[int], dict] | None = None
    placement: str | None = None


def made(name: str, look: Mapping[str, Any], config: Any) -> gym.Env:
    """Make an env of a kind, with what its cell adds to the env config."""
    skin = 1000 * getattr(config, "worker_index", 0) + getattr(config, "vector_index", 0)
    return KINDS[name].make({**config, **look, "skin": skin})


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
    "plain": Kind(hidden.Hidden),
    "new-env-config": Kind(hidden.Levels, new_config=lambda number: {"level": 1 + number // 10}),
    "task": Kind(hidden.TaskWithGet, between=_set_task),
    "task-untold": Kind(hidden.TaskWithoutGet, between=_set_task),
    "set-after-reset": Kind(
        hidden.Levels, after_reset=lambda env, number: setattr(env.unwrapped, "level", number // 5)
    ),
    "set-after-end": Kind(hidden.Levels, after_end=lambda env, number: setattr(env.unwrapped, "level", number // 5)),
    "set-before-evaluation": Kind(hidden.Levels, before_evaluation=_set_level),
    "set-by-loop": Kind(hidden.Levels, between=_set_level),
    "set-on-wrapper": Kind(hidden.wrapped, before_evaluation=_set_tint),
    "set-in-object": Kind(hidden.LevelInObject, before_evaluation=_set_level_in_object),
    "set-in-dict": Kind(hidden.LevelInDict, before_evaluation=_set_level_in_dict),
    "wrapper-exchanged": Kind(hidden.wrapped_twice, between=_exchange_wrapper),
    "class-exchanged": Kind(hidden.ColoursOfLevels, between=_exchange_class),
    "render-replaced": Kind(_OtherRender, between=_replace_render),
    "score-board": Kind(hidden.ScoreBoard),
    "theme": Kind(hidden.Theme),
    "theme-class": Kind(hidden.ThemeOfClass),
    "theme-closure": Kind(hidden.ThemeInClosure),
    "theme-default": Kind(hidden.ThemeInDefault),
    "theme-wrapper": Kind(hidden.theme_of_wrapper),
    "theme-count": Kind(hidden.ThemeInCount),
    "theme-file": Kind(hidden.ThemeInFile),
    "late-theme": Kind(hidden.LateTheme),
    "from-frame-41": Kind(hidden.FromFrame41, placement="last"),
    "heat-map": Kind(hidden.HeatMap),
    "after-success": Kind(hidden.LevelAfterSuccess),
    "large-tables": Kind(hidden.LargeTables),
    "texture": Kind(hidden.GlobalTexture),
    "system-theme": Kind(hidden.SystemTheme),
    "resets-itself": Kind(hidden.ResetsItself),
    "time-stamps": Kind(hidden.TimeStamps),
    "clock": Kind(hidden.ShowsTheClock),
    "render-draws": Kind(hidden.RenderDraws),
    "render-counts": Kind(hidden.RenderCounts),
    "render-caches": Kind(hidden.RenderCaches),
    "render-prepares": Kind(hidden.RenderPrepares),
    "deep-generator": Kind(hidden.DeepGenerator),
    "behind-aec-env": Kind(hidden.BehindAecEnv),
    "samples-noops": Kind(hidden.SamplesNoops),
    "ezpickle": Kind(hidden_fresh.EzPickled),
    "dict-order": Kind(hidden_fresh.DictOrder),
    "linked-list": Kind(hidden_fresh.LinkedList),
    "serial": Kind(hidden_fresh.Serial),
    "builtins": Kind(hidden_fresh.InBuiltins),
    "simulator": Kind(hidden_fresh.Simulator),
    "shared-block": Kind(hidden_fresh.SharedBlock),
    "temporary-folder": Kind(hidden_fresh.TemporaryFolder),
    "pygame-surface": Kind(hidden_fresh.PygameSurface),
    "torch-generator": Kind(hidden_fresh.TorchGenerator),
    "string-set": Kind(hidden_fresh.StringSet),
    "shows-seed": Kind(hidden_fresh.ShowsSeed),
    "worker-index": Kind(hidden_fresh.WorkerIndex),
    "statistics": Kind(hidden_fresh.by_statistics),
    "slow-builtins": Kind(hidden_fresh.SlowBuiltins),
    "slow-first": Kind(hidden_fresh.SlowFirst),
    "rare-frame": Kind(hidden_fresh.RareFrame, placement="middle"),
    "space-attribute": Kind(hidden_fresh.SpaceAttribute),
    **{name: Kind(functools.partial(Stored, store)) for name, store in STORES.items()},
}
"""All kinds by name."""
