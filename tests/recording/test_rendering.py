import gymnasium as gym
import numpy as np
import pygame
import pytest

from tests.support.envs import CountingEnv, read_frame
from tests.support.envs.batch import Batch
from tune_media.gym import RecordEpisodes
from tune_media.recording.rendering import Renderer, describe, inside, remedy_for, reset_seed, sub_env, sub_envs
from tune_media.values.problems import FrameError


class Shows:
    """An env that renders what it is given."""

    def __init__(self, picture, **metadata):
        self.picture, self.metadata, self.calls = picture, metadata, 0

    def render(self):
        self.calls += 1
        if isinstance(self.picture, Exception):
            raise self.picture
        return self.picture

    def top(self):
        return np.full((8, 8, 3), 9, np.uint8)


FRAME = np.zeros((8, 8, 3), np.uint8)


def test_frames_of_a_batched_env_are_made_by_one_call_a_vector_step():
    env = Batch(3)
    env.reset()
    renderer = Renderer(env)
    for step in range(1, 3):
        env.step(np.zeros(3, int))
        for index in range(3):
            renderer.at(index)
            frame = read_frame(renderer.frames(index)[""])
            assert (frame.env, frame.step) == (env.members[index].number, step)
    assert [member.renders for member in env.members] == [2, 2, 2]


def test_views_are_named_and_a_dict_of_frames_is_one_view_each():
    renderer = Renderer(
        Shows(FRAME), {"front": "render", "above": "top", "agents": lambda env: {"a": FRAME, "b": FRAME}}
    )
    assert set(renderer.frames(0)) == {"front", "above", "agents/a", "agents/b"}
    assert set(Renderer(Shows(FRAME), lambda env: {"a": FRAME}).frames(0)) == {"a"}
    with pytest.raises(FrameError, match="empty dict"):
        Renderer(Shows(FRAME), lambda env: {}).frames(0)


@pytest.mark.parametrize(
    ("picture", "words"),
    [
        (None, r"'Shows' returned None from render\(\)\. Create it with render_mode='rgb_array'"),
        ([FRAME] * 2, "returned a list"),
        (3, "returned one 'int' object"),
        (
            pygame.Surface((8, 8)),
            r"'Surface' object .*: pass frame=lambda env: pygame.surfarray.array3d",
        ),
        (
            np.stack([FRAME] * 2),
            r"shape \(2, 8, 8, 3\).*these are 2 pictures; pass frame=lambda env: env.render\(\)\[0\]",
        ),
        (FRAME[..., :2], r"this one has 2; pass frame=lambda env: env.render\(\)\[\.\.\., 0\]"),
        (np.zeros((8, 8, 9), np.uint8), r"this one has 9; pass frame=lambda env: env.render\(\)\[\.\.\., :3\]"),
        (FRAME[:0, :0], "this one is empty, so nothing was drawn"),
        (FRAME[0, 0], "this has 1 dimension, and is no picture"),
        (np.full((8, 8, 3), np.nan), "some of its values are NaN or infinite"),
        (FRAME.astype(int) + 1000, r"values are from 1000 to 1000, .*: pass .*\.clip\(0, 255\)\.astype"),
        (FRAME.astype(int) + 200, r"int64 of shape .*: pass frame=lambda env: env.render\(\).astype"),
        (FRAME > 0, r"in 0\.\.1, pass frame=lambda env: \(255 \*"),
        (np.zeros((8, 8, 3)), "float64 of shape"),
        (np.zeros((3, 8, 8)), r"for channels first, pass frame=lambda env: env.render\(\).transpose"),
        (RuntimeError("no OpenGL here"), "raised RuntimeError: no OpenGL here. If there is no display here"),
    ],
)
def test_a_picture_that_cannot_be_recorded_names_the_env_and_the_remedy(picture, words):
    with pytest.raises(FrameError, match=words):
        Renderer(Shows(picture)).frames(0)


