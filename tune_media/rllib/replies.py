"""The answers of an env runner to the Algorithm's requests."""

from __future__ import annotations

from dataclasses import dataclass, field

from tune_media.recording.choosing import Winners
from tune_media.replay.recipe import Recipe
from tune_media.values.episodes import EpisodeData
from tune_media.values.problems import Problem


@dataclass(frozen=True)
class Unfinished:
    """The data that an env runner has not seen so far."""

    longest: int = 0  # steps of the longest episode that still runs; 0: none runs
    unmatched: frozenset[str] = frozenset()  # paths of ``collect=`` that no step's info has had
    info_names: tuple[str, ...] = ()  # some names that infos do have


@dataclass(frozen=True)
class EpisodesReply:
    """The finished episodes of one env runner, as it reports them."""

    env_runner: int
    recording: str  # the id of its recording: another one after the env runner was restarted
    serial: str  # the id of this answer, which the Algorithm sends back, so that no episode is sent twice
    data: list[EpisodeData] = field(default_factory=list)
    candidates: list[str] = field(default_factory=list)  # the ids of the episodes that may be chosen
    # when RLlib fetched their metrics, Unix time in seconds, by id
    fetched_at: dict[str, float] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    # the paths of ``collect=`` and the episodes that it still waits for
    unfinished: Unfinished = field(default_factory=Unfinished)
    abandoned: int = 0  # episodes that began and never ended
    starts: dict[int, int] = field(default_factory=dict)  # episodes that each sub-env has begun
    # the candidates that hold no clips; if they were asked for at once, all of them, with their clips
    kept: Winners = field(default_factory=Winners)
    recipes: dict[str, bytes] = field(default_factory=dict)  # those that the episodes' tapes refer to, by hash
    # the ids of the records of the episodes whose tapes have the checksums of all frames
    samples: list[str] = field(default_factory=list)
    unseen_ends: int = 0  # episodes whose end RLlib counted without calling its hooks


@dataclass(frozen=True)
class FirstReply:
    """The report of an env runner before it plays."""

    problems: list[Problem] = field(default_factory=list)
    recipe: Recipe | None = None  # how its envs are made, if a frame of one like them is to be rendered before training
