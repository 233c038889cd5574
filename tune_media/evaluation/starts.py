"""What is known of an episode before its first step: its reset's observation and info."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tune_media.replay.player import replay
from tune_media.replay.recipe import LoadedRecipe
from tune_media.replay.tape import Tape
from tune_media.rllib.checkpoint_player import same_process_state
from tune_media.values.convert import as_numbers
from tune_media.viewing.taped_episodes import TapedEpisode

_MOST_NUMBERS = 32  # of an observation; a picture says nothing by one pixel


def starts_of(episodes: Sequence[TapedEpisode]) -> dict[int, dict[str, float]]:
    """Return the numbers of the reset of each episode by seed, by name.

    Each env is made and reset again in this process, which runs the user's code.

    Raises:
        Exception: Whatever making the env raises; ReplayDiffers: another reset than the tape's.
    """
    found: dict[int, dict[str, float]] = {}
    envs: dict[Any, Any] = {}
    with contextlib.ExitStack() as open_ones, same_process_state():
        for episode in episodes:
            place = episode.place()
            key = (episode.row["recipe"], *place.values())
            if key not in envs:
                envs[key] = LoadedRecipe.of(episode.recipe()).make(**place)
                open_ones.callback(envs[key].close)
            start = next(iter(replay(envs[key], Tape.unpacked(episode.tape()))))
            numbers = [*_numbers("observation", start.observation), *_numbers("info", start.info)]
            found[int(episode.row["seed"])] = {f"{name} at the reset": value for name, value in numbers}
    return found


def _numbers(name: str, value: Any) -> Iterator[tuple[str, float]]:
    """Yield the numbers of an observation or an info.

    >>> list(_numbers("observation", {"speed": [1, 2], "wind": 0.5}))
    [('observation/speed[0]', 1.0), ('observation/speed[1]', 2.0), ('observation/wind', 0.5)]
    """
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _numbers(f"{name}/{key}", item)
        return
    numbers = as_numbers(value)
    if numbers is None or numbers.size > _MOST_NUMBERS:
        return
    if numbers.ndim == 0:
        yield name, float(numbers)
        return
    for at, number in enumerate(numbers.ravel().tolist()):
        yield f"{name}[{at}]", float(number)
