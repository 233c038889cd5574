"""What ``mypy --strict`` says about a user's script."""

import re

import pytest

api = pytest.importorskip("mypy.api")

SCRIPT = """
import gymnasium as gym
import tune_media as tm

env = gym.make("CartPole-v1", render_mode="rgb_array")
envs = gym.make_vec("CartPole-v1", num_envs=2, render_mode="rgb_array")

fine = tm.gym.RecordEpisodes(env, "clips", keep=("best", tm.selection.last(3)), fps=30, episode_trigger=bool)
observation, info = fine.reset(seed=1)
observation, reward, terminated, truncated, info = fine.step(0)
clips = tm.gym.RecordVectorEpisodes(envs, env_indices=[0], video=tm.VideoOptions(height=64)).take()
seeded = tm.gym.FixedSeeds(env, [1, 2])

tm.gym.RecordEpisodes(env, kep="best")  # wrong
tm.gym.RecordEpisodes(env, keep=3)  # wrong
tm.gym.RecordEpisodes(env, fps="30")  # wrong
tm.gym.RecordEpisodes(env, video="small")  # wrong
tm.gym.RecordEpisodes(env, video_length="5")  # wrong
tm.gym.RecordEpisodes(env, episode_triger=lambda n: True)  # wrong
tm.gym.RecordEpisodes(env, step_trigger=5)  # wrong
tm.gym.RecordEpisodes(env, "clips", bool, None, 0, "prefix", 30)
tm.gym.RecordEpisodes(env, "clips", "prefix")  # wrong
tm.gym.RecordVectorEpisodes(envs, env_indeces=[0])  # wrong
tm.gym.FixedSeeds(env, sedes=[1])  # wrong
tm.VideoOptions(heigth=64)  # wrong
tm.VideoOptions(height="64")  # wrong
fine.tak()  # wrong

tm.rllib.record_episodes(keep=("best", tm.selection.worst(2)), collect={"speed": "data/speed"}, seeds=5, window=10)
tm.rllib.record_episodes(kep="best")  # wrong
tm.rllib.record_episodes(section="train")  # wrong
tm.rllib.record_episodes(sections=3)  # wrong
tm.rllib.record_episodes(keep=3)  # wrong
tm.rllib.record_episodes(trigger=10)  # wrong
tm.rllib.record_episodes(video={"fps": 30})  # wrong
tm.rllib.record_episodes(env_runners="all")  # wrong
tm.rllib.record_episodes(fps=30)  # wrong
tm.rllib.record_episodes(trajectories="yes")  # wrong
options = tm.MediaOptions(retention=tm.Retention(last=20, best=5), raw_fps=30)
tm.MediaOptions(retension=None)  # wrong
tm.MediaOptions(retention=20)  # wrong
tm.MediaOptions(raw_fps="30")  # wrong
tm.Retention(lst=3)  # wrong
tm.Retention(best="5")  # wrong
tm.JsonMediaLoggerCallback(media=options)
tm.JsonMediaLoggerCallback(retention=tm.Retention())  # wrong
tm.JsonMediaLoggerCallback(tm.Retention())  # wrong
tm.TBXMediaLoggerCallback(logdir="logs")  # wrong
tm.WandbMediaLoggerCallback("walkers", mode="offline", episodes_artifact=True, media=options)
tm.WandbMediaLoggerCallback(project=3)  # wrong
tm.WandbMediaLoggerCallback(media=tm.Retention())  # wrong
tm.MLflowMediaLoggerCallback("sqlite:///mlflow.db", save_artifact=True, media=options)
tm.MLflowMediaLoggerCallback(tracking_url="x")  # wrong
tm.MLflowMediaLoggerCallback(save_artifact="yes")  # wrong
tm.MediaLoggerCallback(tm.Backend(), medea=options)  # wrong
tm.MediaLoggerCallback("json")  # wrong
tm.VideoOptions(overlays="step")  # wrong
tm.VideoOptions(every="4")  # wrong
tm.Video([], fsp=30)  # wrong
tm.selection.best(n=3)  # wrong
tm.record_episodes()  # wrong
"""
CONFIG = """
[mypy]
strict = True

[mypy-ray.*,tensorboardX.*,pyarrow.*,pandas.*,torch.*,numpy.*,av.*,PIL.*,matplotlib.*,mlflow.*,wandb.*]
follow_imports = skip
ignore_missing_imports = True
"""


@pytest.mark.slow
def test_each_misspelt_argument_is_an_error_and_nothing_else(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "mypy.ini").write_text(CONFIG)
    arguments = [str(tmp_path / "script.py"), "--config-file", str(tmp_path / "mypy.ini"), "--no-error-summary"]
    output, errors, _ = api.run([*arguments, "--cache-dir", str(tmp_path / "cache")])
    assert errors == ""
    found = {int(line) for line in re.findall(r"script\.py:(\d+): error", output)}
    planted = {number for number, line in enumerate(SCRIPT.split("\n"), 1) if line.endswith("# wrong")}
    assert found == planted, output
    assert "_make_recording" not in output
