"""A short training of mjlab on the processor, with our log writer and TensorBoard's beside it: ``FOLDER``."""

import sys
from dataclasses import replace

import mjlab.tasks  # noqa: F401 - it registers them
from mjlab.scripts.train import TrainConfig, launch_training

TASK = "Mjlab-Cartpole-Balance"


def main(folder):
    config = TrainConfig.from_task(TASK)
    config = replace(config, log_root=folder, gpu_ids=None, video=True, video_length=10, video_interval=64)
    config.env.scene.num_envs = 8
    config.agent.max_iterations = 4
    config.agent.logger = {"class_name": "tune_media.rsl_rl:LogWriter", "also": "tensorboard"}
    launch_training(TASK, config)


if __name__ == "__main__":
    main(sys.argv[1])
