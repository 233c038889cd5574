"""Envs that people install, and what shows whether the clips of their episodes are right.

A clip that was recorded directly is compared with the frames that the env rendered in its steps. A replay is compared
with another process's play of the whole run, from its first episode on, that renders each frame: that is what recording
it directly would have shown.
"""

from __future__ import annotations

import copy
import functools
import importlib
import logging
import pickle
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from tests.support import rendered_frames

ROUNDS, FEW_ROUNDS, EPISODES = 10, 4, 3
"""Calls of ``take()``, how many there are at least, and episodes in each."""
STEPS, FEW_STEPS, FEWEST_STEPS = 50, 15, 6
"""The most steps of an episode; the smaller numbers are for dear frames."""
MOST_SECONDS = 20.0
"""An env that is slower records fewer rounds."""
_BLOCK = 8
_MEAN, _OF_BLOCK = 12.0, 20.0
"""How far the frame of a clip may be from the env's, of 255: the mean of all pixels, and the mean of any block."""


def _gymnasium(id: str, module: str = "", **options: Any) -> gym.Env:
    if module:
        found = importlib.import_module(module)
        if module in ("ale_py", "gymnasium_robotics", "shimmy"):
            gym.register_envs(found)
    return gym.make(id, render_mode="rgb_array", **options)


def _miniworld(id: str) -> gym.Env:
    import pyglet

    pyglet.options["headless"] = True
    return _gymnasium(id, "miniworld")


def _mo_gymnasium(id: str) -> gym.Env:
    return importlib.import_module("mo_gymnasium").make(id, render_mode="rgb_array")


