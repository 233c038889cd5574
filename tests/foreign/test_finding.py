"""Which folders are runs, which are parts of runs, and which runs are one experiment."""

import itertools
import re

import numpy as np
import pytest
from werkzeug.test import Client

import tune_media as tm
from tests.support.commands import command
from tests.support.viewing import RefusingStorage, on, write_trial
from tune_media.experiment.experiments import TrialFinder
from tune_media.experiment.places import Folder
from tune_media.experiment.trial_folders import LogDirectory, Trials
from tune_media.foreign.finding import find_runs
from tune_media.viewing.experiment_list import ExperimentList
from tune_media.viewing.watch import make_watch_server
from tune_media.viewing.web import ViewerApp

CLIP = tm.Video(np.zeros((2, 16, 16, 3), np.uint8)).data
EVENTS = "events.out.tfevents.1.x.1.0"


def make(folder, *paths):
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(CLIP if path.endswith(".mp4") else b"")


def found_in(folder, **more):
    place = LogDirectory.of(str(folder)).folder
    return find_runs(place.filesystem, place.path, **more)


def names(folder):
    return sorted(run.name for run in found_in(folder).runs)


LAYOUTS = {  # beside those that the tools wrote: tests/foreign/test_layouts.py
    "one SB3 run in its log folder": (["monitor.csv", "evaluations.npz", f"PPO_1/{EVENTS}"], [""]),
    "Isaac Lab": (
        [f"rsl_rl/cart/{day}/{name}" for day in "12" for name in ("params/agent.yaml", "videos/train/a.mp4")],
        ["rsl_rl/cart/1", "rsl_rl/cart/2"],
    ),
    "Hydra": (
        [f"multirun/day/{n}/{name}" for n in (0, 1) for name in (".hydra/config.yaml", f"tb/{EVENTS}")],
        ["multirun/day/0", "multirun/day/1"],
    ),
    "LeRobot's training": (["out/eval/videos_step_000010/eval_episode_0.mp4", "out/train_config.json"], ["out"]),
    "tasks without a table": (
        ["run/videos/lift_0/a.mp4", "run/videos/lift_1/a.mp4"],
        ["run/videos/lift_0", "run/videos/lift_1"],
    ),
    "one run of MLflow": (["mlruns/0/meta.yaml", "mlruns/0/a/meta.yaml", "mlruns/0/a/tags/x"], ["mlruns/0/a"]),
    "Trackio": ([f"media/p/r/{step}/a.mp4" for step in (0, 10)], ["media/p/r"]),
    "a train and an eval folder": ([f"x/train/{EVENTS}", f"x/eval/{EVENTS}"], ["x"]),
    "no run": (["a/b/results.csv", "a/weights.pt", "b/config.yaml"], []),
    "other folders": ([f".git/{EVENTS}", f"checkpoint_000001/{EVENTS}", f"node_modules/a/{EVENTS}"], []),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_runs_are_found_with_their_path_as_their_name(tmp_path, layout):
    paths, runs = LAYOUTS[layout]
    make(tmp_path, *paths)
    assert names(tmp_path) == sorted(runs)


def test_a_folder_around_two_runs_is_none_and_its_tables_are_named(tmp_path):
    make(tmp_path, "logs/progress.csv", "logs/scores.csv", f"logs/a/{EVENTS}", f"logs/b/{EVENTS}", "logs/notes.txt")
    found = found_in(tmp_path)
    assert [run.name for run in found.runs] == ["logs/a", "logs/b"]
    assert [why for _, why in found.passed_over] == ["progress.csv, scores.csv are of none of the 2 runs below"]


def test_a_run_lies_at_most_six_levels_below_and_parts_do_not_count(tmp_path):
    make(
        tmp_path,
        f"1/2/3/4/5/6/{EVENTS}",
        "1/2/3/4/5/b/eval/videos/a.mp4",
        f"1/2/3/4/5/6/7/8/{EVENTS}",
        f"2/2/3/4/5/6/7/{EVENTS}",
    )
    assert names(tmp_path) == ["1/2/3/4/5/6", "1/2/3/4/5/b"]


def test_folders_beyond_the_most_are_said_to_be_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr("tune_media.foreign.finding.MOST_FOLDERS", 4)
    make(tmp_path, *(f"run_{number}/{EVENTS}" for number in range(5)))
    found = found_in(tmp_path)
    assert len(found.runs) == 3
    assert "more than 4 folders" in found.passed_over[0][1]


def test_links_below_are_counted_and_the_given_folder_may_be_one(tmp_path):
    make(tmp_path, f"logs/a/{EVENTS}", f"elsewhere/b/{EVENTS}")
    for name in ("one", "two"):
        (tmp_path / "logs" / name).symlink_to(tmp_path / "elsewhere")
    (tmp_path / "logs" / "latest").symlink_to(tmp_path / "logs" / "a")  # it is found without the link
    (tmp_path / "link").symlink_to(tmp_path / "logs")
    for folder in ("logs", "link"):
        found = found_in(tmp_path / folder)
        assert [run.name for run in found.runs] == ["a"]
        assert "2 links to other folders, which are not followed" in found.passed_over[0][1]


@pytest.mark.parametrize("mark", ["tuner.pkl", ".tune_media_log/x", "experiment_state-1.json"])
def test_nothing_below_an_experiment_of_tunes_is_searched(tmp_path, mark):
    make(
        tmp_path, f"exp/{mark}", f"exp/a/b/{EVENTS}", f"exp/c/{EVENTS}", "exp/d/rl-video-episode-0.mp4", f"run/{EVENTS}"
    )
    write_trial(tmp_path / "exp" / "trial_0", 0)
    make(tmp_path, f"exp/trial_0/{EVENTS}", "exp/trial_0/videos/a.mp4")
    found = TrialFinder().find(LogDirectory.of(str(tmp_path)).folder)
    assert [trial.path.rpartition("/")[2] for trial in found.trials] == ["trial_0", "run"]


@pytest.mark.parametrize("mark", ["evaluations", "gates"])
def test_evaluations_and_gates_of_ours_are_not_searched(tmp_path, mark):
    make(tmp_path, f"{mark}/x/rl-video-episode-0.mp4", f"run/{EVENTS}")
    assert names(tmp_path) == ["run"]


def test_a_trial_of_ours_makes_the_folder_around_it_no_run(tmp_path):
    env_folder = tmp_path / "logs" / "videos"
    write_trial(env_folder, 0)
    make(tmp_path, "logs/monitor.csv")
    found = TrialFinder().find(LogDirectory.of(str(tmp_path)).folder)
    assert [(trial.path, trial.files) for trial in found.trials] == [(str(env_folder), None)]


def test_runs_of_one_task_are_one_experiment_wherever_they_lie(tmp_path):
    make(
        tmp_path,
        *(
            f"{algorithm}/CartPole-v1__{algorithm}__{seed}__1690000000/{EVENTS}"
            for algorithm in "ab"
            for seed in (1, 2)
        ),
    )
    make(
        tmp_path, f"a/Pong-v5__a__1__1690000000/{EVENTS}", f"c/PPO_1/{EVENTS}", f"c/PPO_2/{EVENTS}", f"d/PPO_1/{EVENTS}"
    )
    with pytest.raises(ValueError, match=r"has 4 experiments.*; pass one of them, such as") as told:
        tm.load(tmp_path)
    assert all(
        text in str(told.value) for text in ("CartPole-v1 (4 runs)", "Pong-v5 (1 run)", "c (2 runs)", "d (1 run)")
    )
    assert [trial.name for trial in tm.load(f"{tmp_path}:c").trials] == ["c/PPO_1", "c/PPO_2"]
    assert len(tm.load(f"{tmp_path}:CartPole-v1").trials) == 4
    assert len(Trials([LogDirectory.of(str(tmp_path / "c"))]).all()) == 2
    lines = command("list", tmp_path).splitlines()
    assert {tuple(line.split()[:2]) for line in lines[1:-1]} == {
        ("CartPole-v1", "4"),
        ("Pong-v5", "1"),
        ("c", "2"),
        ("d", "1"),
    }


def test_runs_in_the_folders_of_a_tracker_are_no_second_runs(tmp_path):
    name = "CartPole-v1__ppo__1__1690000000"
    make(tmp_path, f"runs/{name}/{EVENTS}", f"mlruns/0/{name}/meta.yaml", f"mlruns/0/{name}/tags/x")
    found = TrialFinder().find(LogDirectory.of(str(tmp_path)).folder)
    assert sorted((one.name, one.runs) for one in found.experiments) == [("CartPole-v1", 1), ("mlruns/CartPole-v1", 1)]


def test_a_run_that_was_exported_to_wandb_offline_has_nothing_twice(tmp_path):
    make(tmp_path, f"a/{EVENTS}", "a/videos/a.mp4")
    (trial,) = tm.load(tmp_path).trials
    run = f"a/wandb/offline-run-20261130_101112-{trial.trial_id}"  # as export --offline writes it
    make(tmp_path, f"{run}/run-{trial.trial_id}.wandb", f"{run}/files/media/videos/train/clips_1_ab.mp4")
    assert [row["path"] for row in tm.load(tmp_path)] == ["videos/a.mp4"]
    own = "b/wandb/offline-run-20261130_101112-0b5b1d7e-4b0f-4a55-9d55-2f1f4d0c9a11"  # an id of the user's own
    make(tmp_path, f"{own}/run-0b5b1d7e.wandb", f"{own}/files/media/videos/train/clips_1_ab.mp4")
    assert len(tm.load(tmp_path / "b").trials) == 1


def test_the_page_of_several_experiments_lists_them_and_leads_to_each(tmp_path):
    make(tmp_path, f"a/x/{EVENTS}", "b/<i>/rl-video-episode-0.mp4", "b/y/rl-video-episode-0.mp4")
    server = make_watch_server(str(tmp_path))
    client = Client(server.app.__closure__[0].cell_contents if server.app.__closure__ else server.app)
    page = client.get("/").text
    server.server_close()
    assert "2 experiments, whose runs are not compared" in page
    links = [part.partition('"')[0] for part in page.split('href="of/')[1:]]
    links = [f"of/{link}" for link in links]
    counts = [len(client.get(f"/{link}data/index.json").json["trials"]) for link in links]
    assert sorted(counts) == [1, 2]
    assert all("Episodes" in client.get(f"/{link}").text for link in links)
    assert client.get("/static/style.css").status_code == client.get(f"/{links[0]}static/style.css").status_code == 200
    assert client.get("/of/other/").status_code == client.get("/static/none").status_code == 404


def test_the_page_of_several_experiments_looks_for_runs_every_5_seconds_and_not_for_each_request(tmp_path, monkeypatch):
    make(tmp_path, f"a/x/{EVENTS}", f"b/y/{EVENTS}")
    looks = []
    monkeypatch.setattr(
        TrialFinder,
        "find",
        lambda self, folder, known=(), find=TrialFinder.find: (looks.append(folder), find(self, folder, known))[1],
    )
    client = Client(ExperimentList(LogDirectory.of(str(tmp_path)).folder, lambda folder: pytest.fail("not opened")))
    monkeypatch.setattr("tune_media.viewing.experiment_list.time.monotonic", lambda: 100.0)
    assert [client.get(path).status_code for path in ("/", "/static/style.css", "/")] == [200, 200, 200]
    assert len(looks) == 1
    monkeypatch.setattr("tune_media.viewing.experiment_list.time.monotonic", lambda: 106.0)
    client.get("/")
    assert len(looks) == 2


def test_the_page_of_several_experiments_stays_while_their_storage_is_away(tmp_path, monkeypatch):
    storage, now = RefusingStorage("far"), itertools.count(step=60)
    monkeypatch.setattr("tune_media.viewing.experiment_list.time.monotonic", lambda: next(now))
    make(tmp_path, f"a/x/{EVENTS}", f"b/y/{EVENTS}")
    viewer = lambda place: ViewerApp(Trials([LogDirectory(place)]), place.name)  # noqa: E731
    client = Client(ExperimentList(on(storage, tmp_path), viewer))
    before = client.get("/").text
    (link,) = re.findall(r'href="(of/[^"]*)">a<', before)
    storage.refused.append(str(tmp_path))
    page = client.get("/")
    assert page.status_code == 200
    assert "2 experiments, " in page.text
    assert "could not be read again: PermissionError: [Errno 13]" in page.text
    assert client.get(f"/{link}").status_code == 200
    storage.refused.clear()
    assert client.get("/").text == before


@pytest.mark.parametrize("is_ours", [False, True])
def test_of_code_in_tapes_is_warned_where_there_may_be_tapes(tmp_path, is_ours):
    make(tmp_path, f"logs/a/{EVENTS}")
    if is_ours:
        write_trial(tmp_path / "logs" / "trial", 1)
    warned = []
    make_watch_server(str(tmp_path / "logs"), token="t", warn=lambda: warned.append(1)).server_close()
    assert warned == [1] * is_ours


def test_slow_looks_at_several_folders_are_rare_together(tmp_path):
    finder = TrialFinder(_rests={"a": 2.0})
    make(tmp_path, f"a/{EVENTS}")
    finder.find(LogDirectory.of(str(tmp_path)).folder)
    assert finder.rest >= 2.0


def test_a_run_that_begins_later_is_shown_and_files_that_come_are_read(tmp_path):
    make(tmp_path, f"a/{EVENTS}")
    trials = Trials([LogDirectory.of(str(tmp_path))])
    assert [trial.name for trial in trials.all(max_age=0)] == ["a"]
    make(tmp_path, f"b/{EVENTS}", "a/videos/rl-video-episode-0.mp4")
    assert [(trial.name, len(trial.media)) for trial in trials.all(max_age=0)] == [("a", 1), ("b", 0)]


def test_each_remote_folder_is_listed_once(tmp_path):
    make(tmp_path, f"a/x/{EVENTS}", "a/y/videos/a.mp4")
    storage = RefusingStorage("far")
    place: Folder = on(storage, tmp_path)
    assert len(TrialFinder().find(place).trials) == 2
    assert len(storage.listed) == len(set(storage.listed)) == 5


def test_what_was_not_understood_is_said_once_for_all_runs(tmp_path, caplog):
    make(tmp_path, *(f"run_{number}/hparams.yaml" for number in range(3)))
    for number in range(3):
        (tmp_path / f"run_{number}" / "hparams.yaml").write_text("a: [")
    tm.load(tmp_path)
    told = [message for message in caplog.messages if "hparams.yaml" in message]
    assert len(told) == 1 and "and in 2 other runs" in told[0]


def test_of_large_yaml_only_what_may_name_the_task_is_parsed(tmp_path):
    """Five thousand runs with the files of Isaac Lab took two minutes."""
    make(tmp_path, *(f"{name}/{EVENTS}" for name in "abc"))
    (tmp_path / "a" / "config.yaml").write_text("# of a\nlr: [1\n  , 2]\nenv:\n  id: A-v1\n\n  fps: 3\nbroken: [\n")
    (tmp_path / "b" / "args.yml").write_text("!!python/object/apply:collections.OrderedDict\n- - - env\n    - A-v1\n")
    (tmp_path / "c" / "config.yaml").write_text("'task': A-v1\nenvironments: 4\n")
    found = TrialFinder().find(LogDirectory.of(str(tmp_path)).folder)
    assert [(one.name, one.runs) for one in found.experiments] == [("A-v1", 3)]
