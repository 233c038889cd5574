"""Plays an episode again from its tape, in an env of its own, and checks each step."""

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
    """A step of a replayed episode that is the same as in the episode itself.

    Attributes:
        step: Env steps since the reset; 0: the reset.
        action: The action that led to it; None at the reset.
        observation: The observation after it.
        info: The info after it.
        reward: The reward of the step; 0 at the reset. With several agents, a dict by agent.
    """

    step: int
    action: Any
    observation: Any
    info: Any
    reward: Any = 0.0


class ReplayDiffers(Exception):
    """The env did not repeat the episode.

    Attributes:
        step: The first step that differs; 0: the reset. The last one, if it is only known that one does.

    Example:
        >>> print(ReplayDiffers(17, "has another observation"))
        at step 17, the replay has another observation
    """

    def __init__(self, step: int, text: str, *, is_told: bool = False) -> None:
        super().__init__(text if is_told else f"at {'the reset' if step == 0 else f'step {step}'}, the replay {text}")
        self.step = step


class RenderError(Exception):
    """A tape cannot be rendered.

    Attributes:
        step: The first step that differs from the episode; None: there is another reason.
        has_died: Whether the process that renders died of it.
        is_of_env: Whether the env cannot play its episodes again. A process that died does not tell that.
    """

    def __init__(
        self, text: str, step: int | None = None, *, has_died: bool = False, is_of_env: bool | None = None
    ) -> None:
        super().__init__(text)
        self.step, self.has_died = step, has_died
        self.is_of_env = not has_died if is_of_env is None else is_of_env


def replay(env: Any, tape: Tape) -> Iterator[ReplayedStep]:
    """Play an episode again, step by step; while a step is held, the env shows its frame.

    Args:
        env: An env like the one that was taped, made with the same arguments. Nobody else may step it.

    Yields:
        The reset and each step, after it has been found to be the same.

    Raises:
        ReplayDiffers: A step is not the same, or the env fails.
    """
    if tape.fault is not None:
        raise ReplayDiffers(len(tape), f"is impossible: {tape.fault}")
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
    own = seeded(env)
    if own is not None and tape.seed is not None:
        own.give_next(tape.seed)
    if tape.generators:
        set_states(env, tape.generators)
    return env.reset(seed=tape.seed, **tape.options)


def compare_step(taping: TapeRecorder, tape: Tape, step: int) -> None:
    """Raise ``ReplayDiffers`` if the step that an env has made is not that of a tape."""
    replayed = taping.tape
    if replayed is None or len(replayed.checks) <= step or not tape.checks.agree(step, replayed.checks[step]):
        what = "observation" if step == 0 else "observation, reward or end"
        raise ReplayDiffers(step, f"has another {what}")


@contextlib.contextmanager
def env_at(step: int) -> Iterator[None]:
    """Turn an exception of the env into a difference."""
    try:
        yield
    except Exception as error:
        raise ReplayDiffers(step, f"raised {error_text(error)}") from error


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
