"""Function trainables that several tests run."""

import numpy as np
from ray import tune

import tune_media as tm


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
