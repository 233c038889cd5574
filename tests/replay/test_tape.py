import base64
import zlib

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tests.support.properties import DTYPES, EXACT, assert_same, many
from tests.support.taped import take_step
from tune_media.recording.overlay_lines import Lines
from tune_media.replay import tape as tapes
from tune_media.replay.tape import Actions, Tape, checksum
from tune_media.replay.tape_recorder import TapeRecorder
from tune_media.values.plain import pack_exactly, unpack

LIKE_ONE_ANOTHER = st.tuples(DTYPES, hnp.array_shapes(max_dims=2, max_side=3)).flatmap(
    lambda kind: st.lists(hnp.from_dtype(kind[0]), max_size=5) | st.lists(hnp.arrays(*kind), max_size=5)
)
MASKED = [np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0]), np.ma.array([4.0, 5.0, 6.0])]


def stored_and_read(value):
    return value if isinstance(value, bytes) else unpack(pack_exactly(value))


def test_actions_of_an_own_class_come_back_as_the_arrays_inside_them():
    actions = Actions()
    for action in MASKED:
        actions.append(action)
    assert [actions[index].tolist() for index in range(2)] == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


@many
@given(LIKE_ONE_ANOTHER | st.lists(EXACT, max_size=5))
def test_actions_come_back_as_they_were(taken):
    actions = Actions()
    for action in taken:
        actions.append(action)
    stored = Actions.unpacked(*map(stored_and_read, actions.packed()))
    for read in (actions, stored):
        assert_same([read[index] for index in range(len(read))], taken)


def test_arrays_of_an_own_class_are_taped_by_their_values():
    class Own(np.ndarray):
        pass

    actions, table = Actions(), np.arange(6.0).reshape(2, 3).view(Own)
    given = [table[0], table[:, 1], table[1, ::2]]  # the second lies apart in memory
    for count, action in enumerate(given, 1):
        actions.append(action)
        assert [actions[index].tolist() for index in range(count)] == [one.tolist() for one in given[:count]]


def test_an_action_is_copied():
    actions, buffer = Actions(), np.zeros(2)
    actions.append(buffer)
    buffer[:] = 5
    assert actions[0].tolist() == [0, 0]
    actions[0][:] = 7
    assert actions[0].tolist() == [0, 0]


def test_a_step_of_a_mujoco_sized_action_takes_its_own_bytes():
    tape = Tape(0)
    for _ in range(1000):
        take_step(tape, np.zeros(6, np.float32), 0)
    assert tape.actions.nbytes == 1000 * 24


def test_the_reward_of_each_step_is_stored_to_the_last_bit_unless_one_is_no_number():
    rewards = [0.1, np.float32(0.1), -3, True, np.array([2.5]), {"a": 1.0, "b": np.float32(0.5)}, np.array([1.0, 2.0])]
    tape = Tape(0)
    tape.began(0)
    for reward in rewards:
        take_step(tape, 1, 0, reward)
    assert list(Tape.unpacked(tape.packed()).rewards) == [0.1, float(np.float32(0.1)), -3.0, 1.0, 2.5, 1.5, 3.0]
    take_step(tape, 1, 0, {"agent": "one"})
    take_step(tape, 1, 0, 1.0)
    assert Tape.unpacked(tape.packed()).rewards is None


DIFFERENT = [
    (np.zeros(3), np.ones(3)),
    (np.zeros(3), np.array([0.0, -0.0, 0.0])),
    (0.1 + 0.2, 0.3),
    (True, False),
    ("a", "b"),
    (None, 0),
    ({"x": 1}, {"y": 1}),
    ({"x": {"y": 1}, "z": 2}, {"x": {"y": 1, "z": 2}}),
    ((1, (2, 3)), ((1, 2), 3)),
    (np.array([1, "a"], object), np.array([1, "b"], object)),
    (np.float32(1), np.float32(1.0000001)),
    (np.zeros(2, np.float16), np.ones(2, np.float16)),
    (np.zeros(2, complex), np.array([0, 1j])),
    (2**70, 2**70 + 1),
]


