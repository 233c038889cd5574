import json

import gymnasium as gym
import numpy as np
import pytest

from tune_media.gym import RecordEpisodes
from tune_media.recording.trajectory import TrajectoryBuilder
from tune_media.steps import StepFacts


def built(*steps):
    builder = TrajectoryBuilder()
    for number, fields in enumerate(steps):
        builder.add(StepFacts(number, fields.pop("reward", 0.0), 0.0, **fields))
    return builder.finish()


def test_the_reset_has_an_observation_and_neither_reward_nor_action():
    trajectory = built({"observation": 1}, {"observation": 2, "action": 5, "reward": 0.5})
    assert trajectory.columns == {
        "step": [0, 1],
        "observation": [1, 2],
        "reward": [None, 0.5],
        "action": [None, 5],
    }


def test_dicts_and_tuples_become_a_column_for_each_leaf():
    columns = built({"observation": {"camera": np.zeros((2, 2)), "arm": (1.0, {"grip": 2})}}).columns
    assert set(columns) == {"step", "reward", "observation/camera", "observation/arm/0", "observation/arm/1/grip"}
    assert columns["observation/camera"][0].shape == (2, 2)
    assert columns["observation/arm/1/grip"] == [2]


def test_a_buffer_that_the_env_fills_again_is_copied():
    builder, buffer = TrajectoryBuilder(), np.zeros(2)
    for step in range(3):
        buffer[:] = step
        builder.add(StepFacts(step, 0.0, 0.0, observation=buffer))
    assert [row.tolist() for row in builder.finish().columns["observation"]] == [[0, 0], [1, 1], [2, 2]]


def test_an_info_is_json_text_that_names_what_it_leaves_out():
    info = {"speed": np.float32(1.5), "engine": len, 3: [1, 2]}
    (text,) = built({"info": info}).columns["info"]
    held = json.loads(text)
    assert (held["speed"], held["3"]) == (1.5, [1, 2])
    assert held["engine"].startswith("not stored: engine is a builtin_function")


def test_a_value_that_some_steps_lack_is_none_there():
    columns = built({"info": {"a": 1}}, {"action": {"gas": 1}}, {"action": {"brake": 2}}).columns
    assert columns["action/gas"] == [None, 1, None]
    assert columns["action/brake"] == [None, None, 2]
    assert columns["info"][1:] == [None, None]


def test_steps_beyond_the_bound_are_left_out_and_counted(monkeypatch):
    monkeypatch.setattr("tune_media.recording.trajectory.MAX_BYTES", 10_000)
    trajectory = built(*({"observation": np.zeros(500)} for _ in range(9)))
    assert len(trajectory) == 3
    assert trajectory.note == "the last 6 steps are left out: more than 10000 bytes"
    assert built({"observation": 1}).note is None


class Listens(gym.Env):
    """Its observations have parts of any number, as those of a ``Sequence`` space."""

    observation_space = gym.spaces.Dict(
        {
            "points": gym.spaces.Sequence(gym.spaces.Box(0, 9, (2,))),
            "pair": gym.spaces.Tuple((gym.spaces.Discrete(9), gym.spaces.Sequence(gym.spaces.Discrete(9)))),
        }
    )
    action_space = gym.spaces.Discrete(2)
    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    render_mode = "rgb_array"

    def reset(self, *, seed=None, options=None):
        self.count = 0
        return self.observation(), {}

    def observation(self):
        points = tuple(np.full(2, n, np.float32) for n in range(self.count))
        return {"points": points, "pair": (self.count, tuple(range(self.count)))}

    def step(self, action):
        self.count += 1
        return self.observation(), 1.0, self.count == 3, False, {}

    def render(self):
        return np.zeros((16, 16, 3), np.uint8)


class ListensInBatch(gym.vector.VectorEnv):
    """One ``Listens`` that nobody can reach."""

    num_envs = 1
    metadata = Listens.metadata | {"autoreset_mode": gym.vector.AutoresetMode.NEXT_STEP}
    render_mode = "rgb_array"
    single_observation_space, single_action_space = Listens.observation_space, Listens.action_space
    observation_space = gym.vector.utils.batch_space(single_observation_space, 1)
    action_space = gym.vector.utils.batch_space(single_action_space, 1)

    def reset(self, *, seed=None, options=None):
        self.hidden = Listens()
        return self.batch(self.hidden.reset()[0]), {}

    def batch(self, observation):
        return {
            "points": (observation["points"],),
            "pair": (np.array([observation["pair"][0]]), (observation["pair"][1],)),
        }

    def step(self, actions):
        observation, reward, terminated, truncated, _ = self.hidden.step(actions[0])
        return self.batch(observation), np.array([reward]), np.array([terminated]), np.array([truncated]), {}

    def render(self):
        return (self.hidden.render(),)


@pytest.mark.parametrize(
    "make",
    [
        Listens,
        lambda: gym.vector.SyncVectorEnv([Listens]),
        lambda: gym.vector.AsyncVectorEnv([Listens], shared_memory=False),
        ListensInBatch,
    ],
    ids=["single", "sync", "async", "native"],
)
def test_a_sequence_is_one_column_however_long_it_is(make):
    env = make()
    many = isinstance(env, gym.vector.VectorEnv)
    env = RecordEpisodes(env, trajectories=True, strict=True)
    env.reset()
    for _ in range(3):
        env.step([0] if many else 0)
    (trajectory,) = env.take()["data"].trajectories.values()
    env.close()
    columns = trajectory.columns
    assert set(columns) == {
        "step",
        "reward",
        "action",
        "observation/points",
        "observation/pair/0",
        "observation/pair/1",
    }
    assert columns["observation/pair/0"] == [0, 1, 2, 3]
    assert list(map(json.loads, columns["observation/points"])) == [[[n, n] for n in range(i)] for i in range(4)]
    assert list(map(json.loads, columns["observation/pair/1"])) == [list(range(i)) for i in range(4)]


def test_ragged_lists_are_text():
    """They cost the episode its clip."""
    columns = built({"observation": [[1, 2], [3]]}, {"observation": [[1], [2]]}, {"observation": [len]}).columns
    first, second, third = map(json.loads, columns["observation"])
    assert (first, second) == ([[1, 2], [3]], [[1], [2]])
    assert third.startswith("not stored: ")
