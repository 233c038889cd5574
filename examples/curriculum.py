"""A function trainable with an RLlib algorithm inside: a curriculum, its task in each episode's record.

The trainable trains, looks at the result, sets the envs' task, and reports the result with the clips that are in it.
"""

import argparse

import gymnasium as gym
from ray import tune
from ray.rllib.algorithms.ppo import PPOConfig

import tune_media as tm


class WindyCartPole(gym.Wrapper):
    """CartPole whose pole is pushed, the harder the higher the task."""

    def __init__(self, config):
        super().__init__(gym.make("CartPole-v1", render_mode="rgb_array"))
        self.task = 0

    def get_task(self):
        return self.task

    def set_task(self, task):
        self.task = task

    def step(self, action):
        state = self.env.unwrapped.state
        self.env.unwrapped.state = (*state[:3], state[3] + 0.02 * self.task)
        return self.env.step(action)


def train(config):
    algo = (
        PPOConfig()
        .environment(WindyCartPole)
        .env_runners(num_env_runners=0)
        .training(lr=config["lr"], train_batch_size=400, minibatch_size=100, num_epochs=4)
        .evaluation(evaluation_interval=1, evaluation_duration=3)
        .callbacks(tm.rllib.record_episodes(keep=("best", "worst"), seeds=3))
        .build_algo()
    )
    for iteration in range(config["iterations"]):
        result = algo.train()
        tune.report(result)
        task = iteration + 1 if result["evaluation"]["env_runners"]["episode_return_mean"] > 20 else iteration
        for group in (algo.env_runner_group, algo.eval_env_runner_group):
            group.foreach_env_runner(
                lambda runner, task=task: [env.get_wrapper_attr("set_task")(task) for env in runner.env.unwrapped.envs]
            )
    algo.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--storage", default=None, help="folder or URI for results; default: ~/ray_results")
    args = parser.parse_args()
    results = tune.Tuner(
        train,
        param_space={"lr": 1e-3, "iterations": 3},
        run_config=tune.RunConfig(
            name="curriculum",
            storage_path=args.storage,
            callbacks=[tm.JsonMediaLoggerCallback(), tm.TBXMediaLoggerCallback()],
        ),
    ).fit()
    for row in tm.load(results.experiment_path):
        print(row["step"], row["key"], "task", row["task"], "seed", row["seed"], row["episode_return"], row["path"])
