"""A sweep whose episodes keep their tapes; then any of them is rendered: elsewhere, larger, from S3."""

import shutil
import time
from pathlib import Path

import numpy as np
import pyarrow.fs
import pytest
from ray import tune
from ray.experimental import internal_kv

import tune_media as tm
from tests.support.commands import command
from tests.support.experiment import fit
from tests.support.fork_workers import VARIABLE
from tests.support.rllib_configs import built, evaluation, ppo
from tune_media.encoding.decode import decode_video

pytestmark = pytest.mark.usefixtures("ray_session")


def cartpole(recorder, runners, episodes, steps=500):
    """Return PPO on CartPole, small, that evaluates in each iteration."""
    config = ppo(recorder, **evaluation(runners, episodes))
    return config.environment("CartPole-v1", env_config={"render_mode": "rgb_array", "max_episode_steps": steps})


@pytest.fixture(scope="module")
def experiment(ray_session, tmp_path_factory):
    """Two trials of PPO on CartPole, moved to another folder after the sweep."""
    recorder = tm.rllib.record_episodes(sections=("train", "evaluation"), tapes=True, check_frame=False, strict=True)
    config = cartpole(recorder, 1, 4).env_runners(num_envs_per_env_runner=2)
    config.training(lr=tune.grid_search([1e-3, 1e-4]), train_batch_size=200, minibatch_size=100)
    callbacks = [tm.JsonMediaLoggerCallback(media=tm.MediaOptions(strict=True))]
    folder = tmp_path_factory.mktemp("results")
    results = fit("PPO", folder, callbacks, space=config, stop={"training_iteration": 2})
    assert not results.errors
    return Path(shutil.move(results.experiment_path, folder / "elsewhere"))


def frames(content):
    return np.array(list(decode_video(content)))


@pytest.mark.any_ray
def test_every_episode_has_a_tape_and_the_recipes_are_files_of_the_experiment(experiment):
    catalog = tm.load(experiment)
    episodes = catalog.episodes()
    assert set(episodes["section"]) == {"train", "evaluation"}
    assert len(catalog.trials) == 2
    assert (episodes["tape_bytes"] > 0).all()
    assert "tape" not in episodes
    assert (episodes["tape_bytes"] < 1000 + 2 * episodes["episode_length"]).all()
    recipes = {file.stem for file in (experiment / "media_recipes").glob("*.pickle")}
    assert set(episodes["recipe"]) == recipes


@pytest.mark.any_ray
def test_the_clip_of_a_tape_is_the_one_that_was_recorded(experiment):
    catalog = tm.load(experiment)
    rows = list(catalog.clips)
    for row in (rows[0], rows[-1]):  # of the first trial and of the last one, which have envs of their own
        video = catalog.episode(row["episode_id"]).render()
        assert (video.frames, video.episode.episode_return) == (row["frames"], row["episode_return"])
        again, recorded = frames(video.data).astype(int), frames(row.read_bytes()).astype(int)
        # A clip that was encoded beside others has the same frames, and x264 takes other blocks of them.
        assert np.square(again - recorded).mean() < 2.0
        assert not np.array_equal(recorded[0], recorded[-1])


@pytest.mark.any_ray
def test_episodes_that_nobody_chose_are_rendered_by_one_command(experiment, tmp_path):
    output = command(
        "render", experiment, "--trial", "all", "--episodes", "length > 10 and return < 16", "-o", tmp_path / "out"
    )
    catalog = tm.load(experiment).episodes()
    expected = catalog[(catalog["episode_length"] > 10) & (catalog["episode_return"] < 16)]
    files = sorted((tmp_path / "out").rglob("*.mp4"))
    assert len(files) == len(expected) > 2
    assert all(str(file) in output.replace("\n", "") for file in files)


