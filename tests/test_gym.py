"""The Gymnasium wrapper: what RecordVideo and RecordEpisodeStatistics do, for one env and for vector envs."""

import re
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import RecordEpisodeStatistics
from gymnasium.wrappers.vector import RecordEpisodeStatistics as RecordVectorEpisodeStatistics

import tune_media as tm
from tests.envs import CountingEnv, read_frame
from tests.helpers import assert_whole_episode, read_clip
from tune_media.encoding import decode_video, probe_video


class Batch(gym.vector.VectorEnv):
    """A natively vectorised env: one object, one render call that returns all frames."""

    metadata = {"render_fps": 12, "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012
    render_mode = "rgb_array"

    def __init__(self, num_envs, config=None):
        self.num_envs = num_envs
        self.members = [CountingEnv(config) for _ in range(num_envs)]
        self.single_observation_space = self.members[0].observation_space
        self.single_action_space = self.members[0].action_space
        self.observation_space = gym.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gym.vector.utils.batch_space(self.single_action_space, num_envs)
        self.over = np.zeros(num_envs, bool)

    def reset(self, *, seed=None, options=None):
        self.over[:] = False
        return np.stack([member.reset()[0] for member in self.members]), {}

    def step(self, actions):
        results = []
        for member, over in zip(self.members, self.over, strict=True):
            results.append((member.reset()[0], 0.0, False, False, {}) if over else member.step(0))
        observations, rewards, terminations, truncations, _ = zip(*results, strict=True)
        self.over = np.array(terminations)
        return np.stack(observations), np.array(rewards), self.over.copy(), np.array(truncations), {}

    def render(self):
        return np.stack([member.render().copy() for member in self.members])


def play(env, episodes, seed=None):
    """Play whole episodes; return their (return, length)."""
    played = []
    for _ in range(episodes):
        env.reset(seed=seed)
        total, length, over = 0.0, 0, False
        while not over:
            _, reward, terminated, truncated, info = env.step(0)
            total, length, over = total + reward, length + 1, terminated or truncated
        assert info["episode"]["r"] == pytest.approx(total)
        assert info["episode"]["l"] == length
        played.append((total, length))
    return played


def names(folder):
    return sorted(path.name for path in Path(folder).iterdir())


def test_every_episode_becomes_a_whole_clip_in_the_folder(tmp_path):
    env = tm.gym.RecordEpisodes(CountingEnv(), tmp_path, name_prefix="eval")
    played = play(env, 3)
    env.close()
    assert names(tmp_path) == [f"eval-episode-{n}.mp4" for n in range(3)]
    for n, (_, length) in enumerate(played):
        path = tmp_path / f"eval-episode-{n}.mp4"
        assert assert_whole_episode(path, length).episode == n
        assert probe_video(path.read_bytes()).fps == 12


def test_statistics_are_gymnasiums_own():
    ours = tm.gym.RecordEpisodes(CountingEnv(), video=None, buffer_length=2)
    theirs = RecordEpisodeStatistics(CountingEnv(), buffer_length=2)
    assert play(ours, 4, seed=5) == play(theirs, 4, seed=5)
    assert list(ours.return_queue) == pytest.approx(list(theirs.return_queue))
    assert list(ours.length_queue) == list(theirs.length_queue)
    assert len(ours.time_queue) == 2
    assert all(duration > 0 for duration in ours.time_queue)


def test_an_episode_trigger_records_some_and_renders_no_others(tmp_path):
    inner = CountingEnv()
    env = tm.gym.RecordEpisodes(inner, tmp_path, episode_trigger=tm.selection.every(3))
    renders = []
    for _ in range(5):
        before = inner.renders
        play(env, 1)
        renders.append(inner.renders > before)
    assert renders == [True, False, False, True, False]
    assert names(tmp_path) == ["rl-video-episode-0.mp4", "rl-video-episode-3.mp4"]
    assert len(env.length_queue) == 5


def test_a_step_trigger_and_a_fixed_length_go_on_over_resets(tmp_path):
    env = tm.gym.RecordEpisodes(
        CountingEnv({"length": 5}), tmp_path, step_trigger=lambda step: step in (3, 14), video_length=8
    )
    play(env, 4)
    env.close()
    assert names(tmp_path) == ["rl-video-step-14.mp4", "rl-video-step-3.mp4"]
    counts = read_clip(tmp_path / "rl-video-step-3.mp4")
    assert [(count.episode, count.step) for count in counts] == [
        (0, 3), (0, 4), (0, 5), (1, 0), (1, 1), (1, 2), (1, 3), (1, 4),
    ]  # fmt: skip


def test_a_fixed_length_cuts_each_triggered_episode(tmp_path):
    env = tm.gym.RecordEpisodes(CountingEnv({"length": 9}), tmp_path, video_length=4)
    play(env, 2)
    env.close()
    for n in range(2):
        assert [count.step for count in read_clip(tmp_path / f"rl-video-episode-{n}.mp4")] == [0, 1, 2, 3]


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
    assert env.take() == {}  # half an episode is neither best nor worst


def test_take_hands_over_the_chosen_ones_once():
    env = tm.gym.RecordEpisodes(CountingEnv(), keep=("best", tm.selection.worst(2)))
    played = play(env, 5)
    taken = env.take()
    returns = sorted(total for total, _ in played)
    assert taken["best"].episode.episode_return == pytest.approx(returns[-1])
    assert [clip.episode.episode_return for clip in taken["worst"]] == pytest.approx(returns[:2])
    assert env.take() == {}


VECTORS = {
    "sync": lambda n: gym.vector.SyncVectorEnv([CountingEnv] * n),
    "async": lambda n: gym.vector.AsyncVectorEnv([CountingEnv] * n),
    "batch": Batch,
}


@pytest.mark.parametrize("kind", VECTORS)
def test_each_sub_env_of_a_vector_env_has_its_own_clips(tmp_path, kind):
    env = tm.gym.RecordEpisodes(VECTORS[kind](3), tmp_path, keep="all", env_indices=[0, 2])
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
    shown = {}
    for index in (0, 2):
        for n, length in enumerate(lengths[index]):
            counts = assert_whole_episode(tmp_path / f"rl-video-env-{index}-episode-{n}.mp4", length)
            shown.setdefault(index, set()).add(counts.env)
    assert [len(envs) for envs in shown.values()] == [1, 1]
    assert shown[0] != shown[2]
    assert len(clips) == len(lengths[0]) + len(lengths[2])
    assert not list(tmp_path.glob("*env-1-*"))


def test_a_vector_env_that_resets_in_the_same_step_shows_no_frame_of_the_next_episode(tmp_path):
    vector = gym.vector.SyncVectorEnv([CountingEnv] * 2, autoreset_mode=AutoresetMode.SAME_STEP)
    env = tm.gym.RecordEpisodes(vector, keep="all")
    env.reset()
    for _ in range(30):
        env.step(np.zeros(2, int))
    clips = env.take()["all"]
    assert len(clips) >= 2
    for clip in clips:
        assert "final frame is missing" in clip.note
        (tmp_path / "clip.mp4").write_bytes(clip.data)
        counts = read_clip(tmp_path / "clip.mp4")
        assert [count.step for count in counts] == list(range(clip.episode.episode_length))
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


def test_a_clip_of_a_step_trigger_ends_where_its_episode_is_broken_off(tmp_path):
    env = tm.gym.RecordEpisodes(CountingEnv({"length": 9}), tmp_path, step_trigger=lambda step: step == 2)
    env.reset()
    for _ in range(3):
        env.step(0)
    env.reset()
    play(env, 1)
    env.close()
    assert names(tmp_path) == ["rl-video-step-2-unfinished.mp4"]
    counts = read_clip(tmp_path / "rl-video-step-2-unfinished.mp4")
    assert [(count.episode, count.step) for count in counts] == [(0, 2), (0, 3)]


def test_a_trigger_is_asked_once_an_episode(tmp_path):
    asked = []
    env = tm.gym.RecordEpisodes(
        CountingEnv(), tmp_path, episode_trigger=lambda n: asked.append(n) or n == 1, video_length=3
    )
    play(env, 3)
    env.close()
    assert asked == [0, 1, 2]
    assert names(tmp_path) == ["rl-video-episode-1.mp4"]


def test_an_env_with_members_of_its_own_is_one_env():
    class Meta(CountingEnv):
        def __init__(self):
            super().__init__()
            self.envs, self.num_envs = [CountingEnv(), CountingEnv()], 2

    env = tm.gym.RecordEpisodes(Meta(), keep="last")
    play(env, 1)
    clip = env.take()["last"]
    assert {read_frame(frame).env for frame in decode_video(clip.data)} == {env.unwrapped.number}


def test_a_wrapper_whose_render_fails_now_and_then_is_not_replaced_by_its_inner_env(caplog):
    class Flaky(gym.Wrapper):
        def render(self):
            if self.env.unwrapped.counter.step_count == 3:
                raise AttributeError("a bug of its own")
            return self.env.render()

    env = tm.gym.RecordEpisodes(Flaky(CountingEnv()), keep="all")
    play(env, 3)
    assert set(env.take()) == {"data"}
    assert len(caplog.records) == 1
    assert "a bug of its own" in caplog.text


def test_views_that_come_and_go_say_so():
    def views(env):
        step = env.unwrapped.counter.step_count
        frame = env.unwrapped.render().copy()
        return {"always": frame, **({"late": frame} if step >= 2 else {}), **({"early": frame} if step < 3 else {})}

    env = tm.gym.RecordEpisodes(CountingEnv({"length": 6}), frame=views, keep="last")
    play(env, 1)
    clips = env.take()["last"]
    assert {name: clip.frames for name, clip in clips.items()} == {"always": 7, "early": 3, "late": 5}
    assert clips["always"].note is None
    assert "began at step 2" in clips["late"].note
    assert "ended before" in clips["early"].note


def test_views_with_slashes_become_file_names(tmp_path):
    env = tm.gym.RecordEpisodes(CountingEnv(), tmp_path, frame={"cam": lambda env: {"a/b": env.unwrapped.render()}})
    play(env, 1)
    env.close()
    assert names(tmp_path) == ["rl-video-episode-0-cam_a_b.mp4"]


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


@pytest.mark.parametrize("options", [{"video_length": 4}, {"step_trigger": lambda step: 1 / 0}])
def test_faults_of_clips_of_a_fixed_length_do_not_reach_the_loop(tmp_path, options, caplog):
    env = tm.gym.RecordEpisodes(CountingEnv(), tmp_path, frame=lambda env: env.nothing, **options)
    play(env, 2)
    env.close()
    assert names(tmp_path) == []
    assert len(caplog.records) >= 1


def test_clips_that_are_cut_are_not_rendered_on():
    inner = CountingEnv({"length": 15})
    env = tm.gym.RecordEpisodes(inner, video=tm.VideoOptions(max_frames=4), keep="last")
    play(env, 1)
    assert inner.renders == 4
    assert "cut after 4 frames" in env.take()["last"].note


def test_numbers_of_the_users_own_are_taken_from_each_step():
    env = tm.gym.RecordEpisodes(
        CountingEnv({"length": 4}),
        collect=lambda step: {"step": step.step, "nested": {"action": step.action}, "reward": step.reward},
        keep="all",
        video=None,
    )
    (total, _), _ = play(env, 2)
    metrics = env.take()["all"][0].metrics
    expected = {"step_avg": 2.5, "step_sum": 10, "step_min": 1, "step_max": 4, "step_last": 4, "nested/action_sum": 0}
    assert expected.items() <= metrics.items()
    assert metrics["reward_sum"] == pytest.approx(total)


@pytest.mark.parametrize("vector", [False, True])
def test_numbers_of_info_by_path(vector):
    class Telling(CountingEnv):
        def step(self, action):
            *rest, _ = super().step(action)
            info = {"data": {"speed": 2.0 * self.counter.step_count}}
            return *rest, info | ({"rare": 1} if self.counter.step_count == 2 else {})

    options = {"collect": ["data/speed", "rare", "missing"], "keep": "all", "video": None}
    if vector:
        env = tm.gym.RecordEpisodes(gym.vector.SyncVectorEnv([Telling] * 2), **options)
        env.reset()
        for _ in range(30):
            env.step(np.zeros(2, int))
    else:
        env = tm.gym.RecordEpisodes(Telling(), **options)
        play(env, 2)
    for record in env.take()["all"]:
        assert record.metrics["data/speed_max"] == 2.0 * record.episode_length
        assert record.metrics["data/speed_min"] == 2.0
        assert record.metrics["rare_sum"] == 1
        assert not any(name.startswith("missing") for name in record.metrics)


def test_what_cannot_be_stored_is_left_out_with_one_warning(caplog):
    env = tm.gym.RecordEpisodes(CountingEnv(), collect=lambda step: {"name": lambda: 0}, keep="all")
    play(env, 2)
    assert len(env.take()["all"]) == 2  # the clips are there all the same
    assert len(caplog.records) == 1
    assert "name is a function" in caplog.text
    with pytest.raises(TypeError, match="data/speed"):
        tm.gym.RecordEpisodes(CountingEnv(), collect=3)


def test_every_action_space_can_be_drawn():
    class Odd(CountingEnv):
        action_space = gym.spaces.Tuple([gym.spaces.Discrete(2), gym.spaces.Dict({"x": gym.spaces.Box(0, 1, (2,))})])

        def step(self, action):
            return super().step(0)

    env = tm.gym.RecordEpisodes(Odd(), video=tm.VideoOptions(overlay="action"), keep="last", strict=True)
    env.reset()
    over = False
    while not over:
        over = env.step(env.action_space.sample())[2]
    assert env.take()["last"].frames == env.unwrapped.length + 1


def test_vector_statistics_are_gymnasiums_own():
    def run(wrapper):
        env = wrapper(gym.vector.SyncVectorEnv([CountingEnv] * 2))
        env.reset(seed=3)
        seen = []
        for _ in range(40):
            *_, infos = env.step(np.zeros(2, int))
            if "episode" in infos:
                mask = infos["_episode"]
                seen.append((mask.tolist(), infos["episode"]["r"][mask].tolist(), infos["episode"]["l"][mask].tolist()))
        return seen

    ours = run(lambda env: tm.gym.RecordEpisodes(env, video=None))
    theirs = run(RecordVectorEpisodeStatistics)
    assert [(m, pytest.approx(r), list(length)) for m, r, length in ours] == theirs


def test_fixed_seeds_show_the_same_episodes_and_stand_in_the_record():
    def run():
        env = tm.gym.RecordEpisodes(tm.gym.FixedSeeds(CountingEnv(), [7, 11]), keep="all")
        played = play(env, 3)
        return played, [clip.episode.seed for clip in env.take()["all"]]

    played, seeds = run()
    assert run() == (played, seeds)
    assert seeds == [7, 11, 7]
    assert played[0] == played[2] != played[1]


def test_views_become_clips_of_one_episode(tmp_path):
    env = tm.gym.RecordEpisodes(
        CountingEnv(),
        tmp_path,
        frame={"front": "render", "mirrored": lambda env: env.render()[:, ::-1]},
        keep="last",
    )
    ((_, length),) = play(env, 1)
    clips = env.take()["last"]
    assert set(clips) == {"front", "mirrored"}
    assert clips["front"].id != clips["mirrored"].id
    assert {clip.episode.view for clip in clips.values()} == {"front", "mirrored"}
    assert {clip.frames for clip in clips.values()} == {length + 1}
    assert names(tmp_path) == ["rl-video-episode-0-front.mp4", "rl-video-episode-0-mirrored.mp4"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"episode_trigger": bool, "step_trigger": bool, "video_folder": "x"}, "wrap the env twice"),
        ({"step_trigger": bool}, "video_folder"),
        ({"video_length": 5}, "video_folder"),
        ({"video_length": -1}, "frames"),
        ({"name_prefix": "a/b"}, "file name"),
        ({"keep": "bets"}, "no selector"),
        ({"video_length": 5, "video_folder": "x", "video": tm.VideoOptions(overlay="step")}, "whole episodes"),
        ({"video_length": 5, "video_folder": "x", "video": tm.VideoOptions(max_frames=2)}, "less than"),
        ({"video_length": 5, "video_folder": "x", "episode_trigger": tm.selection.RenderBudget(0.1)}, "whole episodes"),
        ({"video_length": 5, "video_folder": "x", "frame": {"a": "render"}}, "whole episodes"),
        ({"video_length": 2.5, "video_folder": "x"}, "frames"),
        ({"env_indices": [7]}, "indices"),
        ({"frame": {}}, "empty"),
        ({"video": None, "frame": "render"}, "leave one of them out"),
    ],
)
def test_contradictions_fail_at_once(options, words):
    with pytest.raises(ValueError, match=words):
        tm.gym.RecordEpisodes(CountingEnv(), **options)


