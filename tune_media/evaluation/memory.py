"""Whether a policy of another library remembers earlier episodes: how it is told that another one begins."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tune_media.replay import playing
from tune_media.values.medium import joined
from tune_media.values.problems import argument, remedy

PROBED = 2  # seeds, of which the first one is played again

LoadPolicy = Callable[[str], Callable[[Any], Any]]
"""Loads the policy of a checkpoint's folder: a function of an observation that returns an action."""


@dataclass(frozen=True)
class Manner:
    """How policies are told that an episode begins."""

    is_loaded_anew: bool = False  # for each episode; otherwise ``reset()`` is called if there is one
    note: str | None = None  # for a reader
    error: str | None = None  # why none of their episodes counts


@dataclass
class PolicyLoader:
    """Loads the policies of one side of a command; the first one that plays decides their manner.

    A fork loads a policy for each continuation, so it gives the manner.
    """

    load: LoadPolicy
    is_stochastic: bool = False  # a policy may draw numbers that no seed decides
    manner: Manner | None = None  # None: no policy has played yet

    @property
    def note(self) -> str | None:
        """What a reader must know of the manner."""
        return None if self.manner is None else self.manner.note


def reset_of(policy: Any) -> tuple[Callable[[], Any] | None, str | None]:
    """Return the ``reset`` of a policy, or of the object whose method it is, if it is called, and a note on it."""
    resets = [getattr(owner, "reset", None) for owner in (policy, getattr(policy, "__self__", None))]
    reset = next(filter(callable, resets), None)
    if reset is None:
        return None, None
    name = getattr(reset, "__qualname__", type(reset).__name__)
    with contextlib.suppress(ValueError):  # of a function in C: what it takes is not known
        signature = inspect.signature(reset)
        try:
            signature.bind()
        except TypeError:
            return None, f"{name}{signature} of the policy takes arguments, so it is not called before each episode"
    return reset, f"{name}() of the policy is called before each episode"


def manner_of(loader: PolicyLoader, seed: int, traces: Sequence[playing.Trace], note: str | None) -> Manner:
    """Return the manner that plays of one seed show: two of a policy that played others between, and one loaded anew.

    The last one is only there if the first two have different actions. ``note`` is of the policy itself.
    """
    actions, observations = zip(*(traces[0].compared(trace) for trace in traces[1:]), strict=True)
    again, notes, error = f"when seed {seed} was played again, at step", [note], None
    if actions[0] is not None:
        failed = traces[1].error and f"the policy failed in its second episode ({traces[1].error})"
        acted = failed or f"the policy acted otherwise {again} {actions[0]}"
        notes.append(f"{acted}: without reset(), it is loaded for each episode")
    if observations[-1] is not None:
        differs = f"the env gave another observation {again} {observations[-1]}"
        notes.append(f"{differs}, so it is not known whether the policy remembers earlier episodes")
    if len(actions) > 1 and actions[1] is not None and not loader.is_stochastic:
        draws = "the policy draws numbers of its own, or its loader returns the same one again: loaded anew, it acted"
        seeded = (
            "Give it a reset(), draw from random, numpy.random or torch, which are seeded for each episode, or pass "
        )
        error = f"{draws} otherwise {again} {actions[1]}. " + remedy(
            seeded + argument("stochastic=True, or --stochastic")
        )
    return Manner(actions[0] is not None, joined(*notes) if error is None else None, error)