class _Adapter(gym.Env):
    """An env of another interface, as its users adapt it."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012
    observation_space = gym.spaces.Box(0, 1, (1,), np.float32)
    render_mode = "rgb_array"

    def _observation(self) -> np.ndarray:
        return np.zeros(1, np.float32)


class Crafter(_Adapter):
    """Crafter, whose world depends on its constructor's seed and the number of the episode.

    Without ``has_seeds``, the seed of a reset is not used, as in most adapters.
    """

    def __init__(self, has_seeds: bool) -> None:
        self._has_seeds = has_seeds
        self._env = importlib.import_module("crafter").Env(seed=1)
        self.action_space = gym.spaces.Discrete(17)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        if self._has_seeds and seed is not None:
            self._env = importlib.import_module("crafter").Env(seed=seed)
        self._env.reset()
        return self._observation(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        _, reward, over, _ = self._env.step(int(action))
        return self._observation(), float(reward), bool(over), False, {}

    def render(self) -> np.ndarray:
        return self._env.render((128, 128))


class Mpe(_Adapter):
    """A parallel env of mpe2, for one agent that acts for all."""

    def __init__(self, name: str) -> None:
        self._env = importlib.import_module(f"mpe2.{name}").parallel_env(render_mode="rgb_array")
        self.action_space = gym.spaces.MultiDiscrete([5] * len(self._env.possible_agents))

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self._env.reset(seed=seed)
        return self._observation(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        _, rewards, *_ = self._env.step(dict(zip(self._env.possible_agents, map(int, action), strict=True)))
        return self._observation(), float(sum(rewards.values())), not self._env.agents, False, {}

    def render(self) -> np.ndarray:
        return self._env.render()


class Flatland(_Adapter):
    """Trains of Flatland, for one agent that acts for all."""

    action_space = gym.spaces.MultiDiscrete([5] * 3)

    def __init__(self) -> None:
        from flatland.envs.line_generators import sparse_line_generator
        from flatland.envs.rail_env import RailEnv
        from flatland.envs.rail_generators import sparse_rail_generator

        self._env = RailEnv(
            width=24,
            height=24,
            number_of_agents=3,
            rail_generator=sparse_rail_generator(max_num_cities=2, seed=1),
            line_generator=sparse_line_generator(seed=1),
        )

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        from flatland.utils.rendertools import RenderTool

        super().reset(seed=seed)
        self._env.reset(random_seed=seed)
        self._renderer = RenderTool(self._env, gl="PILSVG", screen_height=480, screen_width=480)
        return self._observation(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        _, rewards, over, _ = self._env.step(dict(enumerate(map(int, action))))
        return self._observation(), float(sum(rewards.values())), bool(over["__all__"]), False, {}

    def render(self) -> np.ndarray:
        self._renderer.render_env(show=False, show_observations=False, show_predictions=False)
        return np.ascontiguousarray(self._renderer.get_image()[:, :, :3])


@dataclass(frozen=True)
class Installed:
    """An env that people install, with the module ``package``."""

    package: str
    make: Callable[[], gym.Env]
    steps: int = STEPS


def _all(ids: Iterable[str], package: str, module: str = "", steps: int = STEPS) -> dict[str, Installed]:
    return {id: Installed(package, functools.partial(_gymnasium, id, module), steps) for id in ids}


ENVS: dict[str, Installed] = {
    **_all(("CartPole-v1", "Acrobot-v1", "Pendulum-v1", "MountainCar-v0"), "pygame"),
    **_all(("Taxi-v3", "FrozenLake-v1", "CliffWalking-v1", "Blackjack-v1"), "pygame"),
    **_all(("LunarLander-v3", "BipedalWalker-v3"), "Box2D"),
    **_all(("CarRacing-v3",), "Box2D", steps=FEW_STEPS),
    **_all(("HalfCheetah-v5", "Humanoid-v5"), "mujoco", steps=FEWEST_STEPS),
    **_all(("ALE/Breakout-v5", "ALE/Pong-v5", "ALE/MsPacman-v5"), "ale_py", "ale_py"),
    **_all(("MiniGrid-DoorKey-8x8-v0", "MiniGrid-Dynamic-Obstacles-8x8-v0"), "minigrid", "minigrid"),
    **_all(("highway-v0", "roundabout-v0"), "highway_env", "highway_env", FEWEST_STEPS),
    **_all(("VizdoomBasic-v1", "VizdoomTakeCover-v1"), "vizdoom", "vizdoom.gymnasium_wrapper"),
    "crafter, seeded": Installed("crafter", functools.partial(Crafter, True)),
    "crafter, seed unused": Installed("crafter", functools.partial(Crafter, False)),
    "MiniWorld-Hallway-v0": Installed("miniworld", functools.partial(_miniworld, "MiniWorld-Hallway-v0"), FEW_STEPS),
    **_all(("FetchReach-v4", "PointMaze_UMaze-v3"), "gymnasium_robotics", "gymnasium_robotics", FEW_STEPS),
    "mpe2 simple_spread_v3": Installed("mpe2", functools.partial(Mpe, "simple_spread_v3"), FEW_STEPS),
    "flatland": Installed("flatland", Flatland, FEW_STEPS),
    **_all(("PandaReach-v3",), "panda_gym", "panda_gym", FEWEST_STEPS),
    **_all(("gym_pusht/PushT-v0",), "gym_pusht", "gym_pusht"),
    **{
        id: Installed("mo_gymnasium", functools.partial(_mo_gymnasium, id))
        for id in ("deep-sea-treasure-v0", "mo-mountaincar-v0")
    },
    **_all(("dm_control/cartpole-swingup-v0",), "dm_control", "shimmy", FEWEST_STEPS),
}


class Noted(gym.Wrapper):
    """Notes the frames that the env renders, and has no attributes of its own."""

    def reset(self, **options: Any) -> Any:
        rendered_frames.begin()
        return self.env.reset(**options)

    def step(self, action: Any) -> Any:
        rendered_frames.stepped()
        return self.env.step(action)

    def render(self) -> Any:
        frame = self.env.render()
        rendered_frames.rendered(frame)
        return frame


def made(name: str) -> gym.Env:
    return Noted(gym.wrappers.TimeLimit(ENVS[name].make(), ENVS[name].steps))


@dataclass
class Played:
    """An episode of the recorded run."""

    seed: int
    actions: list[Any] = field(default_factory=list)
    rewards: list[np.ndarray] = field(default_factory=list)
    clips: list[bytes] = field(default_factory=list)


@dataclass
class Row:
    """What the table says of an env.

    Attributes:
        places: How each clip was made, ``d``: directly, ``r``: as a replay, ``-``: it is missing; in their order.
        frame_ms: The median of a frame's CPU times, milliseconds: other work on the machine does not count.
        farthest: How far a block of a clip that is right is from the env's frame, at most.
        wrong: What is not right.
    """

    name: str
    places: str = ""
    clips: int = 0
    right: int = 0
    frame_ms: float = 0.0
    farthest: float = 0.0
    seconds: float = 0.0
    said: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    is_missing: bool = False

    def add(self, why_wrong: str, farthest: float) -> None:
        if why_wrong:
            self.wrong.append(why_wrong)
        else:
            self.right, self.farthest = self.right + 1, max(self.farthest, farthest)

    @property
    def way(self) -> str:
        """Whether the env is taped, by its last clips."""
        if not self.places:
            return "failed"
        last = self.places.rstrip("-")[-1:]
        taped = {"r": "taped", "d": "direct"}.get(last, "no clips")
        return f"{taped} (was taped)" if last == "d" and "r" in self.places else taped


def actions_of(space: gym.Space, seed: int) -> Callable[[], Any]:
    """Return a function that draws actions from a copy of an env's space."""
    own = copy.deepcopy(space)
    own.seed(seed)
    return own.sample