@pytest.mark.parametrize("mode", [{}, {"render_mode": "rgb_array_list"}])
def test_an_env_that_does_not_render_frames_fails_at_once(mode):
    with pytest.raises(ValueError, match="render_mode='rgb_array'"):
        tm.gym.RecordEpisodes(gym.make("CartPole-v1", **mode))


@pytest.mark.parametrize("options", [{"video": "x"}, {"episode_trigger": 5}, {"frame": 5}, {"step_trigger": 5}])
def test_arguments_of_another_kind_fail_at_once(options):
    with pytest.raises(TypeError):
        tm.gym.RecordEpisodes(CountingEnv(), "unused", **options)


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (lambda env: None, "returned None"),
        (lambda env: [env.render()], "returned a list"),
        (lambda env: env.render() / 255.0, "uint8"),
        (lambda env: np.zeros((3, 8, 8), np.uint8), "channels"),
        (lambda env: np.zeros((8, 8), bool), "uint8"),
        ("no_such_method", "no method"),
    ],
)
def test_frames_that_are_none_name_the_remedy(frame, words):
    env = tm.gym.RecordEpisodes(CountingEnv(), frame=frame, strict=True)
    with pytest.raises(ValueError, match=words):
        env.reset()


def test_a_frame_function_that_cannot_reach_its_env_names_the_remedy():
    vector = gym.vector.AsyncVectorEnv([CountingEnv] * 2)
    try:
        with pytest.raises(ValueError, match="name of a method"):
            tm.gym.RecordEpisodes(vector, frame=lambda env: env.render())
    finally:
        vector.close()


