"""What the pictures of an env show, written down by the env runner that steps it.

Nothing of this is an attribute of an env, of its class or of its module: whoever looks at an env's state finds none of
it. The process that plays tapes again writes nothing.
"""

from __future__ import annotations

import json
import os
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

BLOCK, COLUMNS, ROWS = 16, 8, 4
_BIT = 1 << np.arange(8)


def draw(step: int, value: int) -> np.ndarray:
    """Draw the number of the step (8 bits) and a value (24 bits) as black and white blocks of 16 by 16 pixels."""
    whole = np.array([step, value & 255, value >> 8 & 255, value >> 16 & 255])
    bits = (whole[:, None] & _BIT > 0).astype(np.uint8)
    grey = np.kron(bits * 255, np.ones((BLOCK, BLOCK), np.uint8))
    return np.repeat(grey[:, :, None], 3, axis=2)


def read(frame: np.ndarray) -> tuple[int, int] | None:
    """Return the step and the value that a frame shows; None: it shows something else."""
    if frame.shape != (ROWS * BLOCK, COLUMNS * BLOCK, 3):
        return None
    means = frame.reshape(ROWS, BLOCK, COLUMNS, BLOCK, 3).mean(axis=(1, 3, 4))
    if ((means > 64) & (means < 191)).any():
        return None
    step, low, middle, high = ((means > 127) * _BIT).sum(axis=1).tolist()
    return step, low | middle << 8 | high << 16


class _Episode:
    """An episode that runs.

    Attributes:
        shown: What a picture of each step shows: after the step, and before the next one, if that is something else.
        rendered: What the pictures that were rendered in each step did show.
        as_if: What each picture shows if each step is rendered once; None: rendering changes nothing.
    """

    def __init__(self, number: int, as_if: Iterator[int] | None) -> None:
        self.number, self.shown, self.rendered = number, [], []
        self.as_if, self._next = ([], as_if) if as_if is not None else (None, None)
        self.total, self.is_over, self.is_left = 0.0, False, False

    def add(self, env: Any) -> None:
        """Note what a picture of the env shows after a step."""
        self.shown.append([shows(env)])
        self.rendered.append([])
        if self.as_if is not None:
            self.as_if.append(env.placed(next(self._next)) & 0xFFFFFF)

    def add_to_last(self, value: int) -> bool:
        """Note what a picture shows by now; return whether that is news."""
        is_new = value not in self.shown[-1]
        if is_new:
            self.shown[-1].append(value)
        return is_new


_EPISODES: weakref.WeakKeyDictionary[Any, _Episode] = weakref.WeakKeyDictionary()
_SHOWN_BY: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


def renders_only() -> bool:
    """Return whether this process plays tapes again."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    return (spec is not None and spec.name == "tune_media.replay.child") or sys.argv[-1].endswith("-renderers")


def shown_by(env: Any, shown: Callable[[], int]) -> None:
    """Ask a wrapper's method, instead of the env, what the pictures show."""
    _SHOWN_BY[env] = weakref.WeakMethod(shown)


def shows(env: Any) -> int:
    """Return what a picture of an env would show now."""
    other = _SHOWN_BY.get(env)
    return env.placed((env.shown if other is None else other())()) & 0xFFFFFF


def will_reset(env: Any) -> None:
    """Note what the last picture of the episode shows by now: somebody may have changed the env since its end.

    A wrapper that changes it in its own reset calls this before.
    """
    episode = _EPISODES.get(env)
    if episode is None or not episode.is_over or episode.is_left:
        return
    episode.is_left = True
    if episode.add_to_last(shows(env)):
        _write(env, episode)


def has_reset(env: Any) -> None:
    if renders_only():
        return
    before = _EPISODES.get(env)
    _EPISODES[env] = _Episode(0 if before is None else before.number + 1, env.as_if_rendered())
    _EPISODES[env].add(env)


def will_step(env: Any) -> None:
    """Note what the picture shows that only now can no longer be rendered."""
    if (episode := _EPISODES.get(env)) is not None and not episode.is_over:
        episode.add_to_last(shows(env))


def has_stepped(env: Any, reward: float, *, is_over: bool) -> None:
    """Note a step; the last one writes the episode down."""
    episode = _EPISODES.get(env)
    if episode is None or episode.is_over:
        return
    episode.add(env)
    episode.total, episode.is_over = episode.total + reward, is_over
    if is_over:
        _write(env, episode)


def has_changed(env: Any) -> None:
    """Note what the picture of the last step shows by now, since a wrapper has changed it."""
    episode = _EPISODES.get(env)
    if episode is not None and episode.add_to_last(shows(env)) and episode.is_over:
        _write(env, episode)


def was_rendered(env: Any, value: int) -> None:
    """Note what a picture shows that was rendered where the env is stepped."""
    episode = _EPISODES.get(env)
    if episode is not None and value & 0xFFFFFF not in episode.rendered[-1]:
        episode.rendered[-1].append(value & 0xFFFFFF)
        if episode.is_over:
            _write(env, episode)


def _write(env: Any, episode: _Episode) -> None:
    """Add an episode to the file of this process; a later line of the same episode replaces an earlier one."""
    line = {"cell": env.cell, "process": os.getpid(), "env": id(env), "number": episode.number}
    line |= {"return": episode.total, "shown": episode.shown, "rendered": episode.rendered, "as_if": episode.as_if}
    file = os.open(Path(env.folder, f"{os.getpid()}.jsonl"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(file, json.dumps(line).encode() + b"\n")
    finally:
        os.close(file)


def written(folder: Path, cell: str) -> dict[float, list[dict[str, Any]]]:
    """Return the episodes of a cell, by their return."""
    found: dict[tuple[int, int, int, float], dict[str, Any]] = {}
    for path in sorted(folder.glob("*.jsonl")):
        for text in path.read_bytes().splitlines():
            line = json.loads(text)
            if line["cell"] == cell:
                found[line["process"], line["env"], line["number"], line["return"]] = line
    by_return: dict[float, list[dict[str, Any]]] = {}
    for line in found.values():
        by_return.setdefault(line["return"], []).append(line)
    return by_return
