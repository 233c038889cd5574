"""Whether an episode succeeded: of the info of its last step, or by a function of its record."""

import math

import gymnasium as gym
import numpy as np
import pytest

import tune_media as tm
from tune_media.recording.success import as_success, in_info
from tune_media.storage.episode_files import (
    EpisodeReport,
    RecorderEpisodes,
    report_parquet,
    rows_of_parquet,
)
from tune_media.values.rates import wilson


class Telling(gym.Env):
    """Each episode has three steps; the infos of episode n are ``infos[n]``."""

    observation_space = action_space = gym.spaces.Discrete(2)
    render_mode = None

    def __init__(self, *infos):
        self.infos, self.episode = infos, -1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.steps = self.episode + 1, 0
        return 0, {}

    def step(self, action):
        self.steps += 1
        info = self.infos[self.episode % len(self.infos)][self.steps - 1]
        return 0, float(self.episode), self.steps == 3, False, dict(info)


def told(*infos, episodes=None, **options):
    """Return what was recorded of one episode for each list of infos, or of some."""
    env = tm.gym.RecordEpisodes(Telling(*infos), keep="all", video=None, **options)
    for _ in range(episodes or len(infos)):
        env.reset()
        while not env.step(0)[2]:
            pass
    return env.take()


def successes(taken):
    return [episode.record.success for episode in taken["data"].episodes]


@pytest.mark.parametrize(
    ("last", "success"),
    [
        ({"success": True}, True),
        ({"is_success": np.float32(0)}, False),
        ({"success": np.bool_(True), "other": 1}, True),
        ({}, None),
        ({"success": math.nan}, None),
        ({"success": "yes"}, None),
        ({"success": [True]}, None),
    ],
)
def test_it_is_what_the_info_of_the_last_step_says(last, success):
    assert successes(told([{"success": True}, {"success": True}, last])) == [success]


def test_the_rate_is_in_the_metrics_with_wilsons_interval():
    infos = [[{}, {}, {"success": number < 7}] for number in range(10)]
    taken = told(*infos)
    low, high = wilson(7, 10)
    rate = {name: value for name, value in taken["custom_metrics"].items() if "success" in name}
    assert rate == {"success_rate": 0.7, "success_rate_low": low, "success_rate_high": high}
    assert "custom_metrics" not in told([{}, {}, {}])


def test_a_name_or_a_function_may_say_it():
    infos = [[{}, {}, {"data": {"final": {"goals": number}}, "goal": {"reached": number == 2}}] for number in range(3)]
    assert successes(told(*infos, success="goal/reached")) == [False, False, True]
    assert successes(told(*infos, success=lambda episode: episode.metrics["goals"] > 0)) == [False, True, True]
    assert successes(told(*infos, success=lambda episode: episode.episode_return == 3.0)) == [False, True, False]
    assert successes(told(*infos, success=lambda episode: None)) == [None, None, None]
    assert successes(told([{}, {}, {"success": True}], collect=False)) == [None]
    assert successes(told([{}, {}, {"success": True}], collect=False, success="success")) == [True]


def test_a_function_that_raises_costs_the_success_and_says_so_once(caplog):
    taken = told([{}, {}, {}], episodes=3, success=lambda episode: 1 / 0)
    assert successes(taken) == [None] * 3
    (warning,) = caplog.messages
    assert "success=" in warning
    assert "ZeroDivisionError" in warning
    with pytest.raises(ZeroDivisionError):
        told([{}, {}, {}], success=lambda episode: 1 / 0, strict=True)


@pytest.mark.parametrize("wrong", [3, "", ["success"], lambda: True])
def test_what_cannot_say_it_is_refused_at_once(wrong):
    with pytest.raises(TypeError, match="success="):
        tm.gym.RecordEpisodes(Telling([{}]), video=None, success=wrong)


def test_selectors_may_choose_by_it():
    infos = [[{}, {}, {"success": number != 1}] for number in range(3)]
    env = tm.gym.RecordEpisodes(
        Telling(*infos),
        keep=tm.selection.where(lambda episode: episode.success is False, name="failed"),
        video=None,
    )
    for _ in range(3):
        env.reset()
        while not env.step(0)[2]:
            pass
    assert [record.episode_return for record in env.take()["failed"]] == [3.0]


@pytest.mark.parametrize("mode", [gym.vector.AutoresetMode.NEXT_STEP, gym.vector.AutoresetMode.SAME_STEP])
def test_vector_envs_tell_it_of_each_sub_env(mode):
    infos = [[{}, {}, {"is_success": True}]], [[{}, {}, {"is_success": False}]], [[{}, {}, {}]]
    envs = gym.vector.SyncVectorEnv([lambda own=own: Telling(*own) for own in infos], autoreset_mode=mode)
    env = tm.gym.RecordVectorEpisodes(envs, keep="all", video=None)
    env.reset()
    for _ in range(3):
        env.step(np.zeros(3, int))
    assert sorted(successes(env.take()), key=str) == [False, None, True]


def test_all_agents_that_say_something_must_have_succeeded():
    names = ("success",)
    assert in_info({"a": {"success": True}, "b": {"success": True}, "c": {}}, names, of_agents=True) is True
    assert in_info({"a": {"success": True}, "b": {"success": False}}, names, of_agents=True) is False
    assert in_info({"__common__": {"success": True}, "a": {"success": False}}, names, of_agents=True) is True
    assert in_info({"a": {}}, names, of_agents=True) is None
    assert in_info(None, names, of_agents=True) is None


def test_parts_of_a_single_agents_info_are_no_agents():
    last = {"robot": {"success": True}, "camera": {"success": False}}
    assert successes(told([{}, {}, last])) == [None]
    assert successes(told([{}, {}, last], success="robot/success")) == [True]


def test_it_is_a_column_of_the_parquet_file():
    batch = told([{}, {}, {"success": True}], [{}, {}, {}])["data"]
    content = report_parquet(EpisodeReport("t", 1, 7, [RecorderEpisodes("train", "r", batch)]))
    assert [row["success"] for row in rows_of_parquet(content)] == [True, None]


def test_odd_values_say_nothing_and_cost_no_episode():
    class Odd:
        def item(self):
            raise KeyError("none")

    assert [as_success(value) for value in (10**400, Odd(), "yes", [True])] == [True, None, None, None]


def test_a_misspelt_name_is_reported_once_with_the_names_that_there_are(caplog):
    last = {"data": {"final": {"solved": True}}, "speed": 2.5, "text": "a"}
    last["text"] = last  # which costs no episode
    told([{}, {}, last], episodes=3, success="data/final/solvd")
    told([{}, {}, last], success="won")
    meant, all_names = (text for text in caplog.messages if "success=" in text)
    assert "did you mean 'data/final/solved'?" in meant
    assert "there are 'data/final/solved', 'speed'" in all_names


def test_a_name_that_some_episodes_have_is_right(caplog):
    assert successes(told([{}, {}, {"won": True}], [{}, {}, {}], success="won")) == [True, None]
    assert "success=" not in caplog.text


def test_a_function_that_returns_no_truth_value_is_reported(caplog):
    env = tm.gym.RecordEpisodes(gym.make("CartPole-v1"), video=None, success=lambda episode: "yes")
    env.reset(seed=0)
    while not any(env.step(0)[2:4]):
        pass
    assert "success= returned 'yes'" in caplog.text + repr(env.take())
