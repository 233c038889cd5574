"""The settings in which an env's episodes are taped, each behind one driver: RLlib's env runners, Gymnasium's wrappers.

A driver plays episodes, and returns what was recorded of them as it stands in a result.
"""

import functools
import random
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from ray.rllib.algorithms.ppo.ppo_torch_policy import PPOTorchPolicy
from ray.rllib.evaluation.rollout_worker import RolloutWorker

import tune_media as tm
from tests.support.fake_env_runners import FakeGroup
from tests.support.rllib_configs import env_runner_of, for_env_runner, multi_agent, on_old_stack
from tune_media.replay.verdicts import ReplayVerdict, decide
from tune_media.rllib.env_runner_requests import recordings_of
from tune_media.rllib.gather import EnvRunnerClient, collect
from tune_media.rllib.round_choice import Round

PROVEN = ReplayVerdict(True, ages=False, length=8)


class Played(NamedTuple):
    """The recorded part of some episodes, and the returns that the loop saw, from the least on."""

    chosen: dict
    problems: list
    returns: list
    samples: Any = ()  # of an env runner: the tapes that may prove its recipe

    def clips(self, selector="all"):
        found = self.chosen.get(selector, [])
        return found if isinstance(found, list) else [found]

    @property
    def episodes(self):
        return self.chosen["data"].episodes if "data" in self.chosen else ()

    @property
    def records(self):
        return [episode.record for episode in self.episodes]

    @property
    def rendered(self):
        return {clip.episode.rendered for clip in self.clips()}


class OnNewStack:
    """An env runner of RLlib's new API stack, built without Ray; of an evaluation, unless told otherwise."""

    section = "evaluation"
    warns = False  # an env runner's problems are told by the driver

    def __init__(self, env, config, *, sub_envs=2, section=None, in_processes=False, first_seed=None, **arguments):
        self.section = section or self.section
        recorder = tm.rllib.record_episodes(sections=("train", "evaluation"), **arguments)
        settings = {"sub_envs": sub_envs, "evaluation": self.section == "evaluation", "rollout_fragment_length": 20}
        settings["gym_env_vectorize_mode"] = gym.VectorizeMode.ASYNC if in_processes else gym.VectorizeMode.SYNC
        config = for_env_runner(env, config, recorder, **settings).debugging(seed=first_seed)
        self.env_runner = self.made(env, config)
        self.recording = recordings_of(self.env_runner)["episodes"]
        self.group, self.client, self.close = FakeGroup(local=self.env_runner), EnvRunnerClient(), self.env_runner.stop

    def made(self, env, config):
        return env_runner_of(config)

    def returns(self, episodes):
        found = self.env_runner.sample(num_episodes=episodes, random_actions=True)
        self.env_runner.get_metrics()
        return [episode.get_return() for episode in found]

    def play(self, episodes=3):
        """Play so many episodes or more, as a round."""
        if self.section == "evaluation":
            self.client.begin_round(self.group, "episodes")
        returns = self.returns(episodes)
        found = collect(self.group, self.recording.recorder.plan, self.client, Round(self.section, 1))
        return Played(found.chosen, list(found.problems), sorted(returns), found.samples)

    def prove(self):
        """Have it known that the env repeats its episodes, as the Algorithm finds out."""
        decide(self.recording.replays.recipe.hash, PROVEN)


class OfAgents(OnNewStack):
    def made(self, env, config):
        return env_runner_of(config.env_runners(num_envs_per_env_runner=1).multi_agent(**multi_agent()))


class OnOldStack(OnNewStack):
    """A rollout worker of RLlib's old API stack; of a training, unless told otherwise."""

    section = "train"

    def made(self, env, config):
        return RolloutWorker(env_creator=env, default_policy_class=PPOTorchPolicy, config=on_old_stack(config))

    def returns(self, episodes):
        ended = []
        while len(ended) < episodes:
            self.env_runner.sample()
            ended += self.env_runner.get_metrics()
        return [episode.episode_reward for episode in ended]


class Wrapped:
    """A vector env of Gymnasium's in our wrapper, which finds out itself whether its sub-envs repeat their episodes."""

    warns = True

    def __init__(
        self, env, config, *, sub_envs=2, seeds=None, section=None, in_processes=False, first_seed=None, **arguments
    ):
        make = functools.partial(env, config)
        own = make if seeds is None else lambda: tm.gym.FixedSeeds(make(), seeds)
        kind = gym.vector.AsyncVectorEnv if in_processes else gym.vector.SyncVectorEnv
        self.env = tm.gym.RecordEpisodes(self.made(own, kind, sub_envs), env_fn=make, **arguments)
        self.env.action_space.seed(1)
        self.env.reset(seed=first_seed)
        self.totals, self.close = np.zeros(getattr(self.env, "num_envs", 1)), self.env.close

    def made(self, make, kind, sub_envs):
        return kind([make] * sub_envs)

    def returns(self, episodes):
        returns = []
        while len(returns) < episodes:
            _, rewards, terminated, truncated, _ = self.env.step(self.env.action_space.sample())
            self.totals += rewards
            is_over = np.atleast_1d(terminated | truncated)
            returns += self.totals[is_over].tolist()
            self.totals[is_over] = 0.0
            self.go_on(is_over)
        return returns

    def go_on(self, is_over):
        """The next step resets the sub-envs whose episodes are over."""

    def play(self, episodes=3):
        """Play so many episodes or more, and take what was recorded."""
        returns = self.returns(episodes)
        taken = self.env.take()
        return Played(taken, list(taken.pop("problems", ())), sorted(returns))

    def prove(self):
        """It does so itself, by the episodes that it has recorded."""


class WrappedAlone(Wrapped):
    def made(self, make, kind, sub_envs):
        return make()

    def go_on(self, is_over):
        if is_over.any():
            self.env.reset()


SETTINGS = {"new stack": OnNewStack, "old stack": OnOldStack, "gym": WrappedAlone, "vector": Wrapped}
WITH_AGENTS = {**SETTINGS, "agents": OfAgents}


def taped_env(setting, env, config=None, **arguments):
    """Return an env in a setting, whose recipe no other test has; by default, all its clips are rendered directly."""
    config = {"salt": random.SystemRandom().random(), **(config or {})}
    return WITH_AGENTS[setting](env, config, **{"keep": "all", "render": "direct", **arguments})
