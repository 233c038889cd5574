"""Records the running episodes of one env runner, whatever framework steps them.

A recorder is told what happens (an episode starts, steps, ends, is abandoned) and keeps, of the finished ones, only
those that may still be chosen: their records and their encoded clips. Whoever owns it collects in two steps: first
``records()``, then ``take(winners, seen)``, which drops the losers.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tune_media.episodes import MOST_EPISODES, MOST_ROUND_POINTS, EpisodeData, thinned
from tune_media.overlay import check_parts
from tune_media.running import Clips, Ended, Finished, Kept, MoreValues, Render, Running, Taken
from tune_media.selection import RenderBudget, Selector, Trigger, as_result, survivors
from tune_media.steps import Collect, Collector, StepFacts
from tune_media.trajectories import Steps
from tune_media.values import EpisodeRecord, VideoOptions

logger = logging.getLogger(__name__)

DATA = "data"
"""What the episodes of a round are called in its result."""

_MOST_VALUES_TOLD = 20

MOST_CANDIDATES = 512
"""Finished episodes that a recorder holds at the most."""


@dataclass(frozen=True)
class Plan:
    """What a recorder records.

    Attributes:
        name: What its clips are filed under.
        selectors: Which finished episodes are kept.
        trigger: Which episodes are recorded at all, by their index on their sub-env. None: all.
        video: How clips are made. None: records only, no frames.
        collect: What is taken from each step of all episodes. None: what the convention of ``info`` says.
        trajectories: Whether the steps of the chosen episodes are kept.
        sees_all: Whether it is told of all episodes, on all env runners and sub-envs.
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
    trajectories: bool = False
    sees_all: bool = True
    strict: bool = False

    @property
    def looks_at_info(self) -> bool:
        """Whether a step's info is needed."""
        return self.collect is not False or self.looks_at_steps

    @property
    def looks_at_steps(self) -> bool:
        """Whether a step's action, info and observation are needed."""
        overlay = self.video is not None and bool(self.video.overlay)
        return overlay or self.trajectories or Collector(self.collect).needs_more_than_info

    def __post_init__(self) -> None:
        Collector(self.collect)  # refuses what is none
        taken = {"num_abandoned", DATA} & {selector.name for selector in self.selectors}
        if taken:
            raise ValueError(f"a selector cannot be named {taken.pop()!r}: something else has that name in the result.")
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
        self._running: dict[Hashable, Running] = {}
        self._finished: dict[str, Finished] = {}  # candidates
        self._ended: dict[str, Ended] = {}  # all episodes since they were last collected
        self._points = 0
        self.collector = Collector(plan.collect)
        self.looks_at_steps, self.looks_at_info = plan.looks_at_steps, plan.looks_at_info
        self._started: dict[Hashable, int] = {}
        self._seeds: dict[Hashable, int | None] = {}
        self._problems: set[tuple[str, str, str]] = set()  # their kinds, so that texts that vary do not pile up
        self._values_told: set[str] = set()
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
        observation: Any = None,
        can_be_shown: bool = True,
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
            observation: What the reset led to; None where it is not known yet.
            can_be_shown: False where frames are wanted and there are none: it is no candidate, only its data are kept.
            **facts: Further fields of its ``EpisodeRecord``.

        Returns:
            Whether it is a candidate.
        """
        self._clock.tick()
        self.abandon(slot)
        index = self._started.get(slot, 0)
        self._started[slot] = index + 1
        own_seed = seed if seed_is_new or seed != self._seeds.get(slot) else None
        self._seeds[slot] = seed
        wanted = False
        with self._guard_clips(slot, "the trigger"):
            wanted = can_be_shown and self._triggered(index)
        if not wanted and self.collector.is_off:
            return False
        options = self.plan.video
        clips = Clips(options, render, fps) if wanted and options is not None and render is not None else None
        steps = Steps() if wanted and self.plan.trajectories else None
        facts |= {"episode_id": episode_id, "seed": own_seed}
        self._running[slot] = Running(facts, clips, env, frozenset(agents), is_candidate=wanted, steps=steps)
        at_reset = StepFacts(0, 0.0, 0.0, None, env, observation=observation)
        self._record_step(slot, at_reset)
        self._record_frame(slot, at_reset)
        return slot in self._running and self._running[slot].is_candidate

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
        **facts: Any,
    ) -> None:
        """The episode in ``slot`` made an env step; the frame after it is recorded.

        Args:
            slot: Where it runs.
            reward: What the step brought.
            action: What led to it; only looked at where ``looks_at_steps``.
            info: The step's info; only looked at where ``looks_at_info``.
            picture: False where the env already shows something else.
            **facts: Further fields of its ``StepFacts``.
        """
        self._clock.tick()
        running = self._running.get(slot)
        if running is None:
            return
        running.episode_return += reward
        running.episode_length += 1
        step = StepFacts(
            running.episode_length, reward, running.episode_return, action, running.env, info or {}, **facts
        )
        if not self.collector.is_off:
            self._collect(running, step)
        self._record_step(slot, step)
        if picture:
            self._record_frame(slot, step)

    def set_reset_observation(self, slot: Hashable, observation: Any) -> None:
        """Say what the reset of the episode in ``slot`` led to, where it was not known then."""
        running = self._running.get(slot)
        if running is not None and running.steps is not None:
            with self._guard_clips(slot, "an observation"):
                running.steps.set_reset(observation)

    def end(self, slot: Hashable, more: MoreValues | None = None, **facts: Any) -> EpisodeRecord | None:
        """The episode in ``slot`` is over; it becomes a candidate, and candidates that cannot win any more go.

        Args:
            slot: Where it ran.
            more: Adds what others say of it.
            **facts: Further fields of its ``EpisodeRecord``.

        Returns:
            Its record, or None where it was no candidate.
        """
        running = self._running.pop(slot, None)
        if running is None:
            return None
        with self.guard(slot, "the end of an episode"):
            ended = Ended(running.data(facts), more)
            self._settle(ended, is_last_chance=False)
            self._hold_data(ended)
            if not running.is_candidate:
                return None
            with self._clock.render():
                finished = running.finished(ended.data.record).told(ended)
            self._finished[finished.record.id] = finished
            if self._on_finished is not None:
                with self.guard(slot, "handing over an episode"):
                    self._on_finished(finished.hand_over().shown)
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
        return running.finished(running.data({"note": note}).record).hand_over().shown if running.is_candidate else None

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

    def begin_round(self) -> None:
        """A round begins: what ended after the last one was over is no candidate, and its data are late."""
        self._finished.clear()
        for ended in self._ended.values():
            ended.data = replace(ended.data, is_late=True)

    def records(self) -> list[EpisodeRecord]:
        """Return the records of the candidates, in the order in which they ended."""
        return [finished.record for finished in self._finished.values()]

    def data(self) -> list[EpisodeData]:
        """Return the data of all episodes that ended since they were last taken, in the order in which they did."""
        for id, ended in self._ended.items():
            self._settle(ended, is_last_chance=True)
            if id in self._finished:
                self._finished[id] = self._finished[id].told(ended)
        return [ended.data for ended in self._ended.values()]

    def take(self, winners: Collection[str], seen: Collection[str]) -> dict[str, Kept]:
        """Hand over the winners and drop the losers, and the data.

        Args:
            winners: Ids of the records to hand over.
            seen: Ids of all records that took part; what ended since stays.

        Returns:
            What is here of the winners, by the id of its record.
        """
        for id in seen:
            self._ended.pop(id, None)
        self._points = sum(ended.points for ended in self._ended.values())
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

    def _collect(self, running: Running, facts: StepFacts) -> None:
        seen: set[str] = set()
        for source in self.collector.sources:  # what cannot be taken or stored costs itself, not what comes after it
            taken = source(facts)
            while True:
                try:
                    named = next(taken, None)
                    if named is None:
                        break
                    if named.name in seen:
                        raise ValueError(f"{named.name} is there twice in a step; the first is kept")
                    seen.add(named.name)
                    running.values.add(named)
                except Exception as error:
                    if self.plan.strict:
                        raise
                    self._report_value(f"{type(error).__name__}: {error}")

    def _report_value(self, reason: str) -> None:
        """Name what is left out, each thing once, up to some number."""
        if len(self._values_told) < _MOST_VALUES_TOLD and reason not in self._values_told:
            self._values_told.add(reason)
            text = f"what it takes from a step is left out: collect=: {reason}"
            self._untold.append(text)
            logger.warning("recording %r: %s", self.plan.name, text)

    def _settle(self, ended: Ended, *, is_last_chance: bool) -> None:
        """Take in what others say of an episode: when it ends, for selectors, and again when it is collected."""
        if ended.more is None:
            return
        try:
            ended.take_in()
        except Exception as error:
            if self.plan.strict:
                raise
            self.report("an episode's own fields", f"{type(error).__name__}: {error}", "they are left out")
        if is_last_chance:
            ended.more = None

    def _hold_data(self, ended: Ended) -> None:
        """Keep an episode's data until they are collected, in bounded memory."""
        self._ended[ended.data.record.id] = ended
        self._points += ended.points
        if len(self._ended) > MOST_EPISODES:
            del self._ended[next(iter(self._ended))]
            reason = f"more than {MOST_EPISODES} episodes are held, and nobody takes them"
            self.report("their data", reason, "those of the oldest episodes are dropped")
        if self._points > MOST_ROUND_POINTS:
            some = thinned([each.data for each in self._ended.values()], MOST_ROUND_POINTS // 2)
            for each, data in zip(self._ended.values(), some, strict=True):
                each.data = data
            self._points = sum(each.points for each in self._ended.values())

    def _record_step(self, slot: Hashable, facts: StepFacts) -> None:
        running = self._running.get(slot)
        if running is not None and running.steps is not None:
            with self._guard_clips(slot, "a step"):
                running.steps.add(facts)

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
        with self._clock.render(), self._guard_clips(slot, "a frame"):
            running.clips.feed(facts)

    @contextlib.contextmanager
    def _guard_clips(self, slot: Hashable, what: str) -> Iterator[None]:
        """Turn what users' functions and envs raise into a problem that costs the clip; the data go on."""
        try:
            yield
        except Exception as error:
            if self.plan.strict:
                raise
            self.report(what, f"{type(error).__name__}: {error}")
            if self.collector.is_off:
                self.abandon(slot)
            elif slot in self._running:
                self._running[slot].is_no_candidate()

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


def laid_out(plan: Plan, chosen: Mapping[str, Sequence[EpisodeRecord]], kept: Mapping[str, Kept]) -> dict[str, Any]:
    """Lay out what selectors chose: clips by selector, pictures and files by their name and then by selector."""
    result = as_result(plan.selectors, chosen, {id: taken.shown for id, taken in kept.items()})
    reserved = {DATA, "num_abandoned", *(selector.name for selector in plan.selectors)}
    for name in dict.fromkeys(name for taken in kept.values() for name in taken.media):
        media = {id: taken.media[name] for id, taken in kept.items() if name in taken.media}
        result[f"{name}_picture" if name in reserved else name] = as_result(plan.selectors, chosen, media)
    return result
