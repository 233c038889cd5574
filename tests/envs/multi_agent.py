"""Counting envs with several agents: RLlib's own interface, and PettingZoo's two."""

from __future__ import annotations

import numpy as np
from pettingzoo import AECEnv, ParallelEnv
from ray.rllib.env.multi_agent_env import MultiAgentEnv

from tests.envs.counting import Counter, CountingEnv

AGENTS = ("left", "right")
SPACE, ACTIONS = CountingEnv.observation_space, CountingEnv.action_space
OBSERVATION = np.zeros(2, np.float32)


class MultiAgentCountingEnv(MultiAgentEnv):
    """Two agents that share the reward; each can be rendered."""

    metadata = CountingEnv.metadata
    render_mode = "rgb_array"

    def __init__(self, config: dict | None = None) -> None:
        super().__init__()
        self.counter = Counter(config)
        self.agents = self.possible_agents = list(AGENTS)
        self.observation_spaces = dict.fromkeys(AGENTS, SPACE)
        self.action_spaces = dict.fromkeys(AGENTS, ACTIONS)
        self._agent_ids = set(AGENTS)
        self.observation_space, self.action_space = SPACE, ACTIONS

    def reset(self, *, seed=None, options=None):
        self.counter.reset(seed)
        return dict.fromkeys(AGENTS, OBSERVATION), {agent: {} for agent in AGENTS}

    def step(self, actions):
        reward, over = self.counter.step()
        done = {**dict.fromkeys(AGENTS, over), "__all__": over}
        rewards = dict.fromkeys(AGENTS, reward / 2)
        not_cut = {**dict.fromkeys(AGENTS, False), "__all__": False}
        return dict.fromkeys(AGENTS, OBSERVATION), rewards, done, not_cut, {agent: {} for agent in AGENTS}

    def render(self):
        return self.counter.render()

    def render_agents(self):
        """Return a frame for each agent."""
        return {agent: self.counter.render(place + 1).copy() for place, agent in enumerate(AGENTS)}


class SameSpaces:
    """What PettingZoo asks of an env whose agents are all alike."""

    def observation_space(self, agent):
        return SPACE

    def action_space(self, agent):
        return ACTIONS


class ParallelCountingEnv(SameSpaces, ParallelEnv):
    """PettingZoo, all agents at once."""

    metadata = {**CountingEnv.metadata, "name": "counting", "is_parallelizable": True}  # noqa: RUF012
    render_mode = "rgb_array"

    def __init__(self, config: dict | None = None) -> None:
        self.counter = Counter(config)
        self.possible_agents = list(AGENTS)
        self.agents = list(AGENTS)

    def reset(self, seed=None, options=None):
        self.agents = list(AGENTS)
        self.counter.reset(seed)
        return dict.fromkeys(AGENTS, OBSERVATION), {agent: {} for agent in AGENTS}

    def step(self, actions):
        reward, over = self.counter.step()
        if over:
            self.agents = []
        return (
            dict.fromkeys(AGENTS, OBSERVATION),
            dict.fromkeys(AGENTS, reward / 2),
            dict.fromkeys(AGENTS, over),
            dict.fromkeys(AGENTS, False),
            {agent: {} for agent in AGENTS},
        )

    def render(self):
        return self.counter.render()


class TurnsCountingEnv(SameSpaces, AECEnv):
    """PettingZoo, one agent after the other; each turn is a step."""

    metadata = {**CountingEnv.metadata, "name": "counting_turns"}  # noqa: RUF012
    render_mode = "rgb_array"

    def __init__(self, config: dict | None = None) -> None:
        super().__init__()
        self.counter = Counter(config)
        self.possible_agents = list(AGENTS)
        self.agents = list(AGENTS)

    def observe(self, agent):
        return OBSERVATION

    def reset(self, seed=None, options=None):
        self.agents = list(AGENTS)
        self.counter.reset(seed)
        self.agent_selection = AGENTS[0]
        self.rewards = dict.fromkeys(AGENTS, 0.0)
        self._cumulative_rewards = dict.fromkeys(AGENTS, 0.0)
        self.terminations = dict.fromkeys(AGENTS, False)
        self.truncations = dict.fromkeys(AGENTS, False)
        self.infos = {agent: {} for agent in AGENTS}

    def step(self, action):
        if self.terminations[self.agent_selection]:
            self._was_dead_step(action)
            return
        agent = self.agent_selection
        self._cumulative_rewards[agent] = 0.0
        reward, over = self.counter.step()
        self.rewards = {other: reward if other == agent else 0.0 for other in AGENTS}
        self.terminations = dict.fromkeys(AGENTS, over)
        self.agent_selection = AGENTS[1 - AGENTS.index(agent)]
        self._accumulate_rewards()

    def render(self):
        return self.counter.render()
