"""A real env runner of RLlib's, built without Ray, and what its recording tells the Algorithm."""

import threading
from types import SimpleNamespace

import pytest
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.env.env_runner import EnvRunner
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from tests.support.envs import CountingEnv
from tests.support.fake_env_runners import FakeEnvRunner
from tests.support.rllib_configs import env_runner_of, for_env_runner, multi_agent, own_env, written_by_the_env
from tune_media.recording.plan import Plan
from tune_media.rllib import env_runner_requests, record_episodes, values_of
from tune_media.rllib.env_runner import EnvRunnerRecording
from tune_media.rllib.env_runner_requests import recordings_of
from tune_media.rllib.settings import RecorderSettings
from tune_media.selection import RenderBudget, as_selectors


def recorded(sub_envs=1, env_config=None, evaluation=False, **arguments):
    """Return an env runner and its recording."""
    recorder = record_episodes(sections=("train", "evaluation"), **{"keep": "all", **arguments})
    env_config = {"length": 4, **(env_config or {})}
    env_runner = env_runner_of(
        for_env_runner(CountingEnv, env_config, recorder, sub_envs=sub_envs, evaluation=evaluation)
    )
    return env_runner, recordings_of(env_runner)["episodes"]


def played(env_runner, episodes):
    """Play episodes; return their returns by id."""
    found = env_runner.sample(num_episodes=episodes, random_actions=True)
    return {episode.id_: pytest.approx(episode.get_return()) for episode in found}


def returns(data):
    return {episode.record.episode_id: episode.record.episode_return for episode in data}


def long_ones(env, recorder, **settings):
    """Return the config of an env runner whose episodes have 10 steps."""
    return for_env_runner(env, {"length": 10}, recorder, **settings)


def test_the_record_says_how_the_episode_was_played():
    env_runner, recording = recorded(video=None)
    env_runner.env.unwrapped.envs[0].unwrapped.set_task(3)
    played(env_runner, 1)
    (episode,) = recording.answer(()).data
    record = episode.record
    assert (record.section, record.env_runner, record.env_index) == ("train", 0, 0)
    assert (record.task, record.terminated, record.explored) == (3, True, True)


class TooManyEnvs(BaseException):
    """RLlib replaces a failed env as often as it fails; this ends it."""


def failing(seeds, num_episodes, bad):
    """Play episodes in an env that fails with some seeds and is replaced; return the seeds and the problems."""
    made = []

    class Fails(CountingEnv):
        def __init__(self, config=None):
            super().__init__(config)
            made.append(self)
            if len(made) > 30:
                raise TooManyEnvs

        def reset(self, *, seed=None, options=None):
            self.is_bad = bad(seed)
            return super().reset(seed=seed, options=options)

        def step(self, action):
            if self.is_bad and self.counter.step_count == 2:
                raise RuntimeError("the simulator broke")
            return super().step(action)

    recorder = record_episodes(keep="all", video=None, seeds=seeds, check_frame=False)
    config = long_ones(Fails, recorder, evaluation=True).fault_tolerance(restart_failed_sub_environments=True)
    env_runner = env_runner_of(config)
    recording = recordings_of(env_runner)["episodes"]
    recording.begin_round(env_runner)
    env_runner.sample(num_episodes=num_episodes, random_actions=True)
    env_runner.get_metrics()
    answer = recording.answer(())
    return [episode.record.seed for episode in answer.data], [problem.text for problem in answer.problems]


@pytest.mark.parametrize(("bad", "played"), [(0, [2, 1, 4]), (2, [0, 1, 4]), (None, [0, 2, 1])])
def test_an_env_that_replaces_a_failed_one_goes_on_with_the_next_seed(bad, played):
    seeds, problems = failing([0, 2, 1, 4], 3, lambda seed: seed == bad)
    assert (seeds[:3], problems) == (played, [])  # Ray 2.50 begins to count anew after a failure, and plays one more


def test_an_env_that_fails_with_each_of_its_seeds_plays_without():
    seeds, problems = failing([5, 6], 2, lambda seed: seed is not None)
    assert seeds == [None, None]
    (text,) = problems
    assert text.startswith("seeds= has no effect until the next evaluation: ")
    assert "failed with each of the seeds 5, 6" in text


