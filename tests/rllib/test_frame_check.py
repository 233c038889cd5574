import random
from functools import partial
from types import SimpleNamespace

import gymnasium
import numpy as np
import pygame
import pytest
from ray.rllib.algorithms.ppo import PPOConfig

from tests.support.envs import CountingEnv
from tune_media.recording.problems import FrameError, Problems
from tune_media.recording.rendering import Renderer
from tune_media.rllib.frame_check import try_frame


class Given(CountingEnv):
    """Renders what it is given, and uses every global random generator as careless envs do."""

    picture = None
    made: list["Given"] = []  # noqa: RUF012 - a log

    def __init__(self, config=None):
        super().__init__(config)
        self.resets, self.is_closed = 0, False
        Given.made.append(self)

    def reset(self, **options):
        random.random(), np.random.rand()
        self.resets += 1
        return super().reset(**options)

    def render(self):
        if isinstance(self.picture, Exception):
            raise self.picture
        return self.picture

    def close(self):
        self.is_closed = True


def tried(env, frame=None, picture=None, named_after=None, **config):
    """Return the problems that a frame check of an env class finds, as the new API stack makes it."""
    Given.picture = picture
    Given.made.clear()
    problems = Problems("episodes", are_collected=True)
    config = PPOConfig().environment(env, env_config=config)
    try_frame(SimpleNamespace(config=config, worker_index=1), frame, problems, named_after=named_after)
    return [problem.text for problem in problems.take()]


def test_an_env_that_renders_has_no_problem():
    assert tried(CountingEnv) == []


@pytest.mark.parametrize(
    ("picture", "words"),
    [
        (None, "returned None from render()"),
        (np.zeros((8, 8, 3)), "float64 of shape (8, 8, 3)"),
        (np.zeros((3, 8, 8), np.uint8), "transpose(1, 2, 0)"),
        ([np.zeros((8, 8, 3), np.uint8)], "returned a list from render() instead of one frame"),
        (RuntimeError("the camera is gone"), "render() raised RuntimeError: the camera is gone"),
        (RuntimeError("gladLoadGL error"), "MUJOCO_GL=egl"),
    ],
)
def test_frames_that_cannot_be_recorded_are_named_with_their_env(picture, words):
    (text,) = tried(Given, picture=picture)
    assert words in text
    assert "Given" in text


def test_a_frame_function_is_tried_instead_of_render():
    assert tried(Given, frame=lambda env: np.zeros((8, 8, 3), np.uint8)) == []
    (text,) = tried(CountingEnv, frame="render_topdown")
    assert "no method 'render_topdown'" in text


def test_the_trial_is_made_on_an_env_of_its_own_which_is_closed():
    tried(Given, picture=np.zeros((8, 8, 3), np.uint8))
    (env,) = Given.made
    assert (env.resets, env.is_closed) == (1, True)


def test_the_random_numbers_of_the_process_go_on_as_without_it():
    def drawn(with_trial):
        random.seed(1)
        np.random.seed(1)
        if with_trial:
            tried(Given, picture=None)
        return random.random(), np.random.rand()

    assert drawn(with_trial=True) == drawn(with_trial=False)


def test_the_env_config_of_rllib_stays_as_it_is():
    class Greedy(CountingEnv):
        def __init__(self, config):
            config.clear()
            super().__init__()

    config = PPOConfig().environment(Greedy, env_config={"length": 3})
    try_frame(SimpleNamespace(config=config, worker_index=1), None, Problems("episodes", are_collected=True))
    assert config.env_config == {"length": 3}


def test_an_env_that_cannot_be_made_twice_is_not_reported():
    class OnlyOne(CountingEnv):
        def __init__(self, config):
            raise OSError("the port is taken")

    assert tried(OnlyOne) == []


def test_the_old_api_stack_makes_its_envs_by_its_own_creator():
    problems = Problems("episodes", are_collected=True)
    worker = SimpleNamespace(env_creator=CountingEnv, env_context={"render_mode": None}, config=PPOConfig())
    try_frame(worker, None, problems)
    (problem,) = problems.take()
    assert "returned None" in problem.text


class DrawsText(CountingEnv):
    """Has a font of pygame's from the start, and ends pygame when it is closed, as MPE's envs do."""

    def __init__(self, config=None):
        super().__init__(config)
        pygame.font.init()
        self.font = pygame.font.Font(None, 12)

    def render(self):
        text = self.font.render("text", True, (255, 255, 255))
        return np.zeros((*text.get_size(), 3), np.uint8)

    def close(self):
        pygame.font.quit()
        pygame.quit()


def test_the_env_of_rllib_can_go_on_drawing_with_pygame():
    env = DrawsText()
    try:
        assert tried(DrawsText) == []
        assert env.render().dtype == np.uint8
    finally:
        env.close()
    assert not pygame.font.get_init()


def test_a_problem_names_the_env_that_rllib_steps():
    """RLlib gives its envs a spec of its own; a problem with two names would be told twice."""
    gymnasium.register("rllib-single-agent-env-v0", entry_point=partial(gymnasium.make, "CartPole-v1"))
    env = gymnasium.make_vec("rllib-single-agent-env-v0", num_envs=1)
    env.reset()
    with pytest.raises(FrameError) as recorded:
        Renderer(env).frames(0)
    assert tried("CartPole-v1", named_after=env) == [f"no clip: {recorded.value}"]
