"""The same evaluation episodes in every trial: seeds that every reset of an env takes in turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tune_media.recording.rendering import inside


class SeedTurns:
    """The seeds of one sub-env, used in turn, also by an env that replaces a failed one."""

    def __init__(self, seeds: Sequence[int]) -> None:
        self.seeds = tuple(seeds)
        self._next = 0
        self._resets = 0  # of the env that is used now
        self._failures = 0  # envs in succession that were replaced in their first episode

    def next_seed(self) -> int | None:
        """Return the seed of the next reset, or None if the envs failed with each of the seeds, one after the other."""
        self._resets += 1
        if self.have_all_failed:
            return None
        self._next += 1
        return self.seeds[(self._next - 1) % len(self.seeds)]

    @property
    def have_all_failed(self) -> bool:
        """Whether the env was replaced with each of the seeds, so that they would only let it fail again."""
        return self._failures >= len(self.seeds)

    def go_on_with_new_env(self) -> None:
        """The env was made, for the first time or because the last one failed."""
        if self._resets:
            self._failures = self._failures + 1 if self._resets == 1 else 1
        self._resets = 0

    def start_over(self) -> None:
        """Begin with the first seed again: a new evaluation starts."""
        self._next = self._resets = self._failures = 0


class SeededResets:
    """Replaces the ``reset`` on an env object: each gets the next of its seeds, whatever seed the caller passes."""

    def __init__(self, env: Any, seeds: Sequence[int] | SeedTurns) -> None:
        self.turns = seeds if isinstance(seeds, SeedTurns) else SeedTurns(seeds)
        self.turns.go_on_with_new_env()
        self.last: int | None = None  # the seed of the last reset, or None if it was given none, or there was no reset
        self.next: int | None = None  # the next reset gets this seed instead: an episode is played again
        self._reset = env.reset
        env.reset = self
        env.tune_media_seeds = self

    def __call__(self, *, seed: int | None = None, options: dict[str, Any] | None = None, **kwargs: Any) -> Any:
        """Reset the env with the next seed."""
        self.last, self.next = self.turns.next_seed() if self.next is None else self.next, None
        return self._reset(seed=seed if self.last is None else self.last, options=options, **kwargs)


def seeded(env: Any) -> SeededResets | None:
    """Return the seeds that the resets of an env, or of one inside it, take, or None if it has none."""
    hooks = (getattr(candidate, "__dict__", {}).get("tune_media_seeds") for candidate in inside(env))
    return next((hook for hook in hooks if hook is not None), None)


def share(seeds: Sequence[int], runner: int, runners: int, index: int, sub_envs: int) -> tuple[int, ...]:
    """Return the seeds of one sub-env, so that those of all env runners, counted from 0, take turns over all seeds."""
    places = max(1, runners * sub_envs)
    place = runner * sub_envs + index
    return tuple(seeds[(place + turn * places) % len(seeds)] for turn in range(len(seeds)))
