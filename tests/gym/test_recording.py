import gymnasium as gym
import pytest

import tune_media as tm
from tests.support.envs import CountingEnv
from tests.support.loops import names, play, stepped
from tune_media.replay.process import RenderProcess


def test_views_that_come_and_go_say_so():
    def views(env):
        step = env.unwrapped.counter.step_count
        frame = env.unwrapped.render().copy()
        return {"always": frame, **({"late": frame} if step >= 2 else {}), **({"early": frame} if step < 3 else {})}

    env = tm.gym.RecordEpisodes(CountingEnv({"length": 6}), frame=views, keep="last")
    play(env, 1)
    clips = env.take()["last"]
    assert {name: clip.frames for name, clip in clips.items()} == {"always": 7, "early": 3, "late": 5}
    assert clips["always"].note is None
    assert "began at step 2" in clips["late"].note
    assert "ended before" in clips["early"].note


def test_numbers_of_the_users_own_are_taken_from_each_step_and_without_clips_nothing_is_rendered():
    env = tm.gym.RecordEpisodes(
        CountingEnv({"length": 4}),
        collect=lambda step: {"step": step.step, "nested": {"action": step.action}, "reward": step.reward},
        keep="all",
        video=None,
    )
    (total, _), _ = play(env, 2)
    metrics = env.take()["all"][0].metrics
    expected = {"step_avg": 2.5, "step_sum": 10, "step_min": 1, "step_max": 4, "step_last": 4, "nested/action_sum": 0}
    assert expected.items() <= metrics.items()
    assert metrics["reward_sum"] == pytest.approx(total)
    assert env.unwrapped.renders == 0


@pytest.mark.parametrize("vector", [False, True])
def test_numbers_of_info_by_path(vector):
    class Telling(CountingEnv):
        def step(self, action):
            *rest, _ = super().step(action)
            info = {"data": {"speed": 2.0 * self.counter.step_count}}
            return *rest, info | ({"rare": 1} if self.counter.step_count == 2 else {})

    options = {"collect": ["data/speed", "rare", "missing"], "keep": "all", "video": None}
    if vector:
        env = tm.gym.RecordEpisodes(gym.vector.SyncVectorEnv([Telling] * 2), **options)
        stepped(env, 30)
    else:
        env = tm.gym.RecordEpisodes(Telling(), **options)
        play(env, 2)
    for record in env.take()["all"]:
        assert record.metrics["data/speed_max"] == 2.0 * record.episode_length
        assert record.metrics["data/speed_min"] == 2.0
        assert record.metrics["rare_sum"] == 1
        assert not any(name.startswith("missing") for name in record.metrics)


def test_what_cannot_be_stored_is_left_out_with_one_warning(caplog):
    env = tm.gym.RecordEpisodes(CountingEnv(), collect=lambda step: {"name": lambda: 0}, keep="all")
    play(env, 2)
    assert len(env.take()["all"]) == 2  # the clips are there all the same
    assert len(caplog.records) == 1
    assert "name is a function" in caplog.text


def test_views_become_clips_of_one_episode(tmp_path):
    env = tm.gym.RecordEpisodes(
        CountingEnv(),
        tmp_path,
        frame={"front": "render", "mirrored": lambda env: env.render()[:, ::-1]},
        keep="last",
    )
    ((_, length),) = play(env, 1)
    clips = env.take()["last"]
    assert set(clips) == {"front", "mirrored"}
    assert clips["front"].id != clips["mirrored"].id
    assert {clip.episode.view for clip in clips.values()} == {"front", "mirrored"}
    assert {clip.frames for clip in clips.values()} == {length + 1}
    assert names(tmp_path) == ["rl-video-episode-0-front.mp4", "rl-video-episode-0-mirrored.mp4"]


def lake():
    return gym.make("FrozenLake-v1", render_mode="rgb_array", max_episode_steps=8)


def test_sub_envs_in_other_processes_are_rendered_directly_and_it_is_said(caplog):
    env = tm.gym.RecordEpisodes(gym.vector.AsyncVectorEnv([lake]), keep="all", render="replay", env_fn=lake)
    try:
        env.reset(seed=0)
        for _ in range(9):
            env.step(env.action_space.sample())
        assert {clip.episode.rendered for clip in env.take()["all"]} == {"direct"}
    finally:
        env.close()
    (record,) = [record for record in caplog.records if record.levelname == "WARNING" and "tune_media" in record.name]
    assert "in other processes" in record.getMessage()


def test_episodes_that_take_hands_over_have_tapes_that_another_process_plays():
    env = tm.gym.RecordEpisodes(lake(), keep="best", render="replay", env_fn=lake)
    play(env, 3)
    batch = env.take()["data"]
    (recipe,) = batch.recipes.values()
    with RenderProcess(recipe) as process:
        for episode in batch.episodes:
            assert episode.recipe in batch.recipes
            assert process.render(episode.tape)[""].frames == 1 + episode.record.episode_length
