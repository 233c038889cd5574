"""A multirun of Hydra 1.3.8, and one run: ``python -m tests.support.foreign.make_hydra FOLDER``.

The app writes a CSV of its returns and a clip of each evaluation, as many of its users' own scripts do.
"""

import csv
import sys
from pathlib import Path

import hydra

from tests.support.foreign.tidy import tidy
from tests.support.foreign.toy_env import clip, gains, make, play


@hydra.main(version_base=None, config_path="hydra_app", config_name="train")
def train(config):
    here = Path(hydra.core.hydra_config.HydraConfig.get().runtime.output_dir)
    env = make()
    with (here / "progress.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["env_steps", "episode_return"])
        for number, gain in enumerate(gains(config.seed, 4, config.agent.lr), 1):
            episode_return, frames = play(env, gain, config.seed)
            rows.writerow([8 * number, episode_return])
            if number in (1, 4):
                clip(frames, here / "videos" / f"eval-step-{8 * number}.mp4")


def main(folder):
    common = ["hydra/job_logging=disabled", "hydra/hydra_logging=disabled"]
    sweep = f"hydra.sweep.dir={folder}/hydra_multirun/multirun/2026-11-29/14-00-00"
    sys.argv = ["train.py", "--multirun", "agent.lr=1e-1,5e-1", "seed=1,2", sweep, *common]
    train()
    sys.argv = ["train.py", f"hydra.run.dir={folder}/hydra_single/outputs/2026-11-29/15-00-00", *common]
    train()
    tidy(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
