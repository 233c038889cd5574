"""Plays an episode again from its tape, in a new env, and checks each step."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from tune_media.recording.seeding import seeded
from tune_media.replay.generators import set_states
from tune_media.replay.tape import Tape
from tune_media.replay.tape_recorder import TapeRecorder, tape_recorder_of, task_holder
from tune_media.values.secrets import error_text


class ReplayedStep(NamedTuple):
    """A step of a replayed episode that is the same as in the episode itself."""

    step: int  # env steps since the reset; 0: the reset
    action: Any  # None at the reset
    observation: Any
    info: Any
    reward: Any = 0.0  # 0 after the reset; with several agents, a dict by agent


class ReplayDiffers(Exception):
    """The env did not repeat the episode."""

    def __init__(self, text: str, step: int = 0) -> None:
        super().__init__(text)
        self.step = step  # the first step that differs; 0: the reset. The last one, if it is only known that one does
        self.is_refused = False  # the system did not let the env do something, such as write a file

    @classmethod
    def at(cls, step: int, difference: str) -> ReplayDiffers:
        """Return the error of a step; ``difference`` continues «the replay»."""
        return cls(f"at {'the reset' if step == 0 else f'step {step}'}, the replay {difference}", step)


class RenderError(Exception):
    """A tape cannot be rendered."""

    def __init__(
        self,
        text: str,
        step: int | None = None,
        *,
        has_died: bool = False,
        is_of_env: bool | None = None,
        touches: bool = False,
    ) -> None:
        super().__init__(text)
        self.step = step  # the first step that differs from the episode, or None for another reason
        self.has_died = has_died  # the process that renders died of it, which does not show that the env cannot play
        self.is_of_env = not has_died if is_of_env is None else is_of_env  # the env cannot play its episodes again
        self.touches = touches  # the env was about to change something outside, and was ended before


def replay(env: Any, tape: Tape) -> Iterator[ReplayedStep]:
    """Play an episode again; yield its reset and each step, found to be the same, while the env shows its frame.

    The env must be like the one that was taped, and be stepped by no other code. Raises ReplayDiffers.
    """
    if tape.fault is not None:
        raise ReplayDiffers.at(len(tape), f"is impossible: {tape.fault}")
    taping = recorder_on(env)
    with env_at(0):
        observation, info = reset_as_taped(env, tape)
    compare_step(taping, tape, 0)
    yield ReplayedStep(0, None, observation, info)
    for step in range(1, len(tape) + 1):
        action = tape.actions[step - 1]
        with env_at(step):
            observation, reward, _, _, info = env.step(tape.actions[step - 1])
        compare_step(taping, tape, step)
        yield ReplayedStep(step, action, observation, info, reward)


def recorder_on(env: Any) -> TapeRecorder:
    """Return the tape recorder of an env, a new one if it has none."""
    return tape_recorder_of(env) or TapeRecorder(env)


def reset_as_taped(env: Any, tape: Tape) -> Any:
    """Reset an env as that of a tape was: with its task, its generators, its seed and its options."""
    holder = task_holder(env)
    if holder is not None and tape.task is not None:
        holder.set_task(tape.task)
    resets = seeded(env)
    if resets is not None and tape.seed is not None:
        resets.next = tape.seed
    if tape.generators:
        set_states(env, tape.generators)
    return env.reset(seed=tape.seed, **tape.options)


def compare_step(taping: TapeRecorder, tape: Tape, step: int) -> None:
    """Raise ``ReplayDiffers`` if the step that an env has made is not that of a tape."""
    replayed = taping.tape
    if replayed is None or len(replayed.checks) <= step or not tape.checks.agree(step, replayed.checks[step]):
        parts = "observation" if step == 0 else "observation, reward or end"
        raise ReplayDiffers.at(step, f"has another {parts}")


@contextlib.contextmanager
def env_at(step: int) -> Iterator[None]:
    """Turn an exception of the env into a difference."""
    try:
        yield
    except Exception as error:
        differs = ReplayDiffers.at(step, f"raised {error_text(error)}")
        differs.is_refused = isinstance(error, PermissionError)
        raise differs from error


def random_step(env: Any, observation: Any) -> Any:
    """Take a random step, and reset the env if the episode is over; return the observation of those who act next."""
    spaces = getattr(env, "action_spaces", None) or {}
    if spaces and isinstance(observation, dict):
        action = {agent: spaces[agent].sample() for agent in observation}  # RLlib's multi-agent envs
    else:
        action = env.action_space.sample()
    observation, _, *over = env.step(action)[:4]
    if any(flag.get("__all__") if isinstance(flag, dict) else flag for flag in over):
        return env.reset()[0]
    if spaces and isinstance(observation, dict):  # agents that have left must not act
        return {agent: value for agent, value in observation.items() if not any(flags.get(agent) for flags in over)}
    return observation
