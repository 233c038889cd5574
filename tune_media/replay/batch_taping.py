"""Puts the steps of all sub-envs of a vector env on their tapes together: once a vector step, not once a sub-env.

A hook in each sub-env takes some microseconds a step, as long as a small env itself; copying the results of all takes
as long as one such hook. They become checksums and actions on the tapes in blocks of steps, and when an episode ends.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from crc32c import crc32c
from typing_extensions import override

from tune_media.replay.tape import NUMBERS, Tape
from tune_media.replay.tape_recorder import STEP, Batch, TapeRecorder
from tune_media.values.plain import pack_exactly

_STEPS = 64  # of a block
_MOST_BYTES = 1024  # of an observation: copying a larger one takes as long as its checksum
_NEVER = sys.maxsize
_REWARD, _FLAG = np.dtype("<f8"), np.dtype("?")

Array = npt.NDArray[Any]


class BatchTaping(Batch):
    """The last steps of a vector env, on their way to the tapes of its sub-envs. The thread that steps it calls this.

    The first episode of each sub-env is put on tape by its tape recorder and here. If both are the same in each bit,
    the steps of the next ones are put on tape here only; their resets remain with the tape recorder. A step of a
    sub-env past the vector env is not seen then, and a replay of its episode differs.
    """

    def __init__(self, recorders: Mapping[int, TapeRecorder]) -> None:
        self._slots: dict[int, _Slot] = {}
        self._of_recorder: dict[int, _Slot] = {}  # by the id of the tape recorder
        self._begun = self._done = 0  # steps of the vector env
        self._acted = b""  # the actions of the step that is made
        self._copies: list[tuple[bytes, ...]] = []  # of the block's steps: of the actions and of the columns
        self._in_arrays = 0  # how many of them are in the arrays, too
        self._actions: Array | None = None  # of the block
        self._rows: Array | None = None
        self._columns: tuple[Array, ...] = ()
        self._sizes: tuple[int, ...] = ()  # bytes of what each step returns
        self.is_of_use = True  # the steps of any sub-env are put on tape here, or may be
        self.include(recorders)

    def include(self, recorders: Mapping[int, TapeRecorder]) -> None:
        """Tape further sub-envs from their next reset on; those that are known stay as they are."""
        for index, recorder in recorders.items():
            if index not in self._slots:
                recorder.batch = self
                self._slots[index] = self._of_recorder[id(recorder)] = _Slot(recorder, index)
                self.is_of_use = True

    def tapes(self, index: int) -> bool:
        """Return whether the steps of a sub-env are put on tape here only."""
        slot = self._slots.get(index)
        return slot is not None and slot.state is _SlotState.TAPES

    @override
    def is_stepping(self, recorder: TapeRecorder) -> bool:
        slot = self._of_recorder[id(recorder)]
        return self._begun > self._done and slot.first != _NEVER and slot.over_at != self._done

    @override
    def reset(self, recorder: TapeRecorder) -> None:
        slot = self._of_recorder[id(recorder)]
        self._hand_over(slot)
        slot.first = _NEVER
        if not recorder.is_used or (slot.state is _SlotState.AGREES and not recorder.unhook_steps()):
            self._drop(slot)
        elif slot.state is _SlotState.AGREES:
            slot.state = _SlotState.TAPES

    @override
    def began(self, recorder: TapeRecorder, tape: Tape) -> None:
        slot = self._of_recorder[id(recorder)]
        if slot.state is not _SlotState.DROPPED:
            slot.begin(tape, self._begun)

    def step(self, step: Callable[[Any], Any], actions: Any) -> Any:
        """Step the vector env, and return its result; sub-envs whose episodes are over are reset instead."""
        if not self.is_of_use:
            return step(actions)
        self._begun += 1
        if not self._put_actions(actions):  # before the envs may change them
            self._give_up(None)
        try:
            result = step(actions)
        except BaseException:
            self._give_up("the vector env raised in the middle of it")
            raise
        if self.is_of_use:
            is_any_over = self._put_results(*result[:4])
            if is_any_over is None:
                self._give_up("the vector env returned what is no array of numbers")
                return result
            self._done = self._begun
            if is_any_over:
                self._end_episodes(result[2] | result[3])
        return result

    def _put_actions(self, actions: Any) -> bool:
        """Copy the actions of a step; return whether they are an array of numbers."""
        block = self._actions
        is_plain = type(actions) is np.ndarray
        is_other = block is None or not (is_plain and actions.dtype == block.dtype and actions.shape == block.shape[1:])
        if is_other or len(self._copies) == _STEPS:
            for slot in self._slots.values():
                self._hand_over(slot)
            self._copies, self._in_arrays = [], 0
            if is_other:
                if not is_plain or actions.dtype.kind not in NUMBERS:
                    return False
                self._actions = np.zeros((_STEPS, *actions.shape), actions.dtype)
        self._acted = actions.tobytes()
        return True

    def _put_results(self, observations: Any, rewards: Any, terminated: Any, truncated: Any) -> bool | None:
        """Copy a result of the vector env; return whether any episode is over, or None if it cannot be copied."""
        if not type(observations) is type(rewards) is type(terminated) is type(truncated) is np.ndarray:
            return None
        if self._rows is None and not self._make_room(observations):
            return None
        if observations.dtype != self._columns[0].dtype:  # NumPy would convert it without a word
            return None
        if rewards.dtype != _REWARD or terminated.dtype != _FLAG or truncated.dtype != _FLAG:
            if rewards.dtype.kind not in NUMBERS:
                return None
            rewards, terminated, truncated = rewards.astype(_REWARD), terminated.astype(_FLAG), truncated.astype(_FLAG)
        seen, earned, ends, cuts = observations.tobytes(), rewards.tobytes(), terminated.tobytes(), truncated.tobytes()
        if (len(seen), len(earned), len(ends), len(cuts)) != self._sizes:
            return None
        self._copies.append((self._acted, seen, earned, ends, cuts))
        return 1 in ends or 1 in cuts

    def _fill_arrays(self) -> None:
        """Copy the steps that came since the last time into the arrays: many at once, in a fifth of the time."""
        assert self._actions is not None
        part = slice(self._in_arrays, len(self._copies))
        self._in_arrays = len(self._copies)
        for column, parts in zip((self._actions, *self._columns), zip(*self._copies[part], strict=True), strict=True):
            rows = column[part]
            rows[...] = np.frombuffer(b"".join(parts), column.dtype).reshape(rows.shape)

    def _make_room(self, observations: Array) -> bool:
        """Make room for a block, a row a step and sub-env; return if observations are numbers, and not too large."""
        observation = ("observation", observations.dtype, observations.shape[1:])
        row = np.dtype([observation, ("reward", _REWARD), ("terminated", _FLAG), ("truncated", _FLAG)])
        if observations.dtype.kind not in NUMBERS or row.itemsize - STEP.size > _MOST_BYTES:
            return False
        self._rows = np.zeros((_STEPS, len(observations)), row)
        self._columns = tuple(self._rows[name] for name in row.names or ())
        self._sizes = tuple(column[0].nbytes for column in self._columns)
        return True

    def _end_episodes(self, are_over: Array) -> None:
        for slot in (self._slots[index] for index in np.flatnonzero(are_over).tolist() if index in self._slots):
            slot.over_at = self._done
            if slot.first != _NEVER:
                self._hand_over(slot)
                slot.first = _NEVER
                if slot.state is _SlotState.COMPARES and slot.is_same():
                    slot.state = _SlotState.AGREES
                elif slot.state is _SlotState.COMPARES:
                    self._drop(slot)

    def _hand_over(self, slot: _Slot) -> None:
        """Put the steps that have come since the last time on a tape."""
        if slot.first < self._done and self._actions is not None and self._rows is not None:
            if self._in_arrays < len(self._copies):
                self._fill_arrays()
            start = self._done - len(self._copies)  # the number of the block's first step
            part = slice(slot.first - start, self._done - start)
            slot.first = self._done
            slot.add(self._actions[part, slot.index], self._rows[part, slot.index])

    def _drop(self, slot: _Slot) -> None:
        """Leave the steps of a sub-env to its tape recorder for good, which continues from here."""
        if slot.state is _SlotState.TAPES:
            slot.recorder.hook_steps(slot.check)
        slot.state, slot.first = _SlotState.DROPPED, _NEVER
        self.is_of_use = any(other_slot.state is not _SlotState.DROPPED for other_slot in self._slots.values())

    def _give_up(self, lost: str | None) -> None:
        """Drop all sub-envs; ``lost`` is why a step is lost, so that its episodes cannot be replayed."""
        for slot in self._slots.values():
            self._hand_over(slot)
            if lost is not None and slot.state is _SlotState.TAPES and slot.first <= self._done:
                slot.tape.fault = slot.tape.fault or lost
            self._drop(slot)
        self._done = self._begun
        self._copies, self._in_arrays = [], 0


class _SlotState(enum.Enum):
    """How the steps of a sub-env get on its tape."""

    COMPARES = "by its tape recorder, and here on a second one, to compare"
    AGREES = "the same; both were equal, and the next reset ends it"
    TAPES = "here only"
    DROPPED = "by its tape recorder only"


class _Slot:
    """One sub-env."""

    def __init__(self, recorder: TapeRecorder, index: int) -> None:
        self.recorder, self.index, self.state = recorder, index, _SlotState.COMPARES
        self.tape = self._filled = Tape(0)  # _filled: the one that this fills, a second one until both were equal
        # first: the vector env's step that is put on its tape next; ``_NEVER`` if the episode is over
        # over_at: the vector env's step that resets it, since the one before has ended an episode
        self.first, self.over_at, self.check = _NEVER, -1, 0

    def begin(self, tape: Tape, first: int) -> None:
        """Begin an episode."""
        self.tape, self._filled, self.first, self.check = tape, tape, first, tape.checks[0]
        if self.state is not _SlotState.TAPES:
            self._filled = Tape(0)
            self._filled.began(self.check)

    def add(self, actions: Array, rows: Array) -> None:
        """Add steps to the episode."""
        check, checks = self.check, []
        content, size = rows.tobytes(), rows.dtype.itemsize
        for start in range(0, len(content), size):
            check = crc32c(content[start : start + size], check)
            checks.append(check)
        self.check = check
        self._filled.extend(actions, checks, rows["reward"].tolist())

    def is_same(self) -> bool:
        """Return whether the tape and the second one are the same."""
        ours, recorded = self._filled, self.tape
        if not len(ours) or ours.fault or recorded.fault or ours.checks.values != recorded.checks.values:
            return False
        return pack_exactly(ours.actions.packed()) == pack_exactly(recorded.actions.packed())
