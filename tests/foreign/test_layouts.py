"""Folders of other tools, as the tools wrote them, open from their top: names, returns, hyperparameters and clips."""

import csv
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from werkzeug.test import Client

import tune_media as tm
from tests.support.commands import command
from tests.support.foreign.toy_env import ENV_ID, clip, gains, make, play
from tests.support.foreign_run import FOREIGN
from tune_media.callbacks.backend import clips_best_first
from tune_media.experiment.experiments import experiments_at
from tune_media.experiment.trial_folders import LogDirectory, Trials
from tune_media.viewing.web import ViewerApp

TRAINED, EVALUATED = "episode_return_mean", "evaluation/episode_return_mean"
ENV_STEPS, ITERATIONS, STEPS = "env steps", "iterations", "steps"


def toy(rounds, last=None):
    """Return what a run's return is by playing its episodes again; ``last``: the mean is over these."""

    def returns(folder, config):
        trained = gains(
            config["seed"], rounds, config.get("lr", config.get("agent/lr", config.get("learning_rate", 0.5)))
        )
        return np.mean([play(make(), gain, config["seed"])[0] for gain in trained[-(last or 1) :]])

    return returns


def tensorboard(tag):
    """Return the last value of a tag, by TensorBoard's own reader."""

    def returns(folder, config):
        (file,) = folder.rglob("*tfevents*")
        events = EventAccumulator(str(file.parent)).Reload()
        tensors = {event.step: event for event in events.Scalars(tag)}
        return tensors[max(tensors)].value

    return returns


def evaluations(folder, config):
    return np.load(folder / "evaluations.npz")["results"][-1].mean()


def lerobot(folder, config):
    info = json.loads((folder / "eval_info.json").read_text())
    return info.get("overall", info.get("aggregated"))["avg_sum_reward"]


def in_names(folder, config):
    return 11.5


@dataclass(frozen=True)
class Layout:
    """What is in a folder.

    Attributes:
        tool: As the table in doors.md names it.
        runs: A pattern of the folders of its runs; each is its run's name.
        clips: How many clips a run has.
        returns: Gives the return of a run by what the tool itself, or another reader, says; None: nobody wrote it.
        config: Some hyperparameters of the first run.
        configurations: How many runs each has, sorted; seeds alone make no other one.
        task: What the files say is the task.
    """

    folder: str
    tool: str
    runs: str
    clips: int = 0
    returns: Callable | None = None
    metric: str = TRAINED
    tag: str = ""
    unit: str = ""
    config: Mapping = field(default_factory=dict)
    configurations: tuple = (2,)
    task: str | None = None

    def make(self, scratch):
        return FOREIGN / self.folder

    def __str__(self):
        return self.folder


@dataclass(frozen=True)
class OwnLayout(Layout):
    """One that no tool has: two runs, each of which ``write`` gets with a clip."""

    write: Callable = None

    def make(self, scratch):
        for name in ("a", "b"):
            path = scratch / self.folder / name / "episode_3.mp4"
            clip(play(make(), 1, 1)[1], path)
            self.write(path)
        return scratch / self.folder


def named(path):
    path.rename(path.with_name("episode_3_return_11.5_seed_2.mp4"))


def beside(path):
    path.with_suffix(".json").write_text(json.dumps({"return": 11.5, "seed": 2, "success": True}))


def semicolons(path):
    with (path.parent / "episodes.csv").open("w", newline="") as file:
        csv.writer(file, delimiter=";").writerows([["video", "return", "seed"], [path.name, "11.5", "2"]])


