"""Puts the steps of all sub-envs of a vector env on their tapes together: once a vector step, not once a sub-env.

A hook in each sub-env takes some microseconds a step, as long as a small env itself. What a synchronous vector env
returns has everything that a tape needs, and copying it takes as long as one such hook. It becomes checksums and
actions on the tapes in blocks of steps, and when an episode ends.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from crc32c import crc32c
from typing_extensions import override

from tune_media.replay.plain import to_json
from tune_media.replay.tape import Tape
from tune_media.replay.tape_recorder import STEP, Batch, TapeRecorder

_STEPS = 64  # of a block
_MOST_BYTES = 1024  # of an observation: copying a larger one takes as long as its checksum
_KINDS = "biuf"  # of arrays that are plain bytes
_NEVER = sys.maxsize
_NO_ARRAYS = (ValueError, TypeError, AttributeError, IndexError)  # or others than before
_ODD = "the vector env was given, or returned, what cannot be put on tape"

Array = npt.NDArray[Any]


class BatchTaping(Batch):
    """The last steps of a vector env, on their way to the tapes of its sub-envs. The thread that steps it calls this.

    Wrappers may change what a sub-env returns, and a vector env may convert it. So an episode of each sub-env is put on
    tape by its tape recorder and here, too. Only if both are the same in each bit, the next ones are taped here alone,
    and their tapes say that the checksums are those of the wrappers' observations and rewards.

    Args:
        recorders: The tape recorders of the sub-envs, by index.

    Attributes:
        is_of_use: Whether any sub-env is taped here, or may be.

    Example:
        >>> import gymnasium as gym
        >>> envs = gym.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")
        >>> batch = BatchTaping({index: TapeRecorder(env) for index, env in enumerate(envs.envs)})
        >>> _ = envs.reset(seed=1)
        >>> for _ in range(100):
        ...     _ = batch.step(envs.step, envs.action_space.sample())
        >>> batch.tapes(0), batch.tapes(1)
        (True, True)
    """

    def __init__(self, recorders: Mapping[int, TapeRecorder]) -> None:
        self._slots = {index: _Slot(recorder) for index, recorder in recorders.items()}
        self._begun = self._done = 0  # steps of the vector env
        self._start = 0  # the number of the block's first step
        self._actions: Array | None = None  # of the block
        self._rows: Array | None = None
        self._columns: tuple[Array, ...] = ()
        self.is_of_use = True
        for recorder in recorders.values():
            recorder.batch = self

    def tapes(self, index: int) -> bool:
        """Return whether the episode that runs on a sub-env, or has just ended, is taped here alone."""
        slot = self._slots.get(index)
        return slot is not None and slot.is_alone

    def reached(self, index: int) -> tuple[int, float, float]:
        """Return the length of this episode, the sum of its rewards, and that without the last one."""
        slot = self._slots[index]
        self._hand_over(index, slot)
        return slot.length, slot.total, slot.before_last

    @override
    def takes_over(self, recorder: TapeRecorder) -> bool:
        slot = self._slot_of(recorder)
        slot.first = _NEVER
        if not slot.is_left and not recorder.is_used:
            self._leave(slot)
        elif slot.has_agreed and not slot.is_alone and not slot.is_left:
            slot.is_alone = recorder.resets_core and recorder.leave_out_steps()
            if not slot.is_alone:
                self._leave(slot)
        return slot.is_alone

    @override
    def began(self, recorder: TapeRecorder, tape: Tape) -> None:
        slot = self._slot_of(recorder)
        if not slot.is_left:
            slot.begin(tape, self._begun)

    def step(self, step: Callable[[Any], Any], actions: Any) -> Any:
        """Step the vector env; its sub-envs whose episodes are over are reset instead.

        Args:
            step: Steps it.
            actions: What it is given.

        Returns:
            What ``step`` returns.

        Raises:
            Exception: Whatever ``step`` raises.
        """
        if not self.is_of_use:
            return step(actions)
        at = self._done - self._start
        if at == _STEPS:
            at = self._begin_block()
        self._begun += 1
        try:
            if self._actions is None:
                self._actions = _array_of(actions)
            if actions.dtype != self._actions.dtype:
                raise TypeError(actions.dtype)  # NumPy would convert them without a word
            self._actions[at] = actions  # before the envs may change them
        except _NO_ARRAYS:
            self.leave(_ODD)
        try:
            result = step(actions)
        except BaseException:
            self.leave("the vector env raised in the middle of it")
            raise
        if self.is_of_use:
            self._add(at, *result[:4])
        return result

    def _begin_block(self) -> int:
        for index, slot in self._slots.items():
            self._hand_over(index, slot)
        self._start = self._done
        return 0

    def _add(self, at: int, observations: Any, rewards: Any, terminated: Any, truncated: Any) -> None:
        """Copy what the vector env returned."""
        try:
            if self._rows is None:
                self._make_room(observations)
            columns = self._columns
            if observations.dtype != columns[0].dtype:
                raise TypeError(observations.dtype)
            columns[0][at], columns[1][at] = observations, rewards
            columns[2][at], columns[3][at] = terminated, truncated
            is_any_over = 1 in terminated.tobytes() or 1 in truncated.tobytes()
        except _NO_ARRAYS:
            self.leave(_ODD)
            return
        self._done = self._begun
        if is_any_over:
            for index in np.flatnonzero(terminated | truncated).tolist():
                if index in self._slots:
                    self._end(index, self._slots[index])

    def _make_room(self, observations: Array) -> None:
        """Make room for a block: one row a step and sub-env, with the observation, and then as ``STEP`` has it.

        Raises:
            ValueError: The observations are too large, or no numbers.
        """
        observation = ("observation", observations.dtype, observations.shape[1:])
        row = np.dtype([observation, ("reward", "<f8"), ("terminated", "?"), ("truncated", "?")])
        if observations.dtype.kind not in _KINDS or row.itemsize - STEP.size > _MOST_BYTES:
            raise ValueError("these observations are not taken")
        self._rows = np.zeros((_STEPS, len(observations)), row)
        self._columns = tuple(self._rows[name] for name in row.names or ())

    def leave(self, why: str) -> None:
        """Tape nothing any more: the running episodes that are taped here alone cannot be replayed."""
        for index, slot in self._slots.items():
            self._hand_over(index, slot)
            if slot.is_alone and slot.first != _NEVER:
                slot.tape.fault = slot.tape.fault or why
            self._leave(slot)

    def _leave(self, slot: _Slot) -> None:
        """Never tape a sub-env here any more."""
        if slot.is_alone:
            slot.recorder.take_in_steps()
        slot.first, slot.is_left, slot.is_alone = _NEVER, True, False
        self.is_of_use = any(not one.is_left for one in self._slots.values())

    def _end(self, index: int, slot: _Slot) -> None:
        self._hand_over(index, slot)
        if slot.first != _NEVER and not slot.is_alone:
            slot.has_agreed = slot.is_same()
            if not slot.has_agreed:
                self._leave(slot)
        slot.first = _NEVER

    def _hand_over(self, index: int, slot: _Slot) -> None:
        """Put the steps that have come since the last time on a tape."""
        if slot.first < self._done and self._actions is not None and self._rows is not None:
            part = slice(slot.first - self._start, self._done - self._start)
            slot.first = self._done
            slot.add(self._actions[part, index], self._rows[part, index])

    def _slot_of(self, recorder: TapeRecorder) -> _Slot:
        return next(slot for slot in self._slots.values() if slot.recorder is recorder)


class _Slot:
    """One sub-env.

    Attributes:
        recorder: Its tape recorder.
        tape: The tape of its episode.
        into: The tape on which its steps are put here: this one, or another one to compare.
        check: The checksum so far.
        first: The number of the vector env's step that is the next one of the episode; none if it is over.
        length, total, before_last: How many steps it has, the sum of their rewards, and that without the last one's.
        has_agreed: Whether an episode was the same on both tapes.
        is_alone: Whether its steps are put on tape here alone.
        is_left: Whether they never are.
    """

    def __init__(self, recorder: TapeRecorder) -> None:
        self.recorder = recorder
        self.tape = self.into = Tape(0)
        self.check, self.first, self.length = 0, _NEVER, 0
        self.total = self.before_last = 0.0
        self.has_agreed = self.is_alone = self.is_left = False

    def begin(self, tape: Tape, first: int) -> None:
        """Begin an episode."""
        self.tape, self.first, self.check, self.length = tape, first, tape.checks[0], 0
        self.total = self.before_last = 0.0
        self.into = tape
        if not self.is_alone:
            self.into = Tape(0)
            self.into.began(self.check)

    def add(self, actions: Array, rows: Array) -> None:
        """Add steps to the episode."""
        check, checks = self.check, []
        content, size = rows.tobytes(), rows.dtype.itemsize
        for at, reward in zip(range(0, len(content), size), rows["reward"].tolist(), strict=True):
            check = crc32c(content[at : at + size], check)
            checks.append(check)
            self.before_last = self.total
            self.total += reward  # as RLlib does, one after the other
        self.check = check
        self.length += len(checks)
        self.into.extend(actions, checks)

    def is_same(self) -> bool:
        """Return whether the tape and the one to compare are the same."""
        ours, other = self.into, self.tape
        if not len(ours) or ours.fault or other.fault or ours.checks.values != other.checks.values:
            return False
        facts, actions = ours.actions.packed()
        other_facts, other_actions = other.actions.packed()
        return to_json(facts) == to_json(other_facts) and actions == other_actions


def _array_of(actions: Array) -> Array:
    """Return room for the actions of a block.

    Raises:
        ValueError: They are no numbers.
    """
    if actions.dtype.kind not in _KINDS:
        raise ValueError("these actions are not taken")
    return np.zeros((_STEPS, *actions.shape), actions.dtype)
