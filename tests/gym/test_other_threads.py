"""A thread draws random numbers while frames are rendered; a script changes an env in the middle of an episode."""

import random

import pytest

import tune_media as tm
from tests.support import odd_envs
from tests.support.loops import play


class SlowDraws(odd_envs.Slow, odd_envs.RenderDrawsFromGlobal):
    """Its pictures take a number of the process's generator."""


def from_seed(count):
    source = random.Random(5)
    return [source.random() for _ in range(count)]


def texts_of(caplog):
    return [record.getMessage() for record in caplog.records if record.name.startswith("tune_media")]


@pytest.mark.parametrize("render", ["direct", "auto"])
def test_a_thread_that_draws_gets_the_numbers_of_a_run_without_a_recorder_and_no_env_is_blamed(render, caplog):
    env = tm.gym.RecordEpisodes(odd_envs.Slow(), keep="all", render=render, env_fn=odd_envs.Slow)
    with odd_envs.drawing(5) as drawn:
        for _ in range(4):
            play(env, 2)
            taken = env.take()
    env.close()
    assert len(drawn) > 50
    assert drawn == from_seed(len(drawn))
    (text,) = texts_of(caplog)
    assert "numbers were drawn from random: by render() itself, or by another thread (loader)" in text
    assert {clip.episode.rendered for clip in taken["all"]} == {"replay" if render == "auto" else "direct"}


def test_an_env_that_is_proven_to_draw_is_recorded_directly_although_a_thread_draws_too(caplog):
    env = tm.gym.RecordEpisodes(SlowDraws(), keep="all", render="auto", env_fn=SlowDraws)
    with odd_envs.drawing():
        for _ in range(4):
            play(env, 2)
            taken = env.take()
    env.close()
    assert {clip.episode.rendered for clip in taken["all"]} == {"direct"}
    assert any("render() of env 'SlowDraws' draws random numbers (they were put back)" in t for t in texts_of(caplog))


def test_a_thread_that_is_older_than_the_recorder_is_unknown_until_a_replay_has_shown_who_draws(caplog):
    with odd_envs.drawing(5) as drawn:
        env = tm.gym.RecordEpisodes(odd_envs.Slow(), keep="all", render="auto", env_fn=odd_envs.Slow)
        env._recording._replays._global_draws.add([])  # as a proof finds
        play(env, 3)
        env.close()
    assert drawn == from_seed(len(drawn))
    assert texts_of(caplog) == []


class Curriculum(odd_envs.Plain):
    """Has a level, which its rewards tell."""

    level = 0

    def step(self, action):
        observation, _, *rest = super().step(action)
        return observation, float(self.level), *rest


class Tasks(Curriculum):
    """Tells its level, too."""

    def get_task(self):
        return self.level

    def set_task(self, level):
        self.level = level


class Rises(Tasks):
    """Raises its level itself, in the middle of an episode."""

    def reset(self, **options):
        self.level = 0
        return super().reset(**options)

    def step(self, action):
        self.level = self.count // 3
        return super().step(action)


def problem_of(kind, change):
    """Return what is said of an episode in whose third step ``change`` is called, or None if it has a clip."""
    env = tm.gym.RecordEpisodes(kind(), keep="all", render="auto", env_fn=kind)
    play(env, 4)
    env.take()
    env.reset()
    for step in range(5):
        if step == 2:
            change(env.unwrapped)
        env.step(1)
    taken = env.take()
    env.close()
    if "problems" in taken:
        return taken["problems"][0].text
    assert taken["all"][0].episode.rendered == "replay"
    return None


def up(env):
    env.level += 1


def test_a_replay_of_an_env_that_was_given_another_task_meanwhile_says_so():
    text = problem_of(Tasks, up)
    assert "the env was given another task while it ran, before or at step 3" in text
    assert "numbers" not in text


def test_of_an_env_that_does_not_tell_its_task_both_causes_are_named():
    text = problem_of(Curriculum, up)
    assert "at step 3, the replay has another observation, reward or end" in text
    assert "your code changed the env while it ran" in text
    assert "no seed and no generator of its own reaches" in text


def test_an_env_that_changes_its_task_itself_is_replayed():
    assert problem_of(Rises, lambda env: None) is None
