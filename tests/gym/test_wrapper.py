import copy
import inspect
import pickle
import typing

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import RecordEpisodeStatistics

import tune_media as tm
from tests.support.envs import CountingEnv, read_frame
from tests.support.experiment import assert_whole_episode, read_clip
from tests.support.loops import names, play, stepped
from tune_media.encoding.decode import decode_video, probe_video


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


def test_an_env_with_members_of_its_own_is_one_env():
    class Meta(CountingEnv):
        def __init__(self):
            super().__init__()
            self.envs, self.num_envs = [CountingEnv(), CountingEnv()], 2

    env = tm.gym.RecordEpisodes(Meta(), keep="last")
    play(env, 1)
    clip = env.take()["last"]
    assert {read_frame(frame).env for frame in decode_video(clip.data)} == {env.unwrapped.number}


def test_gymnasiums_statistics_can_stand_outside_as_in_its_tutorial():
    env = gym.make("CartPole-v1", render_mode="rgb_array")
    env = RecordEpisodeStatistics(
        gym.wrappers.TimeLimit(tm.gym.RecordEpisodes(env, statistics=False), 50), buffer_length=10
    )
    ((total, length),) = play(env, 1)
    assert (list(env.return_queue), list(env.length_queue)) == ([total], [length])
    assert list(env.env.env.return_queue) == [total]


def test_statistics_of_another_key_can_stand_outside_too():
    env = RecordEpisodeStatistics(tm.gym.RecordEpisodes(CountingEnv()), stats_key="outer")
    env.reset()
    over = False
    while not over:
        *_, over, _, info = env.step(0)
    assert (info["outer"]["r"], info["outer"]["l"]) == (info["episode"]["r"], info["episode"]["l"])


def test_an_env_can_be_made_again_from_the_spec_of_its_wrapper(tmp_path):
    env = gym.make("CartPole-v1", render_mode="rgb_array")
    env = tm.gym.RecordEpisodes(tm.gym.FixedSeeds(env, [5]), tmp_path, name_prefix="eval", keep=("best", "worst"))
    again = gym.make(env.spec)
    play(again, 1)
    assert names(tmp_path) == ["eval-episode-0.mp4"]
    video = probe_video((tmp_path / "eval-episode-0.mp4").read_bytes())
    assert (video.width, video.height, video.fps) == (600, 400, 50)
    taken = again.take()
    assert {"best", "worst"} <= set(taken)
    assert taken["best"].episode.seed == 5


def test_the_spec_does_not_copy_what_the_user_passed():
    class Model:
        def __deepcopy__(self, memo):
            raise AssertionError("the user's model was copied")

        def collect(self, step):
            return {"value": 1.0}

    env = gym.make("CartPole-v1", render_mode="rgb_array")
    env = tm.gym.RecordEpisodes(env, collect=Model().collect)
    assert env.spec.additional_wrappers[-1].name == "RecordEpisodes"


def test_a_subclass_keeps_its_methods_and_refuses_a_vector_env():
    class Mine(tm.gym.RecordEpisodes):
        def step(self, action):
            *rest, info = super().step(action)
            return *rest, {**info, "mine": True}

    env = Mine(CountingEnv(), video=None)
    env.reset()
    assert env.step(0)[-1]["mine"]
    with pytest.raises(TypeError, match=r"Mine is a subclass .* tune_media.gym.RecordVectorEpisodes"):
        Mine(gym.vector.SyncVectorEnv([CountingEnv] * 2), video=None)