@pytest.mark.any_ray
def test_options_reach_the_clip_and_rllib_is_not_imported(experiment, tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)  # the process starts as it does for users
    frame = "tests.support.tape_frames:without_rllib"
    options = ("--episodes", "worst", "--height", 100, "--every", 2, "--overlay", "return", "--frame", frame)
    command("render", experiment, *options, "-o", tmp_path)
    (file,) = tmp_path.rglob("*.mp4")
    (worst,) = [e for e in tm.load(experiment).taped_episodes() if e.id.startswith(file.stem.rpartition("-")[2])]
    shown = frames(file.read_bytes())
    assert shown.shape[1:] == (100, 150, 3)
    assert len(shown) == 1 + -(-worst.row["episode_length"] // 2)


@pytest.mark.any_ray
def test_another_env_shows_the_same_episode_larger(experiment, tmp_path):
    command("render", experiment, "--episodes", "last", "--env", "tests.support.tape_frames:larger", "-o", tmp_path)
    (file,) = tmp_path.rglob("*.mp4")
    assert frames(file.read_bytes()).shape[1:] == (800, 1200, 3)


@pytest.mark.any_ray
def test_mistakes_are_told(experiment, tmp_path):
    for arguments, text in (
        (("--episodes", "retrn < 3"), "did you mean 'return'?"),
        (("--episodes", "return < -3"), "matches 'return < -3'"),
        (("--episodes", "return less than <"), "the filter needs a value after than<"),
        (("--episodes", "nosuchid"), "'nosuchid' is neither best, worst, last or waiting"),
        (("--trial", "nosuchtrial"), "There is no trial 'nosuchtrial'"),
        (("--env", "tests.support.envs:CountingEnv"), "the env that --env makes does not play this episode"),
        (("--env", "no.such:thing"), "'no.such:thing' names no function"),
        (("--overlay", "score"), "takes names and functions of the step, got 'score'"),
    ):
        code = 1 if text.startswith(("matches", "the env that", "'no.such")) else 2
        assert text in command("render", experiment, *arguments, "-o", tmp_path, code=code)
    assert not list(tmp_path.rglob("*.mp4"))


@pytest.mark.any_ray
def test_an_experiment_on_s3_is_rendered_without_a_cluster(experiment, tmp_path, s3):
    pyarrow.fs.copy_files(str(experiment), f"results/{tmp_path.name}", destination_filesystem=s3)
    command("render", f"s3://results/{tmp_path.name}", "-o", tmp_path)
    assert len(list(tmp_path.rglob("*.mp4"))) == 1


def test_by_default_clips_are_made_of_tapes_once_the_env_is_proven(tmp_path):
    """Returns and lengths are checked against RLlib's own; the clip is rendered when its frames are asked for.

    A checkpoint keeps the proof.
    """
    config = cartpole(tm.rllib.record_episodes(keep="best", strict=True), 1, 2, 60)
    config.training(train_batch_size=32, minibatch_size=32)
    config.reporting(metrics_num_episodes_for_smoothing=2)  # Ray 2.50 mixes evaluations in a window
    with built(config) as algorithm:
        ways = []
        while "replay" not in ways:
            section = algorithm.train()["evaluation"]["env_runners"]
            clip = section["episodes"]["best"]
            ways.append(clip.episode.rendered)
            assert clip.episode.episode_return == section["episode_return_max"]
            assert len(ways) < 500
            time.sleep(0.1)
        assert ways[0] == "direct"
        assert not clip.is_rendered
        assert clip.frames == clip.episode.episode_length + 1 == len(frames(clip.content()))
        algorithm.save_checkpoint(str(tmp_path))
    for key in internal_kv._internal_kv_list(b"", namespace=b"tune_media"):
        if b" verdict " in key:  # as in a new Ray job; the claim of the proof stays, so that nobody proves it again
            internal_kv._internal_kv_del(key, namespace=b"tune_media")
    with built(config.copy(copy_frozen=False)) as algorithm:
        algorithm.load_checkpoint(str(tmp_path))
        clips = [algorithm.train()["evaluation"]["env_runners"]["episodes"]["best"] for _ in range(3)]
        assert [clip.episode.rendered for clip in clips] == ["replay"] * 3
        assert clips[0].frames == clips[0].episode.episode_length + 1
        by_hand = [algorithm.evaluate()["env_runners"]["episodes"] for _ in range(3)]  # Ray 2.50 mixes their numbers
        assert all("best" in found and "problems" not in found for found in by_hand)


def test_trials_of_one_evaluation_make_clips_of_tapes_after_the_first(tmp_path):
    """The first one's result waits for its proof, which would end with the trial."""
    config = cartpole(tm.rllib.record_episodes(keep="best", sections="evaluation", strict=True), 0, 3, 50)
    config.training(lr=tune.grid_search([1e-3, 1e-4]), train_batch_size=32, minibatch_size=32)
    callbacks = [tm.JsonMediaLoggerCallback(media=tm.MediaOptions(strict=True))]
    options = {"stop": {"training_iteration": 1}, "tune_config": {"max_concurrent_trials": 1}}
    assert not fit("PPO", tmp_path, callbacks, space=config, **options).errors
    clips = sorted(tm.load(tmp_path / "exp"), key=lambda clip: clip["time"])
    assert [clip["rendered"] for clip in clips] == ["direct", "replay"]
