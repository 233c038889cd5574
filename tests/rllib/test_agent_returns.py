from types import SimpleNamespace

from tune_media.rllib.stacks import MAX_AGENTS, agent_returns


def chunk(**returns):
    return SimpleNamespace(
        agent_episodes={
            agent: SimpleNamespace(get_return=lambda value=value: value) for agent, value in returns.items()
        }
    )


def test_a_crowd_is_bounded():
    assert len(agent_returns(chunk(**{f"a{index}": 1.0 for index in range(500)}))) == MAX_AGENTS


def test_single_agent_episodes_have_none():
    assert agent_returns(SimpleNamespace(agent_rewards={("agent0", "default_policy"): 1.0})) == {}
    assert agent_returns(SimpleNamespace(id_="new stack")) == {}
