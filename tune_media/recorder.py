"""Records the running episodes of one env runner, whatever framework steps them.

A recorder is told what happens (an episode starts, steps, ends, is abandoned) and keeps, of the finished ones, only
those that may still be chosen: their records and their encoded clips. Whoever owns it collects in two steps: first
``records()``, then ``take(winners, seen)``, which drops the losers.
"""

from __future__ import annotations

import contextlib
import logging
import time
import uuid
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tune_media.encoding import EncodedVideo, VideoEncoder, as_rgb, resize, target_size
from tune_media.overlay import Overlay, StepFacts, check_parts
from tune_media.selection import RenderBudget, Selector, Trigger, survivors
from tune_media.values import EpisodeRecord, Video, VideoOptions

logger = logging.getLogger(__name__)

Render = Callable[[], Mapping[str, Any]]
"""Returns the current frames of an env, by the name of their view; the only view's name is the empty string."""

Taken = Video | EpisodeRecord | dict[str, Video]
"""What a winner is handed over as: its clip; its record where no frames are recorded; a clip for each view."""


@dataclass(frozen=True)
class Plan:
    """What a recorder records.

    Attributes:
        name: What its clips are filed under.
        selectors: Which finished episodes are kept.
        trigger: Which episodes are recorded at all, by their index on their sub-env. None: all.
        video: How clips are made. None: records only, no frames.
        strict: Raise at the first fault instead of warning once.

    Raises:
        ValueError: An overlay that is none.
        ImportError: Overlays are wanted and Pillow is not installed.
    """

    name: str
    selectors: tuple[Selector, ...]
    trigger: Trigger | RenderBudget | None = None
    video: VideoOptions | None = field(default_factory=VideoOptions)
    strict: bool = False

    def __post_init__(self) -> None:
        if self.video is not None and self.video.overlay:
            check_parts(self.video.overlay)