@pytest.mark.parametrize(
    ("length", "options", "shown", "fps"),
    [
        (4, {}, [0, 1, 2, 3, 4], 7),
        (10, {"every": 3}, [0, 3, 6, 9, 10], 7 / 3),
        (9, {"every": 3}, [0, 3, 6, 9], 7 / 3),
        (5, {"every": 100}, [0, 5], 0.07),
        (15, {"max_frames": 4}, [0, 1, 2, 3], 7),
        (20, {"every": 3, "max_frames": 4}, [0, 3, 6, 9], 7 / 3),
        (10, {"every": 3, "max_frames": 5}, [0, 3, 6, 9, 10], 7 / 3),
    ],
)
def test_only_the_frames_of_the_clip_are_rendered_and_the_last_one_is_among_them(tmp_path, length, options, shown, fps):
    inner = CountingEnv({"length": length})
    env = tm.gym.RecordEpisodes(inner, tmp_path, fps=7, video=tm.VideoOptions(**options))
    play(env, 1)
    (name,) = names(tmp_path)
    assert [count.step for count in read_clip(tmp_path / name)] == shown
    assert inner.renders == len(shown)
    clip = env.take()["last"]
    assert (clip.fps, clip.facts().get("frame_stride", 1)) == (pytest.approx(fps), options.get("every", 1))
    is_cut = shown[-1] != length
    assert ("cut after 4 frames" in (clip.note or "")) is is_cut


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
@pytest.mark.parametrize(
    ("options", "name", "shown"),
    [({}, "episode-2", [0, 1, 2, 3, 4, 5, 6]), ({"video_length": 4}, "episode-1", [0, 0, 1, 2])],
)
def test_a_copy_made_in_mid_episode_records_from_its_next_reset(tmp_path, copied, options, name, shown):
    env = tm.gym.RecordEpisodes(CountingEnv({"length": 6}), tmp_path, keep="all", **options)
    env.reset()
    env.step(0)
    twin = copied(env)
    twin.step(0)
    twin.reset()
    play(twin, 1)
    assert len(twin.return_queue) == 1
    assert [count.step for count in read_clip(tmp_path / f"rl-video-{name}.mp4")] == shown
    env.step(0)
    env.close()
    unfinished = read_clip(tmp_path / "rl-video-episode-0-unfinished.mp4")
    assert [count.step for count in unfinished] == [0, 1, 2]  # the first one goes on as if nothing had been copied


def test_frames_can_be_collected_outside(tmp_path):
    env = gym.wrappers.RenderCollection(tm.gym.RecordEpisodes(CountingEnv({"length": 3}), tmp_path))
    play(env, 1)
    assert len(env.render()) == 4
    assert_whole_episode(tmp_path / "rl-video-episode-0.mp4", 3)


def test_it_says_whether_a_clip_is_being_made_and_its_trigger_can_be_asked():
    assert tm.gym.RecordEpisodes(CountingEnv()).episode_trigger(7)
    env = tm.gym.RecordEpisodes(CountingEnv({"length": 3}), episode_trigger=lambda n: n == 0)
    assert [env.episode_trigger(n) for n in range(2)] == [True, False]
    env.reset()
    assert env.recording
    for _ in range(3):
        env.step(0)
    assert not env.recording
    assert (env.episode_count, env.episode_lengths) == (1, 3)
    env.reset()
    assert not env.recording


@pytest.mark.parametrize("ends", ["reset", "close"])
def test_every_nth_frame_and_the_last_one_of_whole_and_of_unfinished_episodes(tmp_path, ends):
    inner = CountingEnv({"length": 10})
    env = tm.gym.RecordEpisodes(inner, tmp_path, video=tm.VideoOptions(every=3))
    play(env, 2)
    stepped(env, 5)
    if ends == "reset":
        env.reset()
    env.close()
    shown = {name: [count.step for count in read_clip(tmp_path / name)] for name in names(tmp_path)}
    whole = {f"rl-video-episode-{number}.mp4": [0, 3, 6, 9, 10] for number in range(2)}
    assert shown == whole | {"rl-video-episode-2-unfinished.mp4": [0, 3, 5]}
    assert inner.renders == 13 + (ends == "reset")


class ResetsItself(gym.Wrapper):
    """Resets the env in the step after the end of an episode, as Gymnasium's ``Autoreset`` does."""

    over = False

    def step(self, action):
        if self.over:
            self.over = False
            observation, info = self.env.reset()
            return observation, 0.0, False, False, info
        result = self.env.step(action)
        self.over = result[2] or result[3]
        return result


@pytest.mark.parametrize("wrapper", [gym.wrappers.Autoreset, ResetsItself])
@pytest.mark.parametrize("options", [{}, {"render": "replay", "env_fn": CountingEnv}])
def test_all_episodes_of_an_env_that_resets_itself_are_recorded(wrapper, options, caplog):
    env = tm.gym.RecordEpisodes(wrapper(CountingEnv({"length": 4})), keep="all", **options)
    env.reset(seed=1)
    ended = [info["episode"] for *_, info in (env.step(0) for _ in range(4 + 9 * 5)) if "episode" in info]
    assert [one["l"] for one in ended] == [4] * 10
    assert len({one["r"] for one in ended}) == 10
    clips = env.take()["all"]
    is_lost = wrapper is ResetsItself and bool(options)  # the tape of the first episode: this was not known yet
    assert len(clips) == 10 - is_lost
    assert ("no clip" in caplog.text) is is_lost
    for n, clip in enumerate(clips, start=is_lost):
        assert assert_whole_episode(clip, 4).episode == n
    said = "stepped after the end of an episode, and not reset" in caplog.text
    assert said is (wrapper is ResetsItself)
    env.close()


