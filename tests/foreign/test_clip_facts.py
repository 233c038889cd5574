"""The facts of clips of other tools: in their names, in files beside them, and in LeRobot's evaluations."""

import json
from pathlib import Path

import numpy as np
import pyarrow.fs
import pytest

import tune_media as tm
from tune_media.foreign.reading import read_run
from tune_media.foreign.run_files import RunFiles

DATA = Path(__file__).parents[1] / "data" / "foreign"
CLIP = tm.Video(np.zeros((3, 16, 16, 3), np.uint8), fps=10).data
FACTS = ("episode_return", "seed", "success", "step")


def written(folder, *clips, **files):
    """Write clips, and JSON or text by names whose ``__`` stands for a dot."""
    for clip in clips:
        (folder / clip).parent.mkdir(parents=True, exist_ok=True)
        (folder / clip).write_bytes(CLIP)
    for name, content in files.items():
        path = folder / name.replace("__", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def read(folder, **columns):
    filesystem = pyarrow.fs.LocalFileSystem()
    found = filesystem.get_file_info(pyarrow.fs.FileSelector(str(folder), recursive=True))
    infos = {info.path[len(str(folder)) + 1 :]: info for info in found if info.is_file}
    return read_run(RunFiles(filesystem, str(folder), infos), columns)


def facts(run):
    """Return the facts of each clip, by its path, with its section."""
    named = {line.path: {name: line.facts[name] for name in FACTS if name in line.facts} for line in run.lines}
    return {line.path: {"section": line.section, **named[line.path]} for line in run.lines}


def first(run):
    (of_clip,) = facts(run).values()
    del of_clip["section"]
    return of_clip


NAMES = {
    "episode_3_return_11.0_seed_2.mp4": {"episode_return": 11.0, "seed": 2},
    "eval-ep-3-return-11.mp4": {"episode_return": 11.0},
    "ep=3_return=-2.5e1_success=True.mp4": {"episode_return": -25.0, "success": True},
    "2026_01_01-12_00_00--episode=3--success=False--task=put_the_cup.mp4": {"success": False},
    "rollout_put_the_cup_success.mp4": {"success": True},
    "rollout_put_the_cup_failure.mp4": {"success": False},
    "ep_3_success=1.mp4": {"success": True},
    "step_2000.mp4": {"step": 2000},
    "epoch=3-step=1000.mp4": {"step": 1000},
    "step_000004000-return_231-0123456789ab.mp4": {"episode_return": 231.0, "step": 4000},
    "rl-video-episode-3.mp4": {"step": 3},
    "rl-video-env-1-step-2000-to-step-3000.mp4": {"step": 2000},
    # numbers whose place does not say what they are
    "episode_3.mp4": {},
    "success_0.mp4": {},  # the first that succeeded
    "3.mp4": {},
    "ep_3_return-11.mp4": {},  # minus 11, or 11
    "return_11_5.mp4": {},  # 11, or 11.5
    "mean_return_11.mp4": {},
    "best_episode_return_11.mp4": {},
    "reward_11.mp4": {},
    "return_1_vs_return_2.mp4": {},
    "step_2000k.mp4": {},
    "max_steps_200_num_step_5.mp4": {},
    "Walker2d-v4.mp4": {},
}


@pytest.mark.parametrize("name", NAMES)
def test_a_number_in_a_name_counts_behind_the_name_of_a_fact(tmp_path, name):
    assert first(read(written(tmp_path / "run", name))) == NAMES[name]


def test_a_word_in_names_may_be_the_return_only_if_it_is_named(tmp_path):
    run = written(tmp_path / "run", "ep_1_reward_11.mp4", "ep_2_reward_-3.mp4")
    (sentence,) = read(run).not_understood
    assert sentence.startswith("the name of ep_1_reward_11.mp4 and of 1 more clips: the number behind 'reward' may")
    assert "--columns, as in return=reward" in sentence.with_options({"columns": "--columns"})
    named = read(run, **{"return": "reward"})
    assert [line.facts["episode_return"] for line in named.lines] == [11, -3]
    assert named.not_understood == [] and "reward" in named.columns


PLACES = {
    "eval/videos_step_005000/pusht_0/eval_episode_1.mp4": {"section": "evaluation", "step": 5000},
    "videos/eval_episode_1.mp4": {"section": "evaluation"},
    "videos/train/rl-video-step-2000.mp4": {"section": "train", "step": 2000},
    "videos/play/rl-video-step-0.mp4": {"section": "evaluation", "step": 0},
    "artifacts/media/evaluation/episodes/best/step_000000004-0123456789ab.mp4": {"section": "evaluation", "step": 4},
    "artifacts/videos/step_10/a.mp4": {"section": "train", "step": 10},
    "files/media/videos/eval/video_150_80f93e8c7d0e1e083e6a.mp4": {"section": "evaluation"},  # W&B: of another row
    "scope/report-openloop.mp4/00000000000000012000-65a1b2c3d4e5f607.mp4": {"section": "train", "step": 12000},
    "test_videos/0.mp4": {"section": "evaluation"},
}


@pytest.mark.parametrize("place", PLACES)
def test_folders_say_section_and_step(tmp_path, place):
    run = read(written(tmp_path / "run", place))
    assert facts(run) == {place: PLACES[place]}


def test_a_folder_of_trackios_media_is_its_step_and_no_other_folder_is(tmp_path):
    written(tmp_path / "media" / "project" / "run", "40/f0.mp4")
    written(tmp_path / "runs" / "project" / "run", "40/f0.mp4")
    assert first(read(tmp_path / "media" / "project" / "run")) == {"step": 40}
    assert first(read(tmp_path / "runs" / "project" / "run")) == {}


def test_a_name_that_is_a_number_is_a_step_beside_the_scalars_of_tools_that_write_such_names(tmp_path):
    dreamer = written(tmp_path / "dreamer", "000000012000.mp4", scores__jsonl='{"step": 1, "episode/score": 2}\n')
    torchrl = written(tmp_path / "torchrl", "videos/eval/pixels_300.mp4", **{"scalars/reward__csv": "0,1.0\n"})
    assert first(read(dreamer)) == {"step": 12000}
    assert first(read(torchrl)) == {"step": 300}


def test_a_json_file_beside_a_clip_is_of_this_clip(tmp_path):
    run = written(
        tmp_path / "run",
        *("a.mp4", "b.mp4", "c.mp4", "rl-video-episode-8.mp4"),
        a__json={"return": 1.5, "seed": 7, "best": {"return": 9}},
        b__json={"episode": {"r": 2.5, "l": 9}, "success": 1},
        c__json=[{"step": 0, "return": 4}],
        **{"rl-video-episode-8__meta__json": {"step_id": 1600, "episode_id": 8, "content_type": "video/mp4"}},
    )
    found = facts(read(run))
    assert read(run).lines[0].facts["columns"] == "return=return, seed=seed of its JSON file"  # the same for all
    assert found["a.mp4"] == {"section": "train", "episode_return": 1.5, "seed": 7}
    assert found["b.mp4"] == {"section": "train", "episode_return": 2.5, "success": True}
    assert found["c.mp4"] == {"section": "train"}
    assert found["rl-video-episode-8.mp4"] == {"section": "train", "step": 1600}


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_table_may_have_other_separators(tmp_path, delimiter):
    rows = "file,return,seed\na.mp4,1.5,7\n".replace(",", delimiter)
    assert first(read(written(tmp_path / "run", "a.mp4", t__csv=rows))) == {"episode_return": 1.5, "seed": 7}


def test_a_table_is_believed_more_than_a_name(tmp_path):
    run = written(tmp_path / "run", "a_return_11_seed_2.mp4", t__csv="file,return\na_return_11_seed_2.mp4,11.02\n")
    (line,) = read(run).lines
    assert (line.facts["episode_return"], line.facts["seed"]) == (11.02, 2)
    assert line.facts["columns"] == "return=return of t.csv"


def test_a_table_without_a_known_return_says_how_to_name_it(tmp_path):
    many = {f"{name}__json": {"score": 3, "length": 2} for name in "ab"}
    run = written(tmp_path / "run", "a.mp4", "b.mp4", t__csv="file,seed,score,reward\na.mp4,1,3,4\n", **many)
    sentences = read(run).not_understood
    assert [sentence.with_options({"columns": "--columns"}) for sentence in sentences] == [
        "a.json and 1 more files: no column for a return (score); name it in --columns, as in return=NAME.",
        "t.csv: no column for a return (reward, score); name it in --columns, as in return=NAME.",
    ]
    assert read(run, **{"return": "score"}).not_understood == []
    assert read(written(tmp_path / "of_files", "a.mp4", a__json={"fps": 30, "size": 9})).not_understood == []


# As LeRobot's writer makes them
OLD = {
    "per_episode": [
        {"episode_ix": 0, "sum_reward": 10.5, "max_reward": 1.0, "success": True, "seed": 1000},
        {"episode_ix": 1, "sum_reward": 3.0, "max_reward": 0.5, "success": False, "seed": 1001},
        {"episode_ix": 2, "sum_reward": 4.0, "max_reward": 0.6, "success": False, "seed": 1002},
    ],
    "aggregated": {"avg_sum_reward": 5.8, "avg_max_reward": 0.7, "pc_success": 33.3, "eval_s": 9.0, "eval_ep_s": 3.0},
    "video_paths": [f"outputs/eval/2025-01-01/12-00-00_pusht/videos/eval_episode_{n}.mp4" for n in range(2)],
}


def real(name):
    """Return the runs in a folder that the real tool has written."""
    return {trial.name.rpartition("/")[2]: trial for trial in tm.load(DATA / name).trials}


@pytest.mark.parametrize("name", ["lerobot_eval", "lerobot_eval_old"])
def test_files_of_lerobots_writer_give_each_clip_the_numbers_of_its_episode(name):
    for trial in real(name).values():
        info = json.loads((Path(trial.path) / "eval_info.json").read_text())
        lists = [task["metrics"] for task in info.get("per_task", ())]
        returns = [number for task in lists for number in task["sum_rewards"][: len(task["video_paths"])]]
        returns = returns or [each["sum_reward"] for each in info["per_episode"]][: len(info["video_paths"])]
        assert [line["episode_return"] for line in trial.lines] == returns
        assert len(trial.run.episodes) == info.get("overall", {"n_episodes": 4})["n_episodes"]
        average = info.get("overall", info.get("aggregated"))["avg_sum_reward"]
        assert trial.last_metrics["evaluation/episode_return_mean"] == pytest.approx(average)
        if name == "lerobot_eval_old":  # the folder of the clips, given alone
            assert [row["episode_return"] for row in tm.load(Path(trial.path) / "videos")] == returns


def test_files_of_other_tools_give_clips_their_steps():
    steps = {
        "wandb_offline": {8, 16, 24},
        "wandb_online": {8, 16, 24},
        "mlflow_files": {8, 16, 24},
        "trackio": {8, 16, 24},
        "torchrl_csv": {8, 32},
        "dreamerv3": {8, 16, 24, 32},
        "lerobot_train": {10, 20},
    }
    assert {name: {row["step"] for row in tm.load(DATA / name)} for name in steps} == steps
    seeds = {row["trial"].rpartition("/")[2]: row["seed"] for row in tm.load(DATA / "lerobot_train")}
    assert seeds == {"14-01-00_toy_act": 1, "14-02-00_toy_act": 2}


def of_task(name, returns, videos):
    successes = [number > 1 for number in returns]
    lists = {"sum_rewards": returns, "max_rewards": returns, "successes": successes, "video_paths": videos}
    return {"task_group": name.rpartition("_")[0], "task_id": int(name[-1]), "metrics": lists}


def new(folder):
    tasks = {"lift_0": [1.0, 2.0], "lift_1": [3.0, float("nan")]}
    videos = {task: [f"{folder}/{task}/eval_episode_{n}.mp4" for n in range(2)] for task in tasks}
    overall = {
        "avg_sum_reward": 2.0,
        "n_episodes": 4,
        "video_paths": [path for task in videos.values() for path in task],
    }
    per_task = [of_task(task, returns, videos[task]) for task, returns in tasks.items()]
    return {"per_task": per_task, "per_group": {"lift": overall}, "overall": overall}


@pytest.mark.parametrize("place", ["", "videos/"])
def test_lerobots_episodes_of_until_september_2025(tmp_path, place):
    clips = [f"videos/eval_episode_{n}.mp4" for n in range(2)]
    run = read(written(tmp_path / "renamed", *clips, **{f"{place}eval_info__json": OLD}))
    assert facts(run) == {
        clips[0]: {"section": "evaluation", "episode_return": 10.5, "seed": 1000, "success": True},
        clips[1]: {"section": "evaluation", "episode_return": 3.0, "seed": 1001, "success": False},
    }
    assert [(episode.episode_return, episode.seed, episode.success) for episode in run.episodes] == [
        (10.5, 1000, True),
        (3.0, 1001, False),
        (4.0, 1002, False),  # no clip shows it
    ]
    assert {episode.section for episode in run.episodes} == {"evaluation"}
    assert [dict(episode.metrics) for episode in run.episodes][1] == {"max_reward": 0.5}
    assert run.return_from == ("sum_reward", "steps") and run.not_understood == []


def test_lerobots_episodes_by_task(tmp_path):
    clips = [f"videos/lift_{task}/eval_episode_{n}.mp4" for task in range(2) for n in range(2)]
    run = read(written(tmp_path / "run", *clips, eval_info__json=new("/elsewhere/run/videos")))
    found = facts(run)
    assert [found[clip].get("episode_return") for clip in clips] == [1.0, 2.0, 3.0, None]
    assert [found[clip].get("success") for clip in clips] == [False, True, True, False]
    assert [episode.episode_return for episode in run.episodes] == [1.0, 2.0, 3.0, None]
    assert run.not_understood == []


def test_evaluations_of_lerobots_training_have_its_steps_and_seeds(tmp_path):
    steps, names = ("005000", "010000"), ("eval_episode_0.mp4", "eval_episode_1.mp4")
    clips = [f"eval/videos_step_{step}/lift_0/{name}" for step in steps for name in names]
    info = {f"eval/videos_step_{step}/eval_info__json": new(f"out/eval/videos_step_{step}") for step in steps}
    config = {"train_config__json": {"seed": 7, "env": {"type": "pusht", "task": "PushT-v0"}}}
    trained = read(written(tmp_path / "trained", *clips, **config))
    assert [(line.facts["step"], line.facts["seed"]) for line in trained.lines] == [
        (5000, 7),
        (5000, 8),
        (10000, 7),
        (10000, 8),
    ]
    assert (trained.env_id, trained.config["seed"]) == ("PushT-v0", 7)
    told = read(written(tmp_path / "told", *clips, **info))
    assert [line.facts.get("episode_return") for line in told.lines] == [1.0, 2.0] * 2
    assert [episode.step for episode in told.episodes] == [5000] * 4 + [10000] * 4


def test_an_evaluation_of_another_folder_gives_no_numbers(tmp_path):
    clips = ["videos/lift_0/eval_episode_0.mp4"]
    other = read(written(tmp_path / "other", *clips, eval_info__json=new("/run/videos_step_5")))
    assert "episode_return" not in facts(other)[clips[0]]


def test_the_trajectory_beside_the_only_clip_of_its_folder_is_of_this_clip(tmp_path):
    told = {"return": 3.5, "success": False, "steps": [{"action": 1}]}
    assert first(read(written(tmp_path / "one", "video.mp4", trajectory__json=told))) == {
        "episode_return": 3.5,
        "success": False,
    }
    two = facts(read(written(tmp_path / "two", "video.mp4", "wrist.mp4", trajectory__json=told)))
    assert not any("episode_return" in of_clip for of_clip in two.values())


def maniskills(count, reset):
    episode = {"control_mode": "pd_joint_pos", "elapsed_steps": 50, "reset_kwargs": reset}
    rows = [
        {"episode_id": n, "episode_seed": [10 + n] if n % 2 else 10 + n, "success": n > 0, **episode}
        for n in range(count)
    ]
    return {"env_info": {"env_id": "PickCube-v1", "max_episode_steps": 50}, "commit_info": None, "episodes": rows}


@pytest.mark.parametrize("name", ["trajectory__json", "20260101_101112__json"])
def test_maniskills_episodes_are_those_of_its_clips_if_one_env_ran(tmp_path, name):
    """As its ``RecordEpisode`` writes them: with several envs, a clip shows all, and resets have no arguments."""
    clips = [f"{number}.mp4" for number in range(11)]
    one = read(written(tmp_path / "one", *clips, **{name: maniskills(11, {"seed": 10, "options": {}})}))
    assert one.env_id == "PickCube-v1"
    assert [(line.path, line.facts["seed"], line.facts["success"]) for line in one.lines][::9] == [
        ("0.mp4", 10, False),
        ("9.mp4", 19, True),
    ]
    assert {(episode.length, episode.section) for episode in one.episodes} == {(50, "evaluation")}
    many = read(written(tmp_path / "many", *clips, **{name: maniskills(11, {})}))
    assert len(many.episodes) == 11 and not any("seed" in line.facts for line in many.lines)
    fewer = read(written(tmp_path / "fewer", *clips[:9], **{name: maniskills(11, {"seed": 10})}))
    assert not any("seed" in line.facts for line in fewer.lines)
