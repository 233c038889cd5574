"""The first steps of an episode, played in the env of a policy that continues from there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tune_media.replay.player import ReplayDiffers, compare_step, env_at, reset_as_taped
from tune_media.replay.recipe import LoadedRecipe, Recipe
from tune_media.replay.tape import Tape, are_equal
from tune_media.replay.tape_recorder import TapeRecorder, tape_recorder_of

_MAX_SEED = 2**31


@dataclass(frozen=True)
class ForkPoint:
    """Where an episode forks."""

    tape: bytes  # as it is stored
    steps: int  # how many of its steps are played as they are on the tape
    recipe: Recipe
    place: tuple[int, int] = (0, 0)  # the indices of the env runner and of the sub-env that it was played on
    seed: int = 0  # of the generators that the policy draws from, as when the episode was played

    @property
    def env(self) -> EnvOfTape:
        """The recipe that makes its env."""
        return EnvOfTape(self.recipe, self.place)


@dataclass(frozen=True)
class EnvOfTape:
    """Makes the env of an episode as when it was played, whatever the ``env_config``."""

    recipe: Recipe
    place: tuple[int, int]  # the indices of the env runner and of the sub-env

    def __call__(self, config: Any = None) -> Any:
        """Make an env."""
        return LoadedRecipe.of(self.recipe.content).make(*self.place)


class Prefix:
    """Lets an env play the first steps of a tape, whatever action it is given, and then the actions that it is given.

    It takes the place of ``step`` and ``reset`` on the env object, outside of its tape recorder, whose tape is that of
    the whole episode; the policy's recurrent state and connectors are those after these steps. ``reseed`` seeds the
    generators that the policy draws from. Raises ValueError if the tape cannot be read.
    """

    def __init__(self, env: Any, point: ForkPoint, reseed: Callable[[int], None]) -> None:
        # of the continuation; 0: the policy continues with the draws of the episode; others draw other numbers
        self.point, self.number = point, 0
        self.action: Any = None  # that the env was given last
        self.others = 0  # how many of the first steps the policy would have acted otherwise
        self.notes: list[str] = []  # for a reader
        recipe = LoadedRecipe.of(point.recipe.content)
        self._tape = Tape.unpacked(point.tape)
        self._recorder: TapeRecorder | None = tape_recorder_of(env)
        self._env, self._reseed = env, reseed
        if edited := recipe.edited(env):
            self.notes.append(f"the code of {', '.join(edited)} was edited since the episode was recorded")
        self._done = 0
        self._is_inside = False  # the env may reset or step itself
        self._step, self._reset = env.step, env.reset
        env.step, env.reset = self.step, self.reset

    def reset(self, **arguments: Any) -> Any:
        """Reset the env as on the tape; ReplayDiffers if it returns something else."""
        if self._is_inside:
            return self._reset(**arguments)
        self._done, self.action, self.others = 0, None, 0
        self._is_inside = True
        try:
            with env_at(0):
                result = reset_as_taped(self._env, self._tape)
        finally:
            self._is_inside = False
        self._end_step()
        return result

    def step(self, action: Any) -> Any:
        """Step the env, with the tape's actions on the prefix; ReplayDiffers if it returns something else."""
        if self._is_inside:
            return self._step(action)
        is_taped = self._done < self.point.steps
        if is_taped:
            taped = self._tape.actions[self._done]
            self.others += not are_equal(action, taped)
            action = taped
        self.action = action
        self._is_inside = True
        try:
            if not is_taped:
                return self._step(action)
            self._done += 1
            with env_at(self._done):
                result = self._step(action)
        finally:
            self._is_inside = False
        self._end_step()
        return result

    def _end_step(self) -> None:
        """Compare a step; once the prefix is over, let all continuations but the first draw other numbers."""
        if self._tape.fault is not None or self._recorder is None:
            raise ReplayDiffers.at(self._done, f"is impossible: {self._tape.fault or 'its steps are out of reach'}")
        compare_step(self._recorder, self._tape, self._done)
        if self._done == self.point.steps and self.number:
            self._reseed(int(np.random.default_rng([self.point.seed, self.number]).integers(_MAX_SEED)))
