"""Counting envs with several agents: RLlib's own interface, and PettingZoo's two."""

from __future__ import annotations

import numpy as np
from pettingzoo import AECEnv, ParallelEnv
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv, PettingZooEnv

from tests.support.envs.counting import Counter, CountingEnv

AGENTS = ("left", "right")
GUEST = "guest"
SPACE, ACTIONS = CountingEnv.observation_space, CountingEnv.action_space
OBSERVATION = np.zeros(2, np.float32)


class Roaming:
    """Which agents are there: ``left`` may leave at a random step, ``guest`` joins at one, and ``right`` stays."""

    def __init__(self, counter: Counter, *, leaves: bool = True) -> None:
        self._counter = counter
        self.present = list(AGENTS)
        self._leaves_at, self._joins_at = (int(counter._rng.integers(1, counter.length)) for _ in range(2))
        if not leaves:
            self._leaves_at = counter.length

    def step(self, reward: float, over: bool) -> tuple[dict, dict, dict, dict, dict]:
        """Let agents leave and join after a step; return observations, rewards, terminations, truncations, infos."""
        step, acting = self._counter.step_count, list(self.present)
        leaving = [agent for agent in acting if over or (agent == "left" and step == self._leaves_at)]
        joining = [GUEST] if step == self._joins_at and not over else []
        self.present = [agent for agent in acting if agent not in leaving] + joining
        seen = acting + joining
        return (
            dict.fromkeys(seen, OBSERVATION),
            dict.fromkeys(acting, reward / len(acting)),
            {agent: agent in leaving for agent in seen},
            dict.fromkeys(seen, False),
            {agent: {} for agent in seen},
        )


class MultiAgentCountingEnv(MultiAgentEnv):
    """Agents that come and go and share the reward; two of them can be rendered."""

    metadata = CountingEnv.metadata
    render_mode = "rgb_array"

    def __init__(self, config: dict | None = None) -> None:
        super().__init__()
        self.counter = Counter(config)
        self.agents, self.possible_agents = list(AGENTS), [*AGENTS, GUEST]
        self.observation_spaces = dict.fromkeys(self.possible_agents, SPACE)
        self.action_spaces = dict.fromkeys(self.possible_agents, ACTIONS)
        self._agent_ids = set(self.possible_agents)
        self.observation_space, self.action_space = SPACE, ACTIONS

    def reset(self, *, seed=None, options=None):
        self.counter.reset(seed)
        self.roaming = Roaming(self.counter)
        self.agents = list(AGENTS)
        return dict.fromkeys(AGENTS, OBSERVATION), {agent: {} for agent in AGENTS}

    def step(self, actions):
        assert set(actions) == set(self.roaming.present)
        reward, over = self.counter.step()
        observations, rewards, terminated, truncated, infos = self.roaming.step(reward, over)
        self.agents = list(observations)  # those that leave with this step included
        return observations, rewards, {**terminated, "__all__": over}, {**truncated, "__all__": False}, infos

    def render(self):
        return self.counter.render()

    def render_agents(self):
        """Return a frame for each of two agents."""
        return {agent: self.counter.render(place + 1).copy() for place, agent in enumerate(AGENTS)}


class SameSpaces:
    """What PettingZoo asks of an env whose agents are all alike."""

    def observation_space(self, agent):
        return SPACE

    def action_space(self, agent):
        return ACTIONS


class ParallelCountingEnv(SameSpaces, ParallelEnv):
    """PettingZoo, all agents at once. RLlib's wrapper must know the guest from the start: it waits in ``agents``."""

    metadata = {**CountingEnv.metadata, "name": "counting", "is_parallelizable": True}  # noqa: RUF012
    render_mode = "rgb_array"

    def __init__(self, config: dict | None = None) -> None:
        self.counter = Counter(config)
        self.possible_agents = [*AGENTS, GUEST]
        self.agents = list(self.possible_agents)

    def reset(self, seed=None, options=None):
        self.agents = list(self.possible_agents)
        self.counter.reset(seed)
        self.roaming = Roaming(self.counter)
        return dict.fromkeys(AGENTS, OBSERVATION), {agent: {} for agent in AGENTS}

    def step(self, actions):
        reward, over = self.counter.step()
        result = self.roaming.step(reward, over)
        self.agents = [agent for agent in self.agents if not result[2].get(agent)]
        return result

    def render(self):
        return self.counter.render()


class EndingEnv(ParallelCountingEnv):
    """Two agents, who both stay, and whose own flags say how the episode ends: config ``ends_by_truncation``."""

    def __init__(self, config: dict | None = None) -> None:
        super().__init__(config)
        self.possible_agents = list(AGENTS)
        self.agents = list(AGENTS)

    def step(self, actions):
        reward, over = self.counter.step()
        no, yes = dict.fromkeys(AGENTS, False), dict.fromkeys(AGENTS, over)
        self.agents = [] if over else list(AGENTS)
        terminated, truncated = (no, yes) if self.counter.config["ends_by_truncation"] else (yes, no)
        seen = dict.fromkeys(AGENTS, OBSERVATION)
        return seen, dict.fromkeys(AGENTS, reward), terminated, truncated, {agent: {} for agent in AGENTS}


class TurnsCountingEnv(SameSpaces, AECEnv):
    """PettingZoo, one agent after the other; each turn is a step. The guest gets no turn until it joins.

    No agent leaves: RLlib would then hand its wrapper no action of the agent whose turn it is (``KeyError``).
    """

    metadata = {**CountingEnv.metadata, "name": "counting_turns"}  # noqa: RUF012
    render_mode = "rgb_array"

    def __init__(self, config: dict | None = None) -> None:
        super().__init__()
        self.counter = Counter(config)
        self.possible_agents = [*AGENTS, GUEST]
        self.agents = list(self.possible_agents)

    def observe(self, agent):
        return OBSERVATION

    def reset(self, seed=None, options=None):
        self.agents = list(self.possible_agents)
        self.counter.reset(seed)
        self.roaming = Roaming(self.counter, leaves=False)
        self.agent_selection = AGENTS[0]
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}

    def step(self, action):
        if self.terminations[self.agent_selection]:
            self._was_dead_step(action)
            return
        agent = self.agent_selection
        self._cumulative_rewards[agent] = 0.0
        reward, over = self.counter.step()
        taking_turns = self.roaming.present
        following = taking_turns[(taking_turns.index(agent) + 1) % len(taking_turns)]
        self.roaming.step(reward, over)
        self.rewards = {other: reward if other == agent else 0.0 for other in self.agents}
        self.terminations = dict.fromkeys(self.agents, over)
        self.agent_selection = following
        self._accumulate_rewards()
        self._deads_step_first()

    def render(self):
        return self.counter.render()


def made(name, config):
    env = globals()[name](config)
    wrap = {ParallelEnv: ParallelPettingZooEnv, AECEnv: PettingZooEnv}
    return next((wrapper(env) for kind, wrapper in wrap.items() if isinstance(env, kind)), env)
