"""Real env runners of RLlib's, built without Ray: their episodes' tapes, and the recipes of their envs."""

import gymnasium as gym
import numpy as np
import pytest
from ray import tune

from tests.support.envs import CountingEnv, read_frame
from tests.support.rllib_configs import env_runner_of, for_env_runner, multi_agent, own_env
from tune_media.encoding.decode import decode_video
from tune_media.replay.player import replay
from tune_media.replay.process import RenderProcess
from tune_media.replay.tape import Tape
from tune_media.rllib import record_episodes
from tune_media.rllib.env_runner_requests import recordings_of
from tune_media.rllib.env_tap import tap_of
from tune_media.values.episodes import LEFT_OUT

CONFIG = {"length": 6, "render_mode": "rgb_array"}


def env_runner(env, env_config, *, agents=False, evaluation=True, sub_envs=2, **arguments):
    recorder = record_episodes(sections=("train", "evaluation"), keep="all", check_frame=False, **arguments)
    settings = {"sub_envs": sub_envs, "evaluation": evaluation, "rollout_fragment_length": 30}
    config = for_env_runner(env, env_config, recorder, **settings).debugging(seed=4)
    return env_runner_of(config.multi_agent(**multi_agent()) if agents else config)


def answer_of(runner, episodes=4):
    runner.sample(num_episodes=episodes, random_actions=True)
    return recordings_of(runner)["episodes"].answer(())


def registered(config):
    return CountingEnv({**config, "length": config["size"] + config.worker_index})


def by_a_closure():
    size = 4
    tune.register_env("closure", lambda config: CountingEnv({**config, "length": size}))
    return "closure"


def by_name():
    tune.register_env("registered", registered)
    return "registered"


CASES = {
    "an id, not made for rendering": lambda: ("CartPole-v1", {}, {"video": None}),
    "a registered function": lambda: (by_name(), {"size": 5, "render_mode": "rgb_array"}, {}),
    "a closure": lambda: (by_a_closure(), {"render_mode": "rgb_array"}, {}),
    "agents": lambda: (own_env("MultiAgentCountingEnv"), CONFIG, {"agents": True, "frame": "render"}),
}


class Tells(gym.Env):
    """Has a value of its own in the info of every ``every``th step, and rewards whose sum depends on their order."""

    action_space, observation_space = gym.spaces.Discrete(2), gym.spaces.Box(-1, 1, (2,), np.float32)

    def __init__(self, config):
        self.every = config["every"]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps, self.length = 0, int(self.np_random.integers(1, 150))
        return self.np_random.random(2).astype(np.float32), {}

    def step(self, action):
        self.steps += 1
        info = {"data": {"running": {"steps": self.steps}}} if self.every and self.steps % self.every == 0 else {}
        reward = float(self.np_random.normal()) * 10.0 ** self.np_random.integers(-9, 9)
        return self.np_random.random(2).astype(np.float32), reward, self.steps == self.length, False, info


@pytest.mark.parametrize(("evaluation", "every"), [(True, 0), (True, 7), (False, 1)])
def test_episodes_that_are_put_on_tape_together_have_the_returns_and_values_that_they_have_otherwise(evaluation, every):
    runner = env_runner(
        Tells, {"every": every}, sub_envs=3, video=None, tapes=True, evaluation=evaluation, render="direct"
    )
    recording, counted = recordings_of(runner)["episodes"], {}
    for _ in range(3):
        counted |= {
            episode.id_: episode.get_return() for episode in runner.sample(num_episodes=15, random_actions=True)
        }
        records = {one.record.episode_id: one for one in recording.answer(()).data}
        assert all(tap_of(runner.env).batch.tapes(index) for index in range(3))
    assert len(records) >= 45
    for id, one in records.items():
        assert one.record.episode_return == counted[id]
        steps = one.record.episode_length
        told = range(every, steps + 1, every) if every else ()
        assert [int(value) for series in one.series.values() for value in series.values] == list(told)
        tape = Tape.unpacked(one.tape)
        assert len(tape) == steps
        assert len(list(replay(Tells(runner.config.env_config), tape))) == steps + 1


class Shaped(gym.Wrapper):
    """Changes the rewards of later episodes."""

    count = 0

    def step(self, action):
        self.count += 1
        observation, reward, *more = self.env.step(action)
        return observation, reward if self.count < 300 else reward + 1.0, *more


