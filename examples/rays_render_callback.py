"""Ray's own recording recipe with our logger callbacks: its raw arrays become clips, each once.

The recipe is the ``EnvRenderCallback`` of Ray's ``env_rendering_and_recording.py``. It keeps frames in the episode,
shows only sub-env 0 and misses the reset frame: ``tune_media.rllib.record_episodes`` does none of this. But if you
have code like it, it works with our callbacks as it is.
"""

import argparse

import numpy as np
import ray
import ray.rllib.examples.envs.env_rendering_and_recording as recipe
from PIL import Image
from ray import tune
from ray.rllib.algorithms.ppo import PPOConfig

import tune_media as tm


def resize(frame, height, width):
    return np.asarray(Image.fromarray(frame).resize((width, height)))


class RenderWithoutOpenCV(recipe.EnvRenderCallback):
    """The recipe, unchanged but for one function: it scales its frames with OpenCV, and this example with Pillow."""

    def __init__(self):
        super().__init__()
        recipe.resize = resize


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--storage", default=None, help="folder or URI for results; default: ~/ray_results")
    args = parser.parse_args()
    ray.init(num_cpus=4, include_dashboard=False)
    config = (
        PPOConfig()
        .environment("CartPole-v1", env_config={"render_mode": "rgb_array"})
        .env_runners(num_env_runners=0)
        .training(train_batch_size=200, minibatch_size=100, num_epochs=1)
        # With few episodes a round may have no «worst» one, and Ray 2.50's own MetricsLogger raises at that.
        .evaluation(evaluation_interval=2, evaluation_num_env_runners=1, evaluation_duration=8)
        .callbacks(RenderWithoutOpenCV)
    )
    results = tune.Tuner(
        "PPO",
        param_space=config,
        run_config=tune.RunConfig(
            name="rays_render_callback",
            storage_path=args.storage,
            stop={"training_iteration": 4},
            callbacks=[tm.JsonMediaLoggerCallback(), tm.TBXMediaLoggerCallback()],
        ),
    ).fit()
    for row in tm.load(results.experiment_path):
        print(row["section"], row["key"], row["training_iteration"], row["frames"], row["path"])
