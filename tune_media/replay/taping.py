"""Puts the episodes of a recorder on tape, and knows whether their clips are made of the tapes."""

from __future__ import annotations

import functools
import logging
import random
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from tune_media.recording.clips import ENCODED, Render, Wanted
from tune_media.recording.episode import OnTape, RunningEpisode, RunningTape
from tune_media.recording.pictures import ALONE, SPARSE, Pictures
from tune_media.recording.plan import Plan
from tune_media.recording.recorder import Recorder
from tune_media.recording.rendering import describe, sub_envs
from tune_media.replay.child_processes import HAS_CHILDREN, child_processes
from tune_media.replay.env_state import Baseline
from tune_media.replay.generators import has_emulator
from tune_media.replay.recipe import Recipe
from tune_media.replay.tape import Tape
from tune_media.replay.tape_recorder import NewSeeds, TapeRecorder, tape_recorder_of
from tune_media.replay.verdicts import Verdict
from tune_media.values.episode_record import AUTO, DIRECT, REPLAY, EpisodeRecord
from tune_media.values.secrets import error_text

logger = logging.getLogger(__name__)

_DIRECTLY = "episodes are rendered while they run"
_SHARE, _CREDIT = 0.01, 0.1  # of the time of sampling, and seconds before: for frames that prove tapes
_LEAST = 64  # one of so many last frames is rendered, whatever it takes
_MOST_FRAMES = 8  # of a part of an episode that is rendered while it runs
_MOST_SAMPLES = 4  # of a round: one that is rendered as a whole, and the latest


