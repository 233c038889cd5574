import gymnasium as gym
import numpy as np
import pytest

import tune_media as tm
from tests.support.envs import CountingEnv


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"step_trigger": bool}, "video_folder"),
        ({"video_length": 5}, "video_folder"),
        ({"video_length": -1}, "frames"),
        ({"name_prefix": "a/b"}, "file name"),
        ({"keep": "bets"}, "no selector"),
        ({"video_length": 5, "video_folder": "x", "video": tm.VideoOptions(overlay="step")}, "whole episodes"),
        ({"video_length": 5, "video_folder": "x", "video": tm.VideoOptions(max_frames=2)}, "less than"),
        ({"video_length": 5, "video_folder": "x", "episode_trigger": tm.selection.RenderBudget(0.1)}, "whole episodes"),
        ({"video_length": 5, "video_folder": "x", "frame": {"a": "render"}}, "whole episodes"),
        ({"video_length": 2.5, "video_folder": "x"}, "frames"),
        ({"env_indices": [7]}, "indices"),
        ({"frame": {}}, "empty"),
        ({"video": None, "frame": "render"}, "leave one of them out"),
    ],
)
def test_contradictions_fail_at_once(options, words):
    with pytest.raises(ValueError, match=words):
        tm.gym.RecordEpisodes(CountingEnv(), **options)


@pytest.mark.parametrize("mode", [{}, {"render_mode": "human"}])
def test_an_env_that_does_not_render_frames_fails_at_once(mode):
    with pytest.raises(ValueError, match="render_mode='rgb_array'"):
        tm.gym.RecordEpisodes(gym.make("CartPole-v1", **mode))


def test_an_env_that_collects_its_frames_is_recorded_and_hands_them_over_as_before():
    env = tm.gym.RecordEpisodes(gym.make("CartPole-v1", render_mode="rgb_array_list"))
    env.reset(seed=1)
    while not any(env.step(0)[2:4]):
        pass
    assert len(env.render()) == env.take()["last"].frames == env.length_queue[0] + 1
    envs = tm.gym.RecordEpisodes(gym.make_vec("CartPole-v1", 2, "sync", render_mode="rgb_array_list"))
    envs.reset(seed=1)
    for _ in range(60):
        envs.step(np.zeros(2, int))
    clip = envs.take()["last"]
    assert clip.frames == clip.episode.episode_length + 1


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"keep": 3}, TypeError, r"keep= takes a selector's name .* got 3"),
        ({"video_folder": 3}, TypeError, r"video_folder=...\) takes a path or None, got 3"),
        ({"name_prefix": 3}, TypeError, r"name_prefix=...\) takes a text, got 3"),
        ({"video_length": "5"}, TypeError, r"video_length=...\) counts frames, .*; got '5'"),
        ({"video_length": None}, TypeError, r"video_length=...\) counts frames, .*; got None"),
        ({"buffer_length": "5"}, TypeError, r"buffer_length=...\) counts episodes, None for no limit; got '5'"),
        ({"buffer_length": -1}, ValueError, r"buffer_length=...\) counts episodes, None for no limit; got -1"),
        ({"fps": "30"}, TypeError, r"fps=...\) takes frames per second, for example fps=30, got '30'"),
        ({"fps": 0}, ValueError, r"fps=...\) must be positive, for example fps=30, got 0"),
        ({"fps": 30, "video": None}, ValueError, r"fps=30\) is the speed of clips, and video=None wants none"),
        ({"fps": 30, "video": tm.VideoOptions(fps=20)}, ValueError, r"fps=30 and video.fps=20; leave one of them out"),
        ({"fpss": 30}, TypeError, r"RecordEpisodes.__init__\(\) got an unexpected keyword argument 'fpss'"),
    ],
)
def test_each_message_names_the_argument_the_value_and_the_remedy(options, error, words):
    with pytest.raises(error, match=words):
        tm.gym.RecordEpisodes(CountingEnv(), **options)


@pytest.mark.parametrize("wrapper", [tm.gym.RecordEpisodes, tm.gym.RecordVectorEpisodes])
def test_a_vector_env_of_stable_baselines_is_refused_with_what_to_wrap_instead(wrapper):
    vec_env = pytest.importorskip("stable_baselines3.common.vec_env")
    with pytest.raises(TypeError, match=r"DummyVecEnv\(\[lambda: tune_media.gym.RecordEpisodes\("):
        wrapper(vec_env.DummyVecEnv([CountingEnv]))
