"""What ``mypy --strict`` says about a user's script: only the lines with ``type: ignore`` are wrong.

``make types`` reads this file, and an ignore that is not needed is an error. Nothing runs it.
"""

import gymnasium as gym

import tune_media as tm


def script() -> None:
    """Use the API, and misspell it."""
    env = gym.make("CartPole-v1", render_mode="rgb_array")
    envs = gym.make_vec("CartPole-v1", num_envs=2, render_mode="rgb_array")

    fine = tm.gym.RecordEpisodes(env, "clips", keep=("best", tm.selection.last(3)), fps=30, episode_trigger=bool)
    fine.reset(seed=1)
    fine.step(0)
    tm.gym.RecordVectorEpisodes(envs, env_indices=[0], video=tm.VideoOptions(height=64)).take()
    tm.gym.FixedSeeds(env, [1, 2])

    tm.gym.RecordEpisodes(env, kep="best")  # type: ignore[call-arg]
    tm.gym.RecordEpisodes(env, keep=3)  # type: ignore[arg-type]
    tm.gym.RecordEpisodes(env, fps="30")  # type: ignore[arg-type]
    tm.gym.RecordEpisodes(env, video="small")  # type: ignore[arg-type]
    tm.gym.RecordEpisodes(env, video_length="5")  # type: ignore[arg-type]
    tm.gym.RecordEpisodes(env, episode_triger=lambda n: True)  # type: ignore[call-arg]
    tm.gym.RecordEpisodes(env, step_trigger=5)  # type: ignore[arg-type]
    tm.gym.RecordEpisodes(env, "clips", bool, None, 0, "prefix", 30)
    tm.gym.RecordEpisodes(env, "clips", "prefix")  # type: ignore[arg-type]
    tm.gym.RecordVectorEpisodes(envs, env_indeces=[0])  # type: ignore[call-arg]
    tm.gym.FixedSeeds(env, sedes=[1])  # type: ignore[call-arg]
    tm.VideoOptions(heigth=64)  # type: ignore[call-arg]
    tm.VideoOptions(height="64")  # type: ignore[arg-type]

    tm.rllib.record_episodes(keep=("best", tm.selection.worst(2)), collect={"speed": "data/speed"}, seeds=5, window=10)
    tm.rllib.record_episodes(kep="best")  # type: ignore[call-arg]
    tm.rllib.record_episodes(section="train")  # type: ignore[call-arg]
    tm.rllib.record_episodes(sections=3)  # type: ignore[arg-type]
    tm.rllib.record_episodes(keep=3)  # type: ignore[arg-type]
    tm.rllib.record_episodes(trigger=10)  # type: ignore[arg-type]
    tm.rllib.record_episodes(video={"fps": 30})  # type: ignore[arg-type]
    tm.rllib.record_episodes(env_runners="all")  # type: ignore[arg-type]
    tm.rllib.record_episodes(fps=30)  # type: ignore[call-arg]
    tm.rllib.record_episodes(trajectories="yes")  # type: ignore[arg-type]
    options = tm.MediaOptions(gif_width=160, raw_fps=30)
    tm.MediaOptions(gif_widht=160)  # type: ignore[call-arg]
    tm.MediaOptions(gif_width=None)  # type: ignore[arg-type]
    tm.MediaOptions(raw_fps="30")  # type: ignore[arg-type]
    tm.JsonMediaLoggerCallback(media=options)
    tm.JsonMediaLoggerCallback(raw_fps=30)  # type: ignore[call-arg]
    tm.JsonMediaLoggerCallback(tm.VideoOptions())  # type: ignore[arg-type]
    tm.TBXMediaLoggerCallback(logdir="logs")  # type: ignore[call-arg]
    tm.WandbMediaLoggerCallback("walkers", mode="offline", episodes_artifact=True, media=options)
    tm.WandbMediaLoggerCallback(project=3)  # type: ignore[arg-type]
    tm.WandbMediaLoggerCallback(media=tm.VideoOptions())  # type: ignore[arg-type]
    tm.MLflowMediaLoggerCallback("sqlite:///mlflow.db", save_artifact=True, media=options)
    tm.TrackioMediaLoggerCallback("walkers", media=options)
    tm.TrackioMediaLoggerCallback(project=3)  # type: ignore[arg-type]
    tm.MLflowMediaLoggerCallback(tracking_url="x")  # type: ignore[call-arg]
    tm.MLflowMediaLoggerCallback(save_artifact="yes")  # type: ignore[arg-type]
    tm.MediaLoggerCallback(tm.Backend(), medea=options)  # type: ignore[call-arg]
    tm.MediaLoggerCallback("json")  # type: ignore[arg-type]
    tm.VideoOptions(overlays="step")  # type: ignore[call-arg]
    tm.VideoOptions(every="4")  # type: ignore[arg-type]
    tm.Video([], fsp=30)  # type: ignore[call-arg]
    tm.selection.best(n=3)  # type: ignore[call-arg]
    tm.record_episodes()  # type: ignore[attr-defined]