class EpisodeRecorder:
    """Records episodes, any number of them at a time, each in a slot of its own (a sub-env).

    Args:
        plan: What to record.
        on_finished: Told each recorded episode when it ends, chosen or not.

    Attributes:
        abandoned: Number of episodes that were being recorded and never ended.
    """

    def __init__(self, plan: Plan, on_finished: Callable[[Taken], None] | None = None) -> None:
        self.plan = plan
        self.abandoned = 0
        self._on_finished = on_finished
        self._running: dict[Hashable, _Running] = {}
        self._finished: dict[str, _Finished] = {}
        self._started: dict[Hashable, int] = {}
        self._seeds: dict[Hashable, int | None] = {}
        self._problems: dict[str, bool] = {}  # each problem so far -> whether the collector has heard of it
        self._clock = _Clock()

    def start(
        self,
        slot: Hashable,
        episode_id: str,
        render: Render | None,
        fps: float,
        *,
        env: Any = None,
        seed: int | None = None,
        seed_is_new: bool = False,
        agents: Collection[str] = (),
        **facts: Any,
    ) -> bool:
        """An episode starts in ``slot``; its reset frame is recorded now.

        Args:
            slot: Where it runs; an episode still running there is abandoned.
            episode_id: Its id.
            render: Returns the current frames. Not called for an episode that the trigger declines.
            fps: Frames per second of the clip, unless the plan says otherwise.
            env: The env, for overlays that look at it.
            seed: The seed that the env's generator was last given. It is this episode's where it is a new one: a
                reset without a seed goes on where the last episode left the generator.
            seed_is_new: Whether it is known to be this episode's.
            agents: Names of the agents; a view with such a name is that agent's.
            **facts: Further fields of its ``EpisodeRecord``.

        Returns:
            Whether it is recorded.
        """
        self._clock.tick()
        self.abandon(slot)
        index = self._started.get(slot, 0)
        self._started[slot] = index + 1
        own_seed = seed if seed_is_new or seed != self._seeds.get(slot) else None
        self._seeds[slot] = seed
        with self._guard(slot, "the trigger"):
            if not self._triggered(index):
                return False
            options = self.plan.video
            clips = _Clips(options, render, fps) if options is not None and render is not None else None
            facts |= {"episode_id": episode_id, "seed": own_seed}
            self._running[slot] = _Running(facts, clips, env, frozenset(agents))
        self._record_frame(slot, StepFacts(0, 0.0, 0.0, None, env))
        return self.is_recording(slot)

    def is_recording(self, slot: Hashable) -> bool:
        """Say whether an episode is being recorded in ``slot``."""
        return slot in self._running

    def episode_return(self, slot: Hashable) -> float:
        """Return the sum of the rewards so far of the episode in ``slot``; 0 where none is recorded."""
        running = self._running.get(slot)
        return 0.0 if running is None else running.episode_return

    def step(self, slot: Hashable, reward: float, action: Any = None) -> None:
        """The episode in ``slot`` made an env step that brought ``reward``; the frame after it is recorded."""
        self._clock.tick()
        running = self._running.get(slot)
        if running is None:
            return
        running.episode_return += reward
        running.episode_length += 1
        facts = StepFacts(running.episode_length, reward, running.episode_return, action, running.env)
        self._record_frame(slot, facts)

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
        with self._guard(slot, "the end of an episode"):
            finished = running.finished(facts)
            if self._on_finished is not None:
                self._on_finished(finished.hand_over())
            self._finished[finished.record.id] = finished
            with self._guard(slot, "a selector of keep="):
                alive = survivors(self.records(), self.plan.selectors)
                self._finished = {id: candidate for id, candidate in self._finished.items() if id in alive}
                return finished.record
            self._finished.clear()  # what cannot be chosen among is not held
        return None

    def break_off(self, slot: Hashable, note: str) -> Taken | None:
        """Hand over the episode in ``slot`` as far as it came, with a note that says so; it is no candidate."""
        running = self._running.pop(slot, None)
        if running is None:
            return None
        return running.finished({"note": note}).hand_over()

    def abandon(self, slot: Hashable) -> None:
        """Drop the episode that runs in ``slot``, if one does: its env was reset or failed."""
        running = self._running.pop(slot, None)
        if running is None:
            return
        if running.clips is not None:
            running.clips.cancel()
        if running.episode_length:
            self.abandoned += 1

    def abandon_all(self) -> None:
        """Drop all running episodes: their envs are gone."""
        for slot in list(self._running):
            self.abandon(slot)

    def pause(self) -> None:
        """Nothing is stepped for a while: what passes until the next event is no sampling time."""
        self._clock.stop()

    def drop_finished(self) -> None:
        """Drop all finished candidates."""
        self._finished.clear()

    def records(self) -> list[EpisodeRecord]:
        """Return the records of the candidates, in the order in which they ended."""
        return [finished.record for finished in self._finished.values()]

    def take(self, winners: Collection[str], seen: Collection[str]) -> dict[str, Taken]:
        """Hand over the winners and drop the losers.

        Args:
            winners: Ids of the records to hand over.
            seen: Ids of all records that took part; candidates that ended since stay.

        Returns:
            What is here of the winners, by the id of its record.
        """
        finished = {id: self._finished.pop(id) for id in seen if id in self._finished}
        return {id: finished[id].hand_over() for id in finished if id in winners}

    def report(self, problem: str) -> None:
        """Say once what keeps episodes from being recorded, here and to whoever collects."""
        if problem not in self._problems:
            self._problems[problem] = False
            logger.warning("recording %r: an episode is not recorded: %s", self.plan.name, problem)

    def new_problems(self) -> list[str]:
        """Return what has been reported since the last call."""
        new = [problem for problem, told in self._problems.items() if not told]
        self._problems.update(dict.fromkeys(new, True))
        return new

    def _triggered(self, index: int) -> bool:
        trigger = self.plan.trigger
        if isinstance(trigger, RenderBudget):
            return trigger.allows(self._clock.rendering, self._clock.sampling)
        return trigger is None or bool(trigger(index))

    def _record_frame(self, slot: Hashable, facts: StepFacts) -> None:
        running = self._running.get(slot)
        if running is None or running.clips is None:
            return
        started = time.perf_counter()
        with self._guard(slot, "a frame"):
            running.clips.feed(facts)
        self._clock.rendering += time.perf_counter() - started

    @contextlib.contextmanager
    def _guard(self, slot: Hashable, what: str) -> Iterator[None]:
        """Turn what users' functions and envs raise into a problem that costs the episode, not the env runner."""
        try:
            yield
        except Exception as error:
            if self.plan.strict:
                raise
            self.report(f"{what}: {type(error).__name__}: {error}")
            self.abandon(slot)


