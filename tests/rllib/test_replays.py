"""A real env runner of RLlib's, built without Ray, whose winners are rendered in a replay."""

import random
from dataclasses import replace
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner
from ray.rllib.env.wrappers.atari_wrappers import EpisodicLifeEnv

from tests.support.envs import CountingEnv
from tests.support.pictures import LOSSLESS, shown
from tune_media.recording.rendering import Renderer
from tune_media.replay.late_clips import with_late_clips
from tune_media.rllib import record_episodes, registry
from tune_media.rllib.registry import recordings_of
from tune_media.values.options import VideoOptions

MADE: list[gym.Env] = []  # every env of this process


class Lake(gym.Wrapper):
    """A frozen lake that counts its renders; ``drifts_at`` makes it draw from a generator that no seed reaches."""

    def __init__(self, config):
        lake = gym.make("FrozenLake-v1", render_mode="rgb_array", max_episode_steps=8)
        super().__init__(gym.wrappers.FlattenObservation(lake))
        self.renders, self.count, self.is_closed, self.config = 0, 0, False, dict(config)
        MADE.append(self)

    def reset(self, **kwargs):
        self.count = 0
        return self.env.reset(**kwargs)

    def step(self, action):
        self.count += 1
        if self.count == self.config.get("drifts_at"):
            self.unwrapped.s = (self.unwrapped.s + random.SystemRandom().randint(1, 3)) % 4
        return self.env.step(action)

    def render(self):
        self.renders += 1
        return self.env.render()

    def close(self):
        self.is_closed = True


@pytest.fixture(autouse=True)
def made():
    MADE.clear()
    yield MADE
    MADE.clear()


def recorded(env=Lake, sub_envs=1, env_config=None, **arguments):
    """Return an env runner and its recording."""
    recorder = record_episodes(**{"keep": "all", "render": "replay", **arguments})
    config = PPOConfig().environment(env, env_config=env_config or {})
    config.env_runners(num_env_runners=0, num_envs_per_env_runner=sub_envs).callbacks(recorder)
    config.rl_module(model_config={"fcnet_hiddens": [8]})
    config.in_evaluation = True
    env_runner = SingleAgentEnvRunner(config=config, worker_index=0)
    return env_runner, recordings_of(env_runner)["episodes"]


def round_of(env_runner, recording, episodes=3, winners=None, received=()):
    """Play a round; return the data of its episodes and what is handed over.

    ``received`` are the serials of earlier answers; the problems of the others are told again.
    """
    recording.begin_round(env_runner)
    env_runner.sample(num_episodes=episodes, random_actions=True)
    env_runner.get_metrics()
    answer = recording.answer(received)
    ids = [episode.record.id for episode in answer.data]
    chosen = answer.candidates if winners is None else answer.candidates[:winners]
    taken = registry.take(env_runner, "episodes", chosen, ids)
    return answer, taken


def test_nothing_is_rendered_while_episodes_run_and_the_winners_are_rendered_afterwards(made):
    env_runner, recording = recorded()
    inner = env_runner.env.unwrapped.envs[0].unwrapped
    (played,) = [env for env in made if env.unwrapped is inner]
    for _ in range(2):
        answer, taken = round_of(env_runner, recording, winners=1)
        assert len(answer.data) >= 3
        (winner,) = taken.kept.values()
        assert winner.record.rendered == "replay"
        assert winner.clips[""].frames == winner.record.episode_length + 1
        assert winner.taped is None
        assert (taken.lost, taken.problems) == ({}, [])
    assert played.renders == 0
    replayed = [env for env in made if env is not played and not env.is_closed]
    assert len(replayed) == 1, "the env of the replays is kept for the next round"
    assert replayed[0].renders >= 4


@pytest.mark.parametrize("sub_envs", [1, 3])
def test_each_clip_is_the_one_of_direct_recording(sub_envs):
    parts = ["step", "action", "return", lambda step: f"on {step.env_index}"]
    options = VideoOptions(overlay=parts, crf=LOSSLESS)
    env_runner, recording = recorded(sub_envs=sub_envs, video=options, render="auto")
    recording.begin_round(env_runner)
    env_runner.sample(num_episodes=6, random_actions=True)
    ids = [record.id for record in recording.recorder.candidates.records()]
    for candidate in recording.take(ids, ids).values():
        assert candidate.record.rendered == "direct"
        late = with_late_clips(replace(candidate, clips={}), Renderer(Lake({})), options)
        assert shown(late.clips) == shown(candidate.clips)