@pytest.mark.parametrize(("wrapper", "is_taped_so"), [(gym.Wrapper, True), (Shaped, False)])
def test_steps_that_a_wrapper_changes_are_put_on_tape_one_by_one(wrapper, is_taped_so):
    env = lambda config: gym.wrappers.TimeLimit(wrapper(Tells(config)), 50)  # noqa: E731
    tune.register_env("wrapped", env)
    runner = env_runner("wrapped", {"every": 0}, video=None, tapes=True, render="direct")
    data = [one for _ in range(2) for one in answer_of(runner, 10).data]
    assert tap_of(runner.env).batch is None or is_taped_so
    tapes = [Tape.unpacked(one.tape) for one in data]
    assert sum(map(len, tapes)) > 300
    fresh = env(runner.config.env_config)
    assert [len(list(replay(fresh, tape))) for tape in tapes] == [len(tape) + 1 for tape in tapes]


def test_an_episode_whose_env_somebody_resets_in_the_middle_has_its_numbers_and_no_tape():
    runner = env_runner(Tells, {"every": 0}, sub_envs=1, video=None, tapes=True, render="direct")
    answer_of(runner)
    step, steps = runner.env.step, []

    def step_and_reset(actions):
        steps.append(actions)
        found = step(actions)
        if len(steps) in (30, 100, 300) and not found[2].any():
            runner.env.unwrapped.envs[0].reset()
        return found

    runner.env.step = step_and_reset
    episodes = {one.id_: one for one in runner.sample(num_episodes=9, random_actions=True)}
    records = [one for one in recordings_of(runner)["episodes"].answer(()).data if one.record.episode_id in episodes]
    assert len(records) == 9
    for one in records:
        own = episodes[one.record.episode_id]
        assert (one.record.episode_length, one.record.episode_return) == (len(own), own.get_return())
    assert 1 <= sum(one.tape is None for one in records) <= 3


def test_of_several_agents_that_are_rendered_directly_the_rewards_of_each_step_are_summed():
    runner = env_runner(own_env("MultiAgentCountingEnv"), CONFIG, agents=True, frame="render", render="direct")
    answer = answer_of(runner)
    assert all(one.tape is None for one in answer.data)
    taken = recordings_of(runner)["episodes"].take(answer.candidates, answer.candidates).kept
    assert len(taken) >= 4
    for one in taken.values():
        assert len(one.rewards) == one.record.episode_length > 1
        assert sum(one.rewards) == pytest.approx(one.record.episode_return)


@pytest.mark.parametrize("case", CASES)
def test_each_episode_is_rendered_again_from_its_tape_and_recipe(case):
    env, config, more = CASES[case]()
    runner = env_runner(env, config, tapes=True, **more)
    answer = answer_of(runner)
    assert len(answer.data) >= 4
    assert all(episode.tape and episode.recipe in answer.recipes for episode in answer.data)
    for episode in answer.data:
        assert sum(Tape.unpacked(episode.tape).rewards) == pytest.approx(episode.record.episode_return)
    assert len(answer.recipes) == 1
    (recipe,) = answer.recipes.values()
    with RenderProcess(recipe) as process:
        for episode in (answer.data[0], answer.data[-1]):
            place = {"env_runner": episode.record.env_runner, "env_index": episode.record.env_index}
            clip = process.render(episode.tape, is_lenient=True, **place)[""]
            assert clip.frames == 1 + episode.record.episode_length
            if case == "a closure":
                steps = [read_frame(frame).step for frame in decode_video(clip.data)]
                assert steps == list(range(clip.frames))


def test_a_recorder_with_tapes_changes_no_number():
    def returns(**arguments):
        runner = env_runner("CartPole-v1", {}, evaluation=False, video=None, **arguments)
        runner.module.forward_exploration = runner.module.forward_inference  # the actions follow from the observations
        np.random.seed(1)
        return [episode.get_return() for episode in runner.sample(num_timesteps=300)]

    assert returns(tapes=True) == returns()


def test_a_config_that_is_too_large_is_told_and_tapes_are_kept():
    answer = answer_of(env_runner(CountingEnv, {**CONFIG, "map": np.zeros(2**20)}, tapes=True, sub_envs=1))
    assert all(episode.tape and episode.recipe is None for episode in answer.data)
    (problem,) = answer.problems
    assert "take more than 1,048,576 bytes" in problem.text
    assert "--env module:function" in problem.text


def test_tapes_that_are_too_many_are_left_out_and_counted(monkeypatch):
    monkeypatch.setattr("tune_media.recording.candidates.MAX_TAPE_BYTES", 1500)
    runner = env_runner(CountingEnv, CONFIG, tapes=True, sub_envs=1, trigger=lambda index: index == 0)
    answer = answer_of(runner, 12)
    tapes = [episode.tape for episode in answer.data]
    assert tapes[0]
    assert tapes[-1]
    assert LEFT_OUT in tapes
    assert sum(map(len, tapes)) <= 2000
    assert all("its tape is left out" in episode.record.note for episode in answer.data if episode.tape == LEFT_OUT)
