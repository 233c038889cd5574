"""Folders that no sweep of Tune wrote: runs of ``RecordEpisodes``, and clips of other recorders."""

import gc
import importlib.util
import json
import re
import subprocess
import sys
import types
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from werkzeug.test import Client

import tune_media as tm
from tests.support.browser import opened
from tests.support.commands import command
from tests.support.envs import CountingEnv
from tests.support.experiment import read_clip
from tests.support.loops import play
from tests.support.viewing import RefusingStorage, on, write_trial
from tune_media.experiment.trial_folders import LogDirectory, Trials
from tune_media.viewing.episode_details import episode_details
from tune_media.viewing.gallery import Gallery
from tune_media.viewing.pages import TrialPages
from tune_media.viewing.watch import make_watch_server
from tune_media.viewing.web import ViewerApp

RUNS = {"a": (0.1, 1, 3), "b": (0.1, 2, 4), "c": (0.2, 1, 8), "d": (0.2, 2, 9)}  # lr, seed, steps of an episode


def record(folder, length=3, episodes=4, seeds=True, **options):
    env = tm.gym.RecordEpisodes(CountingEnv({"length": length}), folder, **options)
    for episode in range(episodes):
        play(env, 1, seed=episode if seeds else None)
    return env


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """Four runs beside each other; every second episode has a clip."""
    folder = tmp_path_factory.mktemp("runs") / "runs"
    for name, (lr, seed, length) in RUNS.items():
        options = {"params": {"lr": lr, "seed": seed}, "episode_trigger": tm.selection.every(2)}
        record(folder / name, length, **options).close()
    return folder


def test_runs_beside_each_other_are_trials_with_params_returns_and_seeds(sweep):
    catalog = tm.load(sweep)
    assert [trial.name for trial in catalog.trials] == list(RUNS)
    assert [trial.params for trial in catalog.trials] == [{"lr": lr, "seed": seed} for lr, seed, _ in RUNS.values()]
    assert [(row["seed"], row["path"]) for row in catalog if row["trial"] == "a"] == [
        (0, "rl-video-episode-0.mp4"),
        (2, "rl-video-episode-2.mp4"),
    ]
    for row in catalog:
        assert row["episode_length"] == len(read_clip(row["file"])) - 1 == RUNS[row["trial"]][2]
    episodes = catalog.episodes()
    assert len(episodes) == 16
    assert episodes[episodes["trial"] == "b"]["env_steps"].tolist() == [4, 8, 12, 16]
    means = episodes.groupby("trial")["episode_return"].mean()
    assert catalog.scores.label == "mean return"
    assert catalog.scores.values == pytest.approx(means.tolist())
    best, by_lr = catalog.winner, means.groupby(lambda name: RUNS[name][0]).mean()
    assert catalog.best()["trial"] == best.name and best.config["lr"] == by_lr.idxmax()
    assert best.curves()["step"][-1] == 4 * RUNS[best.name][2]
    assert best.metrics["episode_return_mean"].last == pytest.approx(means[best.name])


def test_runs_are_compared_over_their_seeds_in_a_table(sweep):
    catalog = tm.load(sweep)
    table = catalog.compare()
    assert table["n"].tolist() == [2, 2]
    assert set(table["config/lr"]) == {0.1, 0.2}
    out = command("list", sweep)
    assert "mean return" in out
    assert re.search(r"d/rl-video-episode-\d\.mp4", out)
    assert "a/rl-video-episode-0.mp4" not in command("list", sweep / "b")


def test_a_clip_of_a_run_has_its_rewards_on_the_page_and_in_a_gallery(sweep, tmp_path):
    trials = Trials([LogDirectory.of(str(sweep))])
    assert [trial.name for trial in trials.all()] == list(RUNS)
    for trial in trials.all():
        for line in trial.lines:
            assert len(episode_details(trial, line)["series"]["reward"]) == line["episode_length"]
    assert trials.metrics_of(trials.all())[0]["episode_return_mean"] is not None
    Gallery.of(str(sweep)).write(tmp_path / "gallery")
    assert len(list((tmp_path / "gallery" / "media").rglob("*.mp4"))) == 8


