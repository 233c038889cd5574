"""The return of each agent of a multi-agent episode: the sum over all agents says nothing in a zero-sum game."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

MAX_AGENTS = 64
"""The most agents whose returns are kept: each becomes a number of every episode."""


def agent_returns(
    episode: Any, earlier_chunks: Sequence[Any] = (), rewards: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Return the metrics ``return/<agent>`` of a finished episode; empty for a single-agent episode.

    ``rewards`` are the sums that the env gave each agent. RLlib's chunks miss rewards that an agent gets before its
    first turn, or between its turns if RLlib cuts the episode there.
    """
    returns: dict[str, float] = {}
    if hasattr(episode, "agent_rewards"):  # the old API stack, by agent and policy
        for (agent, _), reward in episode.agent_rewards.items():
            returns[str(agent)] = returns.get(str(agent), 0.0) + float(reward)
        if set(returns) == {"agent0"}:  # its name of the only agent of a single-agent env
            return {}
    elif hasattr(episode, "agent_episodes"):
        for chunk in (*earlier_chunks, episode):
            for agent, agent_episode in chunk.agent_episodes.items():
                returns[str(agent)] = returns.get(str(agent), 0.0) + float(agent_episode.get_return())
    returns |= rewards or {}
    return {f"return/{agent}": value for agent, value in list(returns.items())[:MAX_AGENTS]}
