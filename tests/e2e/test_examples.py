import json
import os
import runpy
import shlex
import signal
import sys
from pathlib import Path

import gymnasium as gym
import pandas as pd
import pytest
from ray import tune

import tune_media as tm
from tests.support.doc_pages import ROOT, blocks
from tests.support.experiment import fit, rows_of
from tests.support.faults import wait_until
from tests.support.processes import driver
from tune_media.encoding.decode import probe_video

EXAMPLES = ROOT / "examples"  # policy_loaders.py runs in tests/evaluation/test_loaders.py


@pytest.fixture
def run_example(ray_session, small_batches, monkeypatch, capsys):
    """Run an example in this process and the Ray of the tests, which saves it the start of both; return its output."""

    def run(name, storage, *arguments):
        monkeypatch.setattr(sys, "argv", [name, "--storage", str(storage), *arguments])
        monkeypatch.setattr(ray_session, "init", lambda **options: None)
        monkeypatch.setenv("TUNE_DISABLE_STRICT_METRIC_CHECKING", "0")  # an example that sets it does so for itself
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        return capsys.readouterr().out

    return run


def assert_whole(catalog):
    assert all(row["frames"] == row["episode_length"] + 1 for row in catalog)
    assert len({row["id"] for row in catalog}) == len(catalog)


@pytest.mark.any_ray
def test_a_ppo_sweep(run_example, tmp_path):
    out = run_example("cartpole_sweep.py", tmp_path, "--iterations", "2")
    catalog = tm.load(tmp_path / "cartpole_sweep")
    assert_whole(catalog)
    assert len(catalog) == 8
    assert {(row["params"]["lr"], row["params"]["gamma"]) for row in catalog} == {
        (lr, gamma) for lr in (1e-4, 2e-3) for gamma in (0.8, 0.98)
    }
    assert "episodes/worst" in out
    assert catalog.best()["trial"] == catalog.best_first()[0][0].name


@pytest.mark.any_ray
def test_the_sweep_of_the_pictures(run_example, tmp_path):
    run_example("cliff_walking.py", tmp_path, "--reports", "1", "--episodes", "2")
    catalog = tm.load(tmp_path / "cliff_walking")
    assert_whole(catalog)
    assert len(catalog) == 8
    assert {row["section"] for row in catalog} == {"evaluation"}
    assert catalog.episodes()["metrics/falls_sum"].notna().all()


@pytest.mark.any_ray
def test_a_sweep_evaluated_afterwards(run_example, tmp_path):
    out = run_example("evaluate_sweep.py", tmp_path, "--iterations", "1")
    catalog = tm.load(tmp_path / "evaluate_sweep" / "evaluations" / "last-seeds-0-9")
    assert_whole(catalog)
    assert len(catalog.episodes()) == 20
    assert "The best is PPO_CartPole" in out


@pytest.mark.any_ray
def test_a_backend_of_ones_own(run_example, tmp_path):
    run_example("own_backend.py", tmp_path, "--folder", str(tmp_path / "logs"))
    assert len(list(tmp_path.glob("logs/*/train/rollout/*.mp4"))) == 6
    assert len(list(tmp_path.glob("logs/*/metrics.csv"))) == 2


def test_rays_own_recipe_unchanged(run_example, tmp_path):
    run_example("rays_render_callback.py", tmp_path)
    catalog = tm.load(tmp_path / "rays_render_callback")
    evaluated = {row["training_iteration"] for row in rows_of(catalog, section="evaluation", key="episode_videos_best")}
    assert evaluated == {2, 4}
    assert len({row["id"] for row in catalog}) == len(catalog)
    trained = {row["training_iteration"] for row in rows_of(catalog, section="train", key="episode_videos_best")}
    assert trained == {1, 2, 3, 4}
    assert {(row["width"], row["height"]) for row in catalog} == {(96, 64)}