@pytest.mark.slow
def test_the_page_has_a_card_a_run_with_its_return_and_the_winner_by_the_score(browser, sweep, tmp_path):
    with opened(browser, sweep, tmp_path, "cards=trials", host="tensorboard") as viewer:
        viewer.wait("document.querySelectorAll('article video').length >= 4")
        viewer.wait("[...document.querySelectorAll('article video')].every((video) => video.readyState > 0)")
        text = viewer.frame.inner_text("main")
        assert "mean return" in text
        assert all(re.search(rf"\b{name}\b", text) for name in ("lr", "seed", "step"))
        score = tm.load(sweep).winner.last_metrics["episode_return_mean"]
        assert f"{score:.4g}"[:4] in text.replace(",", "")


def test_the_page_of_one_folder_calls_its_run_by_the_folders_name(sweep, page_code):
    index = TrialPages(Trials([LogDirectory.of(str(sweep / "a"))]), "a").index().content
    names = "(index) => tuneMedia.model.decode(index).trials.map(({ shownName }) => shownName)"
    assert page_code(names, json.loads(index)) == ["a"]


def test_more_clips_of_a_running_loop_come_to_the_page(tmp_path):
    env = record(tmp_path / "run", episodes=1)
    trials = Trials([LogDirectory.of(str(tmp_path))])
    (trial,) = trials.all(max_age=0)
    first = trials.metrics_of([trial])[0]
    assert len(trial.media) == 1
    for _ in range(3):
        play(env, 1)
    env.close()
    (trial,) = trials.all(max_age=0)
    trials._pause = -1.0
    assert len(trial.media) == 4
    assert trials.metrics_of([trial])[0] != first


def test_sub_envs_of_a_vector_env_are_one_run(tmp_path):
    envs = gym.vector.SyncVectorEnv([lambda length=length: CountingEnv({"length": length}) for length in (2, 3)])
    envs = tm.gym.RecordEpisodes(envs, tmp_path / "run", params={"lr": 0.1})
    envs.reset(seed=5)
    for _ in range(11):
        envs.step(np.zeros(2, int))
    ended = list(envs.return_queue)
    envs.close()
    catalog = tm.load(tmp_path)
    episodes = catalog.episodes()
    assert sorted(episodes["episode_return"]) == pytest.approx(sorted(ended))
    assert catalog.scores.values == [pytest.approx(np.mean(ended))]
    whole = [row for row in catalog if row.get("episode_return") is not None]
    assert len(whole) == len(ended)
    assert {row["env_index"] for row in whole} == {0, 1}


def test_clips_without_a_prefix_are_served(tmp_path):
    record(tmp_path / "run", episodes=1, name_prefix="").close()
    (trial,) = Trials([LogDirectory.of(str(tmp_path))]).all()
    assert [trial.media_file(line["path"]) is not None for line in trial.lines] == [True]


def test_envs_in_other_processes_write_to_one_run(tmp_path):
    make = [lambda: tm.gym.RecordEpisodes(CountingEnv({"length": 3}), tmp_path / "run") for _ in range(3)]
    envs = gym.vector.AsyncVectorEnv(make)
    envs.reset(seed=0)
    for _ in range(11):
        envs.step(np.zeros(3, int))
    envs.close()
    catalog = tm.load(tmp_path)
    episodes = catalog.episodes()
    assert episodes["episode_id"].is_unique
    assert len(episodes) == 9
    assert sorted(row["episode_id"] for row in catalog if row.get("episode_return") is not None) == sorted(
        episodes["episode_id"]
    )