def test_a_list_of_frames_is_the_fault_of_the_render_mode_that_the_env_has():
    env = Shows([FRAME] * 2)
    env.render_mode = "rgb_array_list"
    words = r"returned a list instead of one frame .* Its render_mode is 'rgb_array_list': create it with render_mode="
    with pytest.raises(FrameError, match=words + "'rgb_array', for example config.environment"):
        Renderer(env).frames(0)


class OldGym(Shows):
    def render(self, mode):
        return super().render()


class Several(Shows):
    """Asks the envs inside it, as those do that RLlib's make_multi_agent makes of an id."""

    def __init__(self):
        super().__init__(None)
        self.envs = [Shows(None), Shows(None)]

    def render(self):
        return np.concatenate([env.render()[:8] for env in self.envs])


@pytest.mark.parametrize(
    ("env", "words"),
    [
        (OldGym(FRAME), r"Pass frame=lambda env: env.unwrapped.render\(mode='rgb_array'\)"),
        (Several(), "Make the envs inside it with render_mode='rgb_array'.*pass it lambda config: gymnasium.make"),
    ],
)
def test_a_render_that_raises_names_the_remedy_that_its_env_can_follow(env, words):
    with pytest.raises(FrameError, match=words):
        Renderer(env).frames(0)


@pytest.mark.parametrize("picture", [None, [FRAME] * 2])
def test_a_render_mode_that_is_set_is_not_asked_for_again(picture):
    env = Shows(picture)
    env.render_mode = "rgb_array"
    with pytest.raises(
        FrameError, match=r"render_mode is 'rgb_array' already: let render\(\) return one array of uint8"
    ):
        Renderer(env).frames(0)


@pytest.mark.parametrize(
    ("picture", "words"),
    [
        (None, "returned None from frame=. Let frame= return one array of uint8"),
        (3, "returned one 'int' object from frame=; a frame is one array"),
        (FRAME.astype(float) + 9, "let frame= return picture.astype('uint8')"),
        (np.stack([FRAME] * 2), "let frame= return picture[0]"),
    ],
)
def test_the_remedy_for_a_function_is_in_the_function(picture, words):
    with pytest.raises(FrameError) as caught:
        Renderer(Shows(FRAME), lambda env: picture).frames(0)
    assert words in str(caught.value)


def test_an_env_that_draws_with_numpy_gets_no_advice_on_displays():
    for text in ("the display buffer has 3 rows", "negligible"):
        with pytest.raises(FrameError, match=text) as caught:
            Renderer(Shows(ValueError(text))).frames(0)
        assert "MUJOCO_GL" not in str(caught.value)


def test_an_env_can_be_named_after_another_in_messages():
    with pytest.raises(FrameError, match="env 'CountingEnv' returned None"):
        Renderer(Shows(None), name="'CountingEnv'").frames(0)


@pytest.mark.parametrize(
    ("stated", "fps"),
    [
        *((12, 12.0), ("60", 60.0), (None, 30.0), (0, 30.0), (float("inf"), 30.0), ("fast", 30.0), (True, 30.0)),
        *((10**9, 30.0), (0.001, 30.0)),
    ],
)
def test_the_speed_is_the_envs_own_if_it_can_be(stated, fps, caplog):
    env = Shows(FRAME, render_fps=stated)
    assert [Renderer(env, name=f"'{stated}'").fps(0) for _ in range(2)] == [fps] * 2
    assert Renderer(Shows(FRAME, **{"video.frames_per_second": stated})).fps(0) == fps
    is_told = fps == 30.0 and stated is not None
    assert caplog.text.count(f"env '{stated}' states {stated!r} frames per second") == is_told


@pytest.mark.parametrize("picture", [[FRAME], (FRAME,), FRAME[None], [FRAME[None]]])
def test_one_frame_in_a_list_or_in_a_batch_of_one_is_that_frame(picture):
    assert Renderer(Shows(picture)).frames(0)[""].shape == (8, 8, 3)


class OnePicture(Batch):
    """A vector env that renders its sub-envs into one picture, or too few pictures."""

    picture = FRAME

    def render(self):
        return self.picture


