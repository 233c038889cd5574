"""The tape of an episode: all that it takes to play the episode again, and to check that it is the same one.

Its checksums cover each observation, reward and end, so a replay that differs in one of them is found at that step.

A tape is stored as plain data (``Tape.packed``): ``TMT`` and the version of the format, then, compressed by zlib, the
length of a header as uint32, the header as msgpack, and the bytes that it counts: the last byte of the checksum after
each step, the whole checksum (uint32) after each 64th step and the last one, and the actions (the first byte of each,
then the second of each, and so on). The header has the rewards (float64) in the same order of their bytes, the texts of
overlay functions (``Lines.packed``), and the speed. All numbers are little-endian.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from crc32c import crc32c

from tune_media.recording.overlay_lines import Lines
from tune_media.recording.pictures import STEPS, Pictures
from tune_media.replay.generators import Snapshot, States
from tune_media.values.convert import as_array
from tune_media.values.foreign import without_address
from tune_media.values.plain import pack_exactly, unpack
from tune_media.values.secrets import error_text

MAX_BYTES = 32 * 2**20  # memory that one tape takes at the most; a longer episode cannot be replayed
MAX_UNPACKED = 4 * MAX_BYTES  # the most bytes that a stored tape may unpack to: a file may come from anybody
VERSION = 4
_READ = (3, VERSION)  # 3 has no lines and no speed
BLOCK = 64  # the whole checksum is stored after so many steps; of the others a byte
NUMBERS = "biuf"  # the kinds of NumPy types whose arrays are plain bytes
_MAGIC = b"TMT"
_OVERHEAD = 40
_BYTES_OF_STEP = 12  # of a checksum and a reward
_LEVEL = 1  # of zlib: four times as fast as the default, and 3 % larger for the actions of MuJoCo
_SMALL = 12  # the binary logarithm of a window for tapes of up to 4 KiB; to set up the usual one takes 30 us more


class Actions:
    """The actions of an episode, in order. Arrays and NumPy numbers of one type take only their own bytes."""

    def __init__(self) -> None:
        self._like: np.ndarray[Any, Any] | np.generic | None = None  # the first action, if all are like it
        self._number: Any = None  # its type, if it is a number
        self._packed = bytearray()
        self._each: list[bytes] = []
        self._count = self.nbytes = 0

    def __len__(self) -> int:
        return self._count

    def append(self, action: Any) -> None:
        """Copy an action. Raises TypeError unless it is, or holds, numbers, text or arrays."""
        if type(action) is self._number:
            self._packed.extend(action)  # a number's own bytes, in a third of the time of tobytes()
            self.nbytes = len(self._packed)
        elif self._count == 0:
            self._append_first(action)
        elif self._like is not None and _is_like(action, self._like):
            self._append_array(action)
        else:
            if self._like is not None:  # from now on, actions of any type are held
                each = [pack_exactly(self[index]) for index in range(self._count)]
                self._like, self._number, self._packed, self.nbytes = None, None, bytearray(), 0
                for content in each:
                    self._add_packed(content)
            self._append_any(action)
        self._count += 1

    def extend(self, rows: np.ndarray[Any, Any]) -> None:
        """Copy the actions of several steps, one a row, as ``append`` does one after the other."""
        if not len(rows):
            return
        self.append(rows[0])
        if self._like is not None and (self._like.dtype, self._like.shape) == (rows.dtype, rows.shape[1:]):
            self._packed += rows[1:].tobytes()
            self._count += len(rows) - 1
            self.nbytes = len(self._packed)
        else:
            for row in rows[1:]:
                self.append(row)

    def _append_first(self, action: Any) -> None:
        if isinstance(action, (np.ndarray, np.generic)) and action.dtype.kind in "biufc":
            self._like = np.array(action) if isinstance(action, np.ndarray) else action
            self._number = type(action) if isinstance(action, np.generic) else None
            self._append_array(action)
        else:
            self._append_any(action)

    def _append_array(self, action: np.ndarray[Any, Any] | np.generic) -> None:
        self._packed += np.asarray(action).tobytes()  # a masked array's own would have other numbers
        self.nbytes = len(self._packed)

    def _append_any(self, action: Any) -> None:
        self._add_packed(pack_exactly(np.asarray(action) if isinstance(action, np.ndarray) else action))

    def __getitem__(self, index: int) -> Any:
        """Return a copy of the action with this index, from 0."""
        if self._like is None:
            return unpack(self._each[index])
        size = self._like.nbytes
        part = bytes(self._packed[index * size : (index + 1) * size])
        flat = np.frombuffer(part, self._like.dtype)
        return flat[0] if isinstance(self._like, np.generic) else flat.reshape(self._like.shape).copy()

    def packed(self) -> tuple[Any, bytes]:
        """Return their facts in the header of a stored tape, and their bytes."""
        if self._like is None:
            return {"count": self._count}, pack_exactly(self._each)
        return {"count": self._count, "like": self._like}, _transposed(self._packed, self._count)

    @classmethod
    def unpacked(cls, facts: Any, content: bytes) -> Actions:
        """Return the actions that ``packed`` was called on. Raises ValueError."""
        actions = cls()
        if "like" in facts:
            size, actions._like, actions._count = facts["like"].nbytes, facts["like"], facts["count"]
            actions._number = type(actions._like) if isinstance(actions._like, np.generic) else None
            if len(content) != actions._count * size:
                raise ValueError(f"{len(content)} bytes are not {actions._count} actions")
            actions._packed = bytearray(_transposed(content, size))
            actions.nbytes = len(actions._packed)
        else:
            for action in map(unpack, unpack(content)):
                actions.append(action)
        return actions

    def _add_packed(self, content: bytes) -> None:
        self._each.append(content)
        self.nbytes += len(content) + _OVERHEAD


def are_equal(left: Any, right: Any, tolerance: float = 0.0) -> bool:
    """Return whether two actions are equal, arrays and nested ones, too; ``tolerance`` is of floats, to the largest.

    >>> are_equal({"a": np.zeros(2)}, {"a": [0, 0]}), are_equal((1, np.ones(2)), (1, np.zeros(2)))
    (True, False)
    >>> are_equal((3, 1.0), (3, 1.00001), 1e-4), are_equal((3, 1.0), (4, 1.0), 1e-4)
    (True, False)
    """
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(are_equal(left[key], right[key], tolerance) for key in left)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(are_equal(*pair, tolerance) for pair in zip(left, right, strict=True))
    kinds = {np.asarray(action).dtype.kind for action in (left, right)} if tolerance else set()
    if kinds & set("fc") and kinds <= set(NUMBERS + "c") and np.shape(left) == np.shape(right):
        largest = np.abs(np.nan_to_num([left, right], posinf=0, neginf=0)).max(initial=0)
        return bool(np.allclose(left, right, rtol=0, atol=tolerance * largest, equal_nan=True))
    return bool(np.array_equal(left, right))


class Checks:
    """The checksum of everything that an env returned: after the reset, then after each step."""

    def __init__(self) -> None:
        self.values = array("I")  # as far as they are known
        self._are_whole = True  # False: those between the blocks are single bytes

    def append(self, check: int) -> None:
        """Add the checksum after another step."""
        self.values.append(check)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, step: int) -> int:
        return self.values[step]

    def __iter__(self) -> Iterator[int]:
        return iter(self.values)

    def agree(self, step: int, check: int) -> bool:
        """Return whether a checksum may be that of a step; at the end of a block and at the last step it is certain.

        Another step in between has the same last byte once in 256 times; checksums cover the steps before, so the next
        ones tell.
        """
        if step >= len(self.values):
            return False
        mask = 0xFFFFFFFF if self._are_whole or self._is_whole(step) else 0xFF
        return (self.values[step] ^ check) & mask == 0

    def packed(self) -> bytes:
        """Return them as bytes: a byte for each, then the whole ones."""
        values = np.array(self.values, "<u4")
        last = values[-1:] if len(values) % BLOCK != 1 else values[:0]
        return values.astype(np.uint8).tobytes() + values[::BLOCK].tobytes() + last.tobytes()

    @classmethod
    def unpacked(cls, count: int, content: bytes) -> Checks:
        """The inverse of ``packed``. Raises ValueError."""
        checks = cls()
        checks._are_whole, checks.values = False, array("I", list(content[:count]))
        steps = [step for step in range(count) if checks._is_whole(step)]
        for step, value in zip(steps, np.frombuffer(content[count:], "<u4").tolist(), strict=True):
            checks.values[step] = value
        return checks

    def _is_whole(self, step: int) -> bool:
        return step % BLOCK == 0 or step == len(self.values) - 1


class Tape:
    """An episode's reset, actions and checksums."""

    def __init__(
        self,
        seed: int | None,
        options: Mapping[str, Any] | None = None,
        task: Any = None,
        generators: Snapshot | None = None,
    ) -> None:
        self.seed = None if seed is None else int(seed)
        self.options, self.task = dict(options or {}), task  # the task of its env (``set_task``), if it has one
        self.last_task: Any = None  # the one that its env had at the end, or None if not known
        self.actions = Actions()  # as the env was given them
        self.checks = Checks()  # of everything that the env returned so far: after the reset, then after each step
        # of each step, as the env returned it, summed over agents, or None if one of them was no number
        self.rewards: array[float] | None = array("d")
        self.every = (
            1  # the stride of the steps after which ``render()`` is called, from the reset on, and the last one
        )
        self.number = 0  # of the episodes that its env had played before it
        self.pictures = Pictures()  # the checksums of its own frames: those that were rendered while it ran
        self.lines: Lines | None = None  # the texts of overlay functions, if its recorder has any
        self.fps = 0.0  # frames per second that its env stated while it ran, or 0 if not known
        self._snapshot = generators
        self._states: States | None = None
        is_known = seed is not None or generators is not None  # the state that the episode began with
        self.fault: str | None = None if is_known else "its reset was given no seed"  # why it cannot be replayed

    def __len__(self) -> int:
        """The number of its steps."""
        return max(0, len(self.checks) - 1)

    @property
    def generators(self) -> States | None:
        """The states of the env's random generators before the reset, by their places, or None if not known."""
        return self._states if self._snapshot is None else self._snapshot.states

    def began(self, check: int) -> None:
        """The env has been reset."""
        self.checks.append(check)

    def acts(self, action: Any) -> None:
        """The env is about to be given an action; it may change it."""
        if self.fault is None:
            try:
                self.actions.append(action)
            except Exception as error:
                self.fault = f"its action of type {type(action).__name__} cannot be copied: {error_text(error)}"

    def has_stepped(self, check: int, reward: Any = None) -> None:
        """The env has been stepped. If the reward is no number, the tape has no rewards."""
        if self.fault is not None:
            return
        self.checks.values.append(check)
        if self.rewards is not None:
            try:
                if isinstance(reward, dict):
                    reward = sum(reward.values())  # of several agents
                self.rewards.append(reward.sum() if isinstance(reward, np.ndarray) else reward)
            except Exception:  # of a foreign type that makes no float of itself
                self.rewards = None
        self._check_size()

    def extend(self, actions: np.ndarray[Any, Any], checks: Iterable[int], rewards: Iterable[float]) -> None:
        """Add several steps as a whole; actions are one a row."""
        if self.fault is None:
            self.actions.extend(actions)
            self.checks.values.extend(checks)
            if self.rewards is not None:
                self.rewards.extend(rewards)
            self._check_size()

    @property
    def has_other_task(self) -> bool:
        """Whether its env was given another task, or took one, while it ran."""
        return None not in (self.task, self.last_task) and pack_exactly(self.task) != pack_exactly(self.last_task)

    def _check_size(self) -> None:
        if self.actions.nbytes + _BYTES_OF_STEP * len(self.checks.values) > MAX_BYTES:
            self.fault = f"its actions take more than {MAX_BYTES // 2**20} MB (step {len(self)})"

    def packed(self) -> bytes:
        """Return it as it is stored."""
        if self.fault is not None:
            raise ValueError(self.fault)
        checks = self.checks.packed()
        facts, actions = self.actions.packed()
        header = {name: getattr(self, name) for name in ("seed", "options", "task", "generators", "every", "number")}
        if self.pictures or self.pictures.how == STEPS:
            header["pictures"] = self.pictures.packed()
        if self.lines is not None:
            header["lines"] = self.lines.packed()
        if self.fps:
            header["fps"] = float(self.fps)
        if self.rewards and len(self.rewards) == len(self):
            header["rewards"] = _transposed(np.array(self.rewards, "<f8").tobytes(), len(self))
        if self.has_other_task:
            header["last_task"] = self.last_task
        header |= {"checks": [len(self.checks), len(checks)], "actions": facts}
        packed = pack_exactly(header)
        content = struct.pack("<I", len(packed)) + packed + checks + actions
        if len(content) > 2**_SMALL:
            return _MAGIC + bytes([VERSION]) + zlib.compress(content, _LEVEL)
        stream = zlib.compressobj(_LEVEL, zlib.DEFLATED, _SMALL, memLevel=5)
        return _MAGIC + bytes([VERSION]) + stream.compress(content) + stream.flush()

    @classmethod
    def unpacked(cls, content: bytes, *, with_actions: bool = True) -> Tape:
        """Return the tape that ``packed`` was called on. Raises ValueError, also for another version.

        Its actions may be left out: they take most of the time.
        """
        if content[:3] != _MAGIC or len(content) < 5:
            raise ValueError("this is no tape of an episode")
        if content[3] not in _READ:
            read = " and ".join(map(str, _READ))
            raise ValueError(f"the tape has version {content[3]} of the format, this tune_media reads {read}")
        try:
            reader = zlib.decompressobj()
            inside = reader.decompress(content[4:], MAX_UNPACKED)
            if not reader.eof:
                raise ValueError("it is cut off, or too large")
            (size,) = struct.unpack_from("<I", inside)
            header = unpack(inside[4 : 4 + size])
            count, nbytes = header["checks"]
            tape = cls(header["seed"], header["options"], header["task"])
            tape.checks = Checks.unpacked(count, inside[4 + size : 4 + size + nbytes])
            if with_actions:
                tape.actions = Actions.unpacked(header["actions"], inside[4 + size + nbytes :])
            tape.rewards = None
            if "rewards" in header:
                tape.rewards = array("d", np.frombuffer(_transposed(header["rewards"], 8), "<f8").tolist())
            if "pictures" in header:
                tape.pictures = Pictures.unpacked(header["pictures"])
            if "lines" in header:
                tape.lines = Lines.unpacked(header["lines"])
            tape.fps = float(header.get("fps", 0.0))
            tape.last_task = header.get("last_task")
            tape._states, tape.every, tape.number = header["generators"], int(header["every"]), int(header["number"])
        except Exception as error:
            raise ValueError(f"the tape cannot be read ({error_text(error)})") from error
        tape.fault = None
        return tape