class MadeByHand(EnvRunner):
    """An env runner as users write it: no index, a single env, metrics of any kind."""

    def __init__(self, config):
        super().__init__(config=config)
        self.callbacks = config.callbacks_class()
        self.make_env()

    def make_env(self):
        self.env = CountingEnv(self.config.env_config)
        self.callbacks.on_environment_created(env_runner=self, env=self.env, metrics_logger=self.metrics)

    def sample(self, **kwargs):
        episode, hooked = SingleAgentEpisode(), {"env_runner": self, "env": self.env, "env_index": 0}
        observation, info = self.env.reset()
        episode.add_env_reset(observation, info)
        self.callbacks.on_episode_start(episode=episode, **hooked)
        while not episode.is_done:
            observation, reward, terminated, truncated, info = self.env.step(1)
            info = {"data": {"running": {"pair": [reward, 2.0]}}}
            episode.add_env_step(observation, 1, reward, info, terminated=terminated, truncated=truncated)
            self.callbacks.on_episode_step(episode=episode, **hooked)
        self.callbacks.on_episode_end(episode=episode, **hooked)
        return [episode]

    def get_metrics(self):
        return [{"num_episodes": 1}]

    def assert_healthy(self):
        pass

    def get_spaces(self):
        return {}

    def stop(self):
        pass


@pytest.mark.parametrize("evaluation", [False, True])
def test_an_env_runner_made_by_hand_is_recorded(evaluation):
    recorder = record_episodes(sections=("train", "evaluation"), keep="all", trajectories=True, strict=True)
    env_runner = MadeByHand(long_ones(CountingEnv, recorder, evaluation=evaluation))
    recording = recordings_of(env_runner)["episodes"]
    recording.begin_round(env_runner)
    (episode,) = env_runner.sample()
    assert env_runner.get_metrics() == [{"num_episodes": 1}]
    answer = env_runner_requests.ask_and_take(env_runner, "episodes", ())
    assert returns(answer.data) == {episode.id_: pytest.approx(episode.get_return())}
    (candidate,) = answer.kept.kept.values()
    assert (candidate.record.env_runner, candidate.in_result().frames) == (0, 11)
    columns = candidate.trajectory.columns
    assert columns["reward"][1:] == pytest.approx(list(episode.get_rewards()))
    assert [one.tolist() for one in columns["observation"]] == [one.tolist() for one in episode.get_observations()]


def test_a_bad_own_value_costs_no_other():
    class Hooks(RLlibCallback):
        def on_episode_end(self, *, episode, **kwargs):
            values_of(episode).update({"shots": 3, "lock": threading.Lock(), "goals": 2, "socket": open, "name": "a"})

    recorders = [Hooks, record_episodes(sections="train", keep="all", video=None)]
    env_runner = env_runner_of(long_ones(CountingEnv, recorders))
    played(env_runner, 2)
    answer = recordings_of(env_runner)["episodes"].answer(())
    for episode in answer.data:
        assert episode.record.metrics == {"shots": 3, "goals": 2}
        assert episode.values == {"name": "a"}
    texts = sorted(problem.text for problem in answer.problems)
    assert len(texts) == 2
    assert "a value that a hook put into an episode is left out: TypeError: lock is a _thread.lock" in texts[0]


def test_a_trigger_goes_on_from_a_checkpoints_counts():
    env_runner, recording = recorded(trigger=lambda index: index == 7)
    recording.go_on_from({"0": {"0": 7}, "1": {"0": 100}})
    played(env_runner, 2)
    answer = recording.answer(())
    assert (len(answer.data), len(answer.candidates), answer.starts) == (2, 1, {0: 9})


TURNS = [  # observations, actions, rewards
    ({"b": 1}, {"a": 0}, {"a": 1.0, "b": 0.5}),
    ({"a": 2}, {"b": 0}, {"a": 4.0, "b": 2.0}),
    ({"a": 3, "b": 3}, {"a": 0}, {"a": 1.0, "b": 1.0}),
]


class TakesTurns:
    """One sub-env of RLlib's multi-agent vector env: agents take turns, and all are rewarded at each step."""

    turn = 0

    def reset(self):
        return [{"a": 0}], [{}]

    def step(self, actions):
        observations, _, rewards = TURNS[self.turn]
        self.turn += 1
        over = {"__all__": self.turn == len(TURNS)}
        return [observations], [rewards], [over], [{"__all__": False}], [{}]


