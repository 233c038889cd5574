"""Stands in for Isaac Lab's ``train.py`` in isaac_lab_under_tune.py: no GPU, no rsl_rl, and the files of both.

It takes settings as Hydra does (``agent.algorithm.learning_rate=0.01``), writes a clip every few iterations as
RecordVideo does, and calls our log writer as rsl_rl does.
"""

import math
import os
import sys
import time
from pathlib import Path

import numpy as np

import tune_media as tm
from tune_media.rsl_rl import LogWriter

STEPS = 24  # of an iteration


def main(folder: Path, settings: dict[str, str]) -> None:
    print("process", os.getpid(), flush=True)
    lr, seed = float(settings["agent.algorithm.learning_rate"]), int(settings["agent.seed"])
    writer = LogWriter(str(folder))
    agent = {"seed": seed, "num_steps_per_env": STEPS, "algorithm": {"learning_rate": lr}}
    writer.store_config({"scene": {"num_envs": 4096}}, agent)
    noise = np.random.default_rng(seed)
    speed = 0.2 / (1 + abs(math.log10(lr) + 3))  # the best learning rate is 0.001
    for iteration in range(int(settings["agent.max_iterations"])):
        time.sleep(0.1)
        skill = 1 - math.exp(-speed * iteration)
        if not math.isfinite(lr):
            raise ValueError("The learning rate is not finite.")
        if iteration % 5 == 0:
            write_clip(folder / "videos" / "train" / f"rl-video-step-{iteration * STEPS}.mp4", skill)
        writer.add_scalar("Loss/value", 1 - skill, iteration)
        if iteration > 1:  # the first episodes have ended
            writer.add_scalar("Train/mean_reward", 100 * skill + noise.normal(), iteration)
        for clip in folder.rglob("*.mp4"):
            writer.save_video(clip, iteration)
        if iteration % 10 == 0:
            (folder / f"model_{iteration}.pt").write_bytes(b"")
            writer.save_model(str(folder / f"model_{iteration}.pt"), iteration)
    writer.stop()


def write_clip(path: Path, skill: float) -> None:
    """Write a clip of a square that comes as far as its skill takes it."""
    frames = np.full((20, 96, 128, 3), 30, np.uint8)
    for step, frame in enumerate(frames):
        left = round(skill * step * 5)
        frame[40:60, left : left + 20] = 200, 160, 40
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(tm.Video(frames, fps=10).data)


if __name__ == "__main__":
    main(Path(os.environ["LOG_DIR"]), dict(argument.split("=") for argument in sys.argv[1:]))