@pytest.mark.slow
def test_stable_baselines_learns_in_envs_that_record_and_nobody_closes(tmp_path):
    sb3 = pytest.importorskip("stable_baselines3")
    from stable_baselines3.common.env_util import make_vec_env

    options = {"video_folder": tmp_path / "ppo", "episode_trigger": tm.selection.every(10), "params": {"seed": 0}}
    made = {"wrapper_class": tm.gym.RecordEpisodes, "wrapper_kwargs": options}
    env = make_vec_env("CartPole-v1", 2, seed=0, env_kwargs={"render_mode": "rgb_array"}, **made)
    model = sb3.PPO("MlpPolicy", env, n_steps=64, n_epochs=1, seed=0)
    model.learn(600)
    returns = [info["r"] for info in model.ep_info_buffer]
    del model, env
    gc.collect()
    catalog = tm.load(tmp_path)
    (trial,) = catalog.trials
    assert trial.last_metrics["episode_return_mean"] == pytest.approx(np.mean(returns))
    assert trial.curves()["step"][-1] == sum(trial.loop_episodes().table["episode_length"].to_pylist())
    assert trial.config == {"seed": 0} and all(row["episode_return"] > 0 for row in catalog if "note" not in row)


def test_a_run_that_ends_without_closing_its_env_has_all_its_episodes(tmp_path):
    code = (
        "import sys, tune_media as tm\n"
        "from tests.support.envs import CountingEnv\n"
        "from tests.support.loops import play\n"
        "env = tm.gym.RecordEpisodes(CountingEnv({'length': 3}), sys.argv[1])\n"
        "play(env, 5)\n"
        "raise SystemExit(3)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code, str(tmp_path / "run")], capture_output=True, text=True)
    assert ended.returncode == 3, ended.stderr
    assert len(tm.load(tmp_path).episodes()) == 5


def test_a_second_run_in_a_folder_goes_on_behind_the_first_if_its_params_are_the_same(tmp_path):
    record(tmp_path / "run", params={"lr": 0.1, "layers": (64, 64)}).close()
    record(tmp_path / "run", params={"lr": 0.1, "layers": [64, 64]}).close()
    catalog = tm.load(tmp_path)
    assert len(catalog) == 8
    assert [row["step"] for row in catalog] == [3, 6, 9, 12, 15, 18, 21, 24]
    with pytest.raises(ValueError, match=r"is the folder of a run with params .*0\.1.*Pass another video_folder"):
        record(tmp_path / "run", params={"lr": 0.2})
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "params.json").write_text("[1, 2]")  # of somebody else
    with pytest.raises(ValueError, match=r"mine' is the folder of a run with params"):
        record(tmp_path / "mine", params={"lr": 0.2})
    assert (tmp_path / "mine" / "params.json").read_text() == "[1, 2]"
    with pytest.raises(ValueError, match=r"params=\.\.\.\) are kept in the video_folder"):
        tm.gym.RecordEpisodes(CountingEnv(), params={"lr": 0.2})
    with pytest.raises(TypeError, match=r"takes hyperparameters by name or None, for example params=vars\(args\)"):
        record(tmp_path / "other", params=types.SimpleNamespace(lr=0.1))


def test_the_clips_of_an_evaluation_are_told_by_the_prefix_and_rank_the_runs(tmp_path):
    record(tmp_path / "run", 3).close()
    record(tmp_path / "run", 9, name_prefix="eval").close()
    catalog = tm.load(tmp_path)
    assert {row["section"] for row in catalog} == {"train", "evaluation"}
    assert catalog.scores.label == "mean evaluation return"
    assert catalog.best()["section"] == "evaluation"
    trained = catalog.trials[0].last_metrics
    assert trained["evaluation/episode_len_mean"] == 9
    assert trained["episode_len_mean"] == 3


