import copy
import os
import re

import tune_media as tm
from tests.support.envs import CountingEnv
from tests.support.experiment import read_clip
from tests.support.loops import names, play
from tune_media.gym import video_folder


def test_nothing_is_written_over(tmp_path):
    for _ in range(2):
        env = tm.gym.RecordEpisodes(CountingEnv(), tmp_path)
        play(env, 1)
        env.close()
    first, second = names(tmp_path)
    assert re.fullmatch(r"rl-video-episode-0-[0-9a-f]{12}\.mp4", first)
    assert second == "rl-video-episode-0.mp4"


def test_unfinished_episodes_are_marked(tmp_path):
    env = tm.gym.RecordEpisodes(CountingEnv({"length": 9}), tmp_path, keep="all")
    env.reset()
    env.step(0)
    env.reset()  # in mid-episode
    env.step(0)
    env.step(0)
    env.close()
    assert names(tmp_path) == ["rl-video-episode-0-unfinished.mp4", "rl-video-episode-1-unfinished.mp4"]
    assert [count.step for count in read_clip(tmp_path / "rl-video-episode-1-unfinished.mp4")] == [0, 1, 2]
    assert env.take() == {"num_abandoned": 1}  # half an episode is neither best nor worst


def test_views_with_slashes_become_file_names(tmp_path):
    env = tm.gym.RecordEpisodes(CountingEnv(), tmp_path, frame={"cam": lambda env: {"a/b": env.unwrapped.render()}})
    play(env, 1)
    env.close()
    assert names(tmp_path) == ["rl-video-episode-0-cam_a_b.mp4"]


def test_episodes_that_cannot_be_written_are_written_later(tmp_path, caplog):
    (tmp_path / "episode_data").write_text("in the way")
    env = tm.gym.RecordEpisodes(CountingEnv(), tmp_path)
    play(env, 2)
    (text,) = caplog.messages
    assert re.search(
        r"they are tried again with later ones: saving the data of episodes raised NotADirectoryError", text
    )
    assert len(names(tmp_path)) == 3
    (tmp_path / "episode_data").unlink()
    env.close()
    assert len(tm.load(tmp_path).episodes()) == 2


def test_a_copy_of_a_wrapper_writes_its_own_episodes_only(tmp_path):
    env = tm.gym.RecordEpisodes(CountingEnv(), tmp_path)
    play(env, 3)
    other = copy.deepcopy(env)
    play(other, 2)
    other.close()
    env.close()
    episodes = tm.load(tmp_path).episodes()
    assert len(episodes) == 5
    assert episodes["episode_id"].is_unique


def test_a_forked_process_writes_its_own_episodes_only(tmp_path):
    env = tm.gym.RecordEpisodes(CountingEnv(), tmp_path, episode_trigger=lambda episode: False)
    play(env, 3)
    child = os.fork()
    if child == 0:
        try:
            play(env, 2)
            env.close()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    env.close()
    episodes = tm.load(tmp_path).episodes()
    assert len(episodes) == 5
    assert episodes["episode_id"].is_unique


def test_a_folder_of_an_earlier_run_is_told_of_once(tmp_path, caplog, monkeypatch):
    monkeypatch.setattr(video_folder, "_STEPS", {})  # as in a new process
    play(env := tm.gym.RecordEpisodes(CountingEnv(), tmp_path), 1)
    env.close()
    tm.gym.RecordEpisodes(CountingEnv(), tmp_path, name_prefix="eval")  # of the same run
    assert "earlier run" not in caplog.text
    monkeypatch.setattr(video_folder, "_STEPS", {})
    for _ in range(2):
        tm.gym.RecordEpisodes(CountingEnv(), tmp_path)
    assert caplog.text.count("has episodes of an earlier run") == 1


def test_a_folder_that_is_gone_costs_its_files_and_nothing_else(tmp_path, caplog):
    env = tm.gym.RecordEpisodes(CountingEnv(), tmp_path / "clips", keep="all")
    (tmp_path / "clips").rmdir()
    play(env, 2)
    env.reset()
    env.step(0)
    env.reset()
    assert len(env.take()["all"]) == 2
    env.close()
    assert "FileNotFoundError" in caplog.text
