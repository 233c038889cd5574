"""An evaluation of 10 episodes with ``keep=("best", "worst")``: replay, auto, direct, and no recorder; and training.

The env runner, its torch policy and the recorder are the real ones, in this process, without Ray's actors. The episodes
are short, so that this ends in a few minutes: 5 steps of HalfCheetah, rendered with osmesa (Debian's libosmesa6), and
40 of Pong, with its default of sticky actions. All episodes of an env have the same length.

Run it with ``python -m tests.benchmarks.bench_replay [NAME ...]``: a name in ``ENVS``, ``training`` or ``shares``.
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
import torch
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

from tests.benchmarks.common import Timing, compare, show
from tune_media.encoding.encoder import VideoEncoder
from tune_media.rllib import record_episodes, registry
from tune_media.rllib.callback import EpisodeRecorderCallback

EPISODES, TRAINING_STEPS = 10, 100


class Small(gym.ObservationWrapper):
    """The screen of an Atari game as 1,600 numbers, so that the policy is a small one."""

    def __init__(self, env):
        super().__init__(env)
        self.observation_space = gym.spaces.Box(0, 1, (1600,), np.float32)

    def observation(self, observation):
        return observation[35:195:4, ::4, 0].ravel().astype(np.float32) / 255


def cheetah(config: Any) -> gym.Env:
    return gym.make("HalfCheetah-v5", render_mode="rgb_array", max_episode_steps=5)


def pong(config: Any) -> gym.Env:
    import ale_py

    gym.register_envs(ale_py)
    return Small(gym.make("ALE/Pong-v5", render_mode="rgb_array", max_episode_steps=40))


def pendulum(config: Any) -> gym.Env:
    return gym.make("Pendulum-v1", render_mode="rgb_array", max_episode_steps=100)


ENVS: dict[str, Callable[[Any], gym.Env]] = {"HalfCheetah": cheetah, "Pong": pong, "Pendulum": pendulum}
CHOSEN = ("HalfCheetah", "Pong", "training")
HOOKS = ("on_episode_start", "on_episode_step", "on_episode_end", "on_sample_end")


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


def render_two(env: gym.Env) -> tuple[float, float]:
    """Return how long it takes to render and encode two episodes of random actions: seconds, and seconds of CPU."""
    spent = np.zeros(2)

    def timed(work: Callable[[], object]) -> None:
        before = time.perf_counter(), time.process_time()
        work()
        spent[:] += np.subtract((time.perf_counter(), time.process_time()), before)

    for _ in range(2):
        encoder, over = VideoEncoder(fps=30), False
        env.reset()
        for step in itertools.count():
            timed(lambda encoder=encoder: encoder.feed(env.render()))
            if over:
                break
            _, _, terminated, truncated, _ = env.step(env.action_space.sample())
            over = terminated or truncated or step > 1000
        timed(encoder.finish)
    return float(spent[0]), float(spent[1])


def evaluation(name: str, rounds: int) -> None:
    """Compare an evaluation of one env, and print the table and the targets."""
    runners = {
        "direct": env_runner_of(ENVS[name], record_episodes(render="direct", strict=True)),
        "replay": env_runner_of(ENVS[name], record_episodes(render="replay", strict=True)),
        "auto": env_runner_of(ENVS[name], record_episodes(render="auto", strict=True)),
        "no recorder": env_runner_of(ENVS[name]),
    }
    seconds = compare({method: lambda runner=runner: evaluate(runner) for method, runner in runners.items()}, rounds)
    env = ENVS[name](None)
    render_two(env)  # warm
    two = Timing.of(*map(list, zip(*(render_two(env) for _ in range(rounds)), strict=True)))
    seconds["rendering and encoding two episodes"] = two
    show(f"{name}: an evaluation of {EPISODES} episodes, best and worst kept", seconds)
    direct, replay, none = (seconds[method] for method in ("direct", "replay", "no recorder"))
    chosen = registry.recordings_of(runners["auto"])["episodes"].replays.mode
    print(
        f"\nIn CPU time, replay takes {replay.cpu / direct.cpu:.2f} of direct recording (target: at most 0.3), and "
        f"{replay.cpu / (none.cpu + two.cpu):.2f} of an evaluation without a recorder and rendering and encoding two "
        f"episodes (target: at most 1.1). The evaluation alone takes {none.cpu / direct.cpu:.2f} of direct recording. "
        f"`auto` chose {chosen}."
    )


def recorders() -> dict[str, Any]:
    """Return recorders that choose no episode of a training run."""
    nothing = {"trigger": lambda index: False, "video": None}
    return {
        "evaluation only is recorded": record_episodes(render="replay"),
        "training, no episode chosen, collect=False": record_episodes("train", **nothing, collect=False),
        "training, no episode chosen": record_episodes("train", **nothing),
    }


def sample(runner: SingleAgentEnvRunner) -> None:
    """Play steps for training, and take the data of the episodes as the Algorithm does."""
    runner.sample(num_timesteps=TRAINING_STEPS)
    runner.get_metrics()
    registry.ask_and_take(runner, "episodes", ())


def training(rounds: int) -> None:
    """Compare sampling for training: recorders that choose no episode, and none."""
    chosen = {"no recorder": None, **recorders(), "no recorder, again": None}
    runners = {
        method: env_runner_of("CartPole-v1", recorder, in_evaluation=False) for method, recorder in chosen.items()
    }
    seconds = compare({method: lambda runner=runner: sample(runner) for method, runner in runners.items()}, rounds)
    quartiles = {
        method: " / ".join(f"{ratio:.3f}" for ratio in timing.cpu_ratios(seconds["no recorder"]))
        for method, timing in seconds.items()
    }
    title = f"CartPole: sampling {TRAINING_STEPS} steps for training, {rounds} rounds"
    show(title, seconds, more={"CPU ratios of the rounds, quartiles": quartiles})


def shares(rounds: int) -> None:
    """Print the share of the recorder's hooks in the CPU time of sampling, measured inside the same run."""
    runners = {name: env_runner_of("CartPole-v1", one, in_evaluation=False) for name, one in recorders().items()}
    spent = [0.0]

    def timed(hook: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            started = time.thread_time()
            try:
                return hook(*args, **kwargs)
            finally:
                spent[0] += time.thread_time() - started

        return call

    print("\nCartPole: CPU time of the recorder's hooks, of all CPU time of sampling for training\n")
    print("| method | us of a step, in hooks | us of a step | share |\n|---|---|---|---|")
    for name in HOOKS:
        setattr(EpisodeRecorderCallback, name, timed(getattr(EpisodeRecorderCallback, name)))
    for method, runner in runners.items():
        sample(runner)  # warm
        spent[0], started = 0.0, time.thread_time()
        for _ in range(rounds):
            sample(runner)
        steps, total = rounds * TRAINING_STEPS / 1e6, time.thread_time() - started
        print(
            f"| {method} | {spent[0] / steps:.1f} | {total / steps:.0f} | {100 * spent[0] / total:.1f} % |", flush=True
        )


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)  # as Ray does for an env runner with one CPU
    print(f"Ray {ray.__version__}, Gymnasium {gym.__version__}")
    for chosen in sys.argv[1:] or CHOSEN:
        if chosen == "training":
            training(rounds=25)
            shares(rounds=10)  # last: its timing stays in the hooks
        elif chosen == "shares":
            shares(rounds=10)
        else:
            evaluation(chosen, rounds=3)