def test_a_real_env_at_its_own_speed(tmp_path):
    env = tm.gym.RecordEpisodes(gym.make("CartPole-v1", render_mode="rgb_array"), tmp_path)
    play_random = env.reset(seed=0) and env.action_space
    over = False
    while not over:
        *_, terminated, truncated, _ = env.step(play_random.sample())
        over = terminated or truncated
    env.close()
    video = probe_video((tmp_path / "rl-video-episode-0.mp4").read_bytes())
    assert (video.width, video.height, video.fps) == (600, 400, 50)


@pytest.mark.parametrize("infos", [{"fps": 60.0, "speed": np.array([1.0, 2.0])}, {0: 3, "speed": np.array([1.0, 2.0])}])
def test_odd_infos_of_a_vector_env_do_no_harm(infos):
    class Odd(Batch):
        def step(self, actions):
            *rest, _ = super().step(actions)
            return *rest, dict(infos)

    env = tm.gym.RecordEpisodes(Odd(2, {}), collect=["speed"], keep="all", video=None)
    env.reset()
    for _ in range(25):
        env.step(np.zeros(2, int))
    assert {episode.record.metrics["speed_avg"] for episode in env.take()["data"].episodes} == {1.0, 2.0}


def test_the_last_observation_of_a_vector_env_that_resets_at_once():
    class Counts(CountingEnv):
        def step(self, action):
            _, *rest = super().step(action)
            return np.full(2, self.counter.step_count / 100, np.float32), *rest

    mode = gym.vector.AutoresetMode.SAME_STEP
    env = gym.vector.SyncVectorEnv([Counts] * 2, autoreset_mode=mode)
    env = tm.gym.RecordEpisodes(env, keep="all", video=None, trajectories=True)
    env.reset()
    for _ in range(25):
        env.step(np.zeros(2, int))
    batch = env.take()["data"]
    for episode in batch.episodes:
        seen = batch.trajectories[episode.record.id].columns["observation"]
        assert [round(100 * float(each[0])) for each in seen] == list(range(episode.record.episode_length + 1))
