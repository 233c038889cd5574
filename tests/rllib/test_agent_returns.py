from types import SimpleNamespace

from ray.rllib.env.multi_agent_episode import MultiAgentEpisode

from tune_media.rllib.agent_returns import MAX_AGENTS, agent_returns


def chunk(**returns):
    return SimpleNamespace(
        agent_episodes={
            agent: SimpleNamespace(get_return=lambda value=value: value) for agent, value in returns.items()
        }
    )


def test_the_chunks_of_an_episode_are_summed_by_agent():
    found = agent_returns(chunk(left=1.0, right=-1.0), [chunk(left=2.0), chunk(late=5.0)])
    assert found == {"return/left": 3.0, "return/late": 5.0, "return/right": -1.0}


def test_an_agent_of_several_policies_has_one_return():
    old = SimpleNamespace(agent_rewards={("a", "p"): 1.0, ("a", "q"): 2.0, ("b", "p"): -3.0})
    assert agent_returns(old) == {"return/a": 3.0, "return/b": -3.0}


def test_rewards_that_an_agent_gets_out_of_its_turn_count():
    first = MultiAgentEpisode()
    first.add_env_reset(observations={"a": 0})
    first.add_env_step(observations={"b": 1}, actions={"a": 0}, rewards={"a": 1.0, "b": 0.5})
    second = first.cut()
    second.add_env_step(observations={"a": 2}, actions={"b": 0}, rewards={"b": 2.0, "a": 4.0})
    second.add_env_step(
        observations={"a": 3, "b": 3}, actions={"a": 0}, rewards={"a": 1.0, "b": 1.0}, terminateds={"__all__": True}
    )
    given = {"a": 6.0, "b": 3.5}
    assert agent_returns(second, [first]) != {"return/a": 6.0, "return/b": 3.5}
    assert agent_returns(second, [first], given) == {"return/a": 6.0, "return/b": 3.5}


def test_single_agent_episodes_have_none():
    assert agent_returns(SimpleNamespace(agent_rewards={("agent0", "default_policy"): 1.0})) == {}
    assert agent_returns(SimpleNamespace(id_="new stack")) == {}


def test_a_crowd_is_bounded():
    assert len(agent_returns(chunk(**{f"a{index}": 1.0 for index in range(500)}))) == MAX_AGENTS
