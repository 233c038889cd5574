import gymnasium as gym
import numpy as np
import pytest

import tune_media as tm
from tests.support.envs import CountingEnv
from tests.support.experiment import read_clip
from tests.support.loops import names, play, stepped
from tests.support.odd_envs import RenderDraws


def clips_in(folder):
    """Return the number of the episode and of the step that each frame shows, by the clip's file."""
    return {
        name.removeprefix("rl-video-"): [(count.episode, count.step) for count in read_clip(folder / name)]
        for name in names(folder)
    }


def of(episode, *steps):
    return [(episode, step) for step in steps]


@pytest.mark.parametrize(
    ("length", "episodes", "options", "clips"),
    [
        (  # it goes on over resets
            *(5, 4, {"step_trigger": {2, 13}, "video_length": 8}),
            {"step-2": of(0, 3, 4, 5) + of(1, 0, 1, 2, 3, 4), "step-13": of(2, 4, 5) + of(3, 0, 1, 2, 3, 4, 5)},
        ),
        (9, 2, {"video_length": 4}, {"episode-0": of(0, 0, 1, 2, 3), "episode-1": of(1, 0, 1, 2, 3)}),
        (  # without a trigger, one begins after the other
            *(3, 4, {"video_length": 6}),
            {"episode-0": of(0, 0, 1, 2, 3) + of(1, 0, 1), "episode-2": of(2, 0, 1, 2, 3) + of(3, 0, 1)},
        ),
        (  # an episode of a trigger ends the clip that runs
            *(3, 4, {"episode_trigger": {0, 1}, "video_length": 6}),
            {"episode-0-unfinished": of(0, 0, 1, 2, 3), "episode-1": of(1, 0, 1, 2, 3) + of(2, 0, 1)},
        ),
        (3, 3, {"episode_trigger": {1}, "video_length": 3}, {"episode-1": of(1, 0, 1, 2)}),
        (3, 2, {"step_trigger": {0}}, {"step-0": of(0, 1, 2, 3)}),
        (  # both triggers
            *(5, 3, {"episode_trigger": {1}, "step_trigger": {0, 6}}),
            {
                "episode-1": of(1, 0, 1, 2, 3, 4, 5),
                "step-0": of(0, 1, 2, 3, 4, 5),
                "step-6": of(1, 2, 3, 4, 5),
            },
        ),
        (  # a trigger in mid-clip
            *(9, 1, {"step_trigger": {0, 3}, "video_length": 5}),
            {"step-0-unfinished": of(0, 1, 2, 3), "step-3": of(0, 4, 5, 6, 7, 8)},
        ),
        (  # every nth frame is counted from the first frame of the clip
            *(5, 3, {"step_trigger": {2}, "video_length": 4, "video": tm.VideoOptions(every=2)}),
            {"step-2": of(0, 3, 5) + of(1, 1, 3)},
        ),
        (9, 1, {"step_trigger": {1}, "video": tm.VideoOptions(every=3)}, {"step-1": of(0, 2, 5, 8, 9)}),
        (8, 1, {"step_trigger": {1}, "video": tm.VideoOptions(every=3)}, {"step-1": of(0, 2, 5, 8)}),
    ],
)
def test_which_frames_the_clips_show_and_each_trigger_is_asked_once(tmp_path, length, episodes, options, clips):
    asked = {name: [] for name in options if "trigger" in name}
    triggers = {name: lambda n, name=name: asked[name].append(n) or n in options[name] for name in asked}
    inner = CountingEnv({"length": length})
    env = tm.gym.RecordEpisodes(inner, tmp_path, **{**options, **triggers})
    play(env, episodes)
    env.close()
    assert clips_in(tmp_path) == {f"{name}.mp4": shown for name, shown in clips.items()}
    for name, numbers in asked.items():
        assert numbers == list(range(episodes if name == "episode_trigger" else episodes * length))
    if "video" in options:
        assert inner.renders == sum(map(len, clips.values()))


def test_several_views_in_a_clip_of_a_fixed_length_are_refused(tmp_path, caplog):
    env = tm.gym.RecordEpisodes(
        CountingEnv(), tmp_path, video_length=4, frame=lambda env: {"a": env.render(), "b": env.render()}
    )
    play(env, 1)
    env.close()
    (record,) = caplog.records
    assert "frame= returned several views ('a', 'b'), which are for clips of whole episodes" in record.getMessage()


@pytest.mark.parametrize("options", [{"video_length": 4}, {"step_trigger": lambda step: 1 / 0}])
def test_faults_of_clips_of_a_fixed_length_do_not_reach_the_loop(tmp_path, options, caplog):
    env = tm.gym.RecordEpisodes(CountingEnv(), tmp_path, frame=lambda env: env.nothing, **options)
    play(env, 2)
    env.close()
    assert names(tmp_path) == []
    assert len(caplog.records) >= 1


def test_a_step_trigger_of_a_vector_env_is_asked_once_for_all_sub_envs(tmp_path):
    asked = []
    env = gym.vector.SyncVectorEnv([lambda: CountingEnv({"length": 9})] * 3)
    env = tm.gym.RecordEpisodes(
        env, tmp_path, step_trigger=lambda n: asked.append(n) or n == 1, video_length=2, env_indices=[0, 2]
    )
    stepped(env, 4)
    env.close()
    assert asked == [0, 1, 2, 3]
    assert names(tmp_path) == ["rl-video-env-0-step-1.mp4", "rl-video-env-2-step-1.mp4"]
    for name in names(tmp_path):
        assert [count.step for count in read_clip(tmp_path / name)] == [2, 3]


@pytest.mark.parametrize(
    ("every", "made", "name", "shown"),
    [(1, 3, "-unfinished", [2, 3]), (3, 4, "-unfinished", [2, 4]), (3, 9, "", [2, 5, 8, 9])],
)
def test_a_clip_of_a_step_trigger_that_is_broken_off_shows_how_far_it_came(tmp_path, every, made, name, shown):
    video = tm.VideoOptions(every=every)
    env = tm.gym.RecordEpisodes(CountingEnv({"length": 9}), tmp_path, step_trigger=lambda n: n == 1, video=video)
    stepped(env, made)
    env.reset()
    play(env, 1)
    env.close()
    assert clips_in(tmp_path) == {f"step-1{name}.mp4": of(0, *shown)}


def test_frames_of_clips_of_a_fixed_length_change_no_number_of_the_run(tmp_path):
    plain, other = (gym.vector.SyncVectorEnv([RenderDraws] * 2) for _ in range(2))
    recorded = tm.gym.RecordEpisodes(other, tmp_path, video_length=4)
    for env in (plain, recorded):
        env.reset(seed=1)
    for _ in range(14):
        assert np.array_equal(plain.step([0, 0])[0], recorded.step([0, 0])[0])
    recorded.close()
    assert len(names(tmp_path)) > 2
