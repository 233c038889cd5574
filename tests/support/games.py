"""An env that counts its games and becomes faster with each, an overlay that shows the number, and its reading."""

import itertools

import gymnasium as gym
import numpy as np

from tune_media.encoding.decode import decode_video
from tune_media.recording.overlay import Overlay
from tune_media.steps import StepFacts

STEPS = 24
_PICTURE = np.full((96, 160, 3), 60, np.uint8)


class Game(gym.Env):
    """An env whose picture does not show how many games it has played; its info does."""

    render_mode = "rgb_array"
    observation_space = gym.spaces.Box(-9, 9, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, config=None):
        self.games = 0
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 10}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.games, self.time = self.games + 1, 0
        self.metadata = {**self.metadata, "render_fps": 10 + self.games}
        self.start = float(self.np_random.random())
        return np.float32([self.start]), {}

    def step(self, action):
        self.time += 1
        return np.float32([self.start]), self.start, self.time >= STEPS, False, {"games": self.games}

    def render(self):
        picture = _PICTURE.copy()
        picture[70:90, 5 * self.time : 5 * self.time + 9] = 160
        return picture


def text(step):
    """Return the number of games: of the info, or, at the reset, of the env."""
    return f"games {step.info.get('games', step.env.unwrapped.games)}"


def number_on(clip, frame=5):
    """Return which number of games is written on a frame of a clip (its MP4)."""
    shown = next(itertools.islice(decode_video(clip), frame, None)).astype(int)[:30]

    def distance(number):
        drawn = Overlay((text,)).draw(_PICTURE, StepFacts(1, 0.0, 0.0), [f"games {number}"])
        return np.abs(drawn.astype(int)[:30] - shown).sum()

    return min(range(1, 60), key=distance)
