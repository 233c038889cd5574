import subprocess
import sys

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers.vector import RecordEpisodeStatistics as RecordVectorEpisodeStatistics

import tune_media as tm
from tests.support.envs import CountingEnv
from tests.support.envs.batch import Batch
from tests.support.experiment import assert_whole_episode, read_clip
from tests.support.loops import names, stepped

VECTORS = {
    "sync": lambda n: gym.vector.SyncVectorEnv([CountingEnv] * n),
    "async": lambda n: gym.vector.AsyncVectorEnv([CountingEnv] * n),
    "batch": Batch,
}


@pytest.mark.parametrize("kind", VECTORS)
def test_each_sub_env_of_a_vector_env_has_its_own_clips_of_every_nth_frame_and_the_last_one(tmp_path, kind):
    video = tm.VideoOptions(every=3)
    env = tm.gym.RecordEpisodes(VECTORS[kind](3), tmp_path, keep="all", env_indices=[0, 2], video=video)
    env.reset(seed=1)
    lengths = {0: [], 1: [], 2: []}
    for _ in range(60):
        *_, infos = env.step(np.zeros(3, int))
        for index in np.flatnonzero(infos.get("_episode", [])):
            lengths[int(index)].append(int(infos["episode"]["l"][index]))
    clips = env.take()["all"]
    env.close()
    assert min(map(len, lengths.values())) >= 2
    assert len(env.length_queue) == sum(map(len, lengths.values()))
    shown = {0: set(), 2: set()}
    for index in shown:
        for n, length in enumerate(lengths[index]):
            counts = read_clip(tmp_path / f"rl-video-env-{index}-episode-{n}.mp4")
            assert [count.step for count in counts] == sorted({*range(0, length + 1, 3), length})
            assert len({count.episode for count in counts}) == 1
            shown[index] |= {count.env for count in counts}
    assert [len(envs) for envs in shown.values()] == [1, 1]
    assert shown[0] != shown[2]
    assert len(clips) == len(lengths[0]) + len(lengths[2])
    assert not list(tmp_path.glob("*env-1-*"))


def test_a_masked_reset_shows_the_last_frames_of_the_episodes_that_it_breaks_off(tmp_path):
    env = gym.vector.SyncVectorEnv([lambda: CountingEnv({"length": 9})] * 2)
    env = tm.gym.RecordEpisodes(env, tmp_path, video=tm.VideoOptions(every=3))
    stepped(env, 5)
    stepped(env, 4, options={"reset_mask": np.array([False, True])})
    env.close()
    shown = {name: [count.step for count in read_clip(tmp_path / name)] for name in names(tmp_path)}
    assert shown == {
        "rl-video-env-0-episode-0.mp4": [0, 3, 6, 9],
        "rl-video-env-1-episode-0-unfinished.mp4": [0, 3, 5],
        "rl-video-env-1-episode-1-unfinished.mp4": [0, 3, 4],
    }


