from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from tests.support.envs import CountingEnv
from tune_media.rllib.stacks import (
    NewStackEpisode,
    OldStackEpisode,
    task_of,
)


def vector_env(count=2):
    return gym.vector.SyncVectorEnv([lambda: CountingEnv({"length": 9})] * count)


def old_episode(total_reward=0.0, agents=("agent0",)):
    return SimpleNamespace(
        episode_id=17, total_reward=total_reward, get_agents=lambda: agents, last_info_for=lambda: {"speed": 2.0}
    )


class WithAgents(CountingEnv):
    possible_agents = ("left", "right")


def test_a_step_of_the_new_stack_is_the_envs_own_and_not_the_episodes():
    env = vector_env()
    NewStackEpisode.tap(SimpleNamespace(env=env), env)
    env.reset(seed=[1, 2])
    _, rewards, *_ = env.step(np.array([0, 1]))
    rewritten = SingleAgentEpisode(observations=[9, 9], actions=[5], rewards=[7.0])
    step = NewStackEpisode(rewritten, SimpleNamespace(env=env), env, 1).transition(0.0)
    assert (step.action, step.total_reward) == (1, rewards[1])


def test_a_step_of_an_env_that_is_not_watched_is_the_episodes():
    episode = SingleAgentEpisode(observations=[1, 2], actions=[5], rewards=[7.0], infos=[{}, {"speed": 3}])
    step = NewStackEpisode(episode, SimpleNamespace(), vector_env(), 0).transition(0.0)
    assert (step.observation, step.action, step.total_reward, step.info) == (2, 5, 7.0, {"speed": 3})


def test_agents_that_may_still_join_are_agents():
    env = gym.vector.SyncVectorEnv([WithAgents])
    present = MultiAgentEpisode(observations=[{"right": 1, "guest": 1}])
    assert NewStackEpisode(present, SimpleNamespace(), env, 0).agents == ("left", "right", "guest")
    assert NewStackEpisode(SingleAgentEpisode(), SimpleNamespace(), env, 0).agents == ()


def test_the_only_agent_of_the_old_stack_is_none():
    assert OldStackEpisode(old_episode(), None, vector_env(), 0).agents == ()
    assert OldStackEpisode(old_episode(agents=("b",)), None, vector_env(), 0).agents == ("b",)


def test_the_old_stack_tells_the_reward_of_a_step_by_the_sum_if_the_env_is_out_of_reach():
    episode = OldStackEpisode(old_episode(total_reward=5.0), None, vector_env(), 0)
    assert (episode.transition(3.5).total_reward, episode.transition(3.5).info) == (1.5, {"speed": 2.0})
    assert episode.end_facts() == {"episode_return": 5.0, "weights_version": None}


@pytest.mark.parametrize(("task", "told"), [(3, 3), ("easy", "easy"), ({"level": 1}, "{'level': 1}"), (None, "None")])
def test_a_task_is_a_plain_value_or_text_and_found_inside_wrappers(task, told):
    env = CountingEnv()
    env.set_task(task)
    assert task_of(gym.wrappers.TimeLimit(env, 5)) == told


def test_an_env_without_a_task_or_one_that_fails_to_tell_it_has_none():
    """Before, no episode of an env that failed was recorded."""

    class OnlySets(CountingEnv):
        def get_task(self):
            raise NotImplementedError

    class NotSet(CountingEnv):
        def get_task(self):
            return self.not_set_yet

    assert [task_of(env) for env in (OnlySets(), NotSet(), gym.make("CartPole-v1"))] == [None] * 3
