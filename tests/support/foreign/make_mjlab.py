"""A folder of mjlab 1.6.0 with rsl_rl 5.4.2: ``MUJOCO_GL=egl python -m tests.support.foreign.make_mjlab FOLDER``.

On a CPU; its own ``run_train`` writes everything; the policies are deleted.
"""

import os
import sys
from pathlib import Path

from mjlab.scripts.train import TrainConfig, run_train

from tests.support.foreign.tidy import make_runs, tidy

TASK = "Mjlab-Cartpole-Balance"


def run(folder, seed, learning_rate):
    config = TrainConfig.from_task(TASK)
    config.agent.seed, config.agent.algorithm.learning_rate = seed, learning_rate
    config.agent.max_iterations, config.agent.num_steps_per_env, config.agent.logger = 4, 8, "tensorboard"
    config.env.scene.num_envs, config.env.episode_length_s = 4, 0.2
    config.env.viewer.width = config.env.viewer.height = 32
    object.__setattr__(config, "video", True)
    object.__setattr__(config, "video_length", 6)
    object.__setattr__(config, "video_interval", 16)
    run_train(TASK, config, folder)
    for path in [*folder.rglob("*.pt"), *folder.rglob("*.onnx"), *folder.rglob("*.diff")]:
        path.unlink()


def main(folder):
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    make_runs(run, folder / "mjlab" / "logs" / "rsl_rl" / "cartpole")
    tidy(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