PPO_OF_ISAAC_LAB = {"agent/algorithm/learning_rate": 1e-3, "agent/seed": 1, "env/sim/dt": 0.005}
LAYOUTS = [
    Layout(
        *("sb3_tensorboard", "Stable-Baselines3", "???_?"),
        returns=tensorboard("rollout/ep_rew_mean"),
        tag="rollout/ep_rew_mean",
        unit=ENV_STEPS,
        configurations=(1, 2),
    ),
    Layout(
        *("sb3_evaluated", "Stable-Baselines3", "ppo_*", 2, evaluations, EVALUATED, "eval/mean_reward", ENV_STEPS),
        task=ENV_ID,
    ),
    Layout(
        *("rl_zoo", "rl-baselines3-zoo", "logs/*/Toy-v0_?", 0, evaluations, EVALUATED, "eval/mean_reward", ENV_STEPS),
        config={"algo": "a2c", "learning_rate": "lin_7e-4", "seed": 1, "n_timesteps": 320},
        task=ENV_ID,
        configurations=(2, 2),
    ),
    Layout("gymnasium_recorded", "Gymnasium", "seed_?", 2),
    Layout(
        *("cleanrl", "CleanRL", "runs/*", 2, toy(8, 8), TRAINED, "charts/episodic_return", ENV_STEPS),
        config={"exp_name": "ppo_continuous_action", "seed": 11, "learning_rate": 0.5, "torch_deterministic": True},
        task=ENV_ID,
        configurations=(2, 2),
    ),
    Layout(
        *("isaac_lab", "Isaac Lab", "logs/rsl_rl/toy_flat/*", 3, tensorboard("Train/mean_reward"), TRAINED),
        *("Train/mean_reward", ITERATIONS, PPO_OF_ISAAC_LAB, (1, 2)),
    ),
    Layout(
        *("mjlab", "mjlab", "logs/rsl_rl/cartpole/*", 2, tensorboard("Train/mean_reward"), TRAINED),
        *("Train/mean_reward", ITERATIONS),
        config={"agent/algorithm/learning_rate": 1e-3, "agent/seed": 1, "env/episode_length_s": 0.2},
        configurations=(1, 2),
    ),
    Layout(
        *("rl_games", "rl_games", "logs/rl_games/toy_flat/*", 1, tensorboard("rewards/step"), TRAINED),
        *("rewards/step", ENV_STEPS),
        config={"agent/params/config/learning_rate": 1e-3, "agent/params/seed": 1},
        configurations=(1, 2),
    ),
    Layout(
        *("skrl", "skrl", "logs/skrl/toy_flat/*", 1, tensorboard("Reward / Total reward (mean)"), TRAINED),
        *("Reward / Total reward (mean)", STEPS),
        config={"agent/agent/learning_rate": 1e-3, "agent/seed": 1},
        configurations=(1, 2),
    ),
    Layout(
        *("lerobot_eval", "LeRobot", "outputs/eval/*/*", 4, lerobot, EVALUATED, "sum_reward", STEPS),
        configurations=(1, 1),
    ),
    Layout(
        *("lerobot_eval_old", "LeRobot", "outputs/eval/*/*", 2, lerobot, EVALUATED, "sum_reward", STEPS),
        configurations=(1, 1),
    ),
    Layout(
        *("lerobot_train", "LeRobot", "outputs/train/*/*", 2),
        config={"dataset/repo_id": "lerobot/pusht", "policy/chunk_size": 100, "seed": 1},
        task="PushT-v0",
    ),
    Layout(
        *("dreamerv3", "DreamerV3", "logdir/*", 4, toy(4, 4), TRAINED, "episode/score", ENV_STEPS),
        config={"agent/opt/lr": 4e-5, "run/train_ratio": 32, "seed": 1},
        task="toy_reach",
    ),
    Layout(
        *("torchrl_csv", "TorchRL", "ppo_*", 2, toy(4), EVALUATED, "eval/reward", ENV_STEPS),
        config={"lr": 0.1, "seed": 1},
        configurations=(1, 2),
        task=ENV_ID,
    ),
    Layout(
        *("hydra_multirun", "Hydra", "multirun/*/*/?", 2, toy(4), TRAINED, "episode_return", ENV_STEPS),
        config={"agent/lr": 0.1, "agent/name": "hill_climber", "seed": 1},
        task=ENV_ID,
        configurations=(2, 2),
    ),
    Layout(
        *("hydra_single", "Hydra", "outputs/*/*", 2, toy(4), TRAINED, "episode_return", ENV_STEPS),
        config={"agent/lr": 0.1, "seed": 1},
        task=ENV_ID,
        configurations=(1,),
    ),
    *(
        Layout(
            *(folder, "Lightning", "lightning_logs/version_?", 1, toy(4), EVALUATED, "val/episode_return", STEPS),
            config={"lr": 0.1, "seed": 1},
            configurations=(1, 2),
            task=ENV_ID,
        )
        for folder in ("lightning_tensorboard", "lightning_csv")
    ),
    *(
        Layout(
            *(folder, "W&B", pattern, 3, toy(3), EVALUATED, "eval/episode_return", STEPS),
            config={"lr": 0.1, "seed": 1, "net/hidden": "[8, 8]"},
            configurations=(1, 2),
            task=ENV_ID,
        )
        for folder, pattern in (("wandb_offline", "wandb/offline-run-*"), ("wandb_online", "wandb/run-*"))
    ),
    Layout(
        *("mlflow_files", "MLflow", "mlruns/*/*/", 3, toy(3), EVALUATED, "eval/episode_return", STEPS),
        config={"lr": 0.5, "seed": 1},
        configurations=(1, 2),
        task=ENV_ID,
    ),
    Layout(
        *("trackio", "Trackio", "media/toy/*", 3, toy(3), EVALUATED, "eval/episode_return", STEPS),
        *({"lr": 0.1, "seed": 1}, (1, 2), ENV_ID),
    ),
    *(
        OwnLayout(folder, "any recorder", "?", 1, in_names, "", configurations=(1, 1), write=write)
        for folder, write in (("numbers_in_names", named), ("json_beside", beside), ("semicolons", semicolons))
    ),
]
DOORS = (FOREIGN.parents[2] / "docs/doors.md").read_text()


