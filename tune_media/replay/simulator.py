"""The state of a physics simulator, MuJoCo's, beside the actions of a tape.

On a machine with other arithmetic, a replay drifts away from the episode. With the simulator's state at the reset and
at every 100th step, it can be set back to the episode each time, if it has not gone far by then.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

STRIDE = 100
"""After so many steps the state is on the tape again. It is, too, after the reset and after the episode's last step."""
_NEAR = 0.02  # how far a replay may be off when it gets to a state, absolutely and relative to each number

State = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Simulator:
    """The simulator that an env has.

    Attributes:
        env: The env, which has ``model`` and ``data``; it may make new ones at a reset.
    """

    env: Any

    @classmethod
    def of(cls, env: Any) -> Simulator | None:
        """Return the simulator of an env, or of the env inside its wrappers; None if it has none that is known."""
        core = getattr(env, "unwrapped", env)
        own, mujoco = getattr(core, "__dict__", {}), sys.modules.get("mujoco")
        kinds = {"model": getattr(mujoco, "MjModel", ()), "data": getattr(mujoco, "MjData", ())}  # not those of MJX
        return cls(core) if all(isinstance(own.get(name), kind) for name, kind in kinds.items()) else None

    def state(self) -> State:
        """Return all that its next step depends on."""
        mujoco = sys.modules["mujoco"]
        kind = mujoco.mjtState.mjSTATE_INTEGRATION
        state = np.empty(mujoco.mj_stateSize(self.env.model, kind))
        mujoco.mj_getState(self.env.model, self.env.data, state, kind)
        return state

    def set(self, state: State) -> None:
        """Give it a state that ``state`` returned."""
        mujoco = sys.modules["mujoco"]
        mujoco.mj_setState(self.env.model, self.env.data, state, mujoco.mjtState.mjSTATE_INTEGRATION)


def has_ended(terminated: Any, truncated: Any) -> bool:
    """Return whether a step has ended its episode; of several agents, that of all.

    >>> has_ended(np.True_, False), has_ended({"a": False}, {"a": False}), has_ended({"__all__": True}, {})
    (True, False, True)
    """
    if terminated is False and truncated is False:
        return False
    if isinstance(terminated, dict) and isinstance(truncated, dict):
        if "__all__" in terminated or "__all__" in truncated:
            return bool(terminated.get("__all__") or truncated.get("__all__"))
        return bool(terminated) and all(flag or truncated.get(agent) for agent, flag in terminated.items())
    return any(type(flag) in (bool, np.bool_) and bool(flag) for flag in (terminated, truncated))


class States:
    """The states of an episode's simulator, each with the sum of the rewards so far.

    Attributes:
        steps: The step of each; 0: the reset.
        totals: The sum of the rewards until then.
    """

    def __init__(self) -> None:
        self.steps: list[int] = []
        self.totals: list[float] = []
        self.values: list[State] = []

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def nbytes(self) -> int:
        """The memory that they take."""
        return sum(value.nbytes for value in self.values)

    def add(self, step: int, total: float, state: State) -> None:
        """Add a state."""
        self.steps.append(step)
        self.totals.append(total)
        self.values.append(state)

    def at(self, step: int) -> tuple[float, State] | None:
        """Return the sum of the rewards and the state after a step; None if it is not known."""
        if step not in self.steps:
            return None
        number = self.steps.index(step)
        return self.totals[number], self.values[number]

    def packed(self) -> Any:
        """Return them as plain data; None if there are none."""
        if not self.steps:
            return None
        return np.array(self.steps), np.array(self.totals), np.array(self.values)

    @classmethod
    def unpacked(cls, packed: Any) -> States:
        """Return what ``packed`` was called on.

        Raises:
            ValueError: It is something else.
        """
        states = cls()
        if packed is not None:
            steps, totals, values = packed
            if values.ndim != 2 or not len(steps) == len(totals) == len(values):
                raise ValueError("these are no states of a simulator")
            states.steps, states.totals, states.values = steps.tolist(), totals.tolist(), list(values)
        return states


class Corrections:
    """Sets a replay's simulator to the states of the episode, as long as the replay has come near to each by itself.

    Attributes:
        farthest: How far the replay was off at most when it came to a state.
    """

    def __init__(self, simulator: Simulator, states: States) -> None:
        self._simulator, self._states = simulator, states
        self._offset = 0.0  # between the sums of the rewards of the replay and of the episode
        self.farthest = 0.0

    def correct(self, step: int, own: States) -> str | None:
        """Set the simulator, if the state after a step is known; return why it is too far away, or None.

        Args:
            own: The states of the replay itself.
        """
        recorded, replayed = self._states.at(step), own.at(step)
        if recorded is None:
            return None
        if replayed is None or replayed[1].shape != recorded[1].shape:
            return "has another simulator"
        (total, state), (own_total, own_state) = recorded, replayed
        off = float(np.max(np.abs(state - own_state) / (1 + np.abs(state)), initial=0.0))
        reward_off = abs(own_total - total - self._offset) / (1 + abs(total))
        if not (off <= _NEAR and reward_off <= _NEAR):  # one may be NaN
            return f"is off by {np.maximum(off, reward_off):.2g} there, too far for the same episode"
        self.farthest, self._offset = max(self.farthest, off), own_total - total
        self._simulator.set(state)
        return None
