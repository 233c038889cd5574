import gymnasium as gym
import numpy as np
import pytest

import tune_media as tm
from tests.support.envs import CountingEnv
from tests.support.experiment import assert_whole_episode, read_clip
from tests.support.loops import names, play


def test_a_step_trigger_and_a_fixed_length_go_on_over_resets(tmp_path):
    env = tm.gym.RecordEpisodes(
        CountingEnv({"length": 5}), tmp_path, step_trigger=lambda step: step in (2, 13), video_length=8
    )
    play(env, 4)
    env.close()
    assert names(tmp_path) == ["rl-video-step-13.mp4", "rl-video-step-2.mp4"]
    counts = read_clip(tmp_path / "rl-video-step-2.mp4")
    assert [(count.episode, count.step) for count in counts] == [
        (0, 3), (0, 4), (0, 5), (1, 0), (1, 1), (1, 2), (1, 3), (1, 4),
    ]  # fmt: skip


def test_a_fixed_length_cuts_each_triggered_episode(tmp_path):
    env = tm.gym.RecordEpisodes(CountingEnv({"length": 9}), tmp_path, video_length=4)
    play(env, 2)
    env.close()
    for n in range(2):
        assert [count.step for count in read_clip(tmp_path / f"rl-video-episode-{n}.mp4")] == [0, 1, 2, 3]


def test_without_a_trigger_clips_of_a_fixed_length_go_on_over_resets_one_after_the_other(tmp_path):
    env = tm.gym.RecordEpisodes(CountingEnv({"length": 5}), tmp_path, video_length=20)
    play(env, 8)
    env.close()
    assert names(tmp_path) == ["rl-video-episode-0.mp4", "rl-video-episode-4.mp4"]
    counts = read_clip(tmp_path / "rl-video-episode-0.mp4")
    assert [(count.episode, count.step) for count in counts] == [
        *((episode, step) for episode in range(3) for step in range(6)), (3, 0), (3, 1),
    ]  # fmt: skip


def test_an_episode_of_a_trigger_ends_the_clip_that_runs(tmp_path):
    env = tm.gym.RecordEpisodes(
        CountingEnv({"length": 5}), tmp_path, episode_trigger=lambda n: n in (0, 2), video_length=20
    )
    play(env, 6)
    env.close()
    assert names(tmp_path) == ["rl-video-episode-0-unfinished.mp4", "rl-video-episode-2.mp4"]


def test_several_views_in_a_clip_of_a_fixed_length_are_refused(tmp_path, caplog):
    env = tm.gym.RecordEpisodes(
        CountingEnv(), tmp_path, video_length=4, frame=lambda env: {"a": env.render(), "b": env.render()}
    )
    play(env, 1)
    env.close()
    (record,) = caplog.records
    assert "frame= returned several views ('a', 'b'), which are for clips of whole episodes" in record.getMessage()


def test_a_clip_of_a_step_trigger_ends_where_its_episode_is_broken_off(tmp_path):
    env = tm.gym.RecordEpisodes(CountingEnv({"length": 9}), tmp_path, step_trigger=lambda step: step == 1)
    env.reset()
    for _ in range(3):
        env.step(0)
    env.reset()
    play(env, 1)
    env.close()
    assert names(tmp_path) == ["rl-video-step-1-unfinished.mp4"]
    counts = read_clip(tmp_path / "rl-video-step-1-unfinished.mp4")
    assert [(count.episode, count.step) for count in counts] == [(0, 2), (0, 3)]


def test_a_trigger_is_asked_once_an_episode(tmp_path):
    asked = []
    env = tm.gym.RecordEpisodes(
        CountingEnv(), tmp_path, episode_trigger=lambda n: asked.append(n) or n == 1, video_length=3
    )
    play(env, 3)
    env.close()
    assert asked == [0, 1, 2]
    assert names(tmp_path) == ["rl-video-episode-1.mp4"]


@pytest.mark.parametrize("options", [{"video_length": 4}, {"step_trigger": lambda step: 1 / 0}])
def test_faults_of_clips_of_a_fixed_length_do_not_reach_the_loop(tmp_path, options, caplog):
    env = tm.gym.RecordEpisodes(CountingEnv(), tmp_path, frame=lambda env: env.nothing, **options)
    play(env, 2)
    env.close()
    assert names(tmp_path) == []
    assert len(caplog.records) >= 1