@dataclass
class _Running:
    """An episode that is being recorded."""

    facts: dict[str, Any]
    clips: _Clips | None
    env: Any
    agents: frozenset[str]
    episode_return: float = 0.0
    episode_length: int = 0

    def finished(self, facts: dict[str, Any]) -> _Finished:
        own = {
            "episode_return": self.episode_return,
            "episode_length": self.episode_length,
            "finished_at": time.time(),
        }
        record = EpisodeRecord(**{**own, **self.facts, **facts})
        return _Finished(record, self.clips.finish() if self.clips is not None else None, self.agents)


@dataclass(frozen=True)
class _Finished:
    """A candidate."""

    record: EpisodeRecord
    clips: dict[str, EncodedVideo] | None
    agents: frozenset[str]

    def hand_over(self) -> Taken:
        if self.clips is None:
            return self.record
        videos = {view: self._video(view, clip) for view, clip in self.clips.items()}
        return videos[""] if set(videos) == {""} else videos

    def _video(self, view: str, clip: EncodedVideo) -> Video:
        note = "; ".join(text for text in (self.record.note, clip.note) if text) or None
        if not view:
            return Video.from_encoded(clip, episode=self.record, note=note, id=self.record.id)
        of_view = replace(self.record, view=view, agent=view if view in self.agents else None)
        return Video.from_encoded(clip, episode=of_view, note=note, id=uuid.uuid5(uuid.UUID(self.record.id), view).hex)


class _Clips:
    """The clips of one episode, one for each view, as they are encoded."""

    def __init__(self, options: VideoOptions, render: Render, fps: float) -> None:
        self._options, self._render, self._fps = options, render, options.fps or fps
        self._encoders: dict[str, VideoEncoder] = {}
        self._overlays: dict[str, Overlay] = {}

    def feed(self, facts: StepFacts) -> None:
        frames = self._render()
        if facts.step == 0:
            for view in frames:
                self._encoders[view] = VideoEncoder(self._fps, **self._options.encoder_keywords())
                self._overlays[view] = Overlay(self._options.overlay)
        for view, encoder in self._encoders.items():
            if view in frames:  # an agent that is gone has no more frames
                picture = frames[view]
                encoder.feed(self._drawn(view, picture, facts) if self._options.overlay else picture)

    def _drawn(self, view: str, picture: Any, facts: StepFacts) -> Any:
        rgb = as_rgb(picture)
        height, width = rgb.shape[:2]
        wanted = target_size(width, height, self._options.width, self._options.height)
        if self._options.width or self._options.height:  # text is drawn at the size that people read it at
            rgb = resize(rgb, height=wanted[1], width=wanted[0])
        return self._overlays[view].draw(rgb, facts)

    def finish(self) -> dict[str, EncodedVideo]:
        return {view: encoder.finish() for view, encoder in self._encoders.items()}

    def cancel(self) -> None:
        for encoder in self._encoders.values():
            encoder.cancel()


class _Clock:
    """How much of the sampling time went into rendering and encoding, seconds."""

    def __init__(self) -> None:
        self.rendering = 0.0
        self.sampling = 0.0
        self._last: float | None = None

    def tick(self) -> None:
        now = time.perf_counter()
        if self._last is not None:
            self.sampling += now - self._last
        self._last = now

    def stop(self) -> None:
        self._last = None


def with_progress(
    records: Sequence[EpisodeRecord], training_iteration: int | None, env_steps: int | None
) -> dict[str, EpisodeRecord]:
    """Return the records by id, with how far training was when they were collected."""
    return {
        record.id: replace(record, training_iteration=training_iteration, env_steps=env_steps) for record in records
    }
