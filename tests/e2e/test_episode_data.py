"""What envs tell of their steps arrives, for every episode once, in JSON, Parquet, TensorBoard and the scalars."""

import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import ray
from packaging.version import Version
from ray.rllib.algorithms.callbacks import DefaultCallbacks, make_multi_callbacks
from ray.rllib.algorithms.ppo import PPOConfig

import tune_media as tm
from tests.support.envs.telling import TellingEnv, told_by
from tests.support.experiment import fit, rows_of, tensorboard_events, trial_folders
from tests.support.rllib_configs import STACK, evaluation, small
from tune_media.encoding.decode import probe_video
from tune_media.viewing.episode_details import episode_details

NEWEST = Version(ray.__version__) >= Version("2.52")
STACKS = {"new": {}, "old": STACK}
PARQUET = "*/episode_data/data-*.parquet"
LEARN = {"train_batch_size": 64, "minibatch_size": 64, "num_epochs": 1}


DIRECT = {"render": "direct", "check_frame": False}  # no env elsewhere writes, too


def ppo(log_dir, stack, runners=0, **more):
    told = evaluation(runners, evaluation_config={"env_config": {"log_dir": str(log_dir), "evaluation": True}})
    settings = {"evaluation": {**told, "evaluation_interval": 2, **more.pop("evaluation", {})}, **more, **STACKS[stack]}
    return small(PPOConfig, LEARN, TellingEnv, **settings)({"log_dir": str(log_dir)})


def run(config, storage, iterations=4):
    callbacks = [tm.JsonMediaLoggerCallback(media=tm.MediaOptions(strict=True)), tm.TBXMediaLoggerCallback()]
    results = fit("PPO", storage, callbacks, space=config, stop={"training_iteration": iterations})
    assert not results.errors
    return results


def rows_told(trial):
    return [
        {**row, "of_step": int(path.stem.split("-")[1])}
        for path in sorted((Path(trial) / "episode_data").glob("data-*.json"))
        for row in json.loads(path.read_text())
    ]


def by_return(rows):
    return sorted(rows, key=lambda row: row["episode_return"])


def found_and_wrote(trial, log_dir, section, stack, recorded=True):
    """Return the rows of a section, and what its envs wrote, but for the episodes that RLlib itself has not seen end.

    The old API stack steps its envs once after the fragment that it reports, and leaves evaluation episodes out of its
    own reports. Ray 2.50 evaluates after the last report.
    """
    found, wrote = by_return([row for row in rows_told(trial) if row["section"] == section]), told_by(log_dir, section)
    unseen = (
        1
        if section == "train" and stack == "old"
        else 3
        if section == "evaluation" and not (NEWEST and recorded)
        else 0
    )
    returns = [row["episode_return"] for row in found]
    seen = [one for one in wrote if one["return"] in returns]
    assert len(found) == len(seen) >= len(wrote) - unseen
    return found, seen


@pytest.fixture(scope="module", params=list(STACKS))
def told(request, ray_session, tmp_path_factory):
    """4 iterations with 2 evaluations, on either stack; short fragments cut episodes, some after their first step."""
    storage = tmp_path_factory.mktemp(f"told_{request.param}")
    config = ppo(storage, request.param, 1, env_runners={"rollout_fragment_length": 4})
    config.callbacks(
        tm.rllib.record_episodes(
            sections=("train", "evaluation"), keep=("best", "worst"), trajectories=True, window=5, strict=True, **DIRECT
        )
    )
    results = run(config, storage / "out")
    return storage, results


def test_json_says_what_the_env_wrote(told, request):
    storage, results = told
    rows = rows_told(results[0].path)
    for section in ("train", "evaluation"):
        found, wrote = found_and_wrote(results[0].path, storage, section, request.node.callspec.params["told"])
        assert len(wrote) >= 8
        assert [row["episode_return"] for row in found] == [one["return"] for one in wrote]
        assert [row["episode_length"] for row in found] == [one["length"] for one in wrote]
        assert [row["series"]["speed"] for row in found] == [one["speed"] for one in wrote]
        assert [row["series"]["track"] for row in found] == [one["track"] for one in wrote]
        assert [row["metrics"]["goals"] for row in found] == [one["goals"] for one in wrote]
        averages = [np.mean(one["speed"]) for one in wrote]
        assert [row["metrics"]["speed_avg"] for row in found] == pytest.approx(averages)
    assert len({row["episode_id"] for row in rows}) == len(rows)


