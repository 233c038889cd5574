"""An evaluation of 10 episodes: on tape (the default), direct (rendered in the env runner), and no recorder.

``algo.evaluate()`` is the real one, with one remote env runner that has 1 or 8 envs. The default is measured after its
first rounds, when the env is known to repeat its episodes; the winners' clips are not rendered in it, as in a Tune run,
where the driver renders them beside training. ``beside`` measures that: evaluations with a process that renders clips
of the same env all the time, and without. HalfCheetah is rendered with osmesa (Debian's libosmesa6); Pong has its
default of sticky actions. Their episodes are whole, or cut after 20 and 40 steps: then an evaluation is little more
than its resets, and the direct recording ends in reasonable time. An untrained policy's episodes of CartPole have some
24 steps; of those with 200 steps none ends early. CartPole's pictures have 400x600 pixels, Breakout's 210x160. Both
Algorithms have the same seed, so they play the same episodes.

``cpu`` compares all the CPU time, that of the process that renders the winners included, and ``memory`` the memory of
an env runner with 64 envs.

Run it with ``python -m tests.benchmarks.bench_replay [NAME ...]``: a name in ``ENVS``, ``beside``, ``training``,
``shares``, ``cpu``, ``memory`` or ``evidence``.
"""

from __future__ import annotations

import contextlib
import functools
import statistics
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import ray
import torch
from gymnasium.envs.classic_control import CartPoleEnv
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.examples.envs.env_rendering_and_recording import EnvRenderCallback

from tests.benchmarks.common import Timing, compare, cpu_seconds, family, memory_kb, show
from tune_media.encoding.encoder import EncodedVideo, VideoEncoder
from tune_media.replay.generators import RenderGuard, Snapshot
from tune_media.replay.render_pool import RenderPool
from tune_media.replay.tape_recorder import TapeRecorder
from tune_media.replay.taped_clip import TapedClip
from tune_media.replay.verdicts import ReplayVerdict, decide
from tune_media.rllib import env_runner_requests, record_episodes
from tune_media.rllib.recorder_callback import EpisodeRecorderCallback

EPISODES, TRAINING_STEPS = 10, 100


class Endless(gym.Wrapper):
    """Never ends an episode, so that a time limit gives all episodes the same length.

    If the env ends one, it is reset: the cart of CartPole would leave the numbers that pygame can draw.
    """

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = self.env.step(action)
        if terminated or truncated:
            observation, info = self.env.reset()
        return observation, reward, False, False, info


class Small(gym.ObservationWrapper):
    """The screen of an Atari game as 1,600 numbers, so that the policy is a small one."""

    def __init__(self, env):
        super().__init__(env)
        self.observation_space = gym.spaces.Box(0, 1, (1600,), np.float32)

    def observation(self, observation):
        return observation[35:195:4, ::4, 0].ravel().astype(np.float32) / 255


def cheetah(config: Any) -> gym.Env:
    return gym.make("HalfCheetah-v5", render_mode="rgb_array")


def short_cheetah(config: Any) -> gym.Env:
    return gym.make("HalfCheetah-v5", render_mode="rgb_array", max_episode_steps=20)


def pong(config: Any) -> gym.Env:
    import ale_py

    gym.register_envs(ale_py)
    return Small(gym.make("ALE/Pong-v5", render_mode="rgb_array"))


def short_pong(config: Any) -> gym.Env:
    return gym.wrappers.TimeLimit(pong(config), 40)


def long_breakout(config: Any) -> gym.Env:
    import ale_py

    gym.register_envs(ale_py)
    env = gym.make("ALE/Breakout-v5", render_mode="rgb_array")
    return gym.wrappers.TimeLimit(Small(Endless(env)), 200)


def cartpole(config: Any) -> gym.Env:
    return gym.make("CartPole-v1", render_mode="rgb_array")


class EndlessCartPole(CartPoleEnv):
    """Never ends an episode; the cart stays where pygame can draw it."""

    def step(self, action: Any) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        if terminated or truncated:
            observation, info = super().reset()
        return observation, reward, False, False, info


