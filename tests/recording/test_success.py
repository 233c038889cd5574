"""Whether an episode succeeded: of the info of its last step, or by a function of its record."""

import math

import gymnasium as gym
import numpy as np
import pytest

import tune_media as tm
from tune_media.recording.success import Unclear, as_success, in_info
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
        self.infos, self.episode, self.at_reset = infos, -1, {}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.steps = self.episode + 1, 0
        return 0, dict(self.at_reset)

    def step(self, action):
        self.steps += 1
        info = self.infos[self.episode % len(self.infos)][self.steps - 1]
        return 0, float(self.episode), self.steps == 3, False, dict(info)


def told(*infos, episodes=None, at_reset=None, **options):
    """Return what was recorded of one episode for each list of infos, or of some."""
    telling = Telling(*infos)
    telling.at_reset = at_reset or {}
    env = tm.gym.RecordEpisodes(telling, keep="all", video=None, **options)
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
        ({"success": None, "is_success": 1}, True),
        ({"success": np.array([0])}, False),
    ],
)
def test_it_is_what_the_info_of_the_last_step_says(last, success, caplog):
    taken = told([{}, {}, last])
    (record,) = (episode.record for episode in taken["data"].episodes)
    assert (record.success, record.success_once, record.success_at_end) == (success, success, success)
    assert "success" not in caplog.text
    assert "success" not in str(taken.get("problems"))


def of_both(*infos, **options):
    records = [episode.record for episode in told(*infos, **options)["data"].episodes]
    return [(record.success, record.success_once, record.success_at_end) for record in records]


REACHED_AND_LOST = [{"success": False}, {"success": np.bool_(True)}, {"success": 0}]
NEVER, KEPT = [{"success": 0}] * 3, [{"success": False}, {"success": 1}, {"success": 1.0}]


def test_reached_once_and_lost_counts_only_once():
    infos = REACHED_AND_LOST, NEVER, KEPT
    assert of_both(*infos) == [(False, True, False), (False, False, False), (True, True, True)]
    assert of_both(*infos, success_when="end") == of_both(*infos)
    assert of_both(*infos, success_when="once") == [(True, True, False), (False, False, False), (True, True, True)]
    assert told(*infos, success_when="once")["custom_metrics"]["success_rate"] == 2 / 3
    assert of_both(REACHED_AND_LOST, success="success", success_when="once") == [(True, True, False)]


def test_success_once_is_known_only_if_all_steps_were_read():
    nothing, later = [{}] * 3, [{}, {"success": True}, {"success": False}]
    assert of_both(later, later) == [(False, True, False)] * 2
    assert of_both(nothing, later, later) == [(None, None, None), (False, None, False), (False, True, False)]
    assert of_both(nothing, [{}, {}, {"success": 1}])[1] == (True, True, True)
    assert of_both(nothing, later, success_when="once")[1] == (True, True, False)
    assert of_both(nothing, [{}, {"success": True}, {}]) == [(None, None, None)] * 2
    assert of_both([{"success": False}, {"success": True}, {}]) == [(None, True, None)]


def test_a_function_has_the_whole_record_and_no_time(caplog):
    assert of_both(KEPT, success=lambda episode: episode.episode_length == 3) == [(True, None, None)]
    for wrong in ({"success": lambda episode: True, "success_when": "end"}, {"success_when": "first"}):
        with pytest.raises(ValueError, match="success_when="):
            tm.gym.RecordEpisodes(Telling([{}]), video=None, **wrong)


@pytest.mark.parametrize("value", [0.5, 2, "False", "yes", [True], np.array([True, False]), 10**400])
def test_a_value_that_is_no_boolean_is_unknown_with_one_problem_that_names_it(value):
    infos = [{"success": True}, {"success": value}, {"success": True}]
    taken = told(infos, infos, [{"success": True}] * 3)
    assert successes(taken) == [None, None, True]
    (problem,) = (str(problem) for problem in taken["problems"] if "boolean" in str(problem))
    assert "'success' in an info is " in problem
    assert (value if isinstance(value, str) else str(value)[:5]) in problem


@pytest.mark.parametrize("at_reset", [{"success": True}, {}])
def test_a_success_at_the_start_of_more_than_one_episode_of_a_hundred_is_warned_of_once(at_reset):
    early = [{"success": not at_reset}, {"success": False}, {"success": False}]
    taken = told(early, episodes=10, at_reset=at_reset)
    (problem,) = taken["problems"]
    assert "success is true at the reset or after the first step in more than 1 of 100 episodes" in str(problem)
    assert "problems" not in told(early, at_reset=at_reset)  # one such episode is chance


