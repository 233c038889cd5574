"""A multi-agent env with a view for each agent: a hunter follows its prey on a field.

You see two clips for each kept episode, the whole field and the part around the hunter; the best episodes of the hunter
and of the prey; and curves of both agents' returns and of the distance.
"""

import argparse

import gymnasium as gym
import numpy as np
from ray import tune
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.env.multi_agent_env import MultiAgentEnv

import tune_media as tm

SIZE, SCALE = 12, 8  # cells of the field, pixels of a cell
MOVES = np.array([[0, 0], [1, 0], [-1, 0], [0, 1], [0, -1]])
COLORS = {"hunter": (200, 60, 40), "prey": (40, 120, 200)}


class Chase(MultiAgentEnv):
    """The hunter gets closer, the prey away; an episode has 30 steps, or fewer if the hunter catches the prey."""

    def __init__(self, config=None):
        super().__init__()
        self.metadata, self.render_mode = {"render_fps": 10}, "rgb_array"
        self.agents = self.possible_agents = list(COLORS)
        self.observation_spaces = dict.fromkeys(COLORS, gym.spaces.Box(-SIZE, SIZE, (4,), np.float32))
        self.action_spaces = dict.fromkeys(COLORS, gym.spaces.Discrete(len(MOVES)))

    def reset(self, *, seed=None, options=None):
        rng = np.random.default_rng(seed)
        self.places = {agent: rng.integers(0, SIZE, 2) for agent in COLORS}
        self.steps = 0
        return self._seen(), {agent: {} for agent in COLORS}

    def step(self, actions):
        self.steps += 1
        for agent, action in actions.items():
            self.places[agent] = np.clip(self.places[agent] + MOVES[action], 0, SIZE - 1)
        distance = int(np.abs(self.places["hunter"] - self.places["prey"]).sum())
        rewards = {"hunter": -distance / SIZE, "prey": distance / SIZE}
        infos = {agent: {"data": {"running": {"distance": distance}}} for agent in COLORS}
        return self._seen(), rewards, {"__all__": distance == 0}, {"__all__": self.steps == 30}, infos

    def _seen(self):
        places = self.places
        return {
            agent: np.concatenate([places[agent], places[other] - places[agent]]).astype(np.float32)
            for agent, other in (("hunter", "prey"), ("prey", "hunter"))
        }

    def render(self):
        field = np.full((SIZE, SIZE, 3), 235, np.uint8)
        for agent, (x, y) in self.places.items():
            field[y, x] = COLORS[agent]
        return field.repeat(SCALE, axis=0).repeat(SCALE, axis=1)

    def around_hunter(self):
        x, y = self.places["hunter"]
        padded = np.pad(self.render(), ((3 * SCALE, 3 * SCALE), (3 * SCALE, 3 * SCALE), (0, 0)))
        return padded[y * SCALE : (y + 7) * SCALE, x * SCALE : (x + 7) * SCALE]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--storage", default=None, help="folder or URI for results; default: ~/ray_results")
    args = parser.parse_args()
    recorder = tm.rllib.record_episodes(
        keep=[tm.selection.best(by="return/hunter"), tm.selection.best(by="return/prey", name="best_of_prey")],
        frame={"field": "render", "hunter": "around_hunter"},
    )
    config = (
        PPOConfig()
        .environment(Chase)
        .env_runners(num_env_runners=0)
        .training(train_batch_size=300, minibatch_size=100, num_epochs=2)
        .multi_agent(policies=set(COLORS), policy_mapping_fn=lambda agent, episode, **kwargs: agent)
        .evaluation(evaluation_interval=1, evaluation_duration=4)
        .callbacks(recorder)
    )
    results = tune.Tuner(
        "PPO",
        param_space=config,
        run_config=tune.RunConfig(
            name="multi_agent",
            storage_path=args.storage,
            stop={"training_iteration": 2},
            callbacks=[tm.JsonMediaLoggerCallback(), tm.TBXMediaLoggerCallback()],
        ),
    ).fit()
    for row in tm.load(results.experiment_path):
        print(row["key"], row.get("view"), row["metrics"]["return/hunter"], row["path"])