def long_cartpole(config: Any) -> gym.Env:
    return gym.wrappers.TimeLimit(EndlessCartPole(render_mode="rgb_array"), 200)


def filmed_cartpole(config: Any) -> gym.Env:
    folder = tempfile.mkdtemp(prefix="tune_media-bench-")
    return gym.wrappers.RecordVideo(long_cartpole(config), folder, episode_trigger=lambda _: True, disable_logger=True)


def pendulum(config: Any) -> gym.Env:
    return gym.make("Pendulum-v1", render_mode="rgb_array")


ENVS: dict[str, Callable[[Any], gym.Env]] = {
    "CartPole": cartpole,
    "Pendulum": pendulum,
    "CartPole, 200 steps": long_cartpole,
    "Breakout, 200 steps": long_breakout,
    "HalfCheetah": cheetah,
    "Pong": pong,
    "HalfCheetah, 20 steps": short_cheetah,
    "Pong, 40 steps": short_pong,
}
LONG = ("HalfCheetah", "Pong")  # to record them directly takes minutes
TARGETS = {
    ("CartPole", 1): 1.25,
    ("CartPole", 8): 1.45,
    ("Pendulum", 1): 1.08,
    ("Pendulum", 8): 1.15,
    ("HalfCheetah", 1): 1.3,
}
"""The most that an evaluation may take, as a ratio to one without a recorder, by env and number of envs."""
WITH_PEERS = "CartPole, 200 steps"
AGAIN = "no recorder, another Algorithm"  # two of them differ, too
CHOSEN = (*ENVS, "beside", "cpu", "memory", "evidence", "training")
HOOKS = ("on_episode_start", "on_episode_step", "on_episode_end", "on_sample_end")


def env_runner_of(recorder: Any) -> SingleAgentEnvRunner:
    config = PPOConfig().environment("CartPole-v1").env_runners(num_env_runners=0)
    config.rl_module(model_config={"fcnet_hiddens": [64]})
    if recorder is not None:
        config.callbacks(recorder)
    return SingleAgentEnvRunner(config=config, worker_index=0)


def algorithm(env: Callable[[Any], gym.Env], envs: int, recorder: Any = None) -> Any:
    """Return an Algorithm whose evaluations are played by one remote env runner."""
    ray.tune.register_env(env.__name__, env)
    config = PPOConfig().environment(env.__name__).env_runners(num_env_runners=0).debugging(seed=3)
    config.evaluation(
        evaluation_num_env_runners=1,
        evaluation_duration=EPISODES,
        evaluation_config=PPOConfig.overrides(num_envs_per_env_runner=envs),
    )
    config.rl_module(model_config={"fcnet_hiddens": [64]})
    if recorder is not None:
        config.callbacks(recorder)
    return config.build_algo()


def clips_in(result: dict[str, Any]) -> list[Any]:
    found = result["env_runners"]["episodes"]
    return [found[name] for name in ("best", "worst")]


def on_tape(env: Callable[[Any], gym.Env], envs: int, *, is_long: bool = False) -> Any:
    """Return an Algorithm whose env is known to repeat its episodes by now.

    If ``is_long``, the first rounds, rendered directly, would take many minutes: the verdict is written without them.
    """
    algo = algorithm(env, envs, record_episodes(strict=True))
    if is_long:
        (recipe,) = algo.eval_env_runner_group.foreach_env_runner(_recipe_of, local_env_runner=False)
        decide(recipe, ReplayVerdict(True, length=1000))
    until = time.monotonic() + 600
    while not any(isinstance(clip, TapedClip) for clip in clips_in(algo.evaluate())):
        assert time.monotonic() < until, "no tape is proven"
        time.sleep(0.2)
    return algo


def _recipe_of(runner: Any) -> str:
    return env_runner_requests.recordings_of(runner)["episodes"].replays.recipe.hash