def test_a_success_at_the_start_of_one_episode_of_a_hundred_is_chance():
    early = [{"success": True}, {"success": False}, {"success": False}]
    assert "problems" not in told(*[NEVER] * 198, *[early] * 2)
    assert "problems" in told(*[NEVER] * 197, *[early] * 3)


def test_an_episode_of_one_step_is_never_too_early():
    env = tm.gym.RecordEpisodes(gym.wrappers.TimeLimit(Telling([{"success": True}]), 1), keep="all", video=None)
    for _ in range(5):
        env.reset()
        env.step(0)
    taken = env.take()
    assert successes(taken) == [True] * 5
    assert "problems" not in taken


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
def test_vector_envs_read_each_step_and_each_reset(mode):
    def make(*infos, at_reset):
        env = Telling(*infos)
        env.at_reset = {"success": at_reset}
        return env

    each = (REACHED_AND_LOST, False), (NEVER, False), (KEPT, False), ([{}, {}, {}], False), (NEVER, True)
    makes = [lambda infos=infos, at_reset=at_reset: make(infos, at_reset=at_reset) for infos, at_reset in each]
    env = tm.gym.RecordVectorEpisodes(gym.vector.SyncVectorEnv(makes, autoreset_mode=mode), keep="all", video=None)
    env.reset()
    for _ in range(8):
        env.step(np.zeros(5, int))
    taken = env.take()
    found = {}
    for episode in taken["data"].episodes:
        record = episode.record
        found.setdefault(record.env_index, []).append((record.success, record.success_once))
    expected = {0: (False, True), 1: (False, False), 2: (True, True), 3: (None, None), 4: (False, False)}
    assert found == {index: [both] * 2 for index, both in expected.items()}
    (problem,) = taken["problems"]
    assert "more than 1 of 100" in str(problem)


def test_all_agents_that_say_something_must_have_succeeded():
    names = ("success",)
    assert in_info({"a": {"success": True}, "b": {"success": True}, "c": {}}, names, of_agents=True) is True
    assert in_info({"a": {"success": True}, "b": {"success": False}}, names, of_agents=True) is False
    assert in_info({"__common__": {"success": True}, "a": {"success": False}}, names, of_agents=True) is True
    assert in_info({"a": {}}, names, of_agents=True) is None
    assert in_info(None, names, of_agents=True) is None


def test_parts_of_a_single_agents_info_are_no_agents():
    last = {"robot": {"success": True}, "camera": {"success": False}}
    assert successes(told([last] * 3)) == [None]
    assert successes(told([{}, {}, last], success="robot/success")) == [True]


def test_it_is_a_column_of_the_parquet_file():
    batch = told([{}, {}, {"success": True}], [{}, {}, {}])["data"]
    content = report_parquet(EpisodeReport("t", 1, 7, [RecorderEpisodes("train", "r", batch)]))
    for name in ("success", "success_once", "success_at_end"):
        assert [row[name] for row in rows_of_parquet(content)] == [True, None]


def test_an_odd_value_is_unclear_whatever_it_raises():
    class Odd:
        def item(self):
            raise KeyError("none")

    with pytest.raises(Unclear):
        as_success(Odd())


def test_a_misspelt_name_is_reported_once_with_the_names_that_there_are(caplog):
    last = {"data": {"final": {"solved": True}}, "speed": 2.5, "text": "a"}
    last["text"] = last  # which costs no episode
    told([{}, {}, last], episodes=3, success="data/final/solvd")
    told([{}, {}, last], success="won")
    meant, all_names = (text for text in caplog.messages if "success=" in text)
    assert "did you mean 'data/final/solved'?" in meant
    assert "there are 'data/final/solved'" in all_names
    assert "'speed'" not in all_names


def test_a_name_that_some_episodes_have_is_right(caplog):
    assert successes(told([{}, {}, {"won": True}], [{}, {}, {}], success="won")) == [True, None]
    assert "success=" not in caplog.text


def test_a_function_that_returns_no_truth_value_is_reported(caplog):
    env = tm.gym.RecordEpisodes(gym.make("CartPole-v1"), video=None, success=lambda episode: "yes")
    env.reset(seed=0)
    while not any(env.step(0)[2:4]):
        pass
    assert "success= returned 'yes'" in caplog.text + repr(env.take())
