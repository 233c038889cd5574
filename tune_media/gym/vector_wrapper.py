"""Records episodes of vector envs, each sub-env on its own."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from typing_extensions import override

from tune_media.gym.autoreset import Autoreset
from tune_media.gym.episode_statistics import Reward
from tune_media.gym.recording import Recording, RecordingWrapper
from tune_media.gym.vector_step import VectorStep, with_statistics
from tune_media.gym.wrapper_arguments import Arguments, check_is_env, takes_arguments
from tune_media.values.convert import as_array

_CONVENTION = frozenset({"data", "media", "final_info"})  # the keys of info that are collected by default


class RecordVectorEpisodes(RecordingWrapper, gym.vector.VectorWrapper):
    """``RecordEpisodes`` for vector envs. Sub-envs can run in other processes, or be one batch.

    It takes the arguments of ``RecordEpisodes``. These have another meaning for several sub-envs:

    Args:
        env: The vector env, with ``render_mode="rgb_array"``.
        step_trigger: Called with the number of steps of the vector env so far, from 0; decides whether a clip of each
            recorded sub-env starts after this step.
        keep: The episodes that ``take()`` hands over, of all sub-envs together.
        env_indices: The sub-envs to record. None: all. Statistics are kept of all in any case.
        env_fn: Makes an env like one sub-env, in the process that renders.

    Raises:
        TypeError: An argument of the wrong type.
        ValueError: Arguments that contradict each other, or an env that does not render.

    Example:
        >>> envs = gym.make_vec("CartPole-v1", num_envs=4, render_mode="rgb_array")
        >>> envs = RecordVectorEpisodes(envs, keep="best", env_indices=[0, 1])
        >>> observations, infos = envs.reset(seed=0)
        >>> for _ in range(50):
        ...     observations, rewards, terminations, truncations, infos = envs.step(np.zeros(4, int))
        >>> envs.take()["best"].episode.env_index in (0, 1)
        True
        >>> envs.close()
    """

    @takes_arguments
    def __init__(self, env: gym.vector.VectorEnv, arguments: Arguments) -> None:
        check_is_env(type(self).__name__, env, gym.vector.VectorEnv)
        gym.vector.VectorWrapper.__init__(self, env)
        self._recording = Recording(env, env.num_envs, arguments)
        self._restarts = np.zeros(env.num_envs, bool)  # sub-envs whose next step is a reset
        self._autoreset = Autoreset(env, self._recording.recorder.problems)
        # the keys of infos that may hold what says whether an episode succeeded
        self._tell_success = {name.partition("/")[0] for name in self._recording.recorder.plan.tells_success}

    @property
    def episode_returns(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The returns so far of the episodes that run, one for each sub-env."""
        return np.array(self._recording.statistics.returns, np.float64)

    @property
    def episode_lengths(self) -> np.ndarray[Any, np.dtype[np.int_]]:
        """The numbers of steps so far of the episodes that run, one for each sub-env."""
        return np.array(self._recording.statistics.lengths, int)

    @override
    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset the sub-envs: all, or those of ``options["reset_mask"]``."""
        # before the env removes it
        mask = np.array(as_array((options or {}).get("reset_mask", np.ones(self.num_envs))), bool)
        reset = list(map(int, np.flatnonzero(mask)))
        for index in reset:
            self._recording.show_last(index)
        observations, infos = self.env.reset(seed=seed, options=options)
        self._recording.begin_reset()
        now = VectorStep(self.env, observations, infos, None)
        for index in reset:
            self._start(index, now, self._seed_of(index, seed))
        self._restarts[mask] = False
        return observations, infos

    @override
    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step the sub-envs, and record the step of each."""
        observations, rewards, terminations, truncations, infos = self.env.step(actions)
        self._recording.begin_step()
        now = VectorStep(self.env, observations, infos, actions)
        looks_at_info = self._may_have_values(infos)
        terminated = as_array(terminations)
        over = np.logical_or(terminated, as_array(truncations))
        if over.any():
            self._autoreset.check(infos)
        ended = {}
        each = zip(self._each_reward(rewards), self._restarts.tolist(), over.tolist(), strict=True)
        for index, (reward, restarts, is_over) in enumerate(each):
            if restarts:
                self._start(index, now)
            elif is_over:
                ended[index] = self._end(index, reward, now, looks_at_info, bool(terminated[index]))
            elif self._recording.records(index):
                self._record(index, reward, now, looks_at_info)
            else:
                self._recording.statistics.add(index, reward)
        if self._autoreset.mode is AutoresetMode.NEXT_STEP:
            self._restarts = over & ~self._restarts
        if ended and self._recording.writes_statistics:
            infos = with_statistics(infos, ended, self.num_envs)
        return observations, rewards, terminations, truncations, infos

    @override
    def close(self, **options: Any) -> None:
        """Save unfinished clips and close the env."""
        if hasattr(self, "_recording"):  # Gymnasium also closes an env whose arguments were refused
            self._recording.close()
        super().close(**options)
        with contextlib.suppress(AttributeError):  # not every vector env is Gymnasium's
            self.closed = True  # CartPole's does not say so, and would be closed again while the interpreter ends

    def _seed_of(self, index: int, seed: int | Sequence[int | None] | None) -> int | None:
        """Return the seed of a sub-env's reset, or None: only Gymnasium's own envs are known to count on from one."""
        if isinstance(seed, (int, np.integer)):
            counts_on = (gym.vector.SyncVectorEnv, gym.vector.AsyncVectorEnv)
            return int(seed) + index if isinstance(self.env.unwrapped, counts_on) else None
        value = None if seed is None else seed[index]
        return None if value is None else int(value)

    def _start(self, index: int, now: VectorStep, seed: int | None = None) -> None:
        looks = self._recording.recorder.looks_at_steps
        info = self._info(now, index, only=self._tell_success) if self._tell_success else None
        self._recording.start(index, seed, now.observation(index) if looks else None, info)

    def _record(self, index: int, reward: Reward, now: VectorStep, looks_at_info: bool, *, final: bool = False) -> None:
        """Record a step; the last one of an episode if the sub-env has already been reset."""
        looks = self._recording.recorder.looks_at_steps
        info = None
        if looks_at_info:
            info = self._info(now, index, final=final)
        elif self._tell_success and self._recording.reads_success(index):
            info = self._info(now, index, only=self._tell_success)
        seen = now.final_observation if final else now.observation
        self._recording.step(
            index,
            reward,
            now.action(index) if looks else None,
            info,
            observation=seen(index) if looks else None,
            picture=not final,
        )

    def _end(
        self, index: int, reward: Reward, now: VectorStep, looks_at_info: bool, terminated: bool
    ) -> dict[str, Any]:
        """Record the last step of an episode, and start the next one if the sub-env has already been reset."""
        is_reset = self._autoreset.mode is AutoresetMode.SAME_STEP
        self._record(index, reward, now, looks_at_info, final=is_reset)
        needs_info = bool(self._tell_success) and self._recording.records(index)
        info = self._info(now, index, final=is_reset) if needs_info else None
        ended = self._recording.end(index, terminated=terminated, picture=not is_reset, info=info)
        if is_reset:
            self._start(index, now)
        return ended

    def _may_have_values(self, infos: Any) -> bool:
        """Return whether the infos may hold something to collect; taking them apart costs time."""
        plan = self._recording.recorder.plan
        if not plan.looks_at_info:
            return False
        if plan.collect is not None or plan.looks_at_steps or not isinstance(infos, dict):
            return True
        return not _CONVENTION.isdisjoint(infos)

    def _info(self, now: VectorStep, index: int, *, final: bool = False, only: Collection[str] = ()) -> Any:
        """Return the info of one sub-env. If it cannot be taken apart, that is a warning; the user's loop continues."""
        try:
            return now.few(index, only) if only else now.final_info(index) if final else now.info(index)
        except Exception as error:
            if self._recording.recorder.plan.strict:
                raise
            self._recording.recorder.problems.report_error("infos", error, "infos are left out")
            return None

    def _each_reward(self, rewards: Any) -> list[Reward]:
        """Return the reward of each sub-env; vectors if the rewards have a second axis (MO-Gymnasium)."""
        array = as_array(rewards)
        if array.ndim == 1 and array.dtype != object:
            return list(array.astype(np.float64).tolist())
        return [self._recording.reward(reward) for reward in (array if array.ndim else [rewards] * self.num_envs)]
