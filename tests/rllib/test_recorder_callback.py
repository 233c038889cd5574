"""Real PPO runs: what every evaluation and every training iteration leaves, frame by frame."""

import functools
import json
import os
from pathlib import Path

import numpy as np
import pytest
from packaging.version import Version

import tune_media as tm
from tests.support.envs import CountingEnv
from tests.support.experiment import assert_whole_episode, fit, image_steps, media_files, rows_of, trial_folders
from tests.support.faults import wait_until
from tests.support.rllib_configs import built, evaluation, multi_agent, on_old_stack, own_env, ppo, small
from tune_media.experiment.results import EVALUATED

ray = pytest.importorskip("ray")
from ray.rllib.algorithms.ppo import PPOConfig  # noqa: E402
from ray.rllib.callbacks.callbacks import RLlibCallback  # noqa: E402

from tune_media.rllib import ray_names  # noqa: E402

NEWER_METRICS = Version(ray.__version__) >= Version("2.52")  # an evaluation's return_max is of this round only
COUNTS_ALL = Version(ray.__version__) >= Version("2.55")  # an evaluation plays and counts as many episodes as asked for

# The pictures of the tests' env count its episodes, so no tape shows them again; tests of tapes are elsewhere.
record_episodes = functools.partial(tm.rllib.record_episodes, render="direct", check_frame=False)


@pytest.fixture(scope="module")
def evaluated(ray_session, tmp_path_factory):
    """8 iterations, an evaluation every third, 4 episodes on 2 env runners, best and worst kept."""
    more = {"evaluation_interval": 3, "evaluation_config": {"explore": False}}
    config = ppo(record_episodes(keep=("best", "worst")), **evaluation(2, 4, **more))
    callbacks = [tm.JsonMediaLoggerCallback(media=tm.MediaOptions(strict=True)), tm.TBXMediaLoggerCallback()]
    stop = {"training_iteration": 8}
    results = fit("PPO", tmp_path_factory.mktemp("evaluated"), callbacks, space=config, stop=stop)
    assert not results.errors
    return results, Path(results.experiment_path)


def test_exactly_one_best_and_one_worst_per_evaluation(evaluated):
    _, experiment = evaluated
    catalog = tm.load(experiment)
    for selector in ("best", "worst"):
        rows = rows_of(catalog, section="evaluation", key=f"episodes/{selector}")
        assert [row["training_iteration"] for row in rows] == [3, 6]
    assert len(catalog) == 4
    assert len(media_files(experiment)) == 4
    assert {row["file"] for row in catalog} == {str(path) for path in media_files(experiment)}


def test_a_curve_has_a_point_for_each_evaluation_and_none_for_what_rllib_repeats(evaluated):
    _, experiment = evaluated
    (trial,) = tm.load(experiment).trials
    returns = trial.curves()["metrics"]["evaluation/env_runners/episode_return_mean"]
    measured = [number for number, value in enumerate(returns, 1) if value is not None]
    assert measured == [3, 6], f"RLlib {ray.__version__} marks an evaluation in another way than {EVALUATED!r}"


def test_tensorboard_shows_the_same_clips_at_the_same_steps(evaluated):
    _, experiment = evaluated
    (trial,) = trial_folders(experiment)
    assert image_steps(trial) == {"evaluation/episodes/best": [3, 6], "evaluation/episodes/worst": [3, 6]}


def test_each_clip_is_its_whole_episode_and_nothing_else(evaluated):
    _, experiment = evaluated
    for row in tm.load(experiment):
        assert row["frames"] == row["episode_length"] + 1
        assert_whole_episode(row["file"], row["episode_length"])
        assert row["fps"] == CountingEnv.metadata["render_fps"]
        assert row["env_runner"] in (1, 2)
        assert row["env_index"] == 0
        assert row["env_steps"] == row["training_iteration"] * 64
        assert row["episode_id"]
        assert row["explored"] is False
        assert row["weights_version"] is not None
        assert "note" not in row


def test_best_and_worst_are_over_all_env_runners_of_the_round(evaluated):
    results, experiment = evaluated
    frame = results[0].metrics_dataframe.set_index("training_iteration")
    for iteration in (3, 6):
        best, worst = (
            rows_of(tm.load(experiment), key=f"episodes/{name}", training_iteration=iteration)[0]["episode_return"]
            for name in ("best", "worst")
        )
        assert best > worst
        if NEWER_METRICS:
            assert best == pytest.approx(frame.loc[iteration, "evaluation/env_runners/episode_return_max"])
            assert worst == pytest.approx(frame.loc[iteration, "evaluation/env_runners/episode_return_min"])


