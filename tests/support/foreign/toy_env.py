"""A small env that all makers of foreign folders train on: a point that is to stay near the middle."""

from typing import ClassVar

import gymnasium as gym
import numpy as np

import tune_media as tm

ENV_ID = "Toy-v0"
STEPS = 8  # of an episode


class Toy(gym.Env):
    """A point in -1..1 that the action moves; the reward is 1 in the middle and 0 at the borders."""

    metadata: ClassVar = {"render_modes": ["rgb_array"], "render_fps": 10}
    observation_space = gym.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, render_mode=None):
        self.render_mode = render_mode

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.count = self.np_random.uniform(-1, 1), 0
        return self._observation(), {}

    def step(self, action):
        self.place = float(np.clip(self.place + 0.3 * float(np.ravel(action)[0]), -1, 1))
        self.count += 1
        return self._observation(), 1 - abs(self.place), False, self.count == STEPS, {}

    def _observation(self):
        return np.array([self.place], np.float32)

    def render(self):
        frame = np.full((32, 32, 3), 40, np.uint8)
        left = round((self.place + 1) * 14)
        frame[12:20, left : left + 4] = 220
        return frame


gym.register(ENV_ID, Toy)


def make():
    return gym.make(ENV_ID, render_mode="rgb_array")


def play(env, gain, seed):
    """Play an episode in which the action is -gain * place, and return the return and the frames."""
    observation, _ = env.reset(seed=seed)
    total, frames, truncated = 0.0, [env.render()], False
    while not truncated:
        observation, reward, _, truncated, _ = env.step(-gain * observation)
        total += float(reward)
        frames.append(env.render())
    return total, np.stack(frames)


def gains(seed, rounds, learning_rate=0.5):
    """Return the gains of the rounds of a training that always gets better; seeds differ a little."""
    return [learning_rate * number + 0.1 * seed for number in range(rounds)]


def clip(frames, path):
    """Write an mp4 as tune_media encodes it, at a path that another tool would have used."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(tm.Video(list(frames), fps=10).data)