def test_each_reset_has_a_seed_of_its_own_and_the_record_says_which():
    env_runner, recording = recorded(sub_envs=2)
    answer, _ = round_of(env_runner, recording, 6)
    seeds = [episode.record.seed for episode in answer.data]
    assert len(set(seeds)) == len(seeds)
    assert None not in seeds


def test_an_atari_game_is_replayed_without_a_seed_which_would_load_it_anew(made, monkeypatch):
    import ale_py

    loaded, load = [], ale_py.AtariEnv.load_game
    monkeypatch.setattr(ale_py.AtariEnv, "load_game", lambda env: (loaded.append(env), load(env))[1])
    env_runner, recording = recorded(Pong)
    for _ in range(2):
        loaded.clear()
        answer, taken = round_of(env_runner, recording, 2)
        assert [kept.record.rendered for kept in taken.kept.values()] == ["replay"] * len(answer.candidates)
        assert (taken.lost, taken.problems) == ({}, [])
    assert loaded == [], "the env of the replays was made in the first round"


def test_given_seeds_are_used():
    env_runner, recording = recorded(seeds=[5, 6])
    for _ in range(2):
        answer, taken = round_of(env_runner, recording, 2)
        assert [episode.record.seed for episode in answer.data] == [5, 6]
        assert len(taken.kept) == 2
        assert taken.lost == {}


def test_an_env_that_does_not_repeat_itself_costs_its_clip_and_is_recorded_directly_from_then_on():
    env_runner, recording = recorded(env_config={"drifts_at": 2})
    answer, taken = round_of(env_runner, recording, 12)
    assert taken.lost
    assert all(step in ("2", "3") for step in _steps_of(taken.lost.values()))
    assert sum(problem.lost for problem in taken.problems) == len(taken.lost)
    assert "env 'FrozenLake-v1' does not repeat its episodes" in taken.problems[0].text
    assert len(taken.kept) == len(answer.candidates)
    assert {id for id, kept in taken.kept.items() if not kept.clips} == set(taken.lost)
    _, taken = round_of(env_runner, recording, 3)
    assert [kept.record.rendered for kept in taken.kept.values()] == ["direct"] * 3
    assert (taken.lost, taken.problems) == ({}, [])


def _steps_of(texts):
    return {text.split("at step ")[1][0] for text in texts}


class Pong(Lake):
    """An Atari game with its default of sticky actions, whose emulator draws them."""

    def __init__(self, config):
        import ale_py

        gym.register_envs(ale_py)
        super().__init__(config)
        self.env = gym.make("ALE/Pong-v5", obs_type="ram", render_mode="rgb_array", max_episode_steps=20)
        self._observation_space, self._action_space = self.env.observation_space, self.env.action_space


@pytest.mark.parametrize("env", [Lake, Pong])
def test_auto_records_the_first_round_directly_and_then_replays(env, made, monkeypatch):
    clock = SimpleNamespace(perf_counter=lambda: float(sum(env.renders for env in made)))  # only rendering takes time
    monkeypatch.setattr("tune_media.recording.render_clock.time", clock)
    env_runner, recording = recorded(env, render="auto")
    rendered = []
    for _ in range(3):
        _, taken = round_of(env_runner, recording, winners=1)
        rendered.append({kept.record.rendered for kept in taken.kept.values()})
        assert (taken.lost, taken.problems) == ({}, [])
        assert all(kept.taped is None and kept.clips for kept in taken.kept.values())
    assert rendered == [{"direct"}, {"replay"}, {"replay"}]


def test_auto_stays_direct_and_loses_nothing_if_the_env_does_not_repeat_itself():
    env_runner, recording = recorded(render="auto", env_config={"drifts_at": 2})
    for _ in range(2):
        _, taken = round_of(env_runner, recording, 8)
        assert {kept.record.rendered for kept in taken.kept.values()} == {"direct"}
        assert (taken.lost, taken.problems) == ({}, [])
    assert recording.replays.mode == "direct"


def test_sub_envs_out_of_reach_are_recorded_directly_and_it_is_said_once():
    recorder = record_episodes(keep="all", render="replay")
    config = PPOConfig().environment(CountingEnv, env_config={"length": 3}).callbacks(recorder)
    config.env_runners(num_envs_per_env_runner=2, gym_env_vectorize_mode=gym.VectorizeMode.ASYNC, num_env_runners=0)
    config.rl_module(model_config={"fcnet_hiddens": [8]})
    config.in_evaluation = True
    env_runner = SingleAgentEnvRunner(config=config, worker_index=0)
    recording = recordings_of(env_runner)["episodes"]
    try:
        answer, taken = round_of(env_runner, recording, 2)
        (problem,) = [problem for problem in answer.problems if "render" in problem.text]
        assert problem.text.startswith("episodes are rendered while they run: the sub-envs of")
        assert problem.lost == 0
        assert {kept.record.rendered for kept in taken.kept.values()} == {"direct"}
        answer, taken = round_of(env_runner, recording, 2, received=[answer.serial])
        assert {kept.record.rendered for kept in taken.kept.values()} == {"direct"}
        assert [*answer.problems, *taken.problems] == []
    finally:
        env_runner.stop()