def test_the_result_holds_paths_in_the_iterations_that_evaluated_and_the_experiment_state_no_media(evaluated):
    _, experiment = evaluated
    (trial,) = trial_folders(experiment)
    results = [json.loads(line) for line in (trial / "result.json").read_text().splitlines()]
    held = {
        result["training_iteration"]: result["evaluation"]["env_runners"]["episodes"]
        for result in results
        if "episodes" in result.get("evaluation", {}).get("env_runners", {})
    }
    assert sorted(held) == [3, 6]
    for paths in held.values():
        assert set(paths) == {"best", "worst", "data"}
        assert all((trial / path).is_file() for path in paths.values())
        assert len(json.dumps(paths)) < 1000
    (state,) = experiment.glob("experiment_state-*.json")
    text = state.read_text()
    assert "tune_media.values" not in text
    for word in (b"ftyp", b"EpisodeBatch"):  # Ray stores the pickles of what is no JSON as hex digits
        assert word.decode() not in text
        assert word.hex() not in text


def run_plain(config, iterations):
    """Train without Tune; return what each iteration brought, by iteration."""
    with built(config) as algorithm:
        return {i: algorithm.train() for i in range(1, iterations + 1)}


def test_training_and_evaluation_episodes_of_chosen_env_runners_and_sub_envs(ray_session):
    recorders = [
        record_episodes(sections="train", keep="all", env_indices=[1], name="trained"),
        record_episodes(sections=("train", "evaluation"), keep="last", env_runners=[0]),
        record_episodes(sections=("train", "evaluation"), env_runners=[7], name="nowhere"),
    ]
    config = ppo(recorders, evaluation_interval=1, evaluation_duration=1).env_runners(num_envs_per_env_runner=3)
    total = 0
    for iteration, result in run_plain(config, 4).items():
        for clip in result["env_runners"]["trained"]["all"]:
            total += 1
            assert_whole_episode(clip, clip.episode.episode_length)
            assert clip.episode.env_index == 1
        assert "trained" not in result["evaluation"]["env_runners"]
        for section in (result["env_runners"], result["evaluation"]["env_runners"]):
            clip = section["episodes"]["last"]
            assert clip.frames == clip.episode.episode_length + 1
            assert clip.episode.training_iteration == iteration
            of_nobody = section.get("nowhere", {"problems": ()})
            assert of_nobody.keys() == {"problems"}
            assert all("env_runners=[7]" in problem.text for problem in of_nobody["problems"])
    assert total > 3


def test_several_recorders_and_the_users_own_callbacks_in_one_list(ray_session, caplog):
    ended, also = [], []

    class Own(RLlibCallback):
        def on_episode_end(self, *, episode, **kwargs):
            ended.append(episode.id_)

    wrong = tm.selection.where(lambda episode: episode.metrics["success"] > 0, name="won")
    by_own_number = ("all", tm.selection.best(by="length_max"))
    recorders = [
        record_episodes(keep="best"),
        Own,
        record_episodes(keep=tm.selection.best(2), video=tm.VideoOptions(height=64, width=96), name="small"),
        record_episodes(keep="worst"),  # its name is taken
        record_episodes(keep=wrong, name="raises"),
        record_episodes(keep=by_own_number, collect=lambda step: {"length": step.step, "r": step.reward}, name="own"),
    ]
    config = ppo(evaluation_interval=1, evaluation_duration=4).callbacks(
        recorders, on_episode_end=lambda episode, **kwargs: also.append(episode.id_)
    )
    result = run_plain(config, 1)[1]["evaluation"]["env_runners"]
    assert set(result["episodes"]) == {"best", "data", "problems"}
    assert any("two recorders are named 'episodes'" in message for message in caplog.messages)
    best = result["episodes"]["best"]
    assert best.frames == best.episode.episode_length + 1
    assert best.episode.episode_id == result["small"]["best"][0].episode.episode_id
    assert [(clip.width, clip.height) for clip in result["small"]["best"]] == [(96, 64)] * 2
    assert any("KeyError" in message for message in caplog.messages)
    assert result["num_episodes"] == 4
    assert_chosen_by_own_numbers(result["own"]["best"], result["own"]["all"])
    assert ended == also
    assert len(ended) > 4


