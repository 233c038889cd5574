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
from tune_media.overlay import Overlay, check_parts
from tune_media.selection import RenderBudget, Selector, Trigger, survivors
from tune_media.steps import Collect, StepFacts, Totals, check_collect, collected
from tune_media.values import EpisodeRecord, Video, VideoOptions

logger = logging.getLogger(__name__)

MOST_CANDIDATES = 512
"""Finished episodes that a recorder holds at the most."""

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
        collect: What is taken from each step, to become ``EpisodeRecord.metrics``. None: nothing.
        strict: Raise at the first fault instead of warning once.

    Raises:
        ValueError: An overlay that is none.
        TypeError: A ``collect`` that is none.
        ImportError: Overlays are wanted and Pillow is not installed.
    """

    name: str
    selectors: tuple[Selector, ...]
    trigger: Trigger | RenderBudget | None = None
    video: VideoOptions | None = field(default_factory=VideoOptions)
    collect: Collect | None = None
    strict: bool = False

    @property
    def looks_at_steps(self) -> bool:
        """Whether a step's action and info are needed."""
        return self.collect is not None or (self.video is not None and bool(self.video.overlay))

    def __post_init__(self) -> None:
        check_collect(self.collect)
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
        self._problems: set[tuple[str, str, str]] = set()  # their kinds, so that texts that vary do not pile up
        self._untold: list[str] = []
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
        with self.guard(slot, "the trigger"):
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

    def step(
        self,
        slot: Hashable,
        reward: float,
        action: Any = None,
        info: Mapping[str, Any] | None = None,
        *,
        picture: bool = True,
    ) -> None:
        """The episode in ``slot`` made an env step; the frame after it is recorded.

        Args:
            slot: Where it runs.
            reward: What the step brought.
            action: What led to it; only looked at where ``plan.looks_at_steps``, as is ``info``.
            info: The step's info.
            picture: False where the env already shows something else.
        """
        self._clock.tick()
        running = self._running.get(slot)
        if running is None:
            return
        running.episode_return += reward
        running.episode_length += 1
        facts = StepFacts(running.episode_length, reward, running.episode_return, action, running.env, info or {})
        if self.plan.collect is not None:
            self._collect(running, facts)
        if picture:
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
        with self.guard(slot, "the end of an episode"):
            with self._clock.render():
                finished = running.finished(facts)
            self._finished[finished.record.id] = finished
            if self._on_finished is not None:
                with self.guard(slot, "handing over an episode"):
                    self._on_finished(finished.hand_over())
            with self.guard(slot, "a selector of keep="):
                alive = survivors(self.records(), self.plan.selectors)
                self._finished = {id: candidate for id, candidate in self._finished.items() if id in alive}
                self._hold_to_the_limit()
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

    def report(self, what: str, reason: str, consequence: str = "an episode is not recorded") -> None:
        """Say once of each kind what keeps episodes from being recorded whole, here and to whoever collects."""
        kind = (what, reason.split(":")[0], consequence)
        if kind not in self._problems:
            text = f"{consequence}: {what}: {reason}"
            self._problems.add(kind)
            self._untold.append(text)
            logger.warning("recording %r: %s", self.plan.name, text)

    def new_problems(self) -> list[str]:
        """Return what has been reported since the last call."""
        new, self._untold = self._untold, []
        return new

    def _collect(self, running: _Running, facts: StepFacts) -> None:
        assert self.plan.collect is not None
        try:
            running.totals.add(collected(self.plan.collect, facts))
        except Exception as error:
            if self.plan.strict:
                raise
            self.report("collect=", f"{type(error).__name__}: {error}", "what it takes from a step is left out")

    def _triggered(self, index: int) -> bool:
        trigger = self.plan.trigger
        if isinstance(trigger, RenderBudget):
            return trigger.allows(self._clock.rendering, self._clock.sampling)
        return trigger is None or bool(trigger(index))

    def _hold_to_the_limit(self) -> None:
        """Drop the oldest candidates where nobody collects them."""
        if len(self._finished) > MOST_CANDIDATES:
            del self._finished[next(iter(self._finished))]
            reason = f"more than {MOST_CANDIDATES} candidates are held, and nobody takes them"
            self.report("keep=", reason, "the oldest episodes are dropped")

    def _record_frame(self, slot: Hashable, facts: StepFacts) -> None:
        running = self._running.get(slot)
        if running is None or running.clips is None:
            return
        with self._clock.render(), self.guard(slot, "a frame"):
            running.clips.feed(facts)

    @contextlib.contextmanager
    def guard(self, slot: Hashable, what: str) -> Iterator[None]:
        """Turn what users' functions and envs raise into a problem that costs the episode, not the env runner."""
        try:
            yield
        except Exception as error:
            if self.plan.strict:
                raise
            self.report(what, f"{type(error).__name__}: {error}")
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
    totals: Totals = field(default_factory=Totals)

    def finished(self, facts: dict[str, Any]) -> _Finished:
        own = {
            "episode_return": self.episode_return,
            "episode_length": self.episode_length,
            "finished_at": time.time(),
            "metrics": self.totals.metrics(),
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
        most = self._options.max_frames
        if most is not None and self._encoders and all(encoder.frames >= most for encoder in self._encoders.values()):
            for encoder in self._encoders.values():
                encoder.cut()
            return
        frames = self._render()
        if not frames:
            raise ValueError("there is no frame: frame= returned an empty dict")
        for view, picture in frames.items():
            if view not in self._encoders:
                self._encoders[view] = VideoEncoder(self._fps, **self._options.encoder_keywords())
                self._overlays[view] = Overlay(self._options.overlay)
                if facts.step:
                    self._encoders[view].add_note(f"this view began at step {facts.step}")
            self._encoders[view].feed(self._drawn(view, picture, facts) if self._options.overlay else picture)
        for view in self._encoders.keys() - frames.keys():
            self._encoders[view].add_note("this view ended before the episode")

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

    @contextlib.contextmanager
    def render(self) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.rendering += time.perf_counter() - started


def with_progress(
    records: Sequence[EpisodeRecord], training_iteration: int | None, env_steps: int | None
) -> dict[str, EpisodeRecord]:
    """Return the records by id, with how far training was when they were collected."""
    return {
        record.id: replace(record, training_iteration=training_iteration, env_steps=env_steps) for record in records
    }