def runs_in(folder, pattern):
    """Return the names of the runs that are there, sorted."""
    return sorted(str(path.relative_to(folder)) for path in folder.glob(pattern) if is_run(path))


def is_run(path):
    return path.is_dir() and (path.parents[1].name != "mlruns" or (path / "params").exists())


def test_the_page_has_the_tools_of_these_layouts_and_what_is_read_of_each():
    table = DOORS.partition("## Runs of other tools")[2].partition("## ")[0]
    rows = [line[1:-1].split("|") for line in table.splitlines() if line.startswith("|")][2:]
    told = {tool: (row[2] == "✓", row[3] == "✓") for row in rows for tool in row[0].split(", ")}
    read = {tool: [layout for layout in LAYOUTS if layout.tool == tool] for tool in told}
    assert {layout.tool for layout in LAYOUTS} == read.keys()
    assert told == {
        tool: (any(layout.returns for layout in layouts), any(layout.config for layout in layouts))
        for tool, layouts in read.items()
    }


DIFFER = {  # what the tool was told to change, as its files say it
    "isaac_lab": {"agent/seed", "env/seed", "agent/algorithm/learning_rate"},
    "rl_games": {"agent/params/seed", "agent/params/config/learning_rate"},
    "skrl": {"agent/seed", "agent/agent/learning_rate"},
    "rl_zoo": {"algo", "batch_size", "conf_file", "learning_rate", "n_steps", "seed"},
    "hydra_multirun": {"agent/lr", "seed"},
    **{tool: {"seed"} for tool in ("dreamerv3", "lerobot_train")},
    **{tool: {"lr", "seed"} for tool in ("lightning_csv", "torchrl_csv", "wandb_offline", "wandb_online")},
    **{tool: {"lr", "seed"} for tool in ("mlflow_files", "trackio")},
}


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_a_folder_of_another_tool_opens_from_its_top_with_returns_and_hyperparameters(layout, tmp_path, caplog):
    folder = layout.make(tmp_path)
    catalog, names = tm.load(folder), runs_in(folder, layout.runs)
    assert [trial.name for trial in catalog.trials] == names
    assert len(names) > 1 or layout.folder == "hydra_single"
    counts = list(catalog.counts.values())
    assert counts == ([0, 0, 1, 0] if layout.folder == "rl_zoo" else [layout.clips] * len(names))
    assert {trial.run.env_id for trial in catalog.trials} == {layout.task}
    assert not [said for trial in catalog.trials for said in trial.run.not_understood]
    assert all(catalog.trials[0].read_media(row["path"]) for row in catalog if row["trial"] == names[0])
    assert not caplog.records
    for trial in catalog.trials:
        returns = [trial.last_metrics.get(name) for name in (TRAINED, EVALUATED)]
        if layout.returns is None:
            assert returns == [None, None]
        elif not layout.metric:
            assert [row["episode_return"] for row in catalog] == [layout.returns(None, None)] * 2
        else:
            told = layout.returns(folder / trial.name, trial.config)
            assert trial.last_metrics[layout.metric] == pytest.approx(told, rel=1e-6)
        assert trial.run.return_from == (layout.tag, layout.unit)
    of_first = catalog.trials[0].config
    assert {name: of_first.get(name) for name in layout.config} == layout.config
    if layout.folder in DIFFER:  # no run's own name, folder, time or object is a hyperparameter
        assert set().union(*(trial.params for trial in catalog.trials)) == DIFFER[layout.folder]
    assert sorted(len(runs) for runs in catalog.compare()["trials"]) == list(layout.configurations)


