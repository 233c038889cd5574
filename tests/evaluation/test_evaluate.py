"""A real sweep, evaluated after it has ended: on the same seeds, in the formats of an experiment, exactly once."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow.fs
import pytest
from click.testing import CliRunner
from ray import tune
from ray.rllib.algorithms.ppo import PPOConfig

import tune_media as tm
from tests.support import pushes
from tests.support.commands import split_runner
from tests.support.experiment import fit, media_files
from tests.support.kills_after import KillsAfter
from tune_media.cli import main
from tune_media.encoding.decode import decode_video
from tune_media.evaluation import checkpoints
from tune_media.evaluation.evaluation import Progress

pytestmark = pytest.mark.usefixtures("ray_session")
SEEDS = 6


def config(**evaluation):
    return (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0)
        .training(lr=tune.grid_search([1e-3, 1e-4]), train_batch_size=200, minibatch_size=100, num_epochs=1)
        .rl_module(model_config={"fcnet_hiddens": [8]})
        .evaluation(evaluation_interval=1, evaluation_num_env_runners=0, evaluation_duration=SEEDS, **evaluation)
    )


@pytest.fixture(scope="module")
def sweep(ray_session, tmp_path_factory):
    """Two trials of two iterations, whose last evaluation played the seeds 0 to 5 without exploring."""
    recorder = tm.rllib.record_episodes(seeds=SEEDS, video=None, check_frame=False, strict=True)
    space = config(evaluation_config=PPOConfig.overrides(explore=False)).callbacks(recorder)
    options = {"stop": {"training_iteration": 2}, "checkpoint_config": tune.CheckpointConfig(checkpoint_frequency=1)}
    folder, callbacks = tmp_path_factory.mktemp("results"), [tm.JsonMediaLoggerCallback()]
    results = fit("PPO", folder, callbacks, space=space, name="sweep", **options)
    assert not results.errors
    return Path(results.experiment_path)


@pytest.fixture
def experiment(sweep, tmp_path):
    """A copy of the sweep."""
    return Path(shutil.copytree(sweep, tmp_path / "sweep"))


def returns(episodes):
    """Return the returns by trial, iteration and seed; each is there once."""
    keys = ["trial", "training_iteration", "seed"]
    assert not episodes.duplicated(keys).any()
    return episodes.set_index(keys)["episode_return"].sort_index()


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_trials_own_last_evaluation_is_met_episode_by_episode(experiment):
    own = tm.load(experiment).episodes()
    before = contents(experiment)
    found = tm.evaluate(experiment, checkpoint="all", seeds=SEEDS, clips=None)
    pd.testing.assert_series_equal(returns(found.catalog.episodes()), returns(own))
    assert {one.explored for one in found.checkpoints} == {False}
    assert {path: content for path, content in contents(experiment).items() if path in before} == before
    assert all("evaluations" in path.parts for path in set(contents(experiment)) - set(before))
    frame = found.to_pandas()
    means = own.groupby(["trial", "training_iteration"])["episode_return"].mean()
    assert frame["return_mean"].tolist() == pytest.approx(means.tolist())
    assert (frame["return_low"] <= frame["return_mean"]).all()
    assert set(frame["config/lr"]) == {1e-3, 1e-4}


@pytest.mark.any_ray
def test_it_is_an_experiment_for_all_that_reads_experiments(experiment, tmp_path):
    own = [dict(row) for row in tm.load(experiment)]
    found = tm.evaluate(experiment, trials="best:1", seeds="0:3")
    catalog = found.catalog
    assert {row["key"] for row in catalog} == {"episodes/best", "episodes/worst", "episodes/median"}
    for row in catalog:
        assert sum(1 for _ in decode_video(row.read_bytes())) == row["episode_length"] + 1
    assert len(media_files(found.path)) == 3
    best = catalog.best()
    assert best["episode_return"] == catalog.episodes()["episode_return"].max()
    assert len(catalog.taped_episodes()) == 3
    for command in (["list"], ["gallery", "-o", tmp_path / "gallery"], ["render", "-o", tmp_path / "clips"]):
        result = CliRunner().invoke(main, [command[0], found.path, *map(str, command[1:])])
        assert result.exit_code == 0, result.output
    assert [dict(row) for row in tm.load(experiment)] == own


@pytest.mark.any_ray
def test_a_sweep_that_is_followed_has_what_is_played_of_it_afterwards(experiment, monkeypatch):
    for name in ("_PAUSE", "_SURE"):
        monkeypatch.setattr(f"tune_media.evaluation.follow.{name}", 0.5)
    followed = tm.evaluate(experiment, follow=True, seeds=3, clips=None, name="followed")
    afterwards = tm.evaluate(experiment, checkpoint="all", seeds=3, clips=None)
    pd.testing.assert_series_equal(returns(followed.catalog.episodes()), returns(afterwards.catalog.episodes()))
    assert followed.to_pandas().equals(afterwards.to_pandas()) and not followed.problems


@pytest.mark.any_ray
def test_tasks_over_a_cluster_play_the_same_episodes(experiment):
    here = tm.evaluate(experiment, seeds=4, name="here", clips=None)
    tasks = tm.evaluate(experiment, seeds=4, name="tasks", clips=None, workers=3)
    pd.testing.assert_series_equal(returns(here.catalog.episodes()), returns(tasks.catalog.episodes()))
    assert not tasks.problems


def test_an_episode_goes_on_with_the_policy_of_any_checkpoint_here_and_over_a_cluster(experiment):
    evaluated = tm.evaluate(experiment, trials="best:1", seeds="0:3", clips=None)
    own = evaluated.checkpoints[0].trial
    how = {"candidate": f"{experiment}:{own}", "clips": 0}
    same = tm.fork(f"{evaluated.path}:worst", at=4, times=5, **how)
    assert same.is_same and same.continuations.returns == (same.original.returns[0],) * 2
    assert same.continuations.count == 1  # it does not explore
    (other,) = (trial.name for trial in tm.load(experiment).trials if trial.name != own)
    assert len(tm.fork(f"{evaluated.path}:worst", at=4, **{**how, "candidate": f"{experiment}:{other}"}).problems) == 0
    draws = [tm.fork(f"{evaluated.path}:worst", at=4, times=4, explore=True, workers=at, **how) for at in (0, 2)]
    assert draws[0] == draws[1]
    shutil.rmtree(draws[0].path)
    over_tasks = tm.fork(f"{evaluated.path}:worst", at=4, times=4, explore=True, workers=2, **how)
    assert over_tasks == draws[0] and over_tasks.continuations.distinct > 1


def evaluate_until_killed(experiment):
    from tune_media.evaluation import jobs

    jobs.SOONEST = jobs.SHARE_OF_TIME = 0.0  # each episode is stored at once
    tm.evaluate(experiment, seeds=4, progress=KillsAfter(5))


@pytest.mark.any_ray
def test_killed_in_the_middle_it_goes_on_and_no_episode_is_there_twice(experiment):
    code = f"from {__name__} import evaluate_until_killed as go; go({str(experiment)!r})"
    killed = subprocess.run([sys.executable, "-c", code], check=False, cwd=Path(__file__).parents[2])
    assert killed.returncode == -signal.SIGKILL
    (folder,) = (experiment / "evaluations").iterdir()
    assert len(tm.load(folder).episodes()) == 5
    orphan = next(folder.rglob("data-*.parquet"))  # of a process that was killed before it wrote the index
    shutil.copy(orphan, orphan.with_name("data-00000002-000000000000.parquet"))
    found = tm.evaluate(experiment, seeds=4)
    assert len(returns(found.catalog.episodes())) == 8
    files = list(folder.glob("*/episode_data/data-*.parquet"))
    assert sum(len(pd.read_parquet(file)) for file in files) == 8
    again = tm.evaluate(experiment, seeds=4)
    assert again.to_pandas().equals(found.to_pandas())
    assert len(again.catalog) == 6
    with pytest.raises(ValueError, match=r"explore was False and is True\); pass another name="):
        tm.evaluate(experiment, seeds=4, explore=True, name=found.name)


@pytest.mark.any_ray
def test_the_command_prints_intervals_the_winner_and_a_table_of_conditions(experiment):
    command = ["evaluate", str(experiment), "--seeds", "0:3", "--env-config", "max_episode_steps=5,8", "--no-clips"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    assert "max_episode_steps=5  max_episode_steps=8" in result.output
    assert "The policies did not explore" in result.output
    assert "the best policy is PPO_CartPole" in result.output
    (folder,) = (experiment / "evaluations").iterdir()
    episodes = tm.load(folder).episodes()
    limits = episodes["config/env_config/max_episode_steps"]
    assert set(limits) == {5, 8}
    assert (episodes["episode_length"] <= limits).all()
    printed = split_runner().invoke(main, [*command, "--json"])
    assert printed.exit_code == 0, printed.output
    told = json.loads(printed.stdout)
    assert told["path"] == str(folder)
    means = episodes.groupby(["trial"])["episode_return"].mean()
    assert sorted(one["return_mean"] for one in told["checkpoints"]) == pytest.approx(sorted(means))


@pytest.mark.any_ray
def test_checkpoints_on_s3_are_played_here_and_the_evaluation_is_there(experiment, s3):
    pyarrow.fs.copy_files(str(experiment), "results/sweep", destination_filesystem=s3)
    found = tm.evaluate("s3://results/sweep", trials="best:1", seeds="0:2", clips="best")
    here = tm.evaluate(experiment, trials="best:1", seeds="0:2", clips=None)
    assert returns(found.catalog.episodes()).tolist() == returns(here.catalog.episodes()).tolist()
    assert found.path == "results/sweep/evaluations/last-seeds-0-1"
    again = CliRunner().invoke(
        main, ["evaluate", "s3://results/sweep", "--trials", "best:1", "--seeds", "0:2", "--no-clips"]
    )
    assert f"tune-media watch --open s3://{found.path}\n" in again.output
    (row,) = tm.load("s3://results/sweep/evaluations/last-seeds-0-1")
    assert sum(1 for _ in decode_video(row.read_bytes())) == row["episode_length"] + 1


def learns_nothing(settings):
    for push in (0, 1):
        folder = Path(settings["folder"]) / str(push)
        folder.mkdir(parents=True)
        (folder / "push.txt").write_text(str(push))
        tune.report({"score": push}, checkpoint=tune.Checkpoint.from_directory(folder))


class Finished(Progress):
    """Notes the checkpoints whose episodes have all been played."""

    def __init__(self):
        self.names = []

    def finished(self, checkpoint):
        self.names.append(checkpoint.checkpoint)


@pytest.mark.any_ray
def test_policies_of_other_libraries_take_part(ray_session, tmp_path, monkeypatch):
    for name in ("SOONEST", "SHARE_OF_TIME"):
        monkeypatch.setattr(f"tune_media.evaluation.jobs.{name}", 0.0)  # each episode is stored at once
    fit(learns_nothing, tmp_path / "results", None, space={"folder": str(tmp_path / "own")}, name="other")
    functions = {"policy": f"{pushes.__name__}:load_policy", "env": f"{pushes.__name__}:make_env"}
    progress = Finished()
    found = tm.evaluate(tmp_path / "results" / "other", checkpoint="all", seeds=3, progress=progress, **functions)
    assert progress.names == ["checkpoint_000000", "checkpoint_000001"]
    episodes = found.catalog.episodes()
    assert episodes["training_iteration"].tolist() == [1, 1, 1, 2, 2, 2]
    assert (episodes["episode_length"] < 12).all()  # it falls as fast as it can
    assert len(media_files(found.path)) == 6
    assert not found.problems


@pytest.mark.any_ray
def test_what_cannot_be_evaluated_says_why(experiment):
    with pytest.raises(ValueError, match="There is no trial 'nobody'"):
        tm.evaluate(experiment, trials="nobody")
    with pytest.raises(ValueError, match=r"no trial has a checkpoint '9'; there are '0', '1'\. .*checkpoint_frequency"):
        tm.evaluate(experiment, checkpoint=9)
    found = tm.evaluate(experiment, trials="best:1", seeds=1, env=make_no_env)
    assert "no simulator here" in found.checkpoints[0].error
    result = CliRunner().invoke(main, ["evaluate", str(experiment), "--env", f"{__name__}:nothing"])
    assert result.exit_code == 2
    assert f"--env: '{__name__}:nothing' names no function: pass module:function (AttributeError" in result.output


def make_no_env(env_config):
    raise RuntimeError("no simulator here")


@pytest.mark.any_ray
def test_a_gate_plays_checkpoints_here_and_by_tasks_alike_wherever_they_are(experiment, s3, tmp_path, monkeypatch):
    (first, last) = sorted(next(experiment.glob("PPO*")).glob("checkpoint_*"))
    given = {"seeds": "0:6", "clips": 0, "margin": 50.0}
    here = tm.gate(first, last, output=str(tmp_path / "here"), **given)
    tasks = tm.gate(first, last, output=str(tmp_path / "tasks"), workers=2, **given)
    assert str(tasks.verdicts) == str(here.verdicts)  # some of their numbers are NaN
    alone = Path(shutil.copytree(last, tmp_path / "mine"))  # a checkpoint that somebody copied out of its trial
    pyarrow.fs.copy_files(str(first), "results/base/checkpoint_000000", destination_filesystem=s3)
    copy, copied = checkpoints._copy, []
    monkeypatch.setattr(checkpoints, "_copy", lambda *args: (copied.append(args[1]), copy(*args)))
    far = tm.gate("s3://results/base/checkpoint_000000", alone, output=str(tmp_path / "far"), **given)
    assert str(far.verdicts) == str(here.verdicts)
    assert copied == ["results/base/checkpoint_000000"]  # once, though both play in turns
    own = tm.evaluate(experiment, trials=first.parent.name, checkpoint="all", seeds="0:6", clips=None)
    means = own.catalog.episodes().groupby("training_iteration")["episode_return"].mean()
    (verdict,) = here.verdicts
    assert verdict.standing.seeds == 6
    assert [verdict.standing.base, verdict.standing.candidate] == pytest.approx(list(means))
    with pytest.raises(ValueError, match=r"plays with max_episode_steps=None in its env_config"):
        params = alone.parent / "other"
        shutil.copytree(last.parent, params)
        config = json.loads((params / "params.json").read_text())
        (params / "params.json").write_text(json.dumps({**config, "env_config": {"max_episode_steps": 9}}))
        tm.gate(first, params / last.name, output=str(tmp_path / "differs"), **given)
    wrong = tm.gate(first, last, explore=None, env=make_no_env, output=str(tmp_path / "wrong"), **given)
    assert wrong.exit_code == 2 and "cannot be played" in wrong.verdicts[0].error


@pytest.mark.any_ray
def test_a_checkpoint_of_rllib_that_was_overwritten_is_played_again(experiment):
    given = {"seeds": 3, "clips": None}
    first = tm.evaluate(experiment, **given)
    assert (first.played, first.reused, first.replaced) == (6, 0, 0)
    one, other = (max(trial.glob("checkpoint_*")) for trial in sorted(experiment.glob("PPO*")))
    (optimizer,) = one.glob("learner_group/learner/state.pkl")  # which nobody needs to play
    optimizer.write_bytes(b"another one")
    same = tm.evaluate(experiment, **given)
    assert (same.played, same.reused, same.to_pandas().equals(first.to_pandas())) == (0, 6, True)
    shutil.copytree(one, other, dirs_exist_ok=True)
    found = tm.evaluate(experiment, **given)
    assert (found.path, found.played, found.reused, found.replaced) == (first.path, 3, 3, 3)
    assert found.checkpoints[0].return_mean == found.checkpoints[1].return_mean == first.checkpoints[0].return_mean
    assert len(returns(found.catalog.episodes())) == 6
