"""Records the running episodes of one env runner, whatever framework steps them.

A recorder is told what happens (an episode starts, steps, ends, is abandoned) and keeps, of the finished ones, only
those that may still be chosen: their records and their encoded clips. Whoever owns it collects in two steps: first
``records()``, then ``take(ids)`` for the winners, which drops the rest.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tune_media.encoding import EncodedVideo, VideoEncoder
from tune_media.selection import Selector, Trigger, survivors
from tune_media.values import EpisodeRecord, Video, VideoOptions

logger = logging.getLogger(__name__)

Render = Callable[[], Any]
"""Returns the current frame."""


@dataclass(frozen=True)
class Plan:
    """What a recorder records.

    Attributes:
        name: What its clips are filed under.
        selectors: Which finished episodes are kept.
        trigger: Which episodes are recorded at all, by their index on their sub-env. None: all.
        video: How clips are made. None: records only, no frames.
        strict: Raise at the first fault instead of warning once.
    """

    name: str
    selectors: tuple[Selector, ...]
    trigger: Trigger | None = None
    video: VideoOptions | None = field(default_factory=VideoOptions)
    strict: bool = False


@dataclass
class _Running:
    """An episode that is being recorded."""

    facts: dict[str, Any]
    render: Render | None
    encoder: VideoEncoder | None
    episode_return: float = 0.0
    episode_length: int = 0


@dataclass(frozen=True)
class _Finished:
    record: EpisodeRecord
    clip: EncodedVideo | None


class EpisodeRecorder:
    """Records episodes, any number of them at a time, each in a slot of its own (a sub-env, an agent).

    Args:
        plan: What to record.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.abandoned = 0
        self._problems: dict[str, bool] = {}  # each problem so far -> whether the collector has heard of it
        self._running: dict[Hashable, _Running] = {}
        self._finished: dict[str, _Finished] = {}
        self._started: dict[Hashable, int] = {}
        self._seeds: dict[Hashable, int | None] = {}

    def start(
        self, slot: Hashable, episode_id: str, render: Render | None, fps: float, seed: int | None = None, **facts: Any
    ) -> bool:
        """An episode starts in ``slot``; its reset frame is recorded now.

        Args:
            slot: Where it runs; an episode still running there is abandoned.
            episode_id: Its id.
            render: Returns the current frame. Not called for an episode that the trigger declines.
            fps: Frames per second of the clip, unless the plan says otherwise.
            seed: The seed that the env's generator was last given. It is this episode's where it is a new one: a
                reset without a seed goes on where the last episode left the generator.
            **facts: Further fields of its ``EpisodeRecord``.

        Returns:
            Whether it is recorded.
        """
        self.abandon(slot)
        index = self._started.get(slot, 0)
        self._started[slot] = index + 1
        if self.plan.trigger is not None and not self.plan.trigger(index):
            return False
        options = self.plan.video
        encoder = None
        if options is not None and render is not None:
            encoder = VideoEncoder(options.fps or fps, **options.encoder_keywords())
        new_seed = None if seed == self._seeds.get(slot) else seed
        self._seeds[slot] = seed
        self._running[slot] = _Running({"episode_id": episode_id, "seed": new_seed, **facts}, render, encoder)
        self._record_frame(slot)
        return True

    def step(self, slot: Hashable, reward: float) -> None:
        """The episode in ``slot`` made an env step that brought ``reward``; the frame after it is recorded."""
        running = self._running.get(slot)
        if running is None:
            return
        running.episode_return += reward
        running.episode_length += 1
        self._record_frame(slot)

    def end(self, slot: Hashable, **facts: Any) -> EpisodeRecord | None:
        """The episode in ``slot`` is over; it becomes a candidate, and candidates that cannot win any more go.

        Args:
            slot: Where it ran.
            **facts: Further fields of its ``EpisodeRecord``.

        Returns:
            Its record, or None where none was recorded.
        """
        running = self._running.pop(slot, None)
        if running is None:
            return None
        record = EpisodeRecord(
            episode_return=running.episode_return,
            episode_length=running.episode_length,
            finished_at=time.time(),
            **{**running.facts, **facts},
        )
        clip = running.encoder.finish() if running.encoder is not None and running.encoder.frames else None
        if running.encoder is not None and clip is None:
            return None  # it could not be rendered; the problem is noted
        self._finished[record.id] = _Finished(record, clip)
        alive = survivors([finished.record for finished in self._finished.values()], self.plan.selectors)
        self._finished = {id: finished for id, finished in self._finished.items() if id in alive}
        return record

    def abandon(self, slot: Hashable) -> None:
        """Drop the episode that runs in ``slot``, if one does: its env was reset or failed."""
        running = self._running.pop(slot, None)
        if running is None:
            return
        if running.encoder is not None:
            running.encoder.cancel()
        if running.episode_length:
            self.abandoned += 1

    def abandon_all(self) -> None:
        """Drop all running episodes: their envs are gone."""
        for slot in list(self._running):
            self.abandon(slot)

    def drop_finished(self) -> None:
        """Drop all finished candidates."""
        self._finished.clear()

    def records(self) -> list[EpisodeRecord]:
        """Return the records of the candidates, in the order in which they ended."""
        return [finished.record for finished in self._finished.values()]

    def take(self, winners: Collection[str], seen: Collection[str]) -> dict[str, Video | EpisodeRecord]:
        """Hand over the winners and drop the losers.

        Args:
            winners: Ids of the records to hand over.
            seen: Ids of all records that took part; candidates that ended since stay.

        Returns:
            The clip of each winner that is here, by the id of its record; its record where no frames are recorded.
        """
        taken: dict[str, Video | EpisodeRecord] = {}
        for id in seen:
            finished = self._finished.pop(id, None)
            if finished is None or id not in winners:
                continue
            if finished.clip is None:
                taken[id] = finished.record
            else:
                taken[id] = Video.from_encoded(finished.clip, episode=finished.record, id=id)
        return taken

    def report(self, problem: str) -> None:
        """Say once what keeps episodes from being recorded, here and to whoever collects."""
        if problem not in self._problems:
            self._problems[problem] = False
            logger.warning("record_episodes %r: an episode is not recorded: %s", self.plan.name, problem)

    def new_problems(self) -> list[str]:
        """Return what has been reported since the last call."""
        new = [problem for problem, told in self._problems.items() if not told]
        self._problems.update(dict.fromkeys(new, True))
        return new

    def _record_frame(self, slot: Hashable) -> None:
        running = self._running[slot]
        if running.encoder is None or running.render is None:
            return
        try:
            running.encoder.feed(running.render())
        except Exception as error:
            if self.plan.strict:
                raise
            self.report(f"{type(error).__name__}: {error}")
            self.abandon(slot)


def with_progress(
    records: Sequence[EpisodeRecord], training_iteration: int | None, env_steps: int | None
) -> dict[str, EpisodeRecord]:
    """Return the records by id, with how far training was when they were collected."""
    return {
        record.id: replace(record, training_iteration=training_iteration, env_steps=env_steps) for record in records
    }