def test_of_many_tools_in_one_folder_each_experiment_is_named_and_loaded():
    with pytest.raises(ValueError, match="15 experiments, whose runs are not compared"):
        tm.load(FOREIGN)
    _, experiments = experiments_at(str(FOREIGN))
    for one in experiments:
        assert len(tm.load(f"{FOREIGN}:{one.name}").trials) == one.runs
    own = [runs_in(layout.make(None), layout.runs) for layout in LAYOUTS if not isinstance(layout, OwnLayout)]
    assert sum(one.runs for one in experiments) == sum(map(len, own))


@pytest.mark.parametrize(
    ("folder", "told"),
    [
        ("sb3_tensorboard", ["PPO            2     3.6833", "SAC_1          1     3.2554", "Best so far: PPO."]),
        ("isaac_lab", ["agent/algorithm/learning_rate", "0.001                          2     4.266"]),
        ("hydra_multirun", ["agent/lr", "0.5       2     7.759", "multirun/2026-11-29/14-00-00/2"]),
    ],
)
def test_a_new_user_lists_and_watches_old_runs(folder, told):
    listed = command("list", FOREIGN / folder)
    assert all(text in listed for text in told)
    page = Client(ViewerApp(Trials([LogDirectory.of(str(FOREIGN / folder))]), folder))
    trials = page.get("/data/index.json").json["trials"]
    assert [trial["name"] for trial in trials] == [trial.name for trial in tm.load(FOREIGN / folder).trials]
    curves = page.get("/data/trial.json", query_string={"trial": trials[0]["id"]}).json
    assert "episode_return_mean" in str(curves)
    clips = [(trial, clip) for trial in tm.load(FOREIGN / folder).trials for clip in trial.lines]
    for trial, line in clips:
        assert page.get(f"/media/{trial.id}/{line['path']}").status_code == 200


def test_other_peoples_folders_are_only_read(tmp_path):
    folder = shutil.copytree(FOREIGN, tmp_path / "läufe, №1", symlinks=True)
    before = {path: path.lstat().st_mtime_ns for path in folder.rglob("*")}
    for path in [folder, *before]:
        path.chmod(path.stat().st_mode & ~0o222)
    for layout in LAYOUTS:
        if not isinstance(layout, OwnLayout):
            command("list", folder / layout.folder)
    assert {path: path.lstat().st_mtime_ns for path in folder.rglob("*")} == before
    for path in [folder, *before]:
        path.chmod(path.stat().st_mode | 0o200)


@pytest.mark.parametrize("log", ["summaries", ".summary/0", "logs/tb"])
def test_clips_and_settings_beside_the_folder_of_a_log_are_of_its_run(tmp_path, log):
    for number, events in enumerate(sorted((FOREIGN / "rl_games").rglob("*tfevents*"))[:2]):
        run = tmp_path / "train_dir" / f"ant_{number}"
        clip(play(make(), 1, 1)[1], run / "videos" / "last.mp4")
        (run / "config.yaml").write_text("task: Ant\nlearning_rate: 3e-4\n")
        shutil.copytree(events.parent, run / log)
    catalog = tm.load(tmp_path)
    assert catalog.counts == {"train_dir/ant_0": 1, "train_dir/ant_1": 1}
    assert all(trial.config["learning_rate"] == 3e-4 and trial.last_metrics[TRAINED] > 0 for trial in catalog.trials)


def test_the_tables_of_training_and_evaluation_have_returns_of_their_sections(tmp_path):
    (tmp_path / "train.csv").write_text("episode,episode_reward,frame,step\n1,3.0,1000,500\n2,5.0,2000,1000\n")
    (tmp_path / "eval.csv").write_text("episode,episode_reward,frame,step\n0,5.0,0,0\n20,100.5,20000,10000\n")
    clip(play(make(), 1, 1)[1], tmp_path / "eval_video" / "20000.mp4")
    (trial,) = tm.load(tmp_path).trials
    assert {name: trial.last_metrics[name] for name in (TRAINED, EVALUATED)} == {TRAINED: 5, EVALUATED: 100.5}


