import gymnasium as gym
import numpy as np
import pyarrow.parquet
import pytest

import tune_media as tm
from tests.support.envs import CountingEnv
from tests.support.stores import StoredTrial
from tests.support.taped import take_step
from tests.support.viewing import moving_bar, write_run, write_trial
from tune_media.experiment.trial_folders import LogDirectory, Trials
from tune_media.replay.tape import Tape
from tune_media.values.episodes import EpisodeBatch, EpisodeData
from tune_media.viewing.episode_details import episode_details, taped_details


@pytest.fixture
def trial(tmp_path):
    write_trial(tmp_path / "trial", 1)
    return Trials([LogDirectory.of(str(tmp_path))]).all()[0]


def test_the_json_is_read_if_there_is_no_parquet_file(trial, tmp_path):
    for report in trial.report_lines:
        (tmp_path / "trial" / report["path"]).with_suffix(".parquet").unlink()
    assert episode_details(trial, trial.lines[0])["series"]["angle"][-1] == 2.0


def test_a_clip_without_an_episode_has_its_record_only(trial):
    assert episode_details(trial, {"path": "x", "note": float("inf")})["record"] == {"path": "x", "note": None}


def test_a_tape_tells_the_actions_and_the_rewards(tmp_path):
    tape = Tape(seed=7)
    tape.began(check=1)
    for step in range(3):
        take_step(tape, np.array([step / 2, -1.0], np.float32), check=step, reward=0.1 * step)
    record = tm.EpisodeRecord("e", 1.0, 3, training_iteration=10)
    with StoredTrial.in_folder(write_trial(tmp_path / "trial", 1, steps=())) as store:
        store.add(tm.Video(moving_bar(4), fps=10, episode=record), step=10)
        store.add(EpisodeBatch((EpisodeData(record, tape=tape.packed()),)), "evaluation", "episodes/data", 10)
    (trial,) = Trials([LogDirectory.of(str(tmp_path))]).all()
    (clip,) = trial.lines
    details = episode_details(trial, clip)
    assert details["actions"] == {"action/0": [0.0, 0.5, 1.0], "action/1": [-1.0] * 3}
    assert details["series"] == {"reward": [0.0, 0.1, 0.2]}
    (report,) = trial.report_files
    taped = taped_details(trial, report, "e")
    assert {**taped, "record": {}} == {**details, "record": {}}
    facts = ("episode_id", "episode_return", "episode_length", "step", "section")
    assert [taped["record"][name] for name in facts] == ["e", 1.0, 3, 10, "evaluation"]
    assert taped_details(trial, report, "another") is None


LENGTH = 6


class Noting(gym.Wrapper):
    """Notes the rewards of each episode, which may be vectors."""

    def __init__(self, size=0):
        super().__init__(CountingEnv({"length": LENGTH}))
        self.noted, self.size = [], size

    def reset(self, **more):
        self.noted.append([])
        return self.env.reset(**more)

    def step(self, action):
        observation, reward, *rest = self.env.step(action)
        self.noted[-1].append(reward)
        return observation, np.array([reward, -2.0 * reward])[: self.size] if self.size else reward, *rest


def recorded_by_gym(folder, env, episodes=3, **options):
    env = tm.gym.RecordEpisodes(env, keep="best", **options)
    for _ in range(episodes):
        env.reset()
        for _ in range(LENGTH):
            env.step(0)
    taken = env.take()
    env.close()
    with StoredTrial.in_folder(write_run(folder, {"lr": 1}, {"episode_return_mean": 1.0})) as store:
        store.add(taken["best"], "", "best", 1)
        store.add(taken["data"], "", "episodes/data", 1)
    (trial,) = Trials([LogDirectory.of(str(folder.parent))]).all()
    return trial, taken


def the_clip(trial):
    return next(line for line in trial.lines if line["kind"] == "video")


@pytest.mark.parametrize("options", [{}, {"collect": False}, {"trajectories": True}])
def test_a_clip_that_was_recorded_while_its_episode_ran_has_the_reward_of_each_step(tmp_path, options):
    env = Noting()
    trial, taken = recorded_by_gym(tmp_path / "trial", env, **options)
    best = max(env.noted, key=sum)
    assert taken["best"].episode.rendered == "direct"
    assert episode_details(trial, the_clip(trial), with_steps=False)["series"] == {"reward": best}
    assert [one.rewards is not None for one in taken["data"].episodes] == [one is best for one in env.noted]
    (report,) = trial.report_files
    assert "reward" not in (tmp_path / "trial" / report).read_text()


def test_rewards_that_are_vectors_are_summed_as_in_the_return(tmp_path):
    env = Noting(size=2)
    trial, _ = recorded_by_gym(tmp_path / "trial", env, episodes=1)
    assert episode_details(trial, the_clip(trial))["series"]["reward"] == [-one for one in env.noted[0]]


def test_rewards_that_are_on_a_tape_are_not_stored_again(tmp_path):
    _, taken = recorded_by_gym(tmp_path / "taped", Noting(), env_fn=Noting, render="auto")
    assert [one.rewards for one in taken["data"].episodes] == [None] * 3
    assert all(one.tape for one in taken["data"].episodes)


def test_reports_of_releases_without_rewards_are_read(tmp_path):
    trial, _ = recorded_by_gym(tmp_path / "trial", Noting(), collect=lambda step: {"twice": 2 * step.reward})
    (report,) = trial.report_files
    file = (tmp_path / "trial" / report).with_suffix(".parquet")
    table = pyarrow.parquet.read_table(file)
    pyarrow.parquet.write_table(table.drop_columns(["rewards"]), file)
    assert set(episode_details(trial, the_clip(trial))["series"]) == {"twice"}
    assert len(tm.load(tmp_path).episodes()) == 3