def test_each_clip_has_the_reward_of_each_step_and_the_trackers_have_no_more_than_before(told):
    storage, results = told
    wrote = {one["return"]: one["reward"] for section in ("train", "evaluation") for one in told_by(storage, section)}
    (trial,) = tm.load(results.experiment_path).trials
    clips = [line for line in trial.lines if line["kind"] == "video"]
    assert {line["section"] for line in clips} == {"train", "evaluation"}
    for line in clips:
        assert line["rendered"] == "direct"
        assert episode_details(trial, line, with_steps=False)["series"]["reward"] == wrote[line["episode_return"]]
    assert {name for row in rows_told(results[0].path) for name in row["series"]} == {"speed", "track"}
    assert not [tag for tag in tensorboard_events(results[0].path).Tags()["histograms"] if tag.endswith("/reward")]


@pytest.mark.any_ray
def test_parquet_is_the_same_to_every_reader(told):
    import duckdb
    import pandas as pd
    import polars as pl

    _, results = told
    rows = by_return(rows_told(results[0].path))
    files = str(Path(results.experiment_path) / PARQUET)
    frame = pd.concat(map(pd.read_parquet, sorted(Path(results.experiment_path).glob(PARQUET))))
    returns = [row["episode_return"] for row in rows]
    assert sorted(frame["episode_return"]) == returns
    assert sorted(pl.read_parquet(files)["episode_return"]) == returns
    goals = f"select episode_return, metrics['goals'] from '{files}' order by 1"
    assert duckdb.sql(goals).fetchall() == [(row["episode_return"], row["metrics"]["goals"]) for row in rows]
    by_ray = ray.data.read_parquet(sorted(map(str, Path(results.experiment_path).glob(PARQUET)))).take_all()
    assert sorted(row["episode_return"] for row in by_ray) == returns
    table = tm.load(results.experiment_path).episodes().sort_values("episode_return")
    assert list(table["metrics/speed_avg"]) == [row["metrics"]["speed_avg"] for row in rows]
    assert [series["speed"] for series in table["series"]] == [row["series"]["speed"] for row in rows]
    assert [series["track"] for series in table["series"]] == [row["series"]["track"] for row in rows]


def test_scalars_and_histograms_are_of_exactly_these_episodes(told):
    _, results = told
    trial = results[0].path
    events = tensorboard_events(trial)
    for section, prefix in (("train", "ray/tune/env_runners"), ("evaluation", "ray/tune/evaluation/env_runners")):
        rounds = defaultdict(list)
        for row in rows_told(trial):
            if row["section"] == section and not row.get("late"):
                rounds[row["of_step"]].append(row)
        speeds = {step: np.concatenate([row["series"]["speed"] for row in rows]) for step, rows in rounds.items()}
        for reduce in ("mean", "min", "max"):
            scalars = {e.step: e.value for e in events.Scalars(f"{prefix}/custom_metrics/speed_avg_{reduce}")}
            averages = {step: [row["metrics"]["speed_avg"] for row in rows] for step, rows in rounds.items()}
            own = {step: getattr(np, reduce)(values) for step, values in averages.items()}
            assert scalars == pytest.approx(own, rel=1e-5)
        histograms = {e.step: e.histogram_value for e in events.Histograms(f"{section}/episodes/speed")}
        assert histograms.keys() == speeds.keys()
        for step, histogram in histograms.items():
            assert histogram.num == speeds[step].size == sum(histogram.bucket)
            assert (histogram.min, histogram.max) == (speeds[step].min(), speeds[step].max())
            assert histogram.sum == pytest.approx(speeds[step].sum())
            limits = np.array(histogram.bucket_limit)
            below = [np.sum(speeds[step] <= limit * (1 + 1e-12) + 1e-12) for limit in limits]
            assert np.cumsum(histogram.bucket).tolist() == below
        lengths = {e.step: e.histogram_value.sum for e in events.Histograms(f"{section}/episodes/episode_length")}
        assert lengths == {step: sum(row["episode_length"] for row in rows) for step, rows in rounds.items()}