def test_runs_in_a_folder_for_each_seed_are_one_experiment(tmp_path):
    for seed, run in enumerate(("PPO_1", "PPO_2")):
        shutil.copytree(FOREIGN / "sb3_tensorboard" / run, tmp_path / "log" / "ppo" / str(seed) / "240101-120000")
    assert len(tm.load(tmp_path).trials) == 2


def test_a_link_to_a_run_is_no_second_run(tmp_path):
    """W&B makes ``latest-run``, LeRobot ``checkpoints/last``."""
    folder = shutil.copytree(FOREIGN / "wandb_online", tmp_path / "runs")
    newest = max((folder / "wandb").iterdir())
    (folder / "wandb" / "latest-run").symlink_to(newest.name)
    (folder / "all").symlink_to("..")
    assert len(tm.load(folder).trials) == 3


def test_films_are_not_compared_with_runs(tmp_path):
    shutil.copytree(FOREIGN / "sb3_tensorboard", tmp_path / "code" / "project" / "runs")
    film = next((FOREIGN / "hydra_single").rglob("*.mp4"))
    for place in ("Videos/holiday/IMG_1.mp4", "Videos/IMG_2.mp4", "Downloads/film (1).mp4", "IMG_3.mp4"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(film, tmp_path / place)
    catalog = tm.load(f"{tmp_path}:code/project/runs")
    assert [trial.path.rpartition("/")[2] for trial in catalog.trials] == ["PPO_1", "PPO_2", "SAC_1"]
    assert len(catalog) == 0


def test_without_clips_the_lines_of_media_say_where_the_numbers_are():
    said = command("list", "--json", FOREIGN / "sb3_tensorboard", code=1)
    assert "No medium is there in" in said
    assert "tune-media list --rows trials" in said
    assert "record_episodes" not in said


def copied(name, folder):
    """Copy the folder of a tool, whose runs are then those of two days."""
    for day in ("a", "b"):
        shutil.copytree(FOREIGN / name, folder / day)
    return folder


@pytest.mark.slow
def test_trackers_get_the_curves_and_the_clips_of_a_run_under_its_own_name(tmp_path):
    runs = tm.load(copied("hydra_multirun", tmp_path / "logs")).trials
    done = tm.export.to_tensorboard(tmp_path / "logs", tmp_path / "tb")
    assert (done.trials, done.problems) == (8, [])
    for run in runs:
        curve = run.curves()
        events = EventAccumulator(str(tmp_path / "tb" / run.name)).Reload()
        shown = events.Scalars(f"ray/tune/{TRAINED}")
        assert [event.step for event in shown] == curve["step"]
        assert [event.value for event in shown] == pytest.approx(curve["metrics"][TRAINED])
    assert len({trial_id for trial_id, _ in started(tmp_path / "logs")}) == 8


def started(folder):
    """Return the ids and names of the trials that a tracker gets."""
    tracker = Names()
    assert tm.export.to_tracker(folder, tm.MediaLoggerCallback(tracker)).problems == []
    return tracker.started


def test_trackers_get_numbers_of_unknown_step_and_the_best_clip_of_a_run():
    tracker = Names()
    done = tm.export.to_tracker(FOREIGN / "lerobot_eval", tm.MediaLoggerCallback(tracker))
    assert (done.results, len(tracker.best), done.problems) == (done.trials, done.trials, [])
    assert all(report.step == 0 and EVALUATED in report.flat for report in tracker.reports)
    assert tm.load(FOREIGN / "lerobot_eval").trials[0].curves()["step"] == []  # nothing to draw


class Names(tm.Backend):
    def __init__(self):
        self.started, self.reports, self.best = [], [], []

    def start(self, trial):
        self.started.append((trial.trial_id, trial.name))

    def metrics(self, trial, report):
        self.reports.append(report)

    def media(self, trial, entry):
        pass

    def end(self, trial, status):
        assert status == "finished"  # MLflow would say KILLED, W&B crashed
        best = clips_best_first(trial, self.context)[:1]
        self.best += [content for line in best if (content := self.context.content(trial, line["path"]))]
