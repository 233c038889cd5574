"""Plays checkpoints: in this process, or as Ray tasks over a cluster."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import logging
import os
import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.fs

from tune_media.evaluation.checkpoints import StoredCheckpoint
from tune_media.evaluation.foreign_policy import ForeignPolicyPlayer
from tune_media.evaluation.memory import PROBED, Manner, PolicyLoader
from tune_media.ray_compat import check_ray, start_ray
from tune_media.replay import playing
from tune_media.replay.player import ReplayDiffers
from tune_media.values.episodes import EpisodeData
from tune_media.values.problems import argument, message_of
from tune_media.values.secrets import error_text

logger = logging.getLogger("tune_media")

OVERWRITTEN = "the checkpoint was overwritten while it was played"
SOONEST = 2.0  # seconds between two batches of the same checkpoint
SHARE_OF_TIME = 0.05  # of what has passed, if that is more
_MOST_SEEDS = 25  # of a task, so that an interruption costs little, and the last tasks end at about the same time


@dataclass(frozen=True)
class Job:
    """Episodes to play, for the part of an evaluation with this number; without ``loader`` by RLlib."""

    part: int
    checkpoint: StoredCheckpoint
    settings: playing.PlayerSettings
    seeds: tuple[int, ...]
    loader: PolicyLoader | None = None

    @property
    def manner(self) -> Manner | None:
        """How its policy is told that an episode begins, if that is known."""
        return None if self.loader is None else self.loader.manner

    @property
    def is_probe(self) -> bool:
        """Whether it finds that out."""
        return self.loader is not None and self.manner is None and len(self.seeds) > 1


@dataclass(frozen=True)
class Played:
    """Episodes that have been played."""

    part: int
    episodes: list[EpisodeData] = field(default_factory=list)
    recipes: Mapping[str, bytes] = field(default_factory=dict)  # by hash
    played_as: playing.PlayedAs | None = None  # None if the policy could not be loaded
    error: str | None = None  # why no more were played
    ends_all: bool = False  # the error is one of the arguments, and not of this checkpoint alone
    manner: Manner | None = None  # of the policy, if it is known


def check_ray_for(policy: Any, workers: int) -> None:
    """Raise ImportError if playing needs Ray, and there is none; ``policy`` is None for RLlib's checkpoints."""
    if policy is None:
        check_ray("Playing RLlib's checkpoints", "rllib")
    if workers:
        check_ray("Playing in tasks (" + argument("workers=") + ")")


def played(jobs: Sequence[Job], workers: int) -> Generator[Played, None, None]:
    """Play jobs, and yield their episodes: as that many Ray tasks at a time, or, of 0, in this process."""
    if workers:
        yield from _played_by_tasks(jobs, workers)
        return
    with contextlib.closing(_Copies()) as copies:
        for job in jobs:
            with playing.same_process_state():
                yield from _batches(job, copies)