@pytest.mark.any_ray
@pytest.mark.parametrize(("name", "least"), [("own_env", 6), ("handwritten_loop", 6), ("sb3_under_tune", 4)])
def test_loops_outside_rllib(run_example, tmp_path, name, least):
    run_example(f"{name}.py", tmp_path)
    catalog = tm.load(tmp_path / name)
    assert_whole(catalog)
    assert len(catalog) >= least
    assert len({row["trial"] for row in catalog}) == 2


@pytest.mark.any_ray
def test_processes_with_rsl_rls_log_writer_of_which_an_early_stop_leaves_nothing(run_example, tmp_path):
    # As isaaclab.sh, the command starts the training, so that to kill the command alone is not enough.
    command = shlex.join(["sh", "-c", '"$0" "$@"; true', sys.executable, str(EXAMPLES / "rsl_rl_stand_in.py")])
    run_example("isaac_lab_under_tune.py", tmp_path, "--logs", str(tmp_path / "logs"), "--command", command)
    catalog = tm.load(tmp_path / "isaac_lab_under_tune")
    assert catalog.differing_params == ["agent.algorithm.learning_rate"]
    assert {trial.status.word for trial in catalog.trials} == {"terminated"}
    steps = {trial.config["agent.algorithm.learning_rate"]: trial.curves()["step"] for trial in catalog.trials}
    assert steps == {1e-3: list(range(30)), 1e-5: [0, 1, 2, 3], 1e-1: [0, 1, 2, 3]}  # no iteration twice or left out
    assert [row["note"] for row in catalog] == [f"iteration {row['step']}" for row in catalog]
    assert sorted(row["step"] for row in catalog) == [0, 0, 0, 5, 10, 15, 20, 25]
    processes = [Path("/proc", path.read_text().split()[1]) for path in tmp_path.glob("logs/*/output.txt")]
    wait_until(lambda: not any(process.exists() for process in processes))
    last = [path.read_text().splitlines()[-1] for path in tmp_path.glob("logs/*/result.json")]
    assert sorted(json.loads(line)["done"] for line in last) == [False, False, True]


@pytest.mark.any_ray
def test_a_process_that_fails_is_a_trial_that_failed(run_example, tmp_path):
    command = "sh -c 'echo out of memory >&2; exit 3'"
    run_example("isaac_lab_under_tune.py", tmp_path, "--logs", str(tmp_path / "logs"), "--command", command)
    errors = [path.read_text() for path in tmp_path.glob("isaac_lab_under_tune/*/error.txt")]
    assert len(errors) == 3
    assert all("The training ended with exit code 3:\nout of memory" in error for error in errors)


def test_of_a_process_that_writes_each_iteration_is_read_once_and_whole(tmp_path):
    parts = [
        '{"training_iteration": 0, "do',
        'ne": false}\n{"training_iteration": 1, "done": false}\n',
        '{"training_iteration": 1, "done": false, "a": 2}\n{"training_iteration": 2, "done": true}\n{"training',
    ]

    class Process:
        def poll(self):
            with (tmp_path / "result.json").open("a") as file:
                file.write(parts.pop(0))

    (tmp_path / "result.json").touch()
    with (tmp_path / "result.json").open() as file:
        results = list(runpy.run_path(str(EXAMPLES / "isaac_lab_under_tune.py"))["results_of"](Process(), file))
    assert [(result["training_iteration"], result.get("a")) for result in results] == [(0, None), (1, 2), (2, None)]


@pytest.mark.any_ray
def test_population_based_training(run_example, tmp_path):
    out = run_example("pbt.py", tmp_path)
    catalog = tm.load(tmp_path / "pbt")
    assert_whole(catalog)
    assert {row["training_iteration"] for row in catalog} == {1, 2, 3, 4}
    assert {origin.split("@")[1] for row in catalog for origin in row.get("lineage", ())} == {"2"}
    assert "its own" in out


@pytest.mark.any_ray
def test_rllib_without_tune(run_example, tmp_path):
    run_example("rllib_without_tune.py", tmp_path)
    clips = sorted(tmp_path.glob("*.mp4"))
    assert len(clips) == 3
    assert all(probe_video(clip.read_bytes()).frames > 8 for clip in clips)


