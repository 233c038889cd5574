"""Clips that came as tapes, of episodes of a small env, which the process that renders makes again."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import numpy as np

import tune_media as tm
from tune_media.recording.pictures import ALONE, Pictures
from tune_media.replay.recipe import Recipe
from tune_media.replay.tape import Tape
from tune_media.replay.tape_recorder import TapeRecorder
from tune_media.replay.taped_clip import TapedClip
from tune_media.values.medium import new_id

STEPS = 4


def take_step(tape: Tape, action: Any, check: int, reward: Any = None) -> None:
    """Put a whole step on a tape."""
    tape.acts(action)
    tape.has_stepped(check, reward)


class Gated:
    """An env whose picture is as bright as its number of steps, and which is not rendered before a file is there.

    Args:
        config: ``gate``: the file; ``drawn``: the observation is a number that no replay draws again; ``tells``: a
            file that it makes when it is rendered.
    """

    metadata = {"render_fps": 5}  # noqa: RUF012
    render_mode = "rgb_array"

    def __init__(self, config: dict[str, Any]) -> None:
        self.config, self.count = dict(config), 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.count = 0
        return self._observation(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.count += action
        return self._observation(), 1.0, False, False, {}

    def render(self) -> Any:
        gate = self.config.get("gate")
        if "tells" in self.config:
            Path(self.config["tells"]).touch()
        while gate and not Path(gate).exists():
            time.sleep(0.01)
        return self.picture(self.count)

    @staticmethod
    def picture(count: int) -> Any:
        """Return the picture after so many steps."""
        return np.full((32, 32, 3), 20 * count % 256, np.uint8)

    def close(self) -> None:
        """Nothing is open."""

    def _observation(self) -> Any:
        drawn = int.from_bytes(os.urandom(4), "little") if self.config.get("drawn") else 0
        return np.array([self.count, drawn], np.float64)


def make(config: dict[str, Any]) -> Gated:
    return Gated(config)


def taped_clip(
    level: int = 1,
    episode_return: float = 0.0,
    creator: Any = make,
    frame: Any = None,
    jump: int = 0,
    shown: int | None = 0,
    **config: Any,
) -> TapedClip:
    """Return the clip of an episode with the action ``level``, as an env runner hands it on.

    ``jump`` is added to the env's count before the last step, which no replay does. The last picture was rendered while
    the episode ran, ``shown`` brighter than a replay's; None: no picture was.
    """
    env = creator(config)
    recorder = TapeRecorder(env)
    env.reset(seed=3)
    for step in range(STEPS):
        env.count += jump if step == STEPS - 1 else 0
        env.step(level)
    assert recorder.tape is not None
    if shown is not None:
        recorder.tape.pictures = Pictures(ALONE)
        picture = Gated.picture(env.count) + np.uint8(shown)
        recorder.tape.pictures.add(STEPS, dict.fromkeys(frame or [""], picture))
    record = tm.EpisodeRecord(new_id(), episode_return, STEPS, seed=3)
    return TapedClip(recorder.tape.packed(), Recipe.of(creator, config, frame=frame), record)