def test_each_agents_return_is_the_sum_of_its_rewards_across_turns_and_fragments():
    env_runner, env = FakeEnvRunner(), TakesTurns()
    env_runner.config.explore = False
    plan = Plan("episodes", as_selectors("best"), video=None)
    callback = SimpleNamespace(children=set(), threads=[])
    recording = EnvRunnerRecording(RecorderSettings(plan, sections=("train",)), env_runner, owner=callback)
    recording.new_env(env_runner, env)
    env.reset()
    episode, chunks = MultiAgentEpisode(), []
    episode.add_env_reset(observations={"a": 0})
    recording.start(episode, env_runner, env, 0)
    for observations, actions, rewards in TURNS:
        _, _, (over,), _, _ = env.step([actions])
        episode.add_env_step(observations=observations, actions=actions, rewards=rewards, terminateds=over)
        recording.step(episode, env_runner, env, 0)
        if not over["__all__"]:
            chunks.append(episode)
            episode = episode.cut()
    recording.end(episode, env_runner, env, 0, chunks)
    (data,) = recording.answer(()).data
    assert recording.recorder.problems.take() == []
    assert data.record.metrics == {"return/a": 6.0, "return/b": 3.5}
    assert data.record.episode_return == 9.5


def with_agents(env, env_config, **arguments):
    """Return an env runner of several agents, and its recording."""
    recorder = record_episodes(sections="train", keep="all", check_frame=False, strict=True, **arguments)
    env_runner = env_runner_of(for_env_runner(own_env(env), env_config, recorder).multi_agent(**multi_agent()))
    return env_runner, recordings_of(env_runner)["episodes"]


def test_agents_that_leave_after_a_fragments_end_cost_no_episode(tmp_path):
    """On Ray 2.60, ``get_rewards(-1)`` raised then, and clip, row and numbers were dropped: 0 of 8 were recorded."""
    config = {"log_dir": str(tmp_path), "length": 12}
    env_runner, recording = with_agents("MultiAgentCountingEnv", config, render="direct")
    for _ in range(13):
        env_runner.sample(num_timesteps=8, random_actions=True)
    answer = recording.answer(())
    taken = recording.take(answer.candidates, answer.candidates).kept.values()
    assert [one.in_result().frames for one in taken] == [13] * 8
    returns_of_env = sorted(line["return"] for line in written_by_the_env(tmp_path).values())
    assert sorted(one.record.episode_return for one in taken) == pytest.approx(returns_of_env)


@pytest.mark.parametrize("ends", ["terminated", "truncated"])
def test_how_an_episode_of_pettingzoo_ended(ends):
    """RLlib says that an episode is terminated if all its agents are truncated by flags of their own."""
    env_runner, recording = with_agents("EndingEnv", {"ends_by_truncation": ends == "truncated"}, video=None)
    env_runner.sample(num_episodes=3, random_actions=True)
    episodes = recording.answer(()).data
    assert len(episodes) >= 3
    assert {episode.record.terminated for episode in episodes} == {ends == "terminated"}


def test_episodes_of_an_evaluation_on_a_training_env_runner_are_left_out():
    env_runner, recording = recorded(video=None)
    env_runner.sample(num_timesteps=2, random_actions=True)
    env_runner_requests.evaluates(env_runner, "episodes", True)
    played(env_runner, 2)
    env_runner_requests.evaluates(env_runner, "episodes", False)
    expected = played(env_runner, 2)
    answer = recording.answer(())
    assert returns(answer.data) == expected
    assert answer.abandoned == 1
    assert answer.starts == {0: 3}


def test_a_render_budget_counts_samples_of_one_step():
    """The clock stopped between the one-step samples of DQN and SAC: 2 of 132 episodes were recorded."""
    env_runner, _ = recorded(env_config={"length": 20, "pause": 0.003}, trigger=RenderBudget(0.5))
    for _ in range(300):
        env_runner.sample(num_timesteps=1, random_actions=True)
    answer = env_runner_requests.ask(env_runner, "episodes", ())
    assert len(answer.data) >= 14
    assert len(answer.candidates) > len(answer.data) / 2
