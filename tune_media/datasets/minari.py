"""Makes a Minari dataset of the steps of episodes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tune_media.datasets.episode_steps import EpisodeSteps


def buffers_of(episodes: Iterable[EpisodeSteps]) -> list[Any]:
    """Return Minari's buffers of episodes.

    Raises:
        ImportError: Minari is not installed.
    """
    from minari.data_collector import EpisodeBuffer

    buffers: list[Any] = []
    for episode in episodes:
        before_the_end, is_terminated = [False] * (len(episode.actions) - 1), episode.is_terminated
        buffers.append(
            EpisodeBuffer(
                id=len(buffers),
                seed=episode.seed,
                observations=episode.observations,
                actions=episode.actions,
                rewards=list(episode.rewards),
                terminations=[*before_the_end, is_terminated],
                truncations=[*before_the_end, not is_terminated],
                infos={},
            )
        )
    return buffers