def test_behaviour_cloning(run_example, tmp_path):
    run_example("offline_rl.py", tmp_path)
    clips = list(tm.load(tmp_path))
    assert [clip["step"] for clip in clips] == [1, 2, 3, 4, 5]
    assert [len(list(clip.frames())) - 1 for clip in clips] == [clip["episode_return"] for clip in clips]
    assert max(clip["episode_return"] for clip in clips) > 30  # the worst of four episodes played at random: 12


def test_a_job_that_is_ended_goes_on_when_it_is_submitted_again(tmp_path):
    ((_, job),) = blocks(ROOT / "docs" / "howto" / "slurm.md", "sh")
    assert job.count("/local/$USER") == job.count("/shared/$USER") == 1
    script = tmp_path / "job.sh"
    script.write_text(job.replace("/local/$USER", str(tmp_path)).replace("/shared/$USER", str(tmp_path)))
    experiment = tmp_path / "ray_results" / "restarted_sweep"
    told = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "SLURM_CPUS_PER_TASK": "2"}
    with driver(script, log=tmp_path / "first.log", program="bash", **told) as first:
        first.wait_until(lambda: list(experiment.glob("*/media/**/*.mp4")) and list(tmp_path.glob("outbox/*")))
        first.process.send_signal(signal.SIGUSR1)
        first.finish()
    ended = len(tm.load(experiment))
    with driver(script, log=tmp_path / "second.log", program="bash", **told) as second:
        second.finish()
    catalog = tm.load(experiment)
    assert_whole(catalog)
    assert 0 < ended < len(catalog)
    assert {trial.status.word for trial in catalog.trials} == {"terminated"}
    for trial in catalog.trials:
        rows = rows_of(catalog, trial=trial.name, key="episodes/best", rolled_back=None)
        assert [row["training_iteration"] for row in rows] == [1, 2, 3, 4, 5]
    assert not list(tmp_path.glob("outbox/*"))


@pytest.mark.any_ray
def test_a_curriculum_in_a_function_trainable(run_example, tmp_path):
    run_example("curriculum.py", tmp_path)
    catalog = tm.load(tmp_path / "curriculum")
    assert_whole(catalog)
    assert [row["training_iteration"] for row in rows_of(catalog, key="episodes/best")] == [1, 2, 3]
    assert all(isinstance(row["task"], int) and row["seed"] in (0, 1, 2) for row in catalog)


@pytest.mark.any_ray
def test_acrobots_joint_angles(run_example, tmp_path):
    out = run_example("acrobot_angle.py", tmp_path, "--iterations", "1")
    catalog = tm.load(tmp_path / "acrobot_angle")
    assert len(catalog) == 2
    episodes = catalog.episodes()
    best = episodes.groupby(["trial", "training_iteration"])["metrics/height_max"].max()
    for row in catalog:
        assert row["metrics"]["height_max"] == best[row["trial"], row["training_iteration"]]
    assert "metrics/theta1_avg" in out


@pytest.mark.any_ray
def test_where_pacman_has_been(run_example, tmp_path):
    run_example("pacman_heatmap.py", tmp_path)
    catalog = tm.load(tmp_path / "pacman_heatmap")
    for key, kind in (("episodes/best", "video"), ("episodes/heatmap/best", "image")):
        assert [(row["kind"], row["training_iteration"]) for row in rows_of(catalog, key=key)] == [(kind, 1), (kind, 2)]
    assert (catalog.episodes()["metrics/places_seen"] > 3).all()


@pytest.mark.any_ray
def test_a_gymnasium_env_without_ray(run_example, tmp_path):
    out = run_example("gymnasium_env.py", tmp_path)
    clips = {path.name: probe_video(path.read_bytes()) for path in tmp_path.glob("*.mp4")}
    assert set(clips) == {"cartpole-episode-0.mp4", "cartpole-episode-3.mp4"}
    assert {clip.height for clip in clips.values()} == {200}
    assert out.count("episode ") == 6