def test_a_windowed_mean_is_over_the_last_episodes(told):
    _, results = told
    last = [row for row in rows_told(results[0].path) if row["section"] == "train"][-5:]
    reported = results[0].metrics["env_runners"]["custom_metrics"]["speed_avg_windowed_mean"]
    assert reported == pytest.approx(np.mean([row["metrics"]["speed_avg"] for row in last]))


def test_the_steps_of_chosen_episodes_are_kept(told):
    import pandas as pd

    _, results = told
    clips = {row["episode_id"]: row for row in tm.load(results.experiment_path)}
    rows = {row["episode_id"]: row for row in rows_told(results[0].path)}
    steps = pd.concat(map(pd.read_parquet, sorted(Path(results[0].path).glob("episode_data/steps-*.parquet"))))
    assert set(steps["episode_id"]) == set(clips)
    for episode, table in steps.groupby("episode_id"):
        length = rows[episode]["episode_length"]
        assert list(table["episode_step"]) == list(range(length + 1))
        assert table["reward"].iloc[1:].sum() == pytest.approx(rows[episode]["episode_return"])
        assert all(len(observation) == 2 for observation in table["observation"])
        assert set(table["action"].iloc[1:]) <= {0, 1}
        infos = [json.loads(info) for info in table["info"].iloc[1:]]
        assert [info["data"]["running"]["speed"] for info in infos] == rows[episode]["series"]["speed"]


def test_results_stay_small(told):
    _, results = told
    lines = (Path(results[0].path) / "result.json").read_text().splitlines()
    results_of = [json.loads(line)["env_runners"] for line in lines]
    added = [json.dumps(result[name]) for result in results_of for name in ("episodes", "custom_metrics")]
    assert max(map(len, added)) < 2500
    assert json.loads(lines[-1])["env_runners"]["episodes"]["data"].startswith("episode_data/data-")


# What people wrote for the old API stack.


class Forum(DefaultCallbacks):
    def on_episode_start(self, *, episode, **kwargs):
        episode.user_data = {"running": defaultdict(list), "track": []}

    def on_episode_step(self, *, episode, **kwargs):
        info = episode.last_info_for()
        for name, value in info["data"]["running"].items():
            episode.user_data["running"][name].append(value)
        episode.user_data["track"].append(np.array(info["media"]["track"]))
        episode.user_data["final"] = info["data"]["final"]

    def on_episode_end(self, *, episode, **kwargs):
        if isinstance(episode, Exception):
            return
        episode.media["episode_data"] = {"track": np.array(episode.user_data["track"])}
        for name, values in episode.user_data["running"].items():
            episode.custom_metrics[f"{name}_avg"] = np.mean(values)
            episode.hist_data[name] = values
        for name, value in episode.user_data["final"].items():
            episode.custom_metrics[name] = value
            episode.hist_data[name] = [value]


@pytest.mark.parametrize("keep", [False, pytest.param(True, marks=pytest.mark.any_ray)])
def test_the_forums_callback_as_it_is(ray_session, tmp_path, keep):
    config = ppo(tmp_path, "old", reporting={"keep_per_episode_custom_metrics": keep}).callbacks(Forum)
    results = run(config, tmp_path / "out")
    trial = results[0].path
    events = tensorboard_events(trial)
    for section, prefix in (("train", "ray/tune"), ("evaluation", "ray/tune/evaluation")):
        found, reported = found_and_wrote(trial, tmp_path, section, "old", recorded=False)
        assert len(found) >= 6
        assert [row["values"]["episode_data"]["track"] for row in found] == [one["track"] for one in reported]
        assert [row["series"]["speed"] for row in found] == [one["speed"] for one in reported]
        assert [row["metrics"]["goals"] for row in found] == [one["goals"] for one in reported]
        if keep:
            averages = [np.mean(one["speed"]) for one in reported]
            assert [row["metrics"]["speed_avg"] for row in found] == pytest.approx(averages)
        else:
            assert events.Scalars(f"{prefix}/env_runners/custom_metrics/speed_avg_mean")
        histograms = [e.histogram_value for e in events.Histograms(f"{prefix}/env_runners/hist_stats/speed")]
        assert sum(histogram.num for histogram in histograms) == sum(len(one["speed"]) for one in reported)
    line = json.loads((Path(trial) / "result.json").read_text().splitlines()[-1])
    assert line["env_runners"]["episode_media"]["episode_data"].startswith("episode_data/data-")


