"""Puts each episode of an env on a tape, while the env is stepped."""

from __future__ import annotations

import contextlib
import struct
from typing import Any, Protocol

import numpy as np
from crc32c import crc32c

from tune_media.recording.rendering import inside
from tune_media.recording.seeding import seeded
from tune_media.replay.generators import EnvGenerators, Snapshot, layers_of
from tune_media.replay.tape import NUMBERS, Tape, checksum
from tune_media.values.plain import pack_exactly, unpack
from tune_media.values.secrets import error_text

_KEY = "tune_media_tape_recorder"
_IN_MID_GAME = (
    "a wrapper began it in the middle of a game, without a reset of the env inside it, as RLlib's wrappers for Atari "
    "games do after each lost life (EpisodicLifeEnv). Make the evaluation envs without that wrapper, or pass "
    "render='direct'"
)
STEP = struct.Struct("<d??")  # the reward of a step and its two flags, as they are added to the checksum
_NUMBERS = (float, int, np.floating, np.integer)


class Batch(Protocol):
    """Puts the steps of several envs on their tapes at once; ``batch_taping.BatchTaping`` is the one."""

    def is_stepping(self, recorder: TapeRecorder) -> bool:
        """Return whether the env is being stepped in the middle of an episode: a reset is a part of its step."""

    def reset(self, recorder: TapeRecorder) -> None:
        """Take note that the episode that ran is over, and that its env is being reset."""

    def began(self, recorder: TapeRecorder, tape: Tape) -> None:
        """Take note that an episode began, with a new tape."""