def steps_of(algo: Any) -> int:
    """Evaluate, and return the number of env steps."""
    steps = steps_in(algo.evaluate())
    algo.metrics.reset()  # Ray 2.50 adds the steps of all evaluations up until it trains
    return steps


def steps_in(result: dict[str, Any]) -> int:
    """Return the number of env steps of an evaluation."""
    return int(result["env_runners"]["num_env_steps_sampled"])


def evaluation(name: str, rounds: int) -> None:
    """Compare evaluations of one env, and print the table and the target."""
    for envs in (1, 8):
        algorithms = {
            "no recorder": algorithm(ENVS[name], envs),
            "on tape, the default": on_tape(ENVS[name], envs, is_long=name in LONG),
            AGAIN: algorithm(ENVS[name], envs),
        }
        if name not in LONG:
            algorithms["direct"] = algorithm(ENVS[name], envs, record_episodes(render="direct", strict=True))
        if name == WITH_PEERS and envs == 1:
            algorithms["Ray's example callback, 64x96"] = algorithm(ENVS[name], envs, EnvRenderCallback)
            algorithms["Gymnasium's RecordVideo"] = algorithm(filmed_cartpole, envs)
        each = 1 if name in LONG else 8
        often = dict.fromkeys(("no recorder", "on tape, the default", AGAIN), each)
        usual = statistics.median(steps_of(algorithms["no recorder"]) for _ in range(each))
        seconds = compare(
            {method: functools.partial(steps_of, algo) for method, algo in algorithms.items()},
            rounds,
            times_a_round=often,
            for_work=usual,  # the episodes have other lengths each time, and each policy its own
        )
        show(f"{name}: an evaluation of {EPISODES} episodes by an env runner with {envs} env(s)", seconds)
        none, tape, again = (seconds[method] for method in ("no recorder", "on tape, the default", AGAIN))
        target = f" Target: {TARGETS[name, envs]}." if (name, envs) in TARGETS else ""
        print(
            f"\nOn tape: {tape.ratio(none):.2f} of no recorder, and {tape.ratio(again):.2f} of another such Algorithm, "
            f"the medians of the rounds' ratios.{target} All times are those for {usual:.0f} env steps."
        )
        for algo in algorithms.values():
            algo.stop()


@contextlib.contextmanager
def rendering(clip: TapedClip) -> Iterator[None]:
    """Render a clip all the time, in a process beside this one."""
    pool, is_over = RenderPool(), threading.Event()

    def run() -> None:
        while not is_over.is_set():
            clip.clips_by(pool)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        pool.close()


def beside(rounds: int) -> None:
    """Compare training iterations beside a process that renders, and without one."""
    algo = on_tape(cartpole, 1)
    taped = [clip for _ in range(3) for clip in clips_in(algo.evaluate()) if isinstance(clip, TapedClip)]
    seconds: dict[str, list[float]] = {"training alone": [], "beside a process that renders": []}
    cpu: dict[str, list[float]] = {name: [] for name in seconds}
    algo.train()
    for _ in range(rounds):
        for name, context in (("training alone", contextlib.nullcontext()), (list(seconds)[1], rendering(taped[-1]))):
            with context:
                time.sleep(4)  # until it renders
                started, used = time.perf_counter(), time.process_time()
                algo.train()
                seconds[name].append(time.perf_counter() - started)
                cpu[name].append(time.process_time() - used)
    algo.stop()
    show("CartPole: a training iteration", {name: Timing.of(seconds[name], cpu[name]) for name in seconds})


def cpu_of_all() -> float:
    """Return the CPU seconds of this process and of all below it, Ray's own and env runners included."""
    total = 0.0
    for process in family():
        with contextlib.suppress(OSError):  # it has just ended
            total += cpu_seconds(process)
    return total