def test_a_step_trigger_is_asked_from_zero_on_once_a_step(tmp_path):
    asked = []
    env = tm.gym.RecordEpisodes(CountingEnv({"length": 3}), tmp_path, step_trigger=lambda n: asked.append(n) or n == 0)
    play(env, 2)
    env.close()
    assert asked == list(range(6))
    assert names(tmp_path) == ["rl-video-step-0.mp4"]
    assert [count.step for count in read_clip(tmp_path / "rl-video-step-0.mp4")] == [1, 2, 3]


def test_a_step_trigger_of_a_vector_env_is_asked_once_for_all_sub_envs(tmp_path):
    asked = []
    env = gym.vector.SyncVectorEnv([lambda: CountingEnv({"length": 9})] * 3)
    env = tm.gym.RecordEpisodes(
        env, tmp_path, step_trigger=lambda n: asked.append(n) or n == 1, video_length=2, env_indices=[0, 2]
    )
    env.reset()
    for _ in range(4):
        env.step(np.zeros(3, int))
    env.close()
    assert asked == [0, 1, 2, 3]
    assert names(tmp_path) == ["rl-video-env-0-step-1.mp4", "rl-video-env-2-step-1.mp4"]
    for name in names(tmp_path):
        assert [count.step for count in read_clip(tmp_path / name)] == [2, 3]


def test_both_triggers_make_clips_of_their_own(tmp_path):
    env = tm.gym.RecordEpisodes(
        CountingEnv({"length": 5}),
        tmp_path,
        episode_trigger=lambda n: n == 1,
        step_trigger=lambda n: n in (0, 6),
    )
    play(env, 3)
    env.close()
    assert names(tmp_path) == ["rl-video-episode-1.mp4", "rl-video-step-0.mp4", "rl-video-step-6.mp4"]
    assert_whole_episode(tmp_path / "rl-video-episode-1.mp4", 5)
    steps = [(count.episode, count.step) for count in read_clip(tmp_path / "rl-video-step-6.mp4")]
    assert steps == [(1, 2), (1, 3), (1, 4), (1, 5)]


def test_a_trigger_in_mid_clip_ends_it_and_starts_the_next(tmp_path):
    env = tm.gym.RecordEpisodes(
        CountingEnv({"length": 9}), tmp_path, step_trigger=lambda n: n in (0, 3), video_length=5
    )
    play(env, 1)
    env.close()
    assert names(tmp_path) == ["rl-video-step-0-unfinished.mp4", "rl-video-step-3.mp4"]
    assert [count.step for count in read_clip(tmp_path / "rl-video-step-3.mp4")] == [4, 5, 6, 7, 8]


def test_every_nth_frame_counts_from_the_first_frame_of_a_clip(tmp_path):
    inner = CountingEnv({"length": 5})
    env = tm.gym.RecordEpisodes(
        inner,
        tmp_path,
        step_trigger=lambda step: step == 2,
        video_length=4,
        video=tm.VideoOptions(every=2),
    )
    play(env, 3)
    env.close()
    counts = read_clip(tmp_path / "rl-video-step-2.mp4")
    assert [(count.episode, count.step) for count in counts] == [(0, 3), (0, 5), (1, 1), (1, 3)]
    assert inner.renders == 4


@pytest.mark.parametrize(("steps", "shown"), [(9, [2, 5, 8, 9]), (8, [2, 5, 8])])
def test_a_clip_that_ends_with_its_episode_shows_its_last_frame_once(tmp_path, steps, shown):
    env = tm.gym.RecordEpisodes(
        CountingEnv({"length": steps}), tmp_path, step_trigger=lambda n: n == 1, video=tm.VideoOptions(every=3)
    )
    play(env, 1)
    env.close()
    assert [count.step for count in read_clip(tmp_path / "rl-video-step-1.mp4")] == shown


@pytest.mark.parametrize(("made", "name", "shown"), [(4, "-unfinished", [2, 4]), (9, "", [2, 5, 8, 9])])
def test_a_clip_of_every_nth_frame_that_is_broken_off_shows_how_far_it_came(tmp_path, made, name, shown):
    env = tm.gym.RecordEpisodes(
        CountingEnv({"length": 9}), tmp_path, step_trigger=lambda n: n == 1, video=tm.VideoOptions(every=3)
    )
    env.reset()
    for _ in range(made):
        env.step(0)
    env.reset()
    env.close()
    assert [count.step for count in read_clip(tmp_path / f"rl-video-step-1{name}.mp4")] == shown
