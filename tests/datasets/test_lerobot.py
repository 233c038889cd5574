"""Episodes on tape as a LeRobot dataset: its files, read without LeRobot, and the returns that its actions give."""

import json
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import tune_media as tm
from tune_media.cli import main
from tune_media.encoding import decode_video

SPACES = {"place": gym.spaces.Box(-9, 9, (2,)), "map": gym.spaces.Box(0, 1, (3, 4)), "count": gym.spaces.Discrete(9)}


class Walk(gym.Env):
    """A walk from a place that the seed decides; the picture is as bright as the steps are many."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 5}  # noqa: RUF012
    render_mode = "rgb_array"
    observation_space = gym.spaces.Dict(SPACES)
    action_space = gym.spaces.Box(-1, 1, (2,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count, self.place = 0, self.np_random.normal(size=2).astype(np.float32)
        return self._observation(), {}

    def step(self, action):
        self.count, self.place = self.count + 1, self.place + action
        is_over = self.count == 4 + int(abs(self.place[0]))
        return self._observation(), float(self.place[1]), is_over and self.place[0] > 0, is_over, {}

    def render(self):
        return np.full((32, 48, 3), 20 * self.count, np.uint8)

    def _observation(self):
        return {"place": self.place.copy(), "map": np.full((3, 4), self.count / 9, np.float32), "count": self.count}


def make_walk(env_config):
    return Walk()


class Odd(Walk):
    """Seed 1 has observations of another type, and seed 2 has no pictures."""

    def reset(self, *, seed=None, options=None):
        self.seed = seed
        return super().reset(seed=seed)

    def render(self):
        return None if self.seed == 2 else super().render()

    def _observation(self):
        told = super()._observation()
        return told | {"place": told["place"].astype(np.float64)} if self.seed == 1 else told


def make_odd(env_config):
    return Odd()


def load_nothing(folder):
    return lambda observation: np.float32(0.25) * np.sign(observation["place"])


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory):
    """An evaluation of five episodes of a policy that is nobody's."""
    trial = tmp_path_factory.mktemp("results") / "walks" / "Walk_1"
    (trial / "checkpoint_000000").mkdir(parents=True)
    (trial / "params.json").write_text("{}")
    return tm.evaluate(trial.parent, policy=load_nothing, env=make_walk, episodes=5, clips=None)


def test_an_episode_with_other_features_or_without_pictures_is_left_out(tmp_path, caplog):
    trial = tmp_path / "odd" / "Odd_1"
    (trial / "checkpoint_000000").mkdir(parents=True)
    (trial / "params.json").write_text("{}")
    evaluated = tm.evaluate(trial.parent, policy=load_nothing, env=make_odd, episodes=4, clips=None)
    made = tm.export.to_lerobot(evaluated.path, tmp_path / "dataset")
    assert made.episodes == 2
    assert pq.read_table(tmp_path / "dataset" / "meta/episodes")["seed"].to_pylist() == [0, 3]
    assert caplog.text.count("is left out") == 2
    assert "other features than the first episode: observation.place" in caplog.text


def test_its_actions_give_the_returns_again_and_each_frame_has_its_picture(evaluated, tmp_path):
    told = evaluated.catalog.episodes().sort_values("episode_return")
    least, folder = told["episode_return"].iloc[1], tmp_path / "dataset"
    command = ["export", evaluated.path, "--to", "lerobot", "-o", str(folder), "--episodes", f"return >= {least}"]
    result = CliRunner().invoke(main, [*command, "--task", "walk"])
    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"This runs code that is stored in {evaluated.path}, in the recipes of its envs: ")
    info = json.loads((folder / "meta/info.json").read_text())
    frames = pq.read_table(folder / "data").to_pylist()
    episodes = pq.read_table(folder / "meta/episodes").to_pylist()
    assert f"{len(episodes)} episodes, {len(frames)} frames" in result.output
    assert (info["total_episodes"], info["total_frames"], info["fps"]) == (len(episodes), len(frames), 5)
    assert sorted(one["episode_return"] for one in episodes) == told["episode_return"].tolist()[1:]
    assert [frame["index"] for frame in frames] == list(range(len(frames)))
    env = Walk()
    for number, one in enumerate(episodes):
        of_episode = frames[one["dataset_from_index"] : one["dataset_to_index"]]
        clip = folder / info["video_path"].format(
            video_key="observation.image",
            **{name: one[f"videos/observation.image/{name}"] for name in ("chunk_index", "file_index")},
        )
        pictures = list(decode_video(clip.read_bytes()))
        assert len(pictures) == len(of_episode) == one["length"]
        observation, _ = env.reset(seed=one["seed"])
        total = 0.0
        for at, (frame, picture) in enumerate(zip(of_episode, pictures, strict=True)):
            assert (frame["episode_index"], frame["frame_index"]) == (number, at)
            assert frame["timestamp"] == pytest.approx(at / 5)
            for name, value in observation.items():
                assert np.array_equal(np.asarray(frame[f"observation.{name}"]), value)
            assert np.abs(picture.astype(int) - env.render()).mean() < 4
            observation, reward, terminated, truncated, _ = env.step(np.float32(frame["action"]))
            total += reward
            assert frame["next.reward"] == reward
            assert frame["next.done"] == (terminated or truncated)
            assert frame["next.truncated"] == (frame["next.done"] and not terminated)
        assert total == pytest.approx(one["episode_return"])
    shapes = {name: (feature["dtype"], feature["shape"]) for name, feature in info["features"].items()}
    assert shapes["observation.map"] == ("float32", [3, 4])
    assert shapes["observation.image"] == ("video", [32, 48, 3])
    assert shapes["action"] == ("float32", [2])
    stats = json.loads((folder / "meta/stats.json").read_text())
    rewards = np.array([frame["next.reward"] for frame in frames])
    assert stats["next.reward"]["mean"] == pytest.approx([rewards.mean()])
    assert stats["next.reward"]["std"] == pytest.approx([rewards.std()])
    assert np.shape(stats["observation.image"]["mean"]) == (3, 1, 1)


def test_minari_plays_tapes_after_it_is_said_that_their_code_runs(evaluated, monkeypatch):
    def made(buffer, **_):  # Minari takes no dict of a number
        return SimpleNamespace(total_episodes=len(buffer), total_steps=sum(len(one.rewards) for one in buffer))

    monkeypatch.setattr(pytest.importorskip("minari"), "create_dataset_from_buffers", made)
    result = CliRunner().invoke(main, ["export", evaluated.path, "--to", "minari", "--dataset", "walk/steps-v0"])
    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"This runs code that is stored in {evaluated.path}, in the recipes of its envs: ")
    assert "Minari has the dataset walk/steps-v0: 5 episodes" in result.output


def test_what_cannot_become_a_dataset_says_why(evaluated, tmp_path):
    with pytest.raises(ValueError, match="no such episodes with tapes"):
        tm.export.to_lerobot(evaluated.path, tmp_path / "none", where=lambda episode: False)
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").touch()
    with pytest.raises(FileExistsError, match="pass another folder"):
        tm.export.to_lerobot(evaluated.path, tmp_path / "there")
