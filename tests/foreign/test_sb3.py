"""Episodes and curves of Stable-Baselines3, from the files that its own classes write."""

import dataclasses
import shutil

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import EvalCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.logger import configure
from stable_baselines3.common.monitor import Monitor, load_results

import tune_media as tm
from tests.support.foreign_run import curves_in, run_in
from tune_media.experiment.loop_results import episodes_of_run, results_of_run
from tune_media.foreign import sb3
from tune_media.viewing.curves import Curves


class Succeeding(gym.Wrapper):
    """An env whose episodes succeed if they are longer than 20 steps."""

    def reset(self, **options):
        self.steps = 0
        return super().reset(**options)

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        self.steps += 1
        return observation, reward, terminated, truncated, {**info, "is_success": self.steps > 20, "pole": self.steps}


def make_env():
    return Succeeding(gym.make("CartPole-v1"))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run with all that SB3 can log: two envs' monitors, evaluations, a monitor of these, CSV and event files."""
    folder = tmp_path_factory.mktemp("logs") / "PPO_1"
    (folder / "eval").mkdir(parents=True)
    keywords = {"info_keywords": ("is_success", "pole")}
    env = make_vec_env(make_env, 2, seed=0, monitor_dir=str(folder), monitor_kwargs=keywords)
    evaluation_env = Monitor(make_env(), str(folder / "eval"))
    model = PPO("MlpPolicy", env, n_steps=64, batch_size=64, n_epochs=1, device="cpu", seed=0)
    model.set_logger(configure(str(folder), ["csv", "json", "tensorboard"]))
    evaluations = EvalCallback(evaluation_env, log_path=str(folder), eval_freq=100, n_eval_episodes=3, verbose=0)
    model.learn(600, callback=evaluations)
    env.close()
    evaluation_env.close()
    return folder


def only(source, target, *names):
    """Copy some files of a run."""
    for path in (path for name in names for path in source.glob(name)):
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    return target


def test_training_episodes_of_all_envs_are_in_the_order_and_at_the_steps_of_sb3s_own_reader(trained):
    theirs = load_results(str(trained))
    run = run_in(trained)
    ours = [episode for episode in run.episodes if episode.section == "train"]
    assert [episode.episode_return for episode in ours] == theirs["r"].tolist()
    assert [episode.step for episode in ours] == theirs["l"].cumsum().tolist()
    assert [episode.success for episode in ours] == (theirs["l"] > 20).tolist()
    assert [episode.metrics for episode in ours] == [{"pole": float(length)} for length in theirs["l"]]
    assert np.diff([episode.finished_at for episode in ours]).min() >= 0


def test_evaluations_are_episodes_at_the_steps_of_the_training_and_counted_once(trained):
    file = np.load(trained / "evaluations.npz")
    evaluated = [episode for episode in run_in(trained).episodes if episode.section == "evaluation"]
    assert [episode.step for episode in evaluated] == [float(step) for step in file["timesteps"] for _ in range(3)]
    assert [episode.episode_return for episode in evaluated] == file["results"].ravel().tolist()
    assert [episode.length for episode in evaluated] == file["ep_lengths"].ravel().tolist()
    assert [episode.success for episode in evaluated] == file["successes"].ravel().tolist()


@pytest.mark.parametrize("name", ["events*", "progress.csv", "progress.json"])
def test_each_logger_tells_the_same_curves(trained, tmp_path, name):
    logged = only(trained, tmp_path, name)
    file = np.load(trained / "evaluations.npz")
    curves = curves_in(logged)
    evaluated = curves["evaluation/episode_return_mean"]
    assert evaluated.steps == file["timesteps"].tolist()
    assert evaluated.values == pytest.approx(file["results"].mean(axis=1).tolist())
    assert (evaluated.tag, evaluated.unit) == ("eval/mean_reward", "env steps")
    assert curves["episode_return_mean"].steps == [128, 256, 384, 512, 640]
    assert curves["episode_return_mean"].values == pytest.approx(curves["rollout/ep_len_mean"].values)
    assert curves["train/learning_rate"].values == pytest.approx([3e-4] * len(curves["train/learning_rate"].steps))


def test_files_of_the_same_run_have_the_same_tag_and_unit_of_the_return(trained, tmp_path):
    assert run_in(trained).return_from == ("eval/mean_reward", "env steps")
    assert run_in(only(trained, tmp_path / "a", "evaluations.npz")).return_from == ("eval/mean_reward", "env steps")
    assert run_in(only(trained, tmp_path / "b", "*.monitor.csv")).return_from == ("rollout/ep_rew_mean", "env steps")