def checksum(value: Any, start: int = 0) -> int:
    """Return the CRC-32C of a value, after ``start``: an array, a number, text, or nested dicts and sequences."""
    if type(value) is np.ndarray and value.dtype.kind in NUMBERS and value.flags.c_contiguous:  # most observations
        return int(crc32c(value, start)) if value.size else _of_array(value, start)  # type: ignore[arg-type]
    if isinstance(value, (np.ndarray, np.generic)):
        return _of_array(np.asarray(value), start)
    if isinstance(value, float):
        return int(crc32c(struct.pack("<d", value), start))
    if isinstance(value, (int, str)) or value is None:  # a truth value is an int
        return int(crc32c(f"{value};".encode(), start))
    if isinstance(value, Mapping):
        for key in sorted(value, key=str):
            start = checksum(value[key], checksum(str(key), start))
        return int(crc32c(b"}", start))
    if isinstance(value, (tuple, list)):
        for item in value:
            start = checksum(item, start)
        return int(crc32c(b"]", start))
    if hasattr(value, "__array__"):
        return _of_array(as_array(value), start)
    return int(crc32c(without_address(repr(value)).encode(), start))


def _of_array(array: np.ndarray[Any, Any], start: int) -> int:
    if array.dtype.hasobject:
        return checksum(array.tolist(), start)
    return int(crc32c(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data if array.size else b"0", start))


def _transposed(content: bytes | bytearray, rows: int) -> bytes:
    """Return the bytes of a table column by column: those of many small numbers are mostly zeros in a row."""
    return np.frombuffer(content, np.uint8).reshape(rows, -1).T.tobytes() if content else b""


def _is_like(action: Any, first: np.ndarray[Any, Any] | np.generic) -> bool:
    """Return whether an action is an array like the first one."""
    are_arrays = isinstance(action, np.ndarray) and isinstance(first, np.ndarray)
    return are_arrays and action.dtype == first.dtype and action.shape == first.shape