@pytest.mark.parametrize(("one", "other"), DIFFERENT, ids=str)
def test_different_values_have_different_checksums(one, other):
    assert checksum(one) != checksum(other)


class Text:
    """No array, no number; its default representation has an address."""


SAME = [
    (np.arange(6).reshape(2, 3).T, np.ascontiguousarray(np.arange(6).reshape(2, 3).T)),
    ({"x": 1, "y": 2.0}, {"y": 2.0, "x": 1}),
    (float("nan"), float("nan")),
    (np.array([]), np.array([])),
    (Text(), Text()),
]


@pytest.mark.parametrize(("one", "other"), SAME, ids=["an array", "a dict", "NaN", "an empty array", "an object"])
def test_equal_values_have_equal_checksums(one, other):
    assert checksum(one) == checksum(other)


def test_a_checksum_goes_on_from_an_earlier_one():
    assert checksum(1, checksum(2)) != checksum(2, checksum(1))


def test_an_action_that_cannot_be_copied_is_a_fault_and_no_exception():
    tape = Tape(0)
    take_step(tape, lambda: 0, 1)
    take_step(tape, 1, 2)
    assert "cannot be copied" in tape.fault


def test_a_tape_that_grows_too_long_is_a_fault(monkeypatch):
    monkeypatch.setattr(tapes, "MAX_BYTES", 2**20)
    tape = Tape(0)
    tape.began(0)
    while tape.fault is None:
        take_step(tape, np.zeros(10_000), 0)
    assert "more than 1 MB (step 14)" in tape.fault


def taped(steps, seed=3, **facts):
    tape = Tape(seed, **facts)
    tape.began(2**31)
    for step in range(steps):
        take_step(tape, np.int64(step % 2), (1_000_003 * step + 2**31) % 2**32)
    return tape


@pytest.mark.parametrize("steps", [0, 1, 63, 64, 200])
def test_a_stored_tape_has_everything(steps):
    tape = taped(steps, options={"options": {"low": -0.1, "at": np.arange(2)}}, task={"level": (1, "hard")})
    tape.every, tape.fps, tape.lines = 3, 12.5, Lines(["score", "lives"])
    for step in range(steps):
        tape.lines.add(step, [f"score {step // 9}", "lives 3"])
    again = Tape.unpacked(tape.packed())
    assert (again.seed, again.task, again.every, again.fault) == (3, {"level": (1, "hard")}, 3, None)
    assert again.options["options"]["at"].tolist() == [0, 1]
    assert [again.actions[step] for step in range(steps)] == [step % 2 for step in range(steps)]
    assert len(again) == len(tape) == steps
    assert (again.fps, again.lines.names, len(again.lines)) == (12.5, ["score", "lives"], steps)
    assert [again.lines.at(step) for step in (0, steps - 1)] == [tape.lines.at(step) for step in (0, steps - 1)]
    assert again.lines.at(steps) is None and again.lines.full_at is None
    for step, check in enumerate(tape.checks):
        assert again.checks.agree(step, check)
        assert not again.checks.agree(step, check ^ 1)
    assert not again.checks.agree(steps, tape.checks[steps] ^ 2**31)  # the last one is whole
    assert not again.checks.agree(steps + 1, 0)


def test_a_stored_tape_of_cartpole_takes_less_than_two_bytes_a_step():
    random = np.random.default_rng(1)
    tape = Tape(3)
    tape.began(1)
    for _ in range(500):
        take_step(tape, random.integers(2), int(random.integers(2**32)))
    assert len(tape.packed()) < 2 * 500