def _played_by_tasks(jobs: Sequence[Job], workers: int) -> Generator[Played, None, None]:
    """Play jobs as Ray tasks of one CPU, and yield the episodes of each task when it has ended."""
    import ray

    running: dict[Any, Job] = {}
    # few enough seeds for each task that all workers have something to do
    most = max(1, min(_MOST_SEEDS, -(-sum(len(job.seeds) for job in jobs) // workers)))
    waiting: list[Job] = []
    for number, job in enumerate(jobs):
        is_first = job.is_probe and all(job.loader is not before.loader for before in jobs[:number])
        starts = [0, *range(PROBED if is_first else most, len(job.seeds), most), len(job.seeds)]
        waiting += [dataclasses.replace(job, seeds=job.seeds[slice(*ends)]) for ends in itertools.pairwise(starts)]
    with ray_started(workers):
        play = ray.remote(num_cpus=1, max_retries=1)(_whole)
        try:
            while waiting or running:
                while len(running) < workers and (place := _ready(waiting, running.values())) is not None:
                    job = waiting.pop(place)
                    running[play.remote(job)] = job
                (done, *_), _ = ray.wait(list(running), num_returns=1)
                job = running.pop(done)
                try:
                    whole = ray.get(done)
                except ray.exceptions.RayError as error:
                    whole = Played(job.part, error=error_text(error))
                if job.loader is not None and job.loader.manner is None:
                    job.loader.manner = whole.manner
                yield whole
        finally:  # also if the caller has enough, and closes the generator
            for task in running:
                ray.cancel(task)


def _ready(waiting: Sequence[Job], running: Iterable[Job]) -> int | None:
    """Return the place of the first job that need not wait until a running one has found out its policy's manner."""
    probed = [job.loader for job in running if job.is_probe]
    jobs = enumerate(waiting)
    return next((place for place, job in jobs if all(job.loader is not loader for loader in probed)), None)


@contextlib.contextmanager
def ray_started(workers: int) -> Iterator[None]:
    """Have Ray in a ``with`` block: of this process or of ``RAY_ADDRESS``, else a new one here that ends with it."""
    import ray

    is_own = not ray.is_initialized()
    if is_own:
        here = {"num_cpus": workers, "include_dashboard": False, "logging_level": "ERROR"}
        start_ray(log_to_driver=False, **({} if "RAY_ADDRESS" in os.environ else here))
    try:
        yield
    finally:
        if is_own:
            ray.shutdown()


def _whole(job: Job) -> Played:
    """Play a job, and return all its episodes."""
    with playing.same_process_state(), contextlib.closing(_Copies()) as copies:
        return joined_batches(list(_batches(job, copies)))


def joined_batches(batches: Sequence[Played]) -> Played:
    """Return batches of one part as one; it has the error of the last."""
    episodes = [episode for batch in batches for episode in batch.episodes]
    recipes = {hash: recipe for batch in batches for hash, recipe in batch.recipes.items()}
    return dataclasses.replace(batches[-1], episodes=episodes, recipes=recipes)


class _Copies:
    """The last two checkpoints on this machine: a gate plays two in turns, and from S3 each is copied once."""

    def __init__(self) -> None:
        self._copies: list[tuple[StoredCheckpoint, Path, contextlib.ExitStack]] = []

    def folder_of(self, checkpoint: StoredCheckpoint) -> Path:
        """Return the folder of a checkpoint."""
        for copied, folder, _ in self._copies:
            if copied == checkpoint:
                return folder
        if len(self._copies) > 1:
            self._copies.pop(0)[-1].close()
        stack = contextlib.ExitStack()
        folder = stack.enter_context(checkpoint.on_this_machine())
        self._copies.append((checkpoint, folder, stack))
        return folder

    def close(self) -> None:
        """Delete the copies."""
        while self._copies:
            self._copies.pop()[-1].close()


def _batches(job: Job, copies: _Copies) -> Iterator[Played]:
    """Play a job, and yield its episodes every few seconds; the last batch has the error, if there was one."""
    began = time.monotonic()
    since = began
    batch: list[EpisodeData] = []
    episodes: Iterator[EpisodeData | None]
    player: Any
    with contextlib.ExitStack() as stack:
        try:
            folder = copies.folder_of(job.checkpoint)
            here = StoredCheckpoint(pyarrow.fs.LocalFileSystem(), folder.as_posix(), 0)
            digest = here.digest()
            if job.loader is None:
                from tune_media.rllib.checkpoint_player import player_of

                player = player_of(folder, job.settings, job.seeds)
                episodes = map(player.play, job.seeds)
            else:
                player = ForeignPolicyPlayer(job.loader, folder, job.settings)
                episodes = player.episodes(job.seeds)
            stack.callback(player.close)
            if folder.is_file() and here.digest() != digest:  # into a folder, loading may write
                raise playing.CheckpointError(OVERWRITTEN)
        except (Exception, SystemExit) as error:
            logger.info("tune_media: %s cannot be played", job.checkpoint.path, exc_info=True)
            yield Played(job.part, error=_reason(error))
            return
        failure, ends_all = None, False
        try:
            for episode in episodes:
                batch += [] if episode is None else [episode]
                now = time.monotonic()
                if now - since > max(SOONEST, SHARE_OF_TIME * (now - began)):
                    since = now
                    yield _batch(job, player, digest, batch)  # also without an episode: it is a sign of life
                    batch = []
        except (Exception, SystemExit) as error:
            logger.info("tune_media: an episode of %s failed", job.checkpoint.path, exc_info=True)
            which = "" if job.settings.fork else f"seed {player.seed}: "  # of a fork, a continuation's number
            failure, ends_all = which + _reason(error), isinstance(error, playing.UnclearSuccess)
        if job.manner is not None:
            if job.manner.error is not None:
                failure, ends_all = job.manner.error, True
            if job.manner.is_loaded_anew and folder.is_file() and here.digest() != digest:
                batch, failure = [], OVERWRITTEN
        yield dataclasses.replace(_batch(job, player, digest, batch, failure), ends_all=ends_all)


def _batch(job: Job, player: Any, digest: str | None, episodes: list[EpisodeData], error: str | None = None) -> Played:
    """Return episodes that a player has played with the checkpoint that has this digest."""
    played_as = dataclasses.replace(player.played_as, digest=digest)
    return Played(job.part, episodes, player.recipes, played_as, error, manner=job.manner)


def _reason(error: BaseException) -> str:
    """Return an error as text; one that we raise is a whole sentence."""
    if isinstance(error, SystemExit):
        return f"the code of the policy or of the env called sys.exit({error.code!r})"
    return message_of(error) if isinstance(error, (playing.CheckpointError, ReplayDiffers)) else error_text(error)
