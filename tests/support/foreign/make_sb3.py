"""Folders of Stable-Baselines3 2.9.2: ``python -m tests.support.foreign.make_sb3 FOLDER``, with moviepy installed.

``sb3_tensorboard`` has its default names of TensorBoard runs, ``sb3_evaluated`` a folder for each run with the files of
``Monitor``, the CSV logger, ``EvalCallback`` and ``VecVideoRecorder``.
"""

import sys
from pathlib import Path

from stable_baselines3 import PPO, SAC
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.logger import configure
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecVideoRecorder

from tests.support.foreign.tidy import tidy
from tests.support.foreign.toy_env import make

PPO_SETTINGS = {"n_steps": 64, "batch_size": 32, "n_epochs": 2, "policy_kwargs": {"net_arch": [8]}, "device": "cpu"}
SAC_SETTINGS = {"learning_starts": 32, "batch_size": 16, "policy_kwargs": {"net_arch": [8]}, "device": "cpu"}


def tensorboard_runs(folder):
    for seed in (1, 2):
        PPO("MlpPolicy", Monitor(make()), seed=seed, tensorboard_log=str(folder), **PPO_SETTINGS).learn(320)
    model = SAC("MlpPolicy", Monitor(make()), seed=1, tensorboard_log=str(folder), **SAC_SETTINGS)
    model.learn(96, log_interval=4)


def evaluated_run(folder, seed):
    folder.mkdir(parents=True)
    env = DummyVecEnv([lambda: Monitor(make(), str(folder))])
    env = VecVideoRecorder(env, str(folder / "videos"), lambda step: step in (0, 128), video_length=6)
    model = PPO("MlpPolicy", env, seed=seed, **PPO_SETTINGS)
    model.set_logger(configure(str(folder), ["csv", "tensorboard", "json"]))
    evaluation = Monitor(make())
    model.learn(320, EvalCallback(evaluation, n_eval_episodes=3, eval_freq=64, log_path=str(folder), verbose=0))
    env.close()


def main(folder):
    tensorboard_runs(folder / "sb3_tensorboard")
    for seed in (1, 2):
        evaluated_run(folder / "sb3_evaluated" / f"ppo_toy_seed{seed}", seed)
    tidy(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
