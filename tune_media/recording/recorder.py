"""Records the running episodes of one env runner: its owner reports each start, step and end."""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from tune_media.encoding.stills import SHOWS_NOTHING, Stills
from tune_media.recording.candidates import Candidates, MoreValues
from tune_media.recording.choosing import NUM_ABANDONED
from tune_media.recording.collector import Collector, strays
from tune_media.recording.episode import AllFrames, Candidate, EpisodeStart, RunningEpisode, RunningTape
from tune_media.recording.overlay_lines import EpisodeLines, OverlayFunctions
from tune_media.recording.plan import Plan
from tune_media.recording.render_clock import RenderClock
from tune_media.recording.success import SuccessReader, SuccessSoFar
from tune_media.recording.trajectory import TrajectoryBuilder
from tune_media.selection import RenderBudget, Trigger
from tune_media.steps import StepFacts
from tune_media.values.episode_record import EpisodeRecord
from tune_media.values.episodes import EpisodeData
from tune_media.values.problems import PROBLEMS, Problems, explained
from tune_media.values.secrets import error_text

logger = logging.getLogger(__name__)

NOT_RECORDED = "an episode is not recorded"  # the consequence of a problem that costs an episode's data, too
MAX_BYTES = 2**30  # the most memory of one recorder's clips and steps, of running episodes and of candidates
_CHECKED_EVERY = 64  # steps
_NO_ROOM = (
    f"the clips and steps of episodes that run, or may still be chosen, take more than {MAX_BYTES // 2**20} MB on an "
    "env runner: record fewer at a time (env_indices=, trigger=), or smaller clips (VideoOptions(height=...))"
)

# gets each episode whose data are held when it ends; the candidate, if it is one
OnFinished = Callable[[EpisodeData, Candidate | None], None]
# gets an episode that has just ended, its record, and whether a selector would choose it now; see ``Taping``
OnEnd = Callable[[RunningEpisode, EpisodeRecord, bool], None]


