"""Frozen lakes and Atari games that count what is done with them; they need no RLlib, so that processes start fast."""

import subprocess

import gymnasium as gym

MADE: list[gym.Env] = []  # every env of this process


class Lake(gym.Wrapper):
    """A frozen lake that counts its renders."""

    def __init__(self, config):
        lake = gym.make("FrozenLake-v1", render_mode="rgb_array", max_episode_steps=8)
        super().__init__(gym.wrappers.FlattenObservation(lake))
        self.renders = 0
        MADE.append(self)

    def render(self):
        self.renders += 1
        return self.env.render()


class Pong(Lake):
    """An Atari game with its default of sticky actions, whose emulator draws them."""

    def __init__(self, config):
        import ale_py

        gym.register_envs(ale_py)
        super().__init__(config)
        self.env = gym.make("ALE/Pong-v5", obs_type="ram", render_mode="rgb_array", max_episode_steps=20)
        self._observation_space, self._action_space = self.env.observation_space, self.env.action_space


class EachLife(Pong):
    """An Atari game whose episodes end with each life, as RLlib's own wrapper has it."""

    def __init__(self, config):
        from ray.rllib.env.wrappers.atari_wrappers import EpisodicLifeEnv

        super().__init__(config)
        game = gym.make("ALE/Breakout-v5", obs_type="ram", render_mode="rgb_array")
        self.env = EpisodicLifeEnv(game)
        self._observation_space, self._action_space = game.observation_space, game.action_space


class Refuses(Lake):
    def reset(self, *, seed=None, options=None):
        if seed is not None:
            raise NotImplementedError("no seeds here")
        return super().reset(seed=seed, options=options)


class HasSimulator(Lake):
    def __init__(self, config):
        super().__init__(config)
        self.simulator = subprocess.Popen(["sleep", "60"])

    def close(self):
        self.simulator.kill()
        self.simulator.wait()


class SaysDirect(Lake):
    def __init__(self, config):
        super().__init__(config)
        self.metadata = {**self.env.metadata, "tune_media": "direct"}


class ShowsItsAge(Lake):
    """A corner of its pictures shows how many episodes it has begun, of which nothing else tells."""

    def __init__(self, config):
        super().__init__(config)
        self.age = 0

    def reset(self, **kwargs):
        self.age += 1
        return super().reset(**kwargs)

    def render(self):
        picture = super().render().copy()
        picture[:8, :8] = 40 * self.age % 256
        return picture
