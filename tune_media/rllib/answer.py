"""What an env runner answers to the Algorithm's requests."""

from __future__ import annotations

from dataclasses import dataclass, field

from tune_media.recording.winners import Winners
from tune_media.replay.recipe import Recipe
from tune_media.rllib.round_checks import Unfinished
from tune_media.values.episodes import EpisodeData
from tune_media.values.problems import Problem


@dataclass(frozen=True)
class Answer:
    """The finished episodes of one env runner, as it tells of them.

    Attributes:
        recording: The id of its recording: another one after the env runner was restarted.
        serial: The id of this answer. The Algorithm sends it back, so that no episode is told of twice.
        candidates: The ids of the episodes that may be chosen.
        fetched_at: When RLlib fetched their metrics, Unix time in seconds, by id.
        unfinished: The paths of ``collect=`` and the episodes that it still waits for.
        abandoned: Number of episodes that began and never ended.
        starts: Number of episodes that each sub-env has begun.
        kept: The candidates that hold no clips; if they were asked for at once, all of them, with their clips.
        recipes: The recipes that the episodes' tapes refer to, by their hash.
        samples: The ids of the records of the episodes whose tapes have checksums of frames.
        unseen_ends: Number of episodes whose end RLlib counted without calling its hooks.
    """

    env_runner: int
    recording: str
    serial: str
    data: list[EpisodeData] = field(default_factory=list)
    candidates: list[str] = field(default_factory=list)
    fetched_at: dict[str, float] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    unfinished: Unfinished = field(default_factory=Unfinished)
    abandoned: int = 0
    starts: dict[int, int] = field(default_factory=dict)
    kept: Winners = field(default_factory=Winners)
    recipes: dict[str, bytes] = field(default_factory=dict)
    samples: list[str] = field(default_factory=list)
    unseen_ends: int = 0


@dataclass(frozen=True)
class FirstAnswer:
    """What an env runner tells before it plays.

    Attributes:
        recipe: How its envs are made, if a frame of one like them is to be rendered before training.
    """

    problems: list[Problem] = field(default_factory=list)
    recipe: Recipe | None = None