def test_the_arguments_of_record_video_work_in_their_order(tmp_path):
    theirs = list(inspect.signature(gym.wrappers.RecordVideo).parameters)
    assert list(inspect.signature(tm.gym.RecordEpisodes.__init__).parameters)[1 : len(theirs) + 1] == theirs
    # pyright and Pylance take the type of an object from __new__, which may return either wrapper
    told = [told.__annotations__["return"] for told in typing.get_overloads(tm.gym.RecordEpisodes.__new__)]
    assert told == ["RecordVectorEpisodes", "Self"]
    options = {"disable_logger": True, "gc_trigger": lambda episode: True}
    env = tm.gym.RecordEpisodes(CountingEnv({"length": 2}), str(tmp_path), lambda n: n == 1, **options)
    play(env, 3)
    assert names(tmp_path) == ["rl-video-episode-1.mp4"]
    again = pickle.loads(
        pickle.dumps(tm.gym.RecordEpisodes(CountingEnv(), tmp_path, None, None, 0, "x", 30, True, None))
    )
    play(again, 1)
    assert "x-episode-0.mp4" in names(tmp_path)


class Road(CountingEnv):
    """Simulates five frames a step, and hands each to the wrapper that records, as highway-env does."""

    wrapper, shown = None, 0

    def set_record_video_wrapper(self, wrapper):
        self.wrapper, wrapper.frames_per_sec = wrapper, 5 * wrapper.frames_per_sec

    def step(self, action):
        for _ in range(5):
            self.shown += 1
            self.wrapper._capture_frame()
        return super().step(action)

    def render(self):
        return np.full((32, 32, 3), 4 * self.shown, np.uint8)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9, 10, 10]),
        ({"video": tm.VideoOptions(every=4)}, [0, 4, 7, 10]),
        ({"video_length": 4}, [0, 1, 2, 3]),
        ({"render": "auto", "env_fn": lambda: Road({"length": 2})}, [0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9, 10, 10]),
    ],
    ids=["whole", "every", "length", "tapes"],
)
def test_frames_within_a_step_are_recorded_if_the_env_asks_for_them(tmp_path, options, expected):
    env = tm.gym.RecordEpisodes(Road({"length": 2}), None if "render" in options else tmp_path, **options)
    env.unwrapped.set_record_video_wrapper(env)
    assert env.frames_per_sec == 60
    play(env, 1)
    data = env.take()["last"].data if "render" in options else next(tmp_path.glob("*.mp4")).read_bytes()
    shown = [round(frame.mean() / 4) for frame in decode_video(data)]
    assert shown == expected
    assert probe_video(data).fps == 60 / getattr(options.get("video"), "every", 1)


def test_a_folder_may_be_in_the_users_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    env = tm.gym.RecordEpisodes(CountingEnv(), "~/videos")
    play(env, 1)
    (path,) = (tmp_path / "videos").glob("*.mp4")
    assert tm.Video.from_file(f"~/videos/{path.name}").frames > 1
    assert tm.Artifact(f"~/videos/{path.name}").name == path.name


def test_a_path_of_collect_that_no_step_has_is_named_once(caplog):
    env = tm.gym.RecordEpisodes(CountingEnv(), collect="spped", keep="all")
    play(env, 2)
    env.take()
    env.close()
    assert caplog.text.count("collect='spped' takes nothing: no info of the first 2 episodes has it") == 1


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


def test_what_cannot_be_stored_is_left_out_with_one_warning(caplog):
    env = tm.gym.RecordEpisodes(CountingEnv(), collect=lambda step: {"name": lambda: 0}, keep="all")
    play(env, 2)
    assert len(env.take()["all"]) == 2  # the clips are there all the same
    assert len(caplog.records) == 1
    assert "name is a function" in caplog.text
