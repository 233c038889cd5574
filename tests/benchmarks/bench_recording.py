"""The cost of recording an episode, by method and env, against stepping and rendering alone.

Each method plays one episode of the same actions and records it, from the reset to the finished file or clip; in one
row the episode is not chosen, so that its frames are held and never encoded. The envs
are CartPole (400x600), an Atari game (210x160) and a MuJoCo env that is rendered with osmesa (480x480), which takes
most of its time. The peers are Gymnasium's ``RecordVideo``, Stable-Baselines3's ``VecVideoRecorder``, and, on an env
runner of RLlib, Ray's example callback. That callback scales each frame to 64x96 and keeps it in the episode; its clip
is encoded later, in the logger, which is not counted here.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym

import tune_media as tm
from tests.benchmarks.common import compare, memory_kb, show
from tests.benchmarks.recording_envs import ENVS, Endless, make_env
from tune_media.rllib import env_runner_requests

MEMORY_FRAMES = 1000


def play(env: Any, actions: list[Any]) -> None:
    env.reset(seed=0)
    for action in actions:
        env.step(action)


def rendering(env: gym.Env, actions: list[Any]) -> None:
    env.reset(seed=0)
    env.render()
    for action in actions:
        env.step(action)
        env.render()


def gym_methods(name: str, steps: int, folder: Path) -> dict[str, Callable[[], object]]:
    """Return the methods to record an episode in a loop of one's own."""
    env = make_env(name, steps)
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(steps)]

    def ours(keep: Any = "last", **options: Any) -> Callable[[], object]:
        def method() -> None:
            recorder = tm.gym.RecordEpisodes(env, keep=keep, video=tm.VideoOptions(**options))
            play(recorder, actions)
            clips = [one for name, one in recorder.take().items() if name == keep]
            assert [clip.frames > 1 for clip in clips] == [True] * (keep == "last")

        return method

    def gymnasium() -> None:
        recorder = gym.wrappers.RecordVideo(env, str(folder), episode_trigger=lambda n: True)
        play(recorder, actions)
        recorder.stop_recording()

    def stable_baselines() -> None:
        from stable_baselines3.common.vec_env import DummyVecEnv, VecVideoRecorder

        recorder = VecVideoRecorder(
            DummyVecEnv([lambda: env]), str(folder), record_video_trigger=lambda step: step == 0, video_length=steps
        )
        recorder.reset()
        for action in actions:
            recorder.step([action])
        if recorder.recording:
            recorder._stop_recording()

    return {
        "step and render (the floor)": lambda: rendering(env, actions),
        "step only": lambda: play(env, actions),
        "tune_media": ours(),
        "tune_media, if another episode is chosen": ours(tm.selection.where(lambda record: False, "none")),
        "tune_media, 160 pixels high": ours(height=160),
        "tune_media, every=4": ours(every=4),
        "Gymnasium's RecordVideo": gymnasium,
        "Stable-Baselines3's VecVideoRecorder": stable_baselines,
    }


def env_runner(callbacks: Any, steps: int) -> Any:
    """Return an env runner of RLlib's for CartPole, whose episodes have this many steps; it needs no Ray session."""
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

    config = PPOConfig().environment(_cartpole(steps)).env_runners(num_env_runners=0)
    if callbacks is not None:
        config.callbacks(callbacks)
    return SingleAgentEnvRunner(config=config, worker_index=0)


def _cartpole(steps: int) -> str:
    gym.register(
        f"Endless{steps}-v0", lambda **options: Endless(gym.make("CartPole-v1", **options)), max_episode_steps=steps
    )
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    gym.envs.registration.registry[f"Endless{steps}-v0"].kwargs["render_mode"] = "rgb_array"
    return f"Endless{steps}-v0"


def env_runner_methods(steps: int) -> dict[str, Callable[[], object]]:
    """Return the methods to record an episode on an env runner with a torch policy."""
    from ray.rllib.examples.envs.env_rendering_and_recording import EnvRenderCallback

    def sampled(callbacks: Any) -> Callable[[], object]:
        runner = env_runner(callbacks, steps)

        def method() -> None:
            runner.sample(num_episodes=1)
            runner.get_metrics()
            env_runner_requests.ask_and_take(runner, "episodes", ())

        return method

    def recorder(**options: Any) -> Any:
        return tm.rllib.record_episodes(sections="train", keep="best", video=tm.VideoOptions(**options))

    return {
        "no recorder, no frames": sampled(None),
        "tune_media, 400x600": sampled(recorder()),
        "tune_media, 64x96": sampled(recorder(height=64, width=96)),
        "tune_media, every=4": sampled(recorder(every=4)),
        **({"Ray's example callback, 64x96": sampled(EnvRenderCallback)} if importlib.util.find_spec("cv2") else {}),
    }


def memory_of(method: str, steps: int) -> None:
    """Print the peak of resident memory of an env runner that plays one episode, MB."""
    from ray.rllib.callbacks.callbacks import RLlibCallback

    class Renders(RLlibCallback):
        def on_episode_step(self, *, env, env_index, **kwargs):
            env.unwrapped.envs[env_index].render()

    callbacks = {"none": None, "renders": Renders, "records": tm.rllib.record_episodes(sections="train", keep="best")}
    env_runner(callbacks[method], steps).sample(num_episodes=1)
    print(memory_kb("VmHWM") / 1024)


def memory() -> None:
    print("\nPeak of an env runner's resident memory over one episode of frames of 400x600, MB\n")
    print("| method | three runs | above the first |\n|---|---|---|")
    first = None
    methods = {
        "no recorder, no frames": ("none", MEMORY_FRAMES),
        f"{MEMORY_FRAMES} frames rendered, none kept": ("renders", MEMORY_FRAMES),
        "tune_media, 10 frames": ("records", 10),
        f"tune_media, {MEMORY_FRAMES} frames": ("records", MEMORY_FRAMES),
    }
    for name, (method, steps) in methods.items():
        command = [sys.executable, "-m", "tests.benchmarks.bench_recording", "--memory", method, "--steps", str(steps)]
        outputs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout for _ in range(3)]
        runs = sorted(float(output.split()[-1]) for output in outputs)
        first = runs[1] if first is None else first
        print(f"| {name} | {', '.join(f'{run:.0f}' for run in runs)} | {runs[1] - first:.1f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memory", help="measure the memory of one method, in this process")
    parser.add_argument("--steps", type=int, default=MEMORY_FRAMES, help="of the episode whose memory is measured")
    parser.add_argument("--only-memory", action="store_true")
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.memory:
        memory_of(arguments.memory, arguments.steps)
        return
    if arguments.only_memory:
        memory()
        return
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        for name, (_, steps) in ENVS.items():
            try:
                methods = gym_methods(name, steps, Path(folder))
            except Exception as error:
                print(f"\n{name} is left out: {type(error).__name__}: {error}")
                continue
            show(f"{name}: an episode of {steps} steps", compare(methods, arguments.rounds))
        steps = 100
        show(
            f"An env runner of RLlib, CartPole: an episode of {steps} steps",
            compare(env_runner_methods(steps), arguments.rounds),
        )
    memory()


if __name__ == "__main__":
    main()