def assert_chosen_by_own_numbers(best, clips):
    longest = max(clip.episode.episode_length for clip in clips)
    assert best.episode.metrics["length_max"] == longest == best.episode.episode_length
    for clip in clips:
        assert clip.episode.metrics["r_sum"] == pytest.approx(clip.episode.episode_return, abs=1e-4)


def test_the_old_api_stack_has_seeds_own_numbers_and_the_users_own_callbacks(ray_session):
    from ray.rllib.algorithms.callbacks import DefaultCallbacks, make_multi_callbacks

    ended = []

    class Own(DefaultCallbacks):
        def on_episode_end(self, *, worker, episode, **kwargs):
            ended.append(str(episode.episode_id))
            episode.custom_metrics["mine"] = 1.0

    recorder = record_episodes(
        keep=("all", "worst", tm.selection.best(by="length_max")),
        seeds=3,
        collect=lambda step: {"length": step.step, "r": step.reward},
    )
    both = make_multi_callbacks([Own, recorder])  # Ray takes no list there
    config = on_old_stack(ppo(both, evaluation_interval=1, evaluation_duration=3))
    rounds = []
    for result in run_plain(config, 3).values():
        metrics = result["evaluation"]["env_runners"]
        clips = metrics["episodes"]["all"]
        rounds.append({(clip.episode.seed, clip.episode.episode_length) for clip in clips})
        assert metrics["episodes"]["worst"].episode.episode_return == min(clip.episode.episode_return for clip in clips)
        assert_chosen_by_own_numbers(metrics["episodes"]["best"], clips)
        assert {clip.episode.episode_id for clip in clips} <= set(ended)
        assert metrics["custom_metrics"]["mine_mean"] == 1.0
    assert rounds[0] == rounds[1] == rounds[2]
    assert {seed for seed, _ in rounds[0]} == {0, 1, 2}


@pytest.mark.any_ray
def test_the_same_seeds_in_every_run_show_the_same_episodes(ray_session):
    def run():
        config = ppo(
            record_episodes(keep="all", seeds=[5, 6, 7, 8]),
            evaluation_interval=1,
            evaluation_num_env_runners=2,
            evaluation_duration=4,
        )
        rounds = []
        for result in run_plain(config, 2).values():
            found = result["evaluation"]["env_runners"]["episodes"]
            episodes = [clip.episode for clip in found["all"]]
            if not COUNTS_ALL:  # Ray before 2.55 counts only those of the faster env runner, if it is much faster
                episodes = [one.record for one in found["data"].episodes]
            rounds.append({(e.seed, e.episode_length, round(e.episode_return, 4)) for e in episodes})
        return rounds

    first, second = run()
    assert {seed for seed, *_ in (first if COUNTS_ALL else first | second)} == {5, 6, 7, 8}
    if COUNTS_ALL:  # Ray before 2.55 plays some episodes more
        assert first == second
        assert run() == [first, second]
    else:
        assert len({*first, *second}) == 4  # an episode's seed says all of it


def test_a_checkpoint_loaded_in_between_does_no_harm(ray_session, tmp_path):
    config = ppo(record_episodes(keep="all"), evaluation_interval=1, evaluation_duration=2)
    with built(config) as algorithm:
        results = [algorithm.train()]
        algorithm.restore_from_path(algorithm.save_to_path(str(tmp_path / "checkpoint")))
        results += [algorithm.train(), algorithm.train()]
    clips = [clip for result in results for clip in result["evaluation"]["env_runners"]["episodes"]["all"]]
    assert len({clip.id for clip in clips}) == len(clips) >= 6
    for clip in clips:
        assert_whole_episode(clip, clip.episode.episode_length)


def test_half_recorded_episodes_are_dropped_and_counted(ray_session, tmp_path):
    config = ppo(
        record_episodes(keep="all"),
        evaluation_interval=1,
        evaluation_duration=4,
        evaluation_config={"env_config": {"fail_at": 1, "log_dir": str(tmp_path)}},
    ).fault_tolerance(restart_failed_sub_environments=True)
    result = run_plain(config, 1)[1]["evaluation"]["env_runners"]["episodes"]
    assert result["num_abandoned"] == 2
    assert len(result["all"]) >= 4
    assert all(clip.frames == clip.episode.episode_length + 1 for clip in result["all"])


