import gymnasium as gym
import pytest

import tune_media as tm
from tests.support.envs import CountingEnv
from tests.support.loops import stepped

OF_FIXED_LENGTH = {"video_length": 5, "video_folder": "x"}

MISTAKES = [
    ({"step_trigger": bool}, "video_folder"),
    ({"video_length": 5}, "video_folder"),
    ({"video_length": 2.5, "video_folder": "x"}, "frames"),
    ({"video_length": "5"}, r"video_length=...\) takes a number of frames, .*, got '5'"),
    ({"name_prefix": "a/b"}, "file name"),
    ({**OF_FIXED_LENGTH, "video": tm.VideoOptions(overlay="step")}, "whole episodes"),
    ({**OF_FIXED_LENGTH, "video": tm.VideoOptions(max_frames=2)}, "less than"),
    ({**OF_FIXED_LENGTH, "episode_trigger": tm.selection.RenderBudget(0.1)}, "whole episodes"),
    ({**OF_FIXED_LENGTH, "frame": {"a": "render"}}, "whole episodes"),
    ({"env_indices": [7]}, "indices"),
    ({"video_folder": 3}, r"video_folder=...\) takes a path or None, got 3"),
    ({"buffer_length": "5"}, r"buffer_length=...\) takes a number of episodes or None, .* no limit, got '5'"),
    ({"fps": 0}, r"fps=...\) takes a number above 0 or None, for example fps=30, got 0"),
    ({"fps": 30, "video": None}, r"fps=30\) is the speed of clips, and video=None wants none"),
    ({"fps": 30, "video": tm.VideoOptions(fps=20)}, r"fps=30 and video.fps=20; leave one of them out"),
    ({"render": "replay"}, "pass env_fn="),
    ({"render": "replay", "env_fn": CountingEnv, "video_folder": "clips"}, "leave one of them out"),
]


@pytest.mark.parametrize(("options", "words"), MISTAKES)
def test_a_mistake_is_refused_at_once_with_the_argument_the_value_and_the_remedy(options, words):
    """More of them are in tests/test_mistakes.py."""
    with pytest.raises((TypeError, ValueError), match=words):
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
    stepped(envs, 60, seed=1)
    clip = envs.take()["last"]
    assert clip.frames == clip.episode.episode_length + 1


@pytest.mark.parametrize("wrapper", [tm.gym.RecordEpisodes, tm.gym.RecordVectorEpisodes])
def test_a_vector_env_of_stable_baselines_is_refused_with_what_to_wrap_instead(wrapper):
    vec_env = pytest.importorskip("stable_baselines3.common.vec_env")
    with pytest.raises(TypeError, match=r"DummyVecEnv\(\[lambda: tune_media.gym.RecordEpisodes\("):
        wrapper(vec_env.DummyVecEnv([CountingEnv]))