def test_a_run_that_is_not_evaluated_yet_is_compared_with_others_by_its_training(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "PPO_1")
    only(trained, tmp_path / "PPO_2", "*.monitor.csv", "evaluations.npz")
    only(trained, tmp_path / "PPO_3", "*.monitor.csv")
    catalog = tm.load(tmp_path)
    assert catalog.compare(metric="episode_return_mean")["n"].tolist() == [3]
    places = Curves().of(catalog.trials, "episode_return_mean")["from"]
    assert places == ["rollout/ep_rew_mean over env steps"] * 3


def test_a_monitor_names_the_env(tmp_path):
    env = Monitor(gym.make("CartPole-v1"), str(tmp_path / "0"))
    env.reset(seed=0)
    while not any(env.step(0)[2:4]):
        pass
    env.close()
    assert run_in(tmp_path).env_id == "CartPole-v1"


def test_a_monitor_of_an_evaluation_is_read_if_nothing_else_tells_of_it(trained, tmp_path):
    file = np.load(trained / "evaluations.npz")
    alone = run_in(only(trained, tmp_path, "eval/monitor.csv"))
    assert {episode.section for episode in alone.episodes} == {"evaluation"}
    assert [episode.step for episode in alone.episodes] == file["ep_lengths"].cumsum().tolist()
    run = run_in(only(trained, tmp_path, "eval/monitor.csv", "*.monitor.csv"))
    evaluated = [episode for episode in run.episodes if episode.section == "evaluation"]
    steps = np.reshape([episode.step for episode in evaluated], file["results"].shape)
    assert (steps == steps[:, :1]).all()  # those of one evaluation are at one step: that of the training until then
    assert (steps[:, 0] <= file["timesteps"]).all()
    assert (np.diff(steps[:, 0]) > 0).all()


def test_results_are_the_means_of_each_evaluation(trained, tmp_path):
    file = np.load(trained / "evaluations.npz")
    run = run_in(only(trained, tmp_path, "evaluations.npz"))
    episodes = episodes_of_run(run)
    results = results_of_run(dataclasses.replace(run, told=[dataclasses.replace(run.told[0], curves=None)]), episodes)
    assert [result["timesteps_total"] for result in results] == file["timesteps"].tolist()
    for name, array in (("episode_return_mean", "results"), ("episode_len_mean", "ep_lengths")):
        means = [result[f"evaluation/{name}"] for result in results]
        assert means == pytest.approx(file[array].mean(axis=1).tolist())
    rates = [result["evaluation/custom_metrics/success_rate"] for result in results]
    assert rates == pytest.approx(file["successes"].mean(axis=1).tolist())
    assert episodes.last("evaluation")["episode_return"].to_pylist() == file["results"][-1].tolist()


def test_a_monitor_that_was_resumed_keeps_its_order(tmp_path):
    lines = ['#{"t_start": 100.0, "env_id": "A-v0"}', "r,l,t", "1.0,10,50.0", "2.0,10,60.0", "3.0,10,5.0"]
    (tmp_path / "monitor.csv").write_text("\n".join(lines) + "\n")
    episodes = run_in(tmp_path).episodes
    assert [episode.episode_return for episode in episodes] == [1.0, 2.0, 3.0]
    assert [episode.step for episode in episodes] == [10, 20, 30]
    assert {episode.finished_at for episode in episodes} == {None}


@pytest.mark.parametrize(
    ("name", "arrays", "sentence"),
    [
        ("evaluations.npz", {"timesteps": [1], "scores": [[2.0]]}, "no column for a return"),
        ("evaluations.npz", {"results": [[2.0]]}, "no column for a step"),
        ("evaluations.npz", {"timesteps": [1], "results": np.array([[2.0], None], object)}, "allow_pickle=False"),
    ],
)
def test_an_array_file_that_is_not_understood_is_named(tmp_path, name, arrays, sentence):
    np.savez(tmp_path / name, **arrays)
    run = run_in(tmp_path)
    assert not run.episodes
    assert [sentence in text and text.startswith(name) for text in run.not_understood] == [True]


def test_columns_name_the_return(tmp_path):
    np.savez(tmp_path / "evaluations.npz", timesteps=[5], scores=[[2.0, 4.0]])
    run = run_in(tmp_path, {"return": "scores"})
    assert [episode.episode_return for episode in run.episodes] == [2.0, 4.0]
    assert "scores" in run.columns
    refused = run_in(tmp_path).not_understood[0]
    assert refused.with_options({"columns": "--columns"}) == (
        "evaluations.npz: no column for a return; name it in --columns, as in return=NAME."
    )


def test_an_array_that_would_fill_the_memory_is_not_unpacked(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "evaluations.npz", results=np.zeros((1000, 100)), timesteps=np.arange(1000))
    assert len(run_in(tmp_path).episodes) == 100_000
    monkeypatch.setattr(sb3, "MOST_BYTES", 500_000)
    run = run_in(tmp_path)
    assert run.episodes == ()
    assert run.not_understood == ["evaluations.npz: it unpacks to 1 MB, which is too much to be read."]