def test_episodes_of_agents_that_end_together_with_the_last_one_are_not_lost(ray_session):
    """RLlib counts them, calls no hook at their end, and leaves them out of its means; they were said to be lost."""
    config = small(
        PPOConfig,
        {"train_batch_size": 32, "minibatch_size": 32, "num_epochs": 1},
        own_env("MultiAgentCountingEnv"),
        multi_agent=multi_agent(),
        evaluation=evaluation(0, 4, evaluation_config={"num_envs_per_env_runner": 3}),
    )({"length": 6})
    config.callbacks(record_episodes(keep="all", video=None, strict=True))
    found = run_plain(config, 1)[1]["evaluation"]["env_runners"]
    assert found["num_episodes"] == 6
    recorded = [episode.record.episode_return for episode in found["episodes"]["data"].counted()]
    assert len(recorded) == 4
    assert np.mean(recorded) == pytest.approx(found["episode_return_mean"])
    assert found["episodes"]["num_abandoned"] == 2
    assert "num_lost" not in found["episodes"]
    assert "problems" not in found["episodes"]


@pytest.mark.parametrize("stack", ["new", "old"])
def test_triggers_and_windows_go_on_after_a_restore(ray_session, tmp_path, stack):
    """They began anew: the trigger was told of episode 0 again, and a windowed mean covered one round."""

    def config():
        recorder = record_episodes(
            sections="train",
            keep="all",
            video=None,
            trigger=lambda index: index % 2 == 0,
            window=10_000,
            collect=lambda step: {"index": step.env.unwrapped.episode},
        )
        return on_old_stack(ppo(recorder)) if stack == "old" else ppo(recorder)

    def episodes(result):
        return result["env_runners"]["episodes"]["data"].episodes

    with built(config()) as algorithm:
        before = episodes(algorithm.train())
        started = algorithm.env_runner_group.foreach_env_runner(started_on)
        algorithm.save_checkpoint(str(tmp_path))
    with built(config()) as algorithm:
        algorithm.load_checkpoint(str(tmp_path))
        assert algorithm.env_runner_group.foreach_env_runner(started_on) == started
        result = algorithm.train()
    values = [episode.record.metrics["index_avg"] for episode in (*before, *episodes(result))]
    mean = result["env_runners"]["custom_metrics"]["index_avg_windowed_mean"]
    assert mean == pytest.approx(sum(values) / len(values))


def started_on(env_runner):
    from tune_media.rllib.env_runner_requests import recordings_of

    return recordings_of(env_runner)["episodes"].recorder.starts.counts()


def test_the_first_evaluation_episode_has_the_task_that_was_just_set(ray_session):
    """The old stack resets the env for it before users set the task, and the record had the task before."""
    tasks = iter([3, 4])

    def harder(algorithm):
        task = next(tasks)
        algorithm.eval_env_runner_group.foreach_env_runner(
            lambda runner: runner.foreach_env(lambda env: env.unwrapped.set_task(task))
        )

    from ray.rllib.algorithms.callbacks import make_multi_callbacks

    both = [functools.partial(Evaluating, start=harder), record_episodes(keep="all", video=None)]
    config = on_old_stack(ppo(make_multi_callbacks(both), evaluation_interval=1, evaluation_duration=2))
    for iteration, result in run_plain(config, 2).items():
        records = result["evaluation"]["env_runners"]["episodes"]["all"]
        assert [record.task for record in records] == [2 + iteration] * len(records)