def shown_alone(env: gym.Env, clips: list[EncodedVideo]) -> tuple[float, float]:
    """Return the CPU seconds of rendering and encoding as many frames as some clips have, and of their steps."""
    spent = {"shown": 0.0, "played": 0.0}

    def timed(what: str, call: Callable[..., Any], *args: Any) -> Any:
        started = time.process_time()
        result = call(*args)
        spent[what] += time.process_time() - started
        return result

    for clip in clips:
        encoder = VideoEncoder(fps=clip.fps)
        timed("played", env.reset)
        for frame in range(clip.frames):
            timed("shown", lambda encoder=encoder: encoder.feed(env.render()))
            if frame < clip.frames - 1 and any(timed("played", env.step, env.action_space.sample())[2:4]):
                env.reset()
        timed("shown", encoder.finish)
    return spent["shown"], spent["played"]


def cpu(rounds: int) -> None:
    """Compare all CPU time of evaluations whose winners are rendered with that of no recorder and of bare rendering."""
    for name, times in (("CartPole", 20), ("HalfCheetah, 20 steps", 10), ("Pong, 40 steps", 10)):
        make = ENVS[name]
        none, tape = algorithm(make, 1), on_tape(make, 1)
        pool, bare, more, most = RenderPool(), make(None), [], []
        for index in range(rounds + 1):
            before = cpu_of_all()
            steps = sum(steps_of(none) for _ in range(times))
            between = cpu_of_all()
            results = [tape.evaluate() for _ in range(times)]
            clips = [
                video
                for result in results
                for clip in clips_in(result)
                if isinstance(clip, TapedClip)
                for video in clip.clips_by(pool).values()
            ]
            taped, (shown, played) = cpu_of_all() - between, shown_alone(bare, clips)
            without = (between - before) * sum(map(steps_in, results)) / steps  # for as many steps
            if index:  # the first one starts the process
                more.append((taped / (without + shown), taped / (without + shown + played)))
                most.append(tuple(1000 * seconds / times for seconds in (without, shown, played, taped)))
        pool.close()
        for algo in (none, tape):
            algo.stop()
        columns = [
            *(f"{statistics.median(column):.0f}" for column in zip(*most, strict=True)),
            *(f"{statistics.median(column):.2f}" for column in zip(*more, strict=True)),
        ]
        print(f"\n{name}: CPU time of an evaluation of {EPISODES} episodes by all processes, {rounds} rounds\n")
        print(
            "| no recorder, ms | winners alone: render and encode, ms | their resets and steps, ms | on tape, winners ",
            end="",
        )
        print("rendered, ms | ratio to the first two | ratio to the first three |\n|---|---|---|---|---|---|")
        print(f"| {' | '.join(columns)} |\n\nTarget: at most 1.1 of the first two together.", flush=True)


def memory(rounds: int) -> None:
    """Compare the most memory that an env runner with 64 envs ever had.

    An env that has rendered keeps its renderer (pygame: two surfaces). The target is relative to envs that have each
    rendered once, since the evidence of an episode is a few of its frames.
    """
    megabytes = {}
    methods = {"no recorder": None, "no recorder, each env rendered once": None}
    methods |= {name: record_episodes(strict=True) for name in ("on tape, first rounds", "on tape, env known")}
    for name, recorder in methods.items():
        algo = algorithm(cartpole, 64, recorder)
        for _ in range(rounds):
            algo.evaluate()
        if "rendered" in name:
            algo.eval_env_runner_group.foreach_env_runner(_render_each, local_env_runner=False)
        (megabytes[name],) = algo.eval_env_runner_group.foreach_env_runner(_most_memory, local_env_runner=False)
        algo.stop()
    print(f"\nCartPole: the most memory of an env runner with 64 envs, in {rounds} evaluations\n")
    print("| method | MB |\n|---|---|")
    for name, size in megabytes.items():
        print(f"| {name} | {size:.0f} |")
    none, rendered, first, known = megabytes.values()
    for others, size in (("no recorder", none), ("envs that rendered once", rendered)):
        print(
            f"\nOn tape, beyond {others}: {first - size:+.0f} MB with the first rounds, {known - size:+.0f} MB later."
        )
    print("Target: at most 50 beyond the latter.")