def test_the_episodes_of_an_evaluation_are_no_steps_of_the_training(tmp_path):
    training, evaluation = (
        tm.gym.RecordEpisodes(CountingEnv({"length": length}), tmp_path / "run", name_prefix=prefix)
        for length, prefix in ((10, "train"), (100, "eval"))
    )
    for _ in range(3):
        play(training, 1)
        play(evaluation, 2)
    training.close()
    evaluation.close()
    record(tmp_path / "run", 100, 1, name_prefix="eval").close()  # a later wrapper
    catalog = tm.load(tmp_path)
    assert [row["step"] for row in catalog if row["section"] == "train"] == [10, 20, 30]
    assert [row["step"] for row in catalog if row["section"] == "evaluation"] == [10, 10, 20, 20, 30, 30, 30]
    assert catalog.trials[0].curves()["step"] == [10, 10, 20, 20, 30, 30]
    record(tmp_path / "other", 100, 2, name_prefix="eval").close()  # nothing trains there
    assert [row["step"] for row in tm.load(tmp_path / "other")] == [100, 200]


def test_the_score_of_a_run_is_of_its_last_evaluation(tmp_path):
    training, evaluation = (
        tm.gym.RecordEpisodes(CountingEnv({"length": length}), tmp_path / "run", name_prefix=prefix)
        for length, prefix in ((5, "train"), (9, "eval"))
    )
    returns = []
    for _ in range(3):
        play(training, 1)
        returns.append([episode_return for seed in (1, 2) for episode_return, _ in play(evaluation, 1, seed=seed)])
        evaluation.env.unwrapped.length += 7  # the policy has become another one
    training.close()
    evaluation.close()
    catalog = tm.load(tmp_path)
    assert catalog.scores.label == "mean evaluation return"
    assert catalog.scores.values == [pytest.approx(np.mean(returns[-1]))]
    curve = catalog.trials[0].curves()["metrics"]["evaluation/episode_return_mean"]
    assert [value for value in curve if value is not None] == pytest.approx(np.mean(returns, axis=1).tolist())
    last = catalog.trials[0].loop_episodes().last("evaluation")
    assert sorted(last["episode_return"].to_pylist()) == pytest.approx(sorted(returns[-1]))


def test_values_of_the_steps_and_success_are_metrics_of_a_run(tmp_path):
    env = tm.gym.RecordEpisodes(CountingEnv({"length": 4}), tmp_path / "run", success=lambda record: record.seed == 1)
    for seed in (0, 1, 1, 1):
        play(env, 1, seed=seed)
    env.close()
    catalog = tm.load(tmp_path)
    assert catalog.trials[0].last_metrics["custom_metrics/success_rate"] == 0.75
    assert "0.75" in command("list", tmp_path)


def test_the_steps_of_a_run_are_kept_if_they_are_asked_for(tmp_path):
    record(tmp_path / "run", trajectories=True, episode_trigger=tm.selection.every(2)).close()
    trial = tm.load(tmp_path).trials[0]
    assert [len(episode_details(trial, line)["steps"]["action"]) for line in trial.lines] == [4, 4]


def test_an_unfinished_episode_has_no_return(tmp_path, caplog):
    env = record(tmp_path / "run", 9, episodes=1)
    env.reset(seed=7)
    env.step(0)
    env.close()
    last = tm.load(tmp_path)[-1]
    assert "unfinished" in last["path"]
    assert last.get("episode_return") is None
    assert last["seed"] == 7
    assert len(tm.load(tmp_path).episodes()) == 1
    for report in (tmp_path / "run" / "episode_data").iterdir():
        report.write_bytes(b"broken")  # none is read for it: a long run has hundreds
    trial = tm.load(tmp_path).trials[0]
    assert episode_details(trial, trial.lines[-1])["record"]["seed"] == 7
    assert "cannot read the episodes" not in caplog.text
    assert episode_details(trial, trial.lines[0])["series"] == {}
    assert "cannot read the episodes" in caplog.text


def test_clips_of_a_fixed_length_are_listed_without_a_return(tmp_path):
    record(tmp_path / "run", step_trigger=lambda step: step % 5 == 0, video_length=2).close()
    rows = list(tm.load(tmp_path))
    assert [row["path"] for row in rows] == ["rl-video-step-0.mp4", "rl-video-step-5.mp4", "rl-video-step-10.mp4"]
    assert [row.get("episode_return") for row in rows] == [None] * 3
    assert len(tm.load(tmp_path).episodes()) == 4