@pytest.mark.parametrize("picture", [FRAME, [FRAME], FRAME[None], [FRAME] * 2, np.stack([FRAME] * 2)])
def test_a_picture_of_a_whole_vector_env_is_not_taken_for_that_of_each_sub_env(picture):
    env = OnePicture(3)
    env.reset()
    env.picture, renderer = picture, Renderer(env)
    with pytest.raises(FrameError, match=r"returned (one picture|2 pictures) from render\(\) for its 3 sub-envs") as no:
        renderer.frames(2)
    assert ("env_indices=[0]" in str(no.value)) == (len(picture) != 2)
    if len(picture) != 2:
        assert renderer.frames(0)[""].shape == (8, 8, 3)


def test_clips_of_a_vector_env_with_one_picture_are_those_of_its_first_sub_env(caplog):
    env = RecordEpisodes(OnePicture(3, {"length": 3}), keep="all")
    env.reset()
    for _ in range(3):
        env.step(np.zeros(3, int))
    (clip,) = env.take()["all"]
    assert clip.episode.env_index == 0
    assert caplog.text.count("returned one picture from render() for its 3 sub-envs") == 1


def test_a_seed_is_known_only_if_somebody_gave_it():
    env = CountingEnv()
    env.reset(seed=7)
    assert reset_seed(env) == 7
    drawn = CountingEnv()
    drawn.reset()
    drawn.np_random.random()
    assert reset_seed(drawn) is None
    assert reset_seed(object()) is None


class SeedsItself(CountingEnv):
    """An env that sets Gymnasium's private field, as many do; asked for ``np_random_seed``, it would draw a new one."""

    def __init__(self):
        super().__init__({"length": 3})
        self._np_random = np.random.default_rng(42)

    def reset(self, *, seed=None, options=None):
        self.drawn = [float(self._np_random.random()) for _ in range(3)]
        return super().reset(options=options)


@pytest.mark.parametrize("many", [False, True], ids=["single", "vector"])
def test_an_env_that_seeds_itself_keeps_its_generator(many):
    def drawn(wrap):
        env = wrap(gym.vector.SyncVectorEnv([SeedsItself] * 2) if many else SeedsItself())
        seen = []
        for _ in range(3):
            env.reset()
            seen += [inner.unwrapped.drawn for inner in sub_envs(env)]
        return seen

    assert drawn(lambda env: RecordEpisodes(env, keep="all")) == drawn(lambda env: env)


def test_sub_envs_are_reached_through_wrappers():
    env = gym.vector.SyncVectorEnv([CountingEnv] * 2)
    assert sub_envs(gym.wrappers.vector.RecordEpisodeStatistics(env)) == list(env.envs)
    assert sub_env(env, 2) is None
    assert sub_envs(Batch(2)) == []
    single = CountingEnv()
    assert sub_envs(single) == [single]
    assert list(inside(gym.Wrapper(single)))[-1] is single


def test_an_env_is_named_as_its_user_named_it():
    assert describe(gym.make("CartPole-v1")) == "'CartPole-v1'"
    assert describe(gym.vector.SyncVectorEnv([CountingEnv])) == "'CountingEnv'"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ModuleNotFoundError("No module named 'mujoco.egl'", name="mujoco.egl"), "gymnasium[mujoco]"),
        (RuntimeError("Box2D is not installed"), "gymnasium[box2d]"),
        (RuntimeError("cannot connect to X11"), "SDL_VIDEODRIVER=offscreen"),
        (OSError("libOSMesa.so.8: cannot open shared object file"), "MUJOCO_GL=osmesa"),
        (OSError("libEGL.so.1: cannot open shared object file"), "MUJOCO_GL=egl"),
        (RuntimeError("anything else"), ""),
        (ValueError("framebuffer has shape (3, 4)"), ""),
        (KeyError("video device"), ""),
    ],
)
def test_known_failures_have_a_remedy(error, words):
    assert words in remedy_for(error)
    assert bool(words) == bool(remedy_for(error))