def taken_after_resets_in_the_same_step(**options):
    vector = gym.vector.SyncVectorEnv([CountingEnv] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
    env = tm.gym.RecordEpisodes(vector, keep="all", **options)
    stepped(env, 30)
    taken = env.take()
    env.close()
    assert len(taken["all"]) >= 2
    return taken


@pytest.mark.parametrize("options", [{"video": None}, {"render": "replay", "env_fn": CountingEnv}])
def test_no_frame_is_said_to_be_missing_if_none_was_recorded_while_the_episode_ran(options):
    episodes = taken_after_resets_in_the_same_step(**options)["data"].episodes
    assert not any("final frame" in (episode.record.note or "") for episode in episodes)


@pytest.mark.parametrize("every", [1, 3])
def test_a_vector_env_that_resets_in_the_same_step_shows_no_frame_of_the_next_episode(every):
    for clip in taken_after_resets_in_the_same_step(video=tm.VideoOptions(every=every))["all"]:
        assert "final frame is missing" in clip.note
        counts = read_clip(clip)
        assert [count.step for count in counts] == list(range(0, clip.episode.episode_length, every))
        assert len({count.episode for count in counts}) == 1


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_masked_resets_one_after_the_other_show_each_new_episode(tmp_path, kind):
    make = {"sync": gym.vector.SyncVectorEnv, "async": gym.vector.AsyncVectorEnv}[kind]
    vector = make([lambda: CountingEnv({"length": 5})] * 3, autoreset_mode=AutoresetMode.DISABLED)
    env = tm.gym.RecordEpisodes(vector, tmp_path)
    env.reset()
    for _ in range(3):
        for _ in range(5):
            env.step(np.zeros(3, int))
        for index in range(3):
            env.reset(options={"reset_mask": np.arange(3) == index})
    env.close()
    assert len(names(tmp_path)) == 9  # and no unfinished ones: none has made a step
    for name in names(tmp_path):
        assert assert_whole_episode(tmp_path / name, 5).episode == int(name[-5])


def test_a_frame_function_that_cannot_reach_its_env_names_the_remedy():
    vector = gym.vector.AsyncVectorEnv([CountingEnv] * 2)
    try:
        with pytest.raises(ValueError, match="name of a method"):
            tm.gym.RecordEpisodes(vector, frame=lambda env: env.render())
    finally:
        vector.close()


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_gymnasiums_vector_statistics_can_stand_outside(mode):
    env = gym.vector.SyncVectorEnv([CountingEnv] * 2, autoreset_mode=mode)
    env = RecordVectorEpisodeStatistics(tm.gym.RecordEpisodes(env, statistics=False))
    stepped(env, 40)
    assert len(env.length_queue) == len(env.env.length_queue) >= 2
    if mode is AutoresetMode.NEXT_STEP:  # in the other mode, Gymnasium 1.2 misses a step of each later episode
        assert list(env.length_queue) == list(env.env.length_queue)


def test_sub_envs_with_wrappers_of_another_depth_are_all_recorded():
    class Deaf(gym.Wrapper):
        """Its render takes an argument, so that frames come from the env inside it."""

        def render(self, mode):
            raise AssertionError("not reached")

    make = [lambda: Deaf(CountingEnv()), CountingEnv, lambda: Deaf(Deaf(CountingEnv()))]
    env = tm.gym.RecordEpisodes(gym.vector.SyncVectorEnv(make), keep="all", strict=True)
    stepped(env, 30)
    assert {clip.episode.env_index for clip in env.take()["all"]} == {0, 1, 2}


def test_seeds_of_sub_envs_stand_in_their_records():
    env = tm.gym.RecordEpisodes(
        gym.vector.SyncVectorEnv([lambda: CountingEnv({"length": 2})] * 3), keep="all", video=None
    )
    for seed in (5, [7, None, 9]):
        stepped(env, 2, seed=seed)
    records = env.take()["all"]
    assert [record.seed for record in records if record.env_index == 0] == [5, 7]
    assert [record.seed for record in records if record.env_index == 2] == [7, 9]


@pytest.mark.parametrize(("seed", "recorded"), [(5, [None, None]), ([7, 9], [7, 9])])
def test_a_batch_is_not_said_to_have_used_seeds_that_it_may_not_know(seed, recorded):
    env = tm.gym.RecordEpisodes(Batch(2, {"length": 2}), keep="all", video=None)
    stepped(env, 2, seed=seed)
    assert [record.seed for record in env.take()["all"]] == recorded


def test_statistics_so_far_are_arrays():
    env = tm.gym.RecordVectorEpisodes(Batch(3, {"length": 9}), video=None)
    env.reset()
    env.step(np.zeros(3, int))
    assert env.episode_lengths.tolist() == [1, 1, 1]
    assert env.episode_returns.shape == (3,)
    assert (env.episode_count, env.recording) == (0, False)


def test_infos_that_are_a_list_get_statistics_too():
    class Listed(Batch):
        def step(self, actions):
            *rest, _ = super().step(actions)
            return *rest, [{"speed": 1.0} for _ in range(self.num_envs)]

    env = tm.gym.RecordEpisodes(Listed(2, {"length": 2}), video=None)
    env.reset()
    env.step(np.zeros(2, int))
    *_, infos = env.step(np.zeros(2, int))
    assert [info["episode"]["l"] for info in infos] == [2, 2]


def lengths_of_episodes(env, steps=60):
    """Return the recorded lengths of each sub-env."""
    stepped(env, steps, seed=1)
    records = [episode.record for episode in env.take()["data"].episodes]
    return [[record.episode_length for record in records if record.env_index == i] for i in range(env.num_envs)]


@pytest.mark.parametrize("kind", [gym.vector.SyncVectorEnv, gym.vector.AsyncVectorEnv])
@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_another_vector_env_of_the_same_class_does_not_change_the_autoreset_mode(kind, mode):
    """Gymnasium keeps the mode in the metadata of the sub-env's class, too, where the last vector env wins."""
    env = kind([lambda n=n: CountingEnv({"length": n}) for n in (5, 9)], autoreset_mode=mode)
    other = AutoresetMode.SAME_STEP if mode is AutoresetMode.NEXT_STEP else AutoresetMode.NEXT_STEP
    gym.vector.SyncVectorEnv([CountingEnv], autoreset_mode=other).close()
    env = tm.gym.RecordEpisodes(
        gym.wrappers.vector.VectorizeTransformReward(env, gym.wrappers.TransformReward, func=float), video=None
    )
    try:
        short, long = lengths_of_episodes(env)
    finally:
        env.close()
    assert (set(short), set(long)) == ({5}, {9})
    assert len(short) == (12 if mode is AutoresetMode.SAME_STEP else 10)


class ResetsInTheSameStep(Batch):
    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def step(self, actions):
        observations, rewards, over, truncated, infos = super().step(actions)
        if over.any():
            final = observations.copy()
            for index in np.flatnonzero(over):
                observations[index] = self.members[index].reset()[0]
            infos = {**infos, "final_obs": final, "_final_obs": over}
        self.over[:] = False
        return observations, rewards, over, truncated, infos


@pytest.mark.parametrize(
    ("batch", "stated", "said"),
    [
        (Batch, AutoresetMode.NEXT_STEP, None),
        (Batch, "NextStep", None),
        (Batch, None, "does not say when it resets"),
        (ResetsInTheSameStep, AutoresetMode.SAME_STEP, None),
        (ResetsInTheSameStep, None, None),
        (ResetsInTheSameStep, AutoresetMode.NEXT_STEP, "states autoreset mode NEXT_STEP"),
    ],
)
def test_the_autoreset_mode_of_a_batch_is_compared_with_its_infos(batch, stated, said, monkeypatch, caplog):
    monkeypatch.setattr(batch, "metadata", {} if stated is None else {"autoreset_mode": stated})
    each = lengths_of_episodes(tm.gym.RecordEpisodes(batch(2, {"length": 5}), video=None))
    assert set(map(tuple, each)) == {(5,) * (10 if batch is Batch else 12)}
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == (said is not None)
    assert said is None or said in messages[0]


def test_a_closed_vector_env_is_not_closed_again_when_python_ends(tmp_path):
    script = (
        "import gymnasium as gym, tune_media as tm\n"
        "env = tm.gym.RecordEpisodes(gym.make_vec('CartPole-v1', num_envs=2, render_mode='rgb_array'), 'videos')\n"
        "env.reset(seed=0)\n"
        "env.close()\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "Exception ignored" not in ended.stderr