@pytest.fixture
def moviepy(monkeypatch):
    """MoviePy, or what encodes the same: the names of the files are the recorders' own in any case."""

    class ImageSequenceClip:
        def __init__(self, frames, fps):
            self.clip = tm.Video(frames, fps=fps)

        def write_videofile(self, path, **options):
            Path(path).write_bytes(self.clip.data)

    if importlib.util.find_spec("moviepy") is None:
        for name in ("moviepy", "moviepy.video", "moviepy.video.io", "moviepy.video.io.ImageSequenceClip"):
            monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
        sys.modules["moviepy.video.io.ImageSequenceClip"].ImageSequenceClip = ImageSequenceClip


def record_video(folder, episodes=3, **options):
    env = gym.wrappers.RecordVideo(CountingEnv({"length": 4}), str(folder), disable_logger=True, **options)
    for _ in range(episodes):
        env.reset()
        while not any(env.step(0)[2:4]):
            pass
    env.close()


def facts(catalog):
    return [(row["trial"], row["section"], row["step"], row["path"], row["frames"]) for row in catalog]


def test_clips_of_gymnasiums_recorder_open(tmp_path, moviepy):
    record_video(tmp_path / "videos", episode_trigger=lambda episode: episode != 1)
    catalog = tm.load(tmp_path / "videos")
    assert facts(catalog) == [
        ("videos", "train", 0, "rl-video-episode-0.mp4", 5),
        ("videos", "train", 2, "rl-video-episode-2.mp4", 5),
    ]
    record_video(tmp_path / "more", name_prefix="eval", step_trigger=lambda step: step == 4, video_length=2)
    assert facts(tm.load(tmp_path))[0] == ("more", "evaluation", 4, "eval-step-4.mp4", 3)


def test_clips_of_stable_baselines_recorder_open(tmp_path, moviepy):
    vec_env = pytest.importorskip("stable_baselines3.common.vec_env")
    inner = vec_env.DummyVecEnv([lambda: CountingEnv({"length": 4})])
    options = {"video_length": 3, "name_prefix": "ppo-Counting-v0"}
    env = vec_env.VecVideoRecorder(inner, str(tmp_path / "videos"), lambda step: step % 10 == 0, **options)
    env.reset()
    for _ in range(16):
        env.step([0])
    env.close()
    catalog = tm.load(tmp_path / "videos")
    assert [(row["step"], row["path"]) for row in catalog] == [
        (0, "ppo-Counting-v0-step-0-to-step-3.mp4"),
        (10, "ppo-Counting-v0-step-10-to-step-13.mp4"),
    ]


def test_a_run_in_the_folder_of_cleanrls_clips_has_the_seed_of_its_name(tmp_path):
    record(tmp_path / "videos" / "ALE" / "Pong-v5__ppo__3__1764000003").close()  # the wrapper in place of RecordVideo
    (trial,) = tm.load(tmp_path).trials
    assert (trial.config["env_id"], trial.config["seed"]) == ("Pong-v5", 3)


def test_params_beside_bare_clips_are_their_hyperparameters(tmp_path, moviepy):
    for name in ("a", "b"):
        record_video(tmp_path / name, 1)
        (tmp_path / name / "params.json").write_text(json.dumps({"lr": name}))
    assert [(row["trial"], row["params"]) for row in tm.load(tmp_path)] == [("a", {"lr": "a"}), ("b", {"lr": "b"})]


