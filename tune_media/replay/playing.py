"""How a policy is played, whatever library it is of: the settings, and the state of the process while it plays."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tune_media.recording.rendering import Renderer
from tune_media.recording.success import EARLY, Success, SuccessReader
from tune_media.replay.prefix import ForkPoint, Prefix
from tune_media.replay.tape import are_equal, checksum
from tune_media.values.convert import as_array
from tune_media.values.episode_record import EpisodeRecord
from tune_media.values.medium import joined
from tune_media.values.options import VideoOptions

_TOLERANCE = 1e-4  # of actions that are floats, relative to the largest number of the action
EVALUATED, TRAINED = CONNECTORS = ("evaluation", "training")  # the env runner whose connectors play


class CheckpointError(Exception):
    """A checkpoint cannot be played; the message says why, and names the remedy."""


class UnclearSuccess(CheckpointError):
    """The value that should say whether an episode succeeded says neither; the message names it, and the remedy."""


@dataclass(frozen=True)
class PlayerSettings:
    """How the policy of a checkpoint is played."""

    explore: bool | None = None  # by default, as in the evaluations of the training
    connectors: str | None = None  # ``evaluation`` or ``training``; by default, those of evaluations, if there are any
    env: Callable[[Any], Any] | None = None  # makes the envs instead: a function of the ``env_config``
    env_config: Mapping[str, Any] = field(default_factory=dict)  # keys that have other values
    success: Success | None = None  # as of ``record_episodes``; by default, as in the training
    success_when: str | None = None  # in the same way
    fork: ForkPoint | None = None  # the episode that it continues, in that env; a seed is a continuation's number
    video: VideoOptions | None = None  # how clips will be made, for overlay functions, which are called while it plays


@dataclass(frozen=True)
class PlayedAs:
    """The circumstances in which a checkpoint was played."""

    explore: bool | None  # or None if not known, since it is not RLlib's
    connectors: str | None  # ``evaluation`` or ``training``, or None if it has none of RLlib's
    note: str | None = None  # why the trial's own numbers, or the policy as it was trained, may differ

    digest: str | None = None  # of the checkpoint's content; None: nobody noted it

    def noted(self, success: SuccessReader) -> PlayedAs:
        """Return it with what is odd about successes. Raises UnclearSuccess."""
        if success.unclear is not None:
            raise UnclearSuccess(success.unclear)
        return self if success.early is None or self.early else replace(self, note=joined(self.note, success.early))

    @property
    def early(self) -> str | None:
        """That episodes were a success at their start, if they were."""
        return EARLY if EARLY in (self.note or "") else None

    def after(self, before: PlayedAs | None) -> PlayedAs:
        """Return it with the note of earlier episodes of the same checkpoint, if that says more."""
        return self if before is None or self.early else replace(self, note=before.note or self.note)


class Trace:
    """The checksums of the observations that a policy saw in an episode, and its actions."""

    def __init__(self) -> None:
        self._steps: list[tuple[int, Any]] = []
        self.error: str | None = None  # why it has not the whole episode

    def watched(self, policy: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return a policy that acts like this one, and notes each step."""

        def act(observation: Any) -> Any:
            seen = checksum(observation)  # before the policy changes it
            action = policy(observation)
            self._steps.append((seen, _copied(action)))
            return action

        return act

    def compared(self, again: Trace) -> tuple[int | None, int | None]:
        """Return the first step at which the action differs, or fails, after equal observations, or the observation.

        Both are None if the traces are equal, or if almost equal actions may be why an observation differs.
        """
        if again.error is not None:
            return len(again._steps), None
        is_exact = True
        for step, ((seen, action), (seen_again, other)) in enumerate(zip(self._steps, again._steps, strict=False)):
            if seen != seen_again:
                return None, step if is_exact else None
            if not are_equal(action, other, _TOLERANCE):
                return step, None
            is_exact = is_exact and are_equal(action, other)
        steps = {len(self._steps), len(again._steps)}
        return None, min(steps) if is_exact and len(steps) > 1 else None


def _copied(action: Any) -> Any:
    """Return a copy of an action: dicts and lists of arrays."""
    if isinstance(action, Mapping):
        return {key: _copied(action[key]) for key in action}
    return [_copied(part) for part in action] if isinstance(action, (tuple, list)) else np.array(as_array(action))


@contextlib.contextmanager
def same_process_state() -> Iterator[None]:
    """Restore Python's, NumPy's and torch's generators, and torch's threads, after a ``with`` block."""
    torch = sys.modules.get("torch")
    of_python, of_numpy = random.getstate(), np.random.get_state()
    if torch is not None:
        of_torch, threads = torch.get_rng_state(), torch.get_num_threads()
        torch.set_num_threads(1)  # as in RLlib's env runners: with several, sums are rounded differently
    try:
        yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)
        if torch is not None:
            torch.set_rng_state(of_torch)
            torch.set_num_threads(threads)


def on_fork(record: EpisodeRecord, prefix: Prefix) -> EpisodeRecord:
    """Return the record of an episode that continues another one: in the same place, and with a note."""
    env_runner, env_index = prefix.point.place
    note = joined(record.note, *prefix.notes)
    return replace(record, env_runner=env_runner, env_index=env_index, note=note)


def fps_of(env: Any) -> float:
    """Return the frames per second that an env states now."""
    return Renderer(env).fps(0)


def seed_everything(seed: int) -> None:
    """Seed the generators of Python and NumPy, and of torch if it is loaded."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(seed)