@pytest.mark.any_ray
def test_a_multi_agent_env_with_a_view_for_each_agent(run_example, tmp_path):
    run_example("multi_agent.py", tmp_path)
    catalog = tm.load(tmp_path / "multi_agent")
    assert_whole(catalog)
    assert {(row["view"], row["width"]) for row in catalog} == {("field", 96), ("hunter", 56)}
    for iteration in (1, 2):
        episodes = catalog.episodes().query(f"training_iteration == {iteration}")
        for agent, key in (("hunter", "episodes/best/field"), ("prey", "episodes/best_of_prey/field")):
            (row,) = rows_of(catalog, key=key, training_iteration=iteration)
            assert row["metrics"][f"return/{agent}"] == episodes[f"metrics/return/{agent}"].max()
    assert "metrics/hunter/distance_avg" in catalog.episodes()


def test_a_game_whose_winner_is_known(run_example, tmp_path):
    out = run_example("tic_tac_toe.py", tmp_path)
    catalog = tm.load(tmp_path / "tic_tac_toe")
    episodes = catalog.episodes()
    assert episodes["success"].tolist() == [{1: True, -1: False}.get(one) for one in episodes["metrics/winner"]]
    assert set(episodes["metrics/winner"]) >= {1, -1}
    worst = rows_of(catalog, key="episodes/worst")
    assert len(worst) == 4
    for row in worst:
        round_of_it = episodes.query("trial == @row['trial'] and training_iteration == @row['training_iteration']")
        assert row["metrics"]["return/player1"] == round_of_it["metrics/return/player1"].min()
    assert {row["success"] for row in rows_of(catalog, key="episodes/draw")} <= {None}
    assert {(row["width"], row["height"]) for row in catalog} == {(96, 96)}
    assert "0.0010" in out  # of the table of win rates


@pytest.mark.any_ray
def test_two_trackers_without_a_server(run_example, tmp_path):
    run_example("wandb_and_mlflow.py", tmp_path)
    assert len(list(tmp_path.glob("wandb_and_mlflow/*/wandb/offline-run-*/*.wandb"))) == 2
    assert len(list(tmp_path.glob("mlartifacts/**/media/train/ball/*.mp4"))) == 6


def random_play(config):
    env = tm.gym.RecordEpisodes(gym.make("CartPole-v1", render_mode="rgb_array"), keep="all", trajectories=True)
    for seed in range(4):
        env.reset(seed=seed)
        over = False
        while not over:
            *_, terminated, truncated, _ = env.step(env.action_space.sample())
            over = terminated or truncated
    tune.report(env.take())


@pytest.mark.any_ray
def test_datasets_for_minari_and_lerobot(ray_session, tmp_path, monkeypatch):
    experiment = fit(random_play, tmp_path, [tm.JsonMediaLoggerCallback()]).experiment_path
    told = tm.load(experiment).episodes()

    def run(name, *arguments):
        monkeypatch.setattr(sys, "argv", [name, experiment, *arguments])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")

    run("episodes_to_lerobot.py", str(tmp_path / "lerobot"), "balance")
    info = json.loads((tmp_path / "lerobot" / "meta" / "info.json").read_text())
    assert (info["total_episodes"], info["total_frames"]) == (4, told["episode_length"].sum())
    frames = pd.read_parquet(tmp_path / "lerobot" / "data")
    assert frames.groupby("episode_index")["next.reward"].sum().tolist() != []
    assert sorted(frames.groupby("episode_index").size()) == sorted(told["episode_length"])
    assert len(list((tmp_path / "lerobot").rglob("*.mp4"))) == 4
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "datasets"))
    run("episodes_to_minari.py", "cartpole/random-v0", "CartPole-v1")
    episodes = list(minari.load_dataset("cartpole/random-v0").iterate_episodes())
    assert sorted(sum(one.rewards) for one in episodes) == sorted(told["episode_return"])
    assert all(one.observations.shape == (len(one.rewards) + 1, 4) for one in episodes)