class Taping:
    """Puts the episodes of a recorder on tape. The thread that steps the envs calls everything here.

    Once the env is known to repeat its episodes, frames are still rendered now and then where they run, at random
    places and within a small share of the time: the last frame of an episode that would be chosen when it ends, and a
    few frames in a row of others. Their checksums are on the tapes, and prove them.

    Args:
        recorder: The recorder, whose plan says when to render, and which is told of problems.

    Attributes:
        mode: ``direct``: frames are rendered while episodes run. ``replay``: they are rendered of the tapes. ``auto``:
            as ``direct``, until it is known whether the env repeats its episodes.
        recipe: How the envs are made. None: it is not known, or nobody needs it.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.mode = self._first_mode
        self.recipe: Recipe | None = None
        self._tapings: dict[int, TapeRecorder] = {}  # by sub-env
        self._budget = _Budget(recorder)
        self._shows_alone = False
        self._children: set[int] | None = None  # those that were there before the first reset
        self._usual_length = 1
        self._random = random.Random()
        self._samples: dict[str, tuple[bool, int]] = {}  # by record: whether all frames are known, and its number

    @property
    def plan(self) -> Plan:
        """The recorder's plan."""
        return self._recorder.plan

    @property
    def _first_mode(self) -> str:
        return self.plan.render if self.plan.video is not None else DIRECT

    @property
    def tapes(self) -> bool:
        """Whether episodes are put on tape."""
        return self.mode != DIRECT or self.plan.tapes

    def is_proven(self, verdict: Verdict) -> None:
        """Make clips of tapes from now on: the env is known to repeat its episodes."""
        if self.mode == AUTO:
            self.mode, self._shows_alone = REPLAY, verdict.shows_alone
            self._budget.begin(*verdict.frame_seconds)

    def frames_of(self, tape: RunningTape) -> Wanted | None:
        """Return which frames of an episode that starts now, and is to be recorded, are rendered while it runs."""
        if self.mode != REPLAY:
            return ENCODED
        count = self._budget.frames(_MOST_FRAMES) if self.plan.render == AUTO else 0
        return Wanted(False, self._random.randrange(self._usual_length), count) if count else None

    def are_enough(self, tape: RunningTape) -> bool:
        """Return whether no more frames of an episode need be rendered while it runs."""
        return False

    def watched(self, env: Any, render: Render | None) -> Render | None:
        """Return what renders a sub-env, and notes what the first frame changes in it."""
        taping = tape_recorder_of(env)
        return render if render is None or taping is None else functools.partial(taping.watch, render)

    def proof(self, episode: RunningEpisode, record: EpisodeRecord, leads: bool) -> None:
        """Put on the tape of an episode that has just ended what proves its pictures, such as its last frame.

        Args:
            episode: The episode; its env still shows the last frame.
            record: Its record.
            leads: Whether a selector would choose it now.
        """
        tape = episode.tape
        assert tape is not None
        self._usual_length = max(1, (self._usual_length + len(tape)) // 2)
        how = ALONE if self._shows_alone else SPARSE
        episode.note_pictures(how)
        if (
            leads
            and episode.is_rendered_later
            and self._shows_alone
            and self.mode == REPLAY
            and self.plan.render == AUTO
        ):
            pictures = tape.pictures or Pictures(how)
            render = episode.start.render
            if not pictures.at(len(tape)) and render is not None and self._budget.allows_one():
                pictures.add(len(tape), render())
                tape.pictures = pictures
        if tape.pictures and self.mode != DIRECT:
            self._samples[record.id] = tape.pictures.are_all, tape.number
            if len(self._samples) > _MOST_SAMPLES:
                del self._samples[min(self._samples, key=lambda id: self._samples[id])]

    def samples(self) -> list[str]:
        """Return the ids of the records of the episodes whose tapes have checksums of frames."""
        return list(self._samples) if self.mode != DIRECT else []

    def forget(self, id: str) -> None:
        """An episode has been collected."""
        self._samples.pop(id, None)

    def put_all_on_tape(
        self,
        env: Any,
        indices: Collection[int] | None = None,
        entropy: Sequence[int | None] | None = (None,),
        first: int = 0,
        base: Baseline | None = None,
    ) -> None:
        """Put the episodes of the sub-envs of an env on tape from now on.

        Args:
            env: A single env or a vector env.
            indices: The sub-envs. None: all.
            entropy: Decides, with the index of the sub-env, the seeds of resets that are given none. ``auto`` gives
                none: the episodes stay those that they are without a recorder. Atari games are given none either.
                None: no reset is given one.
            first: The index of the first sub-env in it.
            base: The state that those of the envs are compared with. None: they are not.
        """
        reachable = sub_envs(env)
        if self.tapes and not reachable:
            self.give_up(
                f"the sub-envs of {describe(env)} are in other processes or in one batch, out of reach of a replay; "
                "use a synchronous vector env (gym_env_vectorize_mode='sync')"
            )
        is_alone = len(reachable) == 1 and first == 0
        for index, inner in enumerate(reachable, start=first):
            if indices is None or index in indices:
                seeds = None
                if entropy is not None and self.plan.render == self.mode == REPLAY and not has_emulator(inner):
                    seeds = NewSeeds(*entropy, index)
                self._put_on_tape(inner, index, seeds, base, is_alone=is_alone)

    def _put_on_tape(
        self, env: Any, index: int, seeds: Iterator[int] | None, base: Baseline | None, *, is_alone: bool
    ) -> None:
        taping = tape_recorder_of(env)
        if not self.tapes or (taping is not None and self._tapings.get(index) is taping):
            return
        if taping is not None:  # of another recorder
            taping.join(seeds)
            self._tapings[index] = taping
        elif hasattr(env, "step") and hasattr(env, "reset") and hasattr(env, "__dict__"):
            try:
                self._tapings[index] = TapeRecorder(env, seeds, base, is_alone=is_alone)
            except Exception as error:  # its attributes cannot be set
                self.give_up(f"{describe(env)} cannot be taped ({error_text(error)})")
        else:
            self.give_up(f"nobody steps {describe(env)} here: its simulator is outside")

    def watch_children(self) -> None:
        """Look, at the first episode that starts from now on, whether a reset has started processes."""
        self._children = child_processes()

    def on_tape(self, env: Any) -> OnTape | None:
        """Return the tape of the episode that starts on a sub-env, and what becomes of its frames; None: no tape."""
        tape = self._tape_of(env)
        if tape is None:
            return None
        recipe = None if self.recipe is None else self.recipe.hash
        wanted, are_enough = functools.partial(self.frames_of, tape), functools.partial(self.are_enough, tape)
        return OnTape(tape, recipe, self.mode != DIRECT, wanted, are_enough)

    def _tape_of(self, env: Any) -> Tape | None:
        if self._children is not None and self.mode != DIRECT:
            started, self._children = child_processes() - self._children, None
            if started:
                self.give_up(HAS_CHILDREN.format(describe(env)))
        taping = tape_recorder_of(env) if self.tapes else None
        if taping is None or taping.tape is None:
            return None
        if taping.tape.fault is not None:
            why = "" if taping.refused is None else f" ({type(taping.refused).__name__}: {taping.refused})"
            self.give_up(f"an episode of {describe(env)} cannot be replayed: {taping.tape.fault}{why}")
            return None
        return taping.tape

    def give_up(self, reason: str, lost: int = 0) -> None:
        """Render the episodes that start from now on directly.

        Args:
            reason: Why. It is reported, unless the user left the choice to us and it costs nothing.
            lost: The number of clips that it costs.
        """
        self.go_direct(reason)
        if self.plan.render == REPLAY or lost:
            self._recorder.problems.report(reason, "no clip" if lost else _DIRECTLY, kind="replay", lost=lost)
        elif self.plan.tapes:
            self._recorder.problems.report(reason, "episodes have no tape", kind="tape")

    def go_direct(self, reason: str) -> None:
        """Render the episodes that start from now on directly, without a problem."""
        self.mode = DIRECT
        if not self.plan.tapes:
            self._leave_tapes()
        logger.info("recording %r: %s: %s", self.plan.name, _DIRECTLY, reason)

    def start_over(self) -> None:
        """New envs were made, perhaps in another way: whether they repeat their episodes is not known yet."""
        self._leave_tapes()
        self.mode, self._shows_alone = self._first_mode, False
        self._samples.clear()

    def _leave_tapes(self) -> None:
        for taping in self._tapings.values():
            taping.leave()
        self._tapings.clear()


class _Budget:
    """The time that frames may take which prove tapes: a small share of the time of sampling so far.

    Args:
        recorder: Its clock measures both.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._clock = recorder.clock
        self._first = self._frame = 0.0
        self._rendering = self._sampling = 0.0
        self._asked = 0  # times since it allowed a last frame

    def begin(self, first: float, frame: float) -> None:
        """Begin to count; a first frame, and another one, take so many seconds elsewhere."""
        self._first = 0.0 if self._clock.rendering else max(0.0, first - frame)
        self._frame = max(frame, 1e-6)
        self._rendering, self._sampling = self._clock.rendering, self._clock.sampling

    def _left(self) -> float:
        spent = self._clock.rendering - self._rendering
        if spent:
            self._first = 0.0
        return _CREDIT + _SHARE * (self._clock.sampling - self._sampling) - spent - self._first

    def leave_out(self, seconds: float) -> None:
        """Do not count rendering that is for clips, of tapes."""
        self._rendering += seconds

    def allows_one(self) -> bool:
        """Return whether there is time for a frame; however long it takes, one of many is rendered."""
        self._asked = 0 if (allowed := self._left() >= self._frame or self._asked >= _LEAST) else self._asked + 1
        return allowed

    def frames(self, most: int) -> int:
        """Return how many frames of one episode there is time for, if three quarters are left for last frames."""
        return max(0, min(most, int(self._left() / 4 / self._frame)))
