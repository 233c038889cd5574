import numpy as np
import pytest
from packaging.version import Version

import tune_media as tm
from tests.support.envs import CountingEnv
from tests.support.experiment import fit, image_steps, read_clip, rows_of, trial_folders

ray = pytest.importorskip("ray")
from ray import tune  # noqa: E402
from ray.rllib.algorithms.ppo import PPOConfig  # noqa: E402
from ray.rllib.callbacks.callbacks import RLlibCallback  # noqa: E402

OLD_METRICS = Version(ray.__version__) < Version("2.52")


class ForumCallback(RLlibCallback):
    """What the forum's report does: raw frames in the episode, the last episode's clip logged at each sample's end."""

    def __init__(self):
        super().__init__()
        self.video = None

    def on_episode_step(self, *, episode, env_runner, env, **kwargs):
        if env_runner.config.in_evaluation:
            frame = env.unwrapped.envs[0].render().transpose(2, 0, 1).copy()
            episode.custom_data.setdefault("render_images", []).append(frame)

    def on_episode_end(self, *, episode, env_runner, **kwargs):
        if env_runner.config.in_evaluation:
            self.video = np.expand_dims(np.stack(episode.custom_data["render_images"]), axis=0)

    def on_sample_end(self, *, env_runner, metrics_logger, **kwargs):
        if env_runner.config.in_evaluation and self.video is not None:
            how = {"reduce": None, "clear_on_reduce": True} if OLD_METRICS else {"reduce": "item_series"}
            metrics_logger.log_value("episode_videos_best", self.video, **how)
            self.video = None


def forum_config():
    return (
        PPOConfig()
        .environment(CountingEnv)
        .env_runners(num_env_runners=0)
        .training(train_batch_size=64, minibatch_size=64, num_epochs=1)
        .rl_module(model_config={"fcnet_hiddens": [8]})
        .evaluation(evaluation_interval=2, evaluation_num_env_runners=1, evaluation_duration=1)
        .callbacks(ForumCallback)
    )


def test_the_forums_callback_leaves_as_many_clips_as_evaluations(ray_session, tmp_path):
    """«I end up with two videos instead of one»: RLlib repeats the evaluation in every iteration without one."""
    callbacks = [tm.JsonMediaLoggerCallback(), tm.TBXMediaLoggerCallback()]
    fit("PPO", tmp_path, callbacks, space=forum_config(), stop={"training_iteration": 5})
    rows = rows_of(tm.load(tmp_path / "exp"), section="evaluation", key="episode_videos_best")
    assert [row["training_iteration"] for row in rows] == [2, 4]
    assert image_steps(trial_folders(tmp_path / "exp")[0]) == {"evaluation/episode_videos_best": [2, 4]}
    for row in rows:  # the report's own flaw stays: it never rendered the reset frame
        steps = [count.step for count in read_clip(row["file"])]
        assert steps == list(range(1, len(steps) + 1))


def train(config):
    for level in range(2):
        tune.report({"clip": np.full((1, 3, 3, 16, 16), level, np.uint8)})


def test_with_no_change_of_code(ray_session, tmp_path, monkeypatch):
    """``RAY_TUNE_CALLBACKS=tune_media.JsonMediaLoggerCallback`` is all it takes."""
    monkeypatch.setenv("RAY_TUNE_CALLBACKS", "tune_media.JsonMediaLoggerCallback")
    fit(train, tmp_path, None)
    assert len(tm.load(tmp_path / "exp")) == 2
