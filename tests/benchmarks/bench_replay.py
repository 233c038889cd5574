"""An evaluation of 10 episodes with ``keep=("best", "worst")``: replay, auto, direct, and no recorder; and training.

The env runner, its torch policy and the recorder are the real ones, in this process, without Ray's actors. Run it with
``python -m tests.benchmarks.bench_replay [ENV ...]``; the envs are in ``ENVS``. HalfCheetah needs
``pip install "mujoco<4"`` and, on a machine without a GPU, ``MUJOCO_GL=osmesa`` and Debian's libosmesa6.
"""

from __future__ import annotations

import itertools
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

from tests.benchmarks.common import compare, show
from tune_media.encoding.encoder import VideoEncoder
from tune_media.rllib import record_episodes, registry

EPISODES, TRAINING_STEPS = 10, 2000


class Small(gym.ObservationWrapper):
    """The screen of an Atari game as 1,600 numbers, so that the policy is a small one."""

    def __init__(self, env):
        super().__init__(env)
        self.observation_space = gym.spaces.Box(0, 1, (1600,), np.float32)

    def observation(self, observation):
        return observation[35:195:4, ::4, 0].ravel().astype(np.float32) / 255


def cheetah(config: Any) -> gym.Env:
    return gym.make("HalfCheetah-v5", render_mode="rgb_array", max_episode_steps=15)


def pong(config: Any) -> gym.Env:
    import ale_py

    gym.register_envs(ale_py)
    return Small(gym.make("ALE/Pong-v5", render_mode="rgb_array", max_episode_steps=150))


def pendulum(config: Any) -> gym.Env:
    return gym.make("Pendulum-v1", render_mode="rgb_array", max_episode_steps=100)


ENVS: dict[str, Callable[[Any], gym.Env]] = {"HalfCheetah": cheetah, "Pong": pong, "Pendulum": pendulum}
"""All episodes of an env have the same length here, whatever the policy does."""


def env_runner_of(env: Any, recorder: Any = None, *, in_evaluation: bool = True) -> SingleAgentEnvRunner:
    config = PPOConfig().environment(env).env_runners(num_env_runners=0).rl_module(model_config={"fcnet_hiddens": [64]})
    if recorder is not None:
        config.callbacks(recorder)
    config.in_evaluation = in_evaluation
    return SingleAgentEnvRunner(config=config, worker_index=0)


def evaluate(env_runner: SingleAgentEnvRunner) -> None:
    """Play a round, and take its best and its worst episode as the Algorithm does."""
    registry.begin_round(env_runner, "episodes")
    env_runner.sample(num_episodes=EPISODES)
    env_runner.get_metrics()
    answer = registry.ask(env_runner, "episodes", ())
    if answer is None:
        return
    records = {episode.record.id: episode.record for episode in answer.data}
    candidates = sorted(answer.candidates, key=lambda id: records[id].episode_return)
    taken = registry.take(env_runner, "episodes", {candidates[0], candidates[-1]}, set(records))
    assert taken.kept, taken
    assert not taken.lost, taken


def render_two(env: gym.Env) -> float:
    """Return how long it takes to render and encode two episodes of random actions, seconds."""
    spent = 0.0
    for _ in range(2):
        encoder, over = VideoEncoder(fps=30), False
        env.reset()
        for step in itertools.count():
            started = time.perf_counter()
            encoder.feed(env.render())
            spent += time.perf_counter() - started
            if over:
                break
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            over = terminated or truncated or step > 1000
        started = time.perf_counter()
        encoder.finish()
        spent += time.perf_counter() - started
    return spent


def evaluation(name: str, rounds: int) -> None:
    """Compare an evaluation of one env, and print the table."""
    runners = {
        "direct": env_runner_of(ENVS[name], record_episodes(render="direct", strict=True)),
        "replay": env_runner_of(ENVS[name], record_episodes(render="replay", strict=True)),
        "auto": env_runner_of(ENVS[name], record_episodes(render="auto", strict=True)),
        "no recorder": env_runner_of(ENVS[name]),
    }
    seconds = compare({method: lambda runner=runner: evaluate(runner) for method, runner in runners.items()}, rounds)
    env = ENVS[name](None)
    seconds["rendering and encoding two episodes"] = sorted(render_two(env) for _ in range(rounds))[rounds // 2]
    show(f"{name}: an evaluation of {EPISODES} episodes, best and worst kept", seconds)
    print(f"\nauto chose {registry.recordings_of(runners['auto'])['episodes'].replays.mode}")
    floor = seconds["no recorder"] + seconds["rendering and encoding two episodes"]
    print(f"\nreplay / (no recorder + rendering and encoding two episodes): {seconds['replay'] / floor:.3g}")


def training(rounds: int) -> None:
    """Compare sampling for training: recorders that choose nothing, and none."""
    nothing = {"trigger": lambda index: False, "collect": False}
    runners = {
        "no recorder": env_runner_of(pendulum, in_evaluation=False),
        "evaluation is replayed": env_runner_of(pendulum, record_episodes(render="replay"), in_evaluation=False),
        "training, none chosen": env_runner_of(
            pendulum, record_episodes("train", **nothing, render="auto"), in_evaluation=False
        ),
        "no recorder, again": env_runner_of(pendulum, in_evaluation=False),
    }

    def sample(runner: SingleAgentEnvRunner) -> None:
        runner.sample(num_timesteps=TRAINING_STEPS)
        runner.get_metrics()

    seconds = compare({method: lambda runner=runner: sample(runner) for method, runner in runners.items()}, rounds)
    show("Pendulum: sampling a step for training", seconds, 1e6 / TRAINING_STEPS, "us")


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    print(f"Ray {ray.__version__}, Gymnasium {gym.__version__}")
    chosen = sys.argv[1:] or [*ENVS, "training"]
    for env in chosen:
        if env == "training":
            training(rounds=9)
        else:
            evaluation(env, rounds=3)