class TapeRecorder:
    """Puts each episode of an env on a tape, from its reset on. The thread that steps the env calls everything here.

    It takes the place of ``step`` and ``reset`` on the env object itself, so the env keeps its type and its wrappers.
    It checks observations and rewards of the innermost env: those of a wrapper may depend on earlier episodes (running
    means), although the frames do not.
    """

    def __init__(self, env: Any) -> None:
        self.tape: Tape | None = None  # of the episode that runs, or that ended last; None before the first reset
        self.is_on = True  # episodes are taped
        self._env, self.generators = env, EnvGenerators(env)
        self._layers = list(map(type, layers_of(env)))
        self._users = 1
        self._number = 0  # of the episode that runs
        self._check = 0
        core = getattr(env, "unwrapped", env)
        dtype = getattr(getattr(core, "observation_space", None), "dtype", None)
        # of the observations, if they are arrays of numbers or numbers
        self._dtype = dtype if isinstance(dtype, np.dtype) and dtype.kind in NUMBERS else None
        self._reward: Any = None  # of the step that is made: the sum of the innermost env's numbers
        self.batch: Batch | None = None  # may put the steps on the tapes, if the env is one of a vector env
        self._fault: str | None = None  # why the running episode cannot be checked
        self._is_inside = False  # an env may step itself while it is reset
        self._is_in_core = False  # the innermost env may reset or step itself, which a vector env does not show
        self._core_acted = self._core_began = False  # if the innermost env was reset or stepped, or reset, in this step
        self._step, self._reset = env.step, env.reset
        env.step, env.reset = self.step, self.reset
        env.__dict__[_KEY] = self
        self._core = core if core is not env and hasattr(core, "step") and hasattr(core, "__dict__") else None
        if self._core is not None:
            # Bound methods, not closures: a deep copy of the env gets its own methods.
            self._core_step, self._core_reset = core.step, core.reset
            core.step, core.reset = self._step_core, self._reset_core

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the other envs: a copy is of this env alone."""
        return {**self.__dict__, "batch": None}

    def join(self) -> None:
        """Count another recorder that needs the tapes."""
        self.is_on = True
        self._users += 1

    def leave(self) -> None:
        """Count a recorder that needs no more tapes; without any, those of the running episode are the last."""
        self._users -= 1

    def reset(self, *, seed: int | None = None, **options: Any) -> Any:
        """Reset the env, and begin a new tape."""
        if self._is_inside or (self.batch is not None and self.batch.is_stepping(self)):
            return self._reset(seed=seed, **options)
        if self.batch is not None:
            self.batch.reset(self)
        if not self.is_used:
            self.is_on, self.tape = False, None
        if not self.is_on:
            return self._reset(seed=seed, **options)
        self._number += self.tape is not None and len(self.tape) > 0
        self._check, self._fault = 0, None
        kept, task = self._plain_options(options), task_in(self._env)
        generators, layers = None, layers_of(self._env)
        try:
            self.generators.begin_episode()
            generators = Snapshot(self.generators.places(), layers if seed is None else ())
        except Exception as error:  # the env's own thread changes it
            self._fault = f"the states of its random generators cannot be read ({error_text(error)})"
        if list(map(type, layers)) != self._layers:
            self._fault = self._fault or "its wrappers were exchanged after it was made"
        self._is_inside, self._core_acted, self._core_began = True, False, False
        try:
            result = self._reset(seed=seed, **options)
        finally:
            self._is_inside = False
        if self._core_acted and not self._core_began:
            self._fault = self._fault or _IN_MID_GAME
        resets = seeded(self._env)
        self.tape = Tape(seed if resets is None else resets.last, kept, task, generators)
        self.tape.number = self._number
        if not self._core_acted:  # otherwise the checksums do not depend on the wrappers that RLlib adds
            self._add(result[0])
        self.tape.fault = self.tape.fault or self._fault
        self.tape.began(self._check)
        if self.batch is not None:
            self.batch.began(self, self.tape)
        return result

    def step(self, action: Any) -> Any:
        """Step the env, and put the step on the tape."""
        tape = self.tape
        if tape is None or self._is_inside or not self.is_on:
            return self._step(action)
        tape.acts(action)
        self._is_inside, self._core_acted, self._reward = True, False, None
        try:
            result = self._step(action)
        finally:
            self._is_inside = False
        if not self._core_acted:
            self._add(result[0], result[1])
        self._add_end(result[2], result[3])
        if self._fault is not None:
            tape.fault = tape.fault or self._fault
        tape.has_stepped(self._check, result[1])
        return result

    def unhook_steps(self) -> bool:
        """Take this out of the env's ``step``: a batch puts the steps on tape. Return whether that is possible."""
        hooks = [(self._env, self.step, self._step)]
        if self._core is not None:
            hooks.append((self._core, self._step_core, self._core_step))
        if any(vars(env).get("step") != own for env, own, _ in hooks):
            return False  # someone else has put himself in its place since
        for env, _, before in hooks:
            del env.__dict__["step"]
            if env.step != before:
                env.step = before
        return True

    def hook_steps(self, check: int) -> None:
        """Put the steps on tape here again."""
        self._check = check
        self._step, self._env.step = self._env.step, self.step
        if self._core is not None:
            self._core_step, self._core.step = self._core.step, self._step_core

    @property
    def is_used(self) -> bool:
        """Whether anybody needs the tapes."""
        return self._users > 0

    def _step_core(self, *args: Any, **kwargs: Any) -> Any:
        """Step the innermost env, and add its observation and its reward to the checksum."""
        if self._is_in_core:
            return self._core_step(*args, **kwargs)
        self._is_in_core = True
        try:
            result = self._core_step(*args, **kwargs)
        finally:
            self._is_in_core = False
        self._core_acted = True
        if self.is_on:
            self._add(result[0], result[1])
        return result

    def _reset_core(self, *args: Any, **kwargs: Any) -> Any:
        """Reset the innermost env, and add its observation to the checksum."""
        if self._is_in_core:
            return self._core_reset(*args, **kwargs)
        self._is_in_core = True
        try:
            result = self._core_reset(*args, **kwargs)
        finally:
            self._is_in_core = False
        self._core_acted = self._core_began = True
        if self.is_on:
            self._add(result[0])
        return result

    def _add(self, observation: Any, reward: Any = 0.0) -> None:
        """Add an observation to the checksum as a vector env holds it; a reward that is a number waits for the end."""
        try:
            is_of_space = type(observation) is np.ndarray and observation.dtype == self._dtype
            if self._dtype is not None and not is_of_space:
                with contextlib.suppress(Exception):  # of another kind
                    observation = np.asarray(observation).astype(self._dtype, casting="same_kind", copy=False)
            self._check = checksum(observation, self._check)
            if not isinstance(reward, float):  # most are
                if isinstance(reward, (np.ndarray, np.bool_)) and reward.size == 1:
                    reward = reward.item()
                if not isinstance(reward, _NUMBERS):
                    self._check = checksum(reward, self._check)
                    return
            self._reward = reward if self._reward is None else self._reward + reward
        except Exception as error:
            self._cannot_compare(error)

    def _add_end(self, terminated: Any, truncated: Any) -> None:
        """Add the reward of a step, and whether the episode ended with it. Infos are not added: they may hold times."""
        try:
            if self._reward is not None and _is_flag(terminated) and _is_flag(truncated):
                self._check = crc32c(STEP.pack(self._reward, terminated, truncated), self._check)
            else:
                self._check = checksum((self._reward, terminated, truncated), self._check)
        except Exception as error:
            self._cannot_compare(error)

    def _cannot_compare(self, error: Exception) -> None:
        self._fault = self._fault or f"its observations and rewards cannot be compared ({error_text(error)})"

    def _plain_options(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return a copy of a reset's options; other than plain data make the episode unfit."""
        if not any(options.values()):  # RLlib and most others give none
            return dict(options)
        try:
            copied: dict[str, Any] = unpack(pack_exactly(options))
            return copied
        except (TypeError, ValueError) as error:
            self._fault = f"its reset options cannot be copied: {error_text(error)}"
            return {}


def _is_flag(value: Any) -> bool:
    """Return whether a value is one that a vector env takes for a truth value."""
    return type(value) is bool or value is None or isinstance(value, (np.bool_, *_NUMBERS))


def tape_recorder_of(env: Any) -> TapeRecorder | None:
    """Return the tape recorder of an env, or None if it has none."""
    hooked: TapeRecorder | None = getattr(env, "__dict__", {}).get(_KEY)
    return hooked


def task_in(env: Any) -> Any:
    """Return a copy of the task of a curriculum env (``get_task``, ``set_task``), or None."""
    holder = task_holder(env)
    if holder is None:
        return None
    try:
        return unpack(pack_exactly(holder.get_task()))
    except Exception:  # an env that only sets its task, or whose task cannot be copied: the checksums will tell
        return None


def task_holder(env: Any) -> Any:
    """Return the first of an env and those that it wraps that has a task, or None."""
    for candidate in inside(env):
        if hasattr(type(candidate), "get_task") and hasattr(type(candidate), "set_task"):
            return candidate
    return None