class Recorder:
    """Records episodes, any number of them at a time, each in its own slot (a sub-env).

    Everything happens in the thread that steps the envs. If the owner does not collect the problems, each is a warning.
    """

    def __init__(
        self, plan: Plan, on_finished: OnFinished | None = None, *, problems_are_collected: bool = False
    ) -> None:
        self.plan = plan
        level = logging.INFO if problems_are_collected else logging.WARNING
        self.problems = Problems(functools.partial(logger.log, level, "recording %r: %s", plan.name))
        self.stills = Stills(functools.partial(self.problems.report, consequence=SHOWS_NOTHING))
        self.clock = RenderClock()
        self.success = SuccessReader(plan.success, plan.success_when, plan.tells_success, self.problems)
        self.candidates = Candidates(plan, self.problems, self.clock, self.success)
        video = plan.video or plan.later
        self._overlay: OverlayFunctions | None = None  # if it has functions
        if video is not None and any(map(callable, video.overlay)):
            self._overlay = OverlayFunctions(video, self.clock, self.problems, strict=plan.strict)
        self.collector = Collector(plan.collect)
        # warn once about values that the convention ignores, unless something else may read or store them
        self._tells_strays = plan.collect is None and plan.success is None and not plan.looks_at_steps
        self.abandoned = 0  # episodes that were being recorded and never ended
        self.looks_at_steps = plan.looks_at_steps  # ``step`` needs the action and the observation
        self.looks_at_every_step = self.collector.may_find({})  # values may be taken from steps without an info, too
        self._on_finished = on_finished
        self._holds = on_finished is None and not plan.keeps_all  # else every clip is wanted
        self._running: dict[Hashable, RunningEpisode] = {}
        self.starts = Starts(plan.trigger, self.clock)  # counts the episodes that begin, for the trigger

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the episodes that are running: a copy does not have their encoders, and records the next ones."""
        return {**self.__dict__, "_running": {}}

    def start(self, slot: Hashable, start: EpisodeStart, **facts: Any) -> bool:
        """Record an episode's start and reset frame; return if it is a candidate. One that runs there is abandoned.

        ``facts`` are further ones of StepFacts.
        """
        self.clock.tick()
        self.abandon(slot)
        own_seed = self.starts.own_seed(slot, start.seed)
        seed = start.seed if start.seed_is_new else own_seed
        episode = RunningEpisode(start, SuccessSoFar(bool(self.success.names), start.info), seed)
        with self.guard_clip(episode, "trigger="):
            episode.is_candidate = self.starts.is_wanted(slot)
        if episode.is_candidate and start.no_clip is not None:
            episode.lose_clip(start.no_clip)
            self.problems.report(start.no_clip, lost=1)
        if not episode.is_candidate and self.collector.is_off:
            return False
        if episode.is_candidate:
            self._begin_media(episode)
        self._running[slot] = episode
        if episode.has_media:
            with self.clock.render(), self.guard_clip(episode, "the reset frame"):
                facts |= {"observation": start.observation, "env_index": start.facts.get("env_index") or 0}
                episode.feed(StepFacts(0, 0.0, 0.0, None, start.env, **facts))
        if episode.next_place == 0:
            self.take_own_frame(episode)
        return episode.is_candidate

    def _begin_media(self, episode: RunningEpisode) -> None:
        """Begin the clips and the trajectory of an episode, as far as they are wanted and there is room for them."""
        start, video, on_tape = episode.start, self.plan.video, episode.start.on_tape
        if self._overlay is not None:
            episode.lines = EpisodeLines(self._overlay)
        if video is not None and start.render is not None:
            frames = AllFrames() if on_tape is None else on_tape.frames()
            if isinstance(frames, AllFrames):
                episode.begin_frames(frames, video, are_lean=self.number_encoded() > 0, holds=self._holds)
            else:
                episode.begin_own_frames(frames)
        if self.plan.trajectories:
            episode.steps = TrajectoryBuilder(start.vector_env if start.env is None else start.env)
        largest = max((running.nbytes for running in self._running.values()), default=0)
        if episode.has_media and self._nbytes() + largest > MAX_BYTES:  # no room for another one like that
            episode.lose_clip(_NO_ROOM)
            self.problems.report(_NO_ROOM, lost=1)

    def number_encoded(self) -> int:
        """Return how many running episodes are being encoded."""
        return sum(episode.clips is not None and episode.clips.are_encoded for episode in self._running.values())

    def take_own_frame(self, episode: RunningEpisode) -> None:
        """Render the frame that the env of an episode shows now, to compare a replay with."""
        with self.clock.render(), self.guard_clip(episode, "a frame"):
            episode.take_own_frame()

    def _nbytes(self) -> int:
        return self.candidates.nbytes + sum(episode.nbytes for episode in self._running.values())

    def records(self, tape: RunningTape) -> bool:
        """Return whether the episode of a tape is being recorded."""
        return any(episode.tape is tape for episode in self._running.values())

    def longest_running(self) -> int:
        """Return the number of steps of the longest episode that is being recorded, or 0."""
        return max((episode.episode_length for episode in self._running.values()), default=0)

    def running(self, slot: Hashable) -> RunningEpisode | None:
        """Return the episode that is being recorded in ``slot``, or None."""
        return self._running.get(slot)

    def only_counted(self, slot: Hashable) -> RunningEpisode | None:
        """Return the episode in ``slot`` if the caller can just count steps and take frames at its ``next_place``."""
        episode = self._running.get(slot)
        return None if episode is None or episode.has_media or self.looks_at_every_step else episode

    def step(
        self,
        slot: Hashable,
        reward: float,
        action: Any = None,
        info: Mapping[str, Any] | None = None,
        *,
        picture: bool = True,
        of_agents: bool = False,
        **facts: Any,
    ) -> None:
        """Record an env step of the episode in ``slot``, and the frame after it, if the env still shows it.

        ``action`` is needed if ``looks_at_steps``, ``info`` if the plan's ``looks_at_info`` or the episode's success
        ``is_read``; ``facts`` are StepFacts'. ``of_agents``: ``info`` has one for each agent.
        """
        self.clock.tick()
        episode = self._running.get(slot)
        if episode is None:
            return
        episode.count(reward)
        if episode.episode_length >= episode.next_place and picture:
            self.take_own_frame(episode)
        if episode.success.is_read:
            self.success.step(episode.success, info, of_agents=of_agents)
        if not episode.has_media and not self.collector.may_find(info):
            return
        totals = episode.episode_length, reward, episode.episode_return
        step = StepFacts(*totals, action, episode.start.env, info or {}, **facts)
        for error in self.collector.collect(step, episode.values):
            if self.plan.strict:
                raise error
            self.problems.report(f"collect=: {error_text(error)}", "a value of a step is not stored as it is")
        if self._tells_strays and (stray := next(strays(info), None)) is not None:
            self._tells_strays = False
            remedy = "values belong, under their names, in ['data']['running'] or ['data']['final'], or in what a "
            remedy += "recorder's collect= takes"
            self.problems.report(f"{stray} is beside the convention: {remedy}", "a value of a step is not stored")
        if episode.is_candidate:
            with self.clock.render(), self.guard_clip(episode, "a frame"):
                episode.feed(step, picture=picture)
            if episode.episode_length % _CHECKED_EVERY == 0 and self._nbytes() > MAX_BYTES:
                episode.cut("no memory left")
                self.problems.report(_NO_ROOM, "the rest of a clip is left out")

    def end(
        self,
        slot: Hashable,
        more: MoreValues | None = None,
        *,
        metrics: Mapping[str, float] | None = None,
        on_end: OnEnd | None = None,
        info: Any = None,
        of_agents: bool = False,
        **facts: Any,
    ) -> EpisodeRecord | None:
        """Record the end of the episode in ``slot``, drop candidates that cannot win any more, and return its record.

        The env must still show the final frame, which is rendered now if ``every`` skipped it. The record is None if
        the episode cannot be chosen. ``of_agents``: ``info`` has one for each agent.
        """
        episode = self._running.pop(slot, None)
        if episode is None:
            return None
        with self.clock.render():
            self._feed_last(episode)
        with self.guard(slot, "the end of an episode"):
            facts |= self.success.end(episode.success, info, episode.episode_length, of_agents=of_agents)
            record = self.candidates.add_data(episode.data(metrics or {}, facts), more)
            self._end_tape(episode, record, on_end)
            candidate = None
            if episode.is_candidate:
                with self.clock.render():
                    candidate = episode.candidate(record)
                self.stills.look([*candidate.clips.values(), *candidate.held.values()])
            if self._on_finished is not None:
                with self.guard(slot, "handing over an episode"):
                    self._on_finished(self.candidates.newest(), candidate)
            return record if candidate is not None and self.candidates.add(candidate) else None
        return None

    def _end_tape(self, episode: RunningEpisode, record: EpisodeRecord, on_end: OnEnd | None) -> None:
        """Put the checksums of the frames of an episode that has ended on its tape, and hold it with its data."""
        if episode.has_whole_tape():
            if on_end is not None:
                leads = episode.is_candidate and self.candidates.leads(record)
                with self.guard_clip(episode, "the last frame"):
                    on_end(episode, record, leads)
                if not episode.is_candidate and episode.note is not None:
                    self.candidates.note(record.id, episode.note)
            episode.note_shown(self.plan.video)
        on_tape, tape = episode.start.on_tape, episode.packed_tape()
        if on_tape is not None and tape is not None:
            self.candidates.add_tape(record.id, tape, on_tape.recipe)

    def break_off(self, slot: Hashable, note: str) -> Candidate | None:
        """End the episode in ``slot`` early; return it as far as it came, with a note, if it is a candidate."""
        episode = self._running.pop(slot, None)
        if episode is None or not episode.is_candidate:
            return None
        return episode.candidate(episode.data({}, {"note": note}).record)

    def abandon(self, slot: Hashable, *, failed: bool = False) -> None:
        """Drop the episode in ``slot``, if any; one without a step whose env was reset (not ``failed``) was none."""
        episode = self._running.pop(slot, None)
        if episode is not None and (episode.episode_length or failed):
            self.abandoned += 1

    def abandon_all(self, *, failed: bool = False) -> None:
        """Drop all running episodes: their envs are gone."""
        for slot in list(self._running):
            self.abandon(slot, failed=failed)

    def news(self) -> dict[str, Any]:
        """Return the part of a result that says how many episodes never ended, and why others have no clip."""
        abandoned, self.abandoned = self.abandoned, 0
        problems = self.problems.take()
        return ({NUM_ABANDONED: abandoned} if abandoned else {}) | ({PROBLEMS: tuple(problems)} if problems else {})

    def show_last(self, slot: Hashable) -> None:
        """Record the frame that the env in ``slot`` shows as its episode's last one, if ``every`` skipped it."""
        if slot in self._running:
            self._feed_last(self._running[slot])

    def _feed_last(self, episode: RunningEpisode) -> None:
        if episode.clips is not None or episode.lines is not None:
            with self.guard_clip(episode, "the last frame"):
                if episode.lines is not None:
                    episode.lines.follow_last()
                if episode.clips is not None:
                    episode.clips.feed_last()

    @contextlib.contextmanager
    def guard_clip(self, episode: RunningEpisode, subject: str) -> Iterator[None]:
        """Turn an exception of a user's function or env into a problem that costs the clip, not the data."""
        try:
            yield
        except Exception as error:
            if self.plan.strict:
                raise
            self.problems.report_error(subject, error, lost=1)
            episode.lose_clip(explained(subject, error))

    def guard(self, slot: Hashable, subject: str) -> contextlib.AbstractContextManager[Any]:
        """Turn an exception of a user's function or env into a problem that costs the episode, not the env runner."""
        return _Guard(self, slot, subject)