@pytest.mark.parametrize("render", ["replay", "auto"])
def test_best_and_worst_of_episodes_that_begin_in_mid_game_are_recorded_directly_and_it_is_said_once(render):
    class EachLife(Pong):
        def __init__(self, config):
            super().__init__(config)
            game = gym.make("ALE/Breakout-v5", obs_type="ram", render_mode="rgb_array")
            self.env = EpisodicLifeEnv(game)
            self._observation_space, self._action_space = game.observation_space, game.action_space

    env_runner, recording = recorded(EachLife, render=render, keep=("best", "worst"))
    answer, _ = round_of(env_runner, recording, 1, winners=0)  # a life is lost, so the next rounds begin in mid-game
    problems = list(answer.problems)
    for _ in range(2):
        recording.begin_round(env_runner)
        env_runner.sample(num_episodes=3, random_actions=True)
        env_runner.get_metrics()
        answer = recording.answer([answer.serial])
        records = {episode.record.id: episode.record for episode in answer.data}
        candidates = sorted(answer.candidates, key=lambda id: records[id].episode_return)
        taken = registry.take(env_runner, "episodes", {candidates[0], candidates[-1]}, set(records))
        assert [kept.record.rendered for kept in taken.kept.values()] == ["direct"] * 2
        assert all(kept.clips[""].frames == kept.record.episode_length + 1 for kept in taken.kept.values())
        assert taken.lost == {}
        problems += answer.problems + taken.problems
    texts = [problem.text for problem in problems]
    assert len(texts) == (render == "replay"), "with auto, nobody asked for replays"
    assert all("began it in the middle of a game" in text for text in texts)
    assert all(problem.lost == 0 for problem in problems)


def test_an_env_that_takes_no_seed_is_replayed_from_the_states_of_its_generators():
    class Refuses(Lake):
        def reset(self, *, seed=None, options=None):
            if seed is not None:
                raise NotImplementedError("no seeds here")
            return super().reset(seed=seed, options=options)

    env_runner, recording = recorded(Refuses)
    answer, taken = round_of(env_runner, recording)
    assert {kept.record.rendered for kept in taken.kept.values()} == {"replay"}
    assert not taken.lost
    assert not answer.problems


def test_an_env_that_cannot_be_made_a_second_time_costs_the_clips_of_one_round():
    class Only(Lake):
        def __init__(self, config):
            if any(not env.is_closed for env in MADE):
                raise RuntimeError("the port is in use")
            super().__init__(config)

    env_runner, recording = recorded(Only)
    _, taken = round_of(env_runner, recording)
    assert len(taken.lost) == 3
    assert "the port is in use" in taken.problems[0].text
    _, taken = round_of(env_runner, recording)
    assert len(taken.kept) == 3


def test_the_env_of_the_replays_is_closed_with_the_env_runner(made):
    env_runner, recording = recorded()
    round_of(env_runner, recording)
    before = [env for env in made if not env.is_closed]
    env_runner.stop()
    assert len(before) == 2
    assert all(env.is_closed for env in before)


def test_a_replay_leaves_the_random_numbers_of_the_process_alone():
    env_runner, recording = recorded()
    recording.begin_round(env_runner)
    env_runner.sample(num_episodes=2, random_actions=True)
    env_runner.get_metrics()
    answer = recording.answer(())
    np.random.seed(1), random.seed(1)
    before = np.random.get_state()[1].tolist(), random.getstate()
    registry.take(env_runner, "episodes", answer.candidates, answer.candidates)
    assert (np.random.get_state()[1].tolist(), random.getstate()) == before


def test_training_episodes_are_recorded_directly():
    recorder = record_episodes(sections=("train", "evaluation"), keep="all", render="replay")
    config = PPOConfig().environment(Lake).env_runners(num_env_runners=0).callbacks(recorder)
    env_runner = SingleAgentEnvRunner(config=config.rl_module(model_config={"fcnet_hiddens": [8]}), worker_index=0)
    env_runner.sample(num_episodes=2, random_actions=True)
    answer = registry.ask_and_take(env_runner, "episodes", ())
    assert {kept.record.rendered for kept in answer.kept.kept.values()} == {"direct"}