def test_nothing_else_is_read_as_a_tape():
    content = taped(100).packed()
    later = content[:3] + bytes([9]) + content[4:]
    with pytest.raises(ValueError, match="version 9 of the format, this tune_media reads 3 and 4"):
        Tape.unpacked(later)
    more = content[:4] + zlib.compress(zlib.decompress(content[4:]) + bytes(8))  # an action that the header has not
    endless = b""
    for _ in range(2000):
        endless = msgpack.packb(msgpack.ExtType(1, endless))  # tuples inside each other
    deep = content[:4] + zlib.compress(len(endless).to_bytes(4, "little") + endless)
    for broken in (b"", b"TMT", b"PK12", content[:-5], content[:4] + b"xx" + content[6:], more, deep):
        with pytest.raises(ValueError, match="tape"):
            Tape.unpacked(broken)


def test_a_tape_with_a_fault_is_not_stored():
    with pytest.raises(ValueError, match="no seed"):
        Tape(None).packed()


def test_tensors_count_as_the_arrays_that_they_hold():
    torch = pytest.importorskip("torch")
    values = np.array([0.5, -2.0], np.float32)
    tensor = torch.from_numpy(values.copy()).requires_grad_()  # NumPy refuses it, as it does those on a GPU
    assert checksum({"x": tensor}) == checksum({"x": values})
    assert checksum(tensor.to(torch.bfloat16)) == checksum(values)


STORED = base64.b64decode(
    "VE1UA0gNS2JgYOhYUpyamsK+PL+gJDM/r7hhSUlicTbzqvTUvNSixJL8ouIDS1PLUosqmZblleYmpRYxLkvOSE3OLp7EwrM8MRmsp2lp"
    "cn5pXgnzkpzM7NQb7JMX22RaTDjCATQcAljfXgUyGq6yA0lGqBgaBQANZCnJ"
)
"""A tape of version 3 as it is stored: seed 7, task 3, every=2, its env's second episode, three steps."""


class Fixed:
    def reset(self, *, seed=None):
        return np.arange(3, dtype=np.float32), {}

    def step(self, action):
        return np.full(3, action, np.float32), (0.5, -1, {"left": 2.0})[action], False, action == 1, {}


def test_a_stored_tape_is_read_and_its_checksums_mean_the_same():
    tape = Tape.unpacked(STORED)
    assert (tape.seed, tape.task, tape.every, tape.number, len(tape)) == (7, 3, 2, 1, 3)
    assert (tape.lines, tape.fps) == (None, 0.0)
    assert [tape.actions[step] for step in range(3)] == [0, 1, 0]
    assert [tape.checks.agree(step, check) for step, check in enumerate((2**31, 5, 1005, 2005))] == [True] * 4
    values = [np.arange(3, dtype=np.float32), {"x": 1, "y": (0.5, None, "up", True)}, np.int64(7), 2**70]
    assert [checksum(value) for value in values] == [2408107622, 1672620874, 1987164046, 1857325266]
    env = Fixed()
    taping = TapeRecorder(env)
    env.reset(seed=1)
    for action in range(3):
        env.step(action)
    assert list(taping.tape.checks) == [2408107622, 1611454966, 169883627, 4208940872]


def test_what_is_not_known_of_a_stored_tape_is_passed_over():
    """Tapes of MuJoCo's envs had the states of the simulator."""
    content = zlib.decompress(STORED[4:])
    size = int.from_bytes(content[:4], "little")
    header = unpack(content[4 : 4 + size]) | {"states": (np.arange(2), np.zeros(2), np.zeros((2, 9)))}
    more = pack_exactly(header)
    tape = Tape.unpacked(STORED[:4] + zlib.compress(len(more).to_bytes(4, "little") + more + content[4 + size :]))
    assert tape.packed() == Tape.unpacked(STORED).packed()


@pytest.mark.parametrize(
    ("first", "last", "differs"), [(1, 2, True), (1, 1, False), (None, 2, False), (1, None, False)]
)
def test_a_tape_tells_that_its_env_had_another_task_at_the_end(first, last, differs):
    tape = Tape(3, task=first)
    tape.began(1)
    tape.last_task = last
    read = Tape.unpacked(tape.packed())
    assert (tape.has_other_task, read.has_other_task) == (differs, differs)
    assert (read.task, read.last_task) == (first, last if differs else None)