@dataclass(eq=False)
class _Guard(contextlib.AbstractContextManager[Any]):
    """See ``Recorder.guard``. Each step enters one, and a generator would take as long as the step."""

    recorder: Recorder
    slot: Hashable
    subject: str

    @override
    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> bool:
        if not isinstance(error, Exception) or self.recorder.plan.strict:
            return False
        self.recorder.problems.report_error(self.subject, error, NOT_RECORDED, lost=1)
        self.recorder.abandon(self.slot)
        return True


class Starts:
    """Counts the episodes of each slot, and remembers their seeds; the trigger gets an episode's index on its slot."""

    def __init__(self, trigger: Trigger | RenderBudget | None, clock: RenderClock) -> None:
        self._trigger, self._clock = trigger, clock
        self._count: dict[Hashable, int] = {}
        self._seeds: dict[Hashable, int | None] = {}

    def is_wanted(self, slot: Hashable) -> bool:
        """Count an episode that starts in ``slot``, and return whether it is recorded."""
        index = self._count.get(slot, 0)
        self._count[slot] = index + 1
        if isinstance(self._trigger, RenderBudget):
            return self._trigger.allows(self._clock.rendering, self._clock.sampling)
        return self._trigger is None or bool(self._trigger(index))

    def counts(self) -> dict[Any, int]:
        """Return the number of episodes that each slot has begun."""
        return dict(self._count)

    def go_on_from(self, counts: Mapping[Any, int]) -> None:
        """Continue to count from a checkpoint; a slot that has begun more episodes continues from these."""
        for slot, count in counts.items():
            self._count[slot] = max(count, self._count.get(slot, 0))

    def own_seed(self, slot: Hashable, seed: int | None) -> int | None:
        """Return the generator's last seed if it is new in ``slot``: a reset without one continues an old sequence."""
        is_new = seed != self._seeds.get(slot)
        self._seeds[slot] = seed
        return seed if is_new else None
