"""Function trainables that several tests run."""

import tempfile
from pathlib import Path

import numpy as np
from ray import tune

import tune_media as tm


def report_steps(make_report):
    """Report steps 0 to 5, each with a checkpoint, from where the last checkpoint was; yield each step after that."""
    checkpoint, first = tune.get_checkpoint(), 0
    if checkpoint:
        with checkpoint.as_directory() as folder:
            first = int(Path(folder, "step").read_text()) + 1
    for step in range(first, 6):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "step").write_text(str(step))
            tune.report(make_report(step), checkpoint=tune.Checkpoint.from_directory(folder))
        yield step, first


def told_by_a_wrapper(config):
    """Play six episodes with a wrapper around the env, and report the best of every second."""
    from tests.support.envs.telling import TellingEnv

    def heat(step):
        return {"heat": tm.Image.heatmap(np.eye(6) * step.step), "phase": "late" if step.step > 4 else "early"}

    env = tm.gym.RecordEpisodes(TellingEnv({"log_dir": config["log_dir"]}), collect=heat, keep="best", strict=True)
    for _ in range(3):
        for _ in range(2):
            env.reset()
            over = False
            while not over:
                *_, over, _, _ = env.step(0)
        tune.report({"rollout": env.take()})