def test_episodes_that_go_down_with_their_env_runner_are_counted_in_the_result(ray_session):
    config = ppo(evaluation_interval=1, evaluation_num_env_runners=2, evaluation_duration=4).fault_tolerance(
        restart_failed_env_runners=True, delay_between_env_runner_restarts_s=0.1
    )

    def kill(algorithm):
        if algorithm.iteration == 0:
            env_runner = ray_names.remote_env_runners(algorithm.eval_env_runner_group)[1]
            process = ray.get(env_runner.apply.remote(lambda runner: os.getpid()))
            ray.kill(env_runner, no_restart=False)
            wait_until(lambda: not Path(f"/proc/{process}").exists())  # until then it may still answer

    both = [functools.partial(Evaluating, end=kill), record_episodes(keep="all", video=None)]
    first, later = (result["evaluation"]["env_runners"] for result in run_plain(config.callbacks(both), 2).values())
    lost = first["num_episodes"] - len(first["episodes"]["data"].counted())
    assert lost == 2 or not COUNTS_ALL  # Ray before 2.55 asks the faster one for more
    assert first["episodes"].get("num_lost", 0) == lost
    problems = first["episodes"].get("problems", ())
    assert [(problem.lost, "env runner 1 died" in problem.text) for problem in problems] == [(lost, True)] * bool(lost)
    assert "num_lost" not in later["episodes"]
    assert len(later["episodes"]["data"].counted()) == later["num_episodes"]
    assert later["num_episodes"] == 4 or not COUNTS_ALL  # while the other one is made anew


class Evaluating(RLlibCallback):
    """Does something when each evaluation starts or ends, before the recorder."""

    def __init__(self, start=None, end=None):
        super().__init__()
        self.start, self.end = start, end

    def on_evaluate_start(self, *, algorithm, **kwargs):
        if self.start:
            self.start(algorithm)

    def on_evaluate_end(self, *, algorithm, **kwargs):
        if self.end:
            self.end(algorithm)


@pytest.mark.parametrize("is_everywhere", [False, True])
def test_a_recorder_in_the_evaluation_config_only_says_where_it_belongs(ray_session, caplog, is_everywhere):
    """It recorded 9 clips in 3 rounds, held them, and said nothing."""
    recorder = record_episodes(keep="all")
    config = ppo(
        recorder if is_everywhere else None,
        evaluation_interval=1,
        evaluation_duration=1,
        evaluation_config={"callbacks": recorder},
    )
    results = run_plain(config, 2)
    told = [message for message in caplog.messages if "nobody collects them" in message]
    assert len(told) == (0 if is_everywhere else 1)
    assert all(("episodes" in one["evaluation"]["env_runners"]) is is_everywhere for one in results.values())
    assert is_everywhere or "(callbacks or callbacks_class), pass it to config.callbacks(...)" in told[0]


class NamedAlike(RLlibCallback):
    """Logs metrics of its own under the names of the recorder."""

    def on_episode_end(self, *, metrics_logger, **kwargs):
        metrics_logger.log_value("episodes", 7.0)
        metrics_logger.log_value(("small", "best"), 3.0)
        metrics_logger.log_value("custom_metrics", 5.0)


def test_metrics_of_rllib_or_the_user_with_the_recorders_names_cost_no_clip(ray_session):
    """All clips of the round, which had left the env runners by then, and their problems were lost."""
    names = ("episodes", "small", "num_episodes")
    recorders = [record_episodes(("train", "evaluation"), "best", name=name) for name in names]
    config = ppo([NamedAlike, *recorders], evaluation_interval=1, evaluation_duration=2)
    result = run_plain(config, 1)[1]
    for section in (result["env_runners"], result["evaluation"]["env_runners"]):
        own = section["episodes"], section["small"]["best"], section["custom_metrics"]
        assert own == pytest.approx((7.0, 3.0, 5.0))
        assert section["num_episodes"] == len(section["num_episodes_clips"]["data"].episodes)
        for name in names:
            clip = section[f"{name}_clips"]["best"]
            assert clip.frames == clip.episode.episode_length + 1
    told = [str(problem) for problem in result["evaluation"]["env_runners"]["episodes_clips"]["problems"]]
    assert any("the clips are at 'episodes_clips' instead of 'episodes'" in text for text in told)


def test_training_episodes_are_recorded_after_an_evaluation_that_raised(ray_session):
    """Without evaluation env runners, all later training episodes were taken for those of the evaluation."""
    faults = iter([True])

    def fail(algorithm):
        if next(faults, False):
            raise RuntimeError("the user's evaluation fails")

    both = [functools.partial(Evaluating, end=fail), record_episodes(sections="train", keep="all", video=None)]
    with built(ppo(both, evaluation_duration=1)) as algorithm:
        with pytest.raises(RuntimeError, match="the user's evaluation fails"):
            algorithm.evaluate()
        found = algorithm.train()["env_runners"]
    assert len(found["episodes"]["all"]) >= 3