def record(name: str, folder: Path) -> Row:
    """Record the run, and compare the clips that were recorded directly; the replays are left in the folder."""
    import tune_media as tm

    row, episodes = Row(name), []
    logger, handler = logging.getLogger("tune_media"), logging.Handler(logging.WARNING)
    handler.emit = lambda record: row.said.append(record.getMessage())  # type: ignore[method-assign]
    logger.addHandler(handler)
    env = tm.gym.RecordEpisodes(made(name), keep=("best", "worst"), render="auto", env_fn=functools.partial(made, name))
    began = time.monotonic()
    for number in range(ROUNDS):
        if number >= FEW_ROUNDS and time.monotonic() - began > MOST_SECONDS:
            break
        frames = {}
        for index in range(EPISODES):
            episode = Played(1000 + EPISODES * number + index)
            episodes.append(episode)
            _play(env, episode)
            frames[episode.seed] = rendered_frames.taken()
        found = env.take()
        seen = set()
        for key in ("best", "worst"):
            video = found.get(key)
            if not isinstance(video, tm.Video):
                row.places += "-"
                row.clips += 1
                row.wrong.append(f"no {key} in take() {number}")
                continue
            if video.id in seen:
                continue
            seen.add(video.id)
            row.clips += 1
            row.places += str(video.episode.rendered)[0]
            played = next(one for one in episodes if one.seed == video.episode.seed)
            if video.episode.rendered == "replay":
                played.clips.append(video.content())
            else:
                why, farthest = differs(video.content(), list(frames[played.seed].values()))
                row.add(f"direct, seed {played.seed}: {why}" if why else "", farthest)
    env.close()
    (folder / "episodes").write_bytes(pickle.dumps(episodes))
    return row


def _play(env: gym.Env, episode: Played) -> None:
    env.reset(seed=episode.seed)
    draw, over = actions_of(env.action_space, episode.seed), False
    while not over:
        episode.actions.append(draw())
        _, reward, terminated, truncated, _ = env.step(episode.actions[-1])
        episode.rewards.append(np.asarray(reward, float))
        over = terminated or truncated


def compare_replays(row: Row, folder: Path) -> Row:
    """Play the run again, rendered in full, and compare its replays."""
    episodes: list[Played] = pickle.loads((folder / "episodes").read_bytes())
    env = made(row.name)
    times: list[float] = []
    with_clips = [index for index, episode in enumerate(episodes) if episode.clips]
    for episode in episodes[: with_clips[-1] + 1 if with_clips else 1]:
        frames, is_same = _play_again(env, episode, times)
        for clip in episode.clips:
            why, farthest = differs(clip, [[frame] for frame in frames])
            if why:
                fresh = _play_again(made(row.name), episode, times)[0]
                like = "nor is it as in" if differs(clip, [[frame] for frame in fresh])[0] else "as in"
                other = "" if is_same else "; its rewards are others when it is played again"
                why = f"replay, seed {episode.seed}: {why}; {like} a new env{other}"
            row.add(why, farthest)
    row.frame_ms = 1000 * statistics.median(times)
    return row


def _play_again(env: gym.Env, episode: Played, times: list[float]) -> tuple[list[np.ndarray], bool]:
    """Return all frames of an episode, and whether its rewards are the same again."""
    env.reset(seed=episode.seed)
    frames, is_same = [_rendered(env, times)], True
    for action, expected in zip(episode.actions, episode.rewards, strict=True):
        _, reward, *_ = env.step(action)
        is_same &= bool(np.allclose(reward, expected))
        frames.append(_rendered(env, times))
    return frames, is_same


def _rendered(env: gym.Env, times: list[float]) -> np.ndarray:
    began = time.process_time()
    frame = np.array(env.render())
    times.append(time.process_time() - began)
    return frame


def differs(clip: bytes, expected: Sequence[Sequence[np.ndarray]]) -> tuple[str, float]:
    """Return how a clip differs from the frames that it may show at each step, and how far its blocks are from them.

    The text is empty if it does not differ.
    """
    from tune_media.encoding.decode import decode_video

    frames, farthest = list(decode_video(clip)), 0.0
    if len(frames) != len(expected):
        return f"{len(frames)} frames instead of {len(expected)}", farthest
    for index, (frame, options) in enumerate(zip(frames, expected, strict=True)):
        mean, block = min(distance(frame, one) for one in options)
        farthest = max(farthest, block)
        if mean > _MEAN or block > _OF_BLOCK:
            return f"frame {index} of {len(frames)} is another: {mean:.1f}, in one block {block:.1f}", farthest
    return "", farthest


def distance(one: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """Return the mean difference of all pixels, and the largest difference of the mean grey of a block."""
    height, width = (min(a, b) for a, b in zip(one.shape[:2], other.shape[:2], strict=True))
    signed = one[:height, :width].astype(np.int16) - other[:height, :width, :3]
    height, width = height // _BLOCK * _BLOCK, width // _BLOCK * _BLOCK
    grey = signed[:height, :width].mean(axis=2)
    blocks = grey.reshape(height // _BLOCK, _BLOCK, width // _BLOCK, _BLOCK).mean(axis=(1, 3))
    return float(np.abs(signed).mean()), float(np.abs(blocks).max())