def evidence(rounds: int) -> None:
    """Print what the evidence of an episode costs: a frame, what guards it, a walk, and the bytes of a tape."""
    print("\nThe evidence of an episode, medians of CPU time\n")
    print(
        "| env | a frame, us | its guard, us | generators at a reset, us | the walk at the first reset, us | ", end=""
    )
    print("a tape of at most 100 steps, bytes |\n|---|---|---|---|---|---|")
    for name, make in {**ENVS, "FrozenLake": _gym("FrozenLake-v1"), "Taxi": _gym("Taxi-v3")}.items():
        env = make(None)
        recorder, sizes = TapeRecorder(env), []
        for _ in range(rounds):
            env.reset()
            for _ in range(100):
                if any(env.step(env.action_space.sample())[2:4]):
                    break
            sizes.append(len(recorder.tape.packed()) if recorder.tape is not None else 0)
        env.render()
        generators = recorder.generators
        guard = RenderGuard(generators)
        calls = (env.render, lambda: guard(int), lambda: Snapshot(generators.places()), generators.walk)  # noqa: B023
        times = " | ".join(f"{_microseconds(call):.0f}" for call in calls)
        print(f"| {name} | {times} | {statistics.median(sizes):.0f} |", flush=True)
        env.close()


def _gym(id: str) -> Callable[[Any], gym.Env]:
    return lambda config: gym.make(id, render_mode="rgb_array")


def _microseconds(call: Callable[[], Any]) -> float:
    times = []
    for _ in range(30):
        started = time.process_time()
        call()
        times.append(1e6 * (time.process_time() - started))
    return statistics.median(times)


def _render_each(runner: Any) -> None:
    for env in runner.env.unwrapped.envs:
        env.render()


def _most_memory(runner: Any) -> float:
    return memory_kb("VmHWM") * 1024 / 1e6


def recorders() -> dict[str, Any]:
    """Return recorders that choose no episode of a training run."""
    nothing = {"trigger": lambda index: False, "video": None}
    return {
        "evaluation only is recorded": record_episodes(),
        "training, no episode chosen, collect=False": record_episodes("train", **nothing, collect=False),
        "training, no episode chosen": record_episodes("train", **nothing),
        "training, on tape": record_episodes("train", render="replay"),
    }


def sample(runner: SingleAgentEnvRunner) -> None:
    """Play steps for training, and take the data of the episodes as the Algorithm does."""
    runner.sample(num_timesteps=TRAINING_STEPS)
    runner.get_metrics()
    env_runner_requests.ask_and_take(runner, "episodes", ())


def training(rounds: int) -> None:
    """Compare sampling for training: recorders that choose no episode, and none."""
    chosen = {"no recorder": None, **recorders(), "no recorder, again": None}
    runners = {method: env_runner_of(recorder) for method, recorder in chosen.items()}
    seconds = compare({method: lambda runner=runner: sample(runner) for method, runner in runners.items()}, rounds)
    quartiles = {
        method: " / ".join(f"{ratio:.3f}" for ratio in timing.cpu_ratios(seconds["no recorder"]))
        for method, timing in seconds.items()
    }
    title = f"CartPole: sampling {TRAINING_STEPS} steps for training, {rounds} rounds"
    show(title, seconds, more={"CPU ratios of the rounds, quartiles": quartiles})


def shares(rounds: int) -> None:
    """Print the share of the recorder's hooks in the CPU time of sampling, measured inside the same run."""
    runners = {name: env_runner_of(recorder) for name, recorder in recorders().items()}
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
    ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    for chosen in sys.argv[1:] or CHOSEN:
        if chosen == "training":
            training(rounds=25)
            shares(rounds=10)  # last: its timing stays in the hooks
        elif chosen == "shares":
            shares(rounds=10)
        elif chosen == "beside":
            beside(rounds=7)
        elif chosen == "cpu":
            cpu(rounds=5)
        elif chosen == "memory":
            memory(rounds=30)
        elif chosen == "evidence":
            evidence(rounds=10)
        else:
            evaluation(chosen, rounds=9)
