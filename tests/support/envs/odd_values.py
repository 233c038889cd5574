"""A multi-agent env whose infos hold values that are easy to lose, and that writes them to a file of its own."""

from __future__ import annotations

import numpy as np

from tests.support.envs.multi_agent import AGENTS, MultiAgentCountingEnv, Roaming

LARGE = 2**62


class OddValuesEnv(MultiAgentCountingEnv):
    """One agent's info and ``__common__`` have values; each finished episode is a file in ``log_dir``."""

    def reset(self, *, seed=None, options=None):
        self.told = {"map": [], "seen": [], "ids": [], "speeds": []}
        found = super().reset(seed=seed, options=options)
        self.roaming = Roaming(self.counter, leaves=False)  # the first agent's info has the values of every step
        return found

    def step(self, actions):
        observations, rewards, done, cut, infos = super().step(actions)
        step = self.counter.step_count
        table = np.full((4, 6), step, np.uint8)
        told = {"map": table.tolist(), "seen": list(range(step % 3)), "ids": LARGE + step, "speeds": step / 3}
        for name, value in told.items():
            self.told[name].append(value)
        infos[AGENTS[0]] = {
            "media": {"map": table, "seen": told["seen"]},
            "data": {"running": {"speed": told["speeds"]}, "final": {"speed_avg": 99.0, "goals": step}},
        }
        infos["__common__"] = {"media": {"ids": told["ids"]}, "data": {"final": {"code": LARGE + step}}}
        if done["__all__"]:
            self.counter.write(self.told, ".told")
        return observations, rewards, done, cut, infos