def test_a_clip_that_is_written_over_is_shown_anew(tmp_path, moviepy):
    record_video(tmp_path / "videos", 1)
    trials = Trials([LogDirectory.of(str(tmp_path / "videos"))])
    (trial,) = trials.all(max_age=0)
    first = trial.lines[0]
    (tmp_path / "videos" / first["path"]).write_bytes(b"half a clip")
    (same,) = trials.all(max_age=0)
    assert same is trial
    assert same.lines[0]["bytes"] == 11
    assert "no video" in same.lines[0]["note"]
    answer = Client(ViewerApp(trials, "")).get(f"/media/{trial.id}/{first['path']}")
    assert answer.data == b"half a clip"
    assert answer.headers["Cache-Control"] == "no-cache"


def test_a_recorder_that_begins_in_a_folder_of_bare_clips_lists_its_own(tmp_path, moviepy):
    record_video(tmp_path / "videos", 1)
    trials = Trials([LogDirectory.of(str(tmp_path))])
    assert trials.all(max_age=0)[0].run is not None
    record(tmp_path / "videos", episodes=2).close()
    (trial,) = trials.all(max_age=0)
    assert [line["episode_length"] for line in trial.lines] == [3, 3]
    assert trial.run is None


def test_clips_that_lie_beside_tunes_files_are_no_trial(tmp_path):
    clip = tm.Video(np.zeros((2, 16, 16, 3), np.uint8)).data
    for number in range(2):
        write_trial(tmp_path / "exp" / f"trial_{number}", number)
        (tmp_path / "exp" / f"trial_{number}" / "rl-video-episode-0.mp4").write_bytes(clip)
    before = facts(tm.load(tmp_path / "exp"))
    for folder in (tmp_path / "exp", tmp_path / "exp" / "trial_0" / "videos"):
        folder.mkdir(exist_ok=True)
        (folder / "rl-video-episode-0.mp4").write_bytes(clip)
    (tmp_path / "exp" / "tuner.pkl").write_bytes(b"")
    (tmp_path / "exp" / "trial_2").mkdir()  # one without media
    for name in ("result.json", "params.json", "rl-video-episode-0.mp4"):
        (tmp_path / "exp" / "trial_2" / name).write_bytes(clip if name.endswith("4") else b"{}")
    assert facts(tm.load(tmp_path / "exp")) == before
    for root in (tmp_path, tmp_path / "exp"):
        found = Trials([LogDirectory.of(str(root))]).all()
        assert [trial.path.rpartition("/")[2] for trial in found] == ["trial_0", "trial_1", "trial_2"]
        assert len(found[2].media) == 0


@pytest.mark.parametrize("name", ["rl-video-episode-0.avi", ".a.mp4", "a.mp4.part", "results.csv"])
def test_a_folder_without_anything_known_says_what_was_looked_for(tmp_path, name):
    (tmp_path / "some").mkdir()
    (tmp_path / "some" / name).write_bytes(b"")
    for folder in (tmp_path, tmp_path / "some"):
        with pytest.raises(ValueError, match=r"trials of Ray Tune, or clips of another recorder \(\.mp4"):
            tm.load(folder)
        with pytest.raises(ValueError, match=r"or the folder of the clips\. If its sweep starts later, pass --wait"):
            make_watch_server(str(folder))


@pytest.mark.parametrize("opens", [tm.load, lambda folder: Trials([LogDirectory(folder)]).all()], ids=["load", "watch"])
def test_a_deep_folder_of_other_files_is_listed_to_a_bounded_depth(tmp_path, opens):
    for number in range(2**7):
        names = [str(number // 2**digit % 2) for digit in range(7)]
        (tmp_path.joinpath(*names)).mkdir(parents=True)
        (tmp_path.joinpath(*names) / "holiday.mp4").write_bytes(b"")
    storage = RefusingStorage()
    folder = on(storage, tmp_path)
    try:
        assert list(opens(folder) if opens is not tm.load else tm.load(folder.path, folder.filesystem)) == []
    except ValueError as error:
        assert "is not an experiment" in str(error)
    depths = {len(path.removeprefix(str(tmp_path)).strip("/").split("/")) for path in storage.listed}
    assert max(depths) == 6
