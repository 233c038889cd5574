"""Folders of rl-baselines3-zoo 2.9.2: ``python -m tests.support.foreign.make_rl_zoo FOLDER``.

Its own ``train``; the policies are deleted.
"""

import sys
import tempfile
from pathlib import Path

from rl_zoo3.train import train

from tests.support.foreign.tidy import tidy
from tests.support.foreign.toy_env import ENV_ID, clip, make, play

COMMON = "  n_timesteps: !!float 320\n  policy: MlpPolicy\n  policy_kwargs: dict(net_arch=[8])\n"
SETTINGS = {
    "ppo": f"{ENV_ID}:\n  n_envs: 1\n  n_steps: 64\n  batch_size: 32\n  learning_rate: !!float 3e-4\n{COMMON}",
    "a2c": f"{ENV_ID}:\n  n_envs: 1\n  learning_rate: lin_7e-4\n{COMMON}",
}


def run(folder, algorithm, seed):
    with tempfile.TemporaryDirectory() as settings:
        file = Path(settings, f"{algorithm}.yml")
        file.write_text(SETTINGS[algorithm])
        arguments = f"--algo {algorithm} --env {ENV_ID} --gym-packages tests.support.foreign.toy_env --seed {seed}"
        arguments += f" --eval-freq 64 --eval-episodes 3 --n-eval-envs 1 --log-folder {folder} --conf-file {file}"
        arguments += " --device cpu --verbose 0"
        sys.argv = ["train.py", *arguments.split()]
        train()


def main(folder):
    logs = folder / "rl_zoo" / "logs"
    for algorithm, seed in (("ppo", 1), ("ppo", 2), ("a2c", 1), ("a2c", 2)):
        run(logs, algorithm, seed)
    for path in logs.rglob("*.zip"):
        path.unlink()
    clip(
        play(make(), 1, 1)[1],
        logs / "ppo" / f"{ENV_ID}_1" / "videos" / f"final-model-ppo-{ENV_ID}-step-0-to-step-8.mp4",
    )
    tidy(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