class Hooks(DefaultCallbacks):
    def on_postprocess_trajectory(self, *, episode, original_batches, **kwargs):
        episode.custom_metrics["batches"] = len(original_batches)

    def on_episode_end(self, *, episode, **kwargs):
        tm.rllib.values_of(episode)["text"] = "from a hook"
        tm.rllib.values_of(episode)["shots"] = 3
        tm.rllib.values_of(episode)["heat"] = tm.Image.heatmap([[0, 1]])

    def on_learn_on_batch(self, *, policy, train_batch, result, **kwargs):
        result["rows_learnt_on"] = train_batch.count

    def on_train_result(self, *, algorithm, result, **kwargs):
        result["buffer"] = tm.Artifact(b"all of it", name="buffer.msgpack")
        self.tally = getattr(self, "tally", None) or Tally.remote()
        result["tally"] = {"count": ray.get(self.tally.add.remote()), "histogram": tm.Histogram([1.0, 2.0])}


@ray.remote(num_cpus=0)
class Tally:
    count = 0

    def add(self):
        self.count += 1
        return self.count


@pytest.mark.parametrize("stack", list(STACKS))
def test_values_of_other_hooks_are_among_the_episodes_and_each_round_has_a_tiled_clip(ray_session, tmp_path, stack):
    keep = ("worst", "median", "best" if stack == "new" else tm.selection.best(by="shots"))
    recorder = tm.rllib.record_episodes(sections="train", keep=keep, tiled=True, strict=True, **DIRECT)
    # on the new stack the recorder comes first: what comes later is not known when it chooses
    both = [recorder, Hooks] if stack == "new" else make_multi_callbacks([Hooks, recorder])
    results = run(ppo(tmp_path, stack).callbacks(both), tmp_path / "out", iterations=2)
    rows, _ = found_and_wrote(results[0].path, tmp_path, "train", stack)
    assert all(row["values"]["text"] == "from a hook" and row["metrics"]["shots"] == 3 for row in rows)
    if stack == "old":
        assert all(row["metrics"]["batches"] == 1 for row in rows)
        assert results[0].metrics["env_runners"]["custom_metrics"]["shots_mean"] == 3
        learnt = tensorboard_events(results[0].path).Tags()["scalars"]
        assert any(tag.endswith("rows_learnt_on") for tag in learnt)
    assert results[0].metrics["tally"]["count"] == 2
    catalog = tm.load(results.experiment_path)
    assert len(rows_of(catalog, key="tally/histogram")) == 2
    for key, kind in (("episodes/heat/best", "image"), ("episodes/tiled", "tiled")):
        assert [(row["kind"], row["training_iteration"]) for row in rows_of(catalog, key=key)] == [(kind, 1), (kind, 2)]
    for row in rows_of(catalog, kind="tiled"):
        clips = rows_of(catalog, kind="video", training_iteration=row["training_iteration"])
        assert probe_video(Path(row["file"]).read_bytes()).frames == max(clip["frames"] for clip in clips)
    (_, artifact) = rows_of(catalog, kind="artifact")
    assert Path(artifact["file"]).read_bytes() == b"all of it"


def evaluate_old(algorithm=None, group=None):
    return own_evaluation()


def evaluate_new(algorithm, group):
    return own_evaluation(), 3, 3


def own_evaluation():
    frames = (np.full((16, 24, 3), 40 * index, np.uint8) for index in range(5))
    return {"rollout": tm.Video(frames, fps=5), "picture": tm.Image(np.zeros((8, 8, 3), np.uint8)), "score": 1.5}


@pytest.mark.parametrize("stack", list(STACKS))
def test_media_of_a_custom_evaluation_function(ray_session, tmp_path, stack):
    function = {"old": evaluate_old, "new": evaluate_new}[stack]
    config = ppo(tmp_path, stack, evaluation={"custom_evaluation_function": function})
    config.callbacks(tm.rllib.record_episodes())
    results = run(config, tmp_path / "out", iterations=3)  # RLlib repeats the evaluation of the second in the third
    catalog = tm.load(results.experiment_path)
    for kind in ("video", "image"):
        rows = rows_of(catalog, kind=kind, section="evaluation")
        assert [row["training_iteration"] for row in rows] == [2], kind
    assert [row["frames"] for row in rows_of(catalog, kind="video")] == [5]
    assert len(trial_folders(results.experiment_path)) == 1
