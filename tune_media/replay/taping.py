"""Puts the episodes of a recorder on tape, and knows whether their clips are made of the tapes."""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Collection, Iterable
from typing import Any

from tune_media.recording.episode import AllFrames, OnTape, RunningEpisode, RunningTape
from tune_media.recording.episode_clips import Render
from tune_media.recording.own_frames import FramePlan, OwnFrames
from tune_media.recording.pictures import ALONE, SPARSE, STEPS, Pictures
from tune_media.recording.recorder import Recorder
from tune_media.recording.rendering import describe, sub_envs
from tune_media.replay.child_processes import HAS_CHILDREN, child_processes
from tune_media.replay.generators import EnvGenerators, RenderDraws, RenderGuard
from tune_media.replay.recipe import Recipe
from tune_media.replay.tape_recorder import TapeRecorder, tape_recorder_of, task_in
from tune_media.replay.verdicts import ReplayVerdict, draws_of, refuse
from tune_media.values.episode_record import AUTO, DIRECT, REPLAY, EpisodeRecord
from tune_media.values.secrets import error_text

logger = logging.getLogger(__name__)

DIRECTLY = "episodes are rendered while they run"
_MOST_PROOFS = 4  # that are held until they are collected: the latest
DRAWS = "render() of env {} draws random numbers (they were put back)"
_UNCLEAR = "while render() of env {} ran, numbers were drawn from {}: by render() itself, or by another thread ({})"
_LEFT = "the generator was left as it was"


class Taping:
    """Puts the episodes of a recorder on tape. The thread that steps the envs calls everything here.

    Once the env is known to repeat its episodes, only single frames are rendered while an episode runs, its *own
    frames*: a clip is made of the tape only if the replay shows the same. One of many episodes is rendered as a whole,
    to prove that the others would be right, too. ``threads`` are older than the envs; by default, those that there are.
    """

    def __init__(self, recorder: Recorder, threads: Iterable[threading.Thread] | None = None) -> None:
        self._recorder, self.plan = recorder, recorder.plan
        # ``direct``: frames are rendered while episodes run; ``replay``: of the tapes; ``auto``: as ``direct``, until
        # it is known whether the env repeats its episodes
        self.mode = self._first_mode
        self.recipe: Recipe | None = None  # how the envs are made, or None if not known, or not needed
        self._tapings: dict[int, TapeRecorder] = {}  # by sub-env
        self._guards: dict[int, tuple[Any, RenderGuard]] = {}  # by sub-env: the env, and what guards its frames
        self._global_draws = RenderDraws(threads=threads)
        self._has_told_others = False  # that another thread may have moved a global generator
        self._frames = self._new_frame_plan()
        self._has_leaderless = any(not selector.local or selector.limit is None for selector in self.plan.selectors)
        self._how, self._shows_last = SPARSE, True
        self._children: set[int] | None = None  # those that were there before the first reset
        self._proofs: dict[str, None] = {}  # the ids of records, in the order in which the episodes ended

    @property
    def _first_mode(self) -> str:
        return self.plan.render if self.plan.video is not None else DIRECT

    @property
    def tapes(self) -> bool:
        """Whether episodes are put on tape."""
        return self.mode != DIRECT or self.plan.tapes

    def is_proven(self, verdict: ReplayVerdict) -> None:
        """Make clips of tapes from now on: the env is known to repeat its episodes."""
        if self.mode == AUTO:
            self.mode, self._how = REPLAY, SPARSE if verdict.ages else ALONE
            self._frames.begin(verdict.length)
            if verdict.draws is not None:
                self._global_draws.add(verdict.draws)

    def frames_of(self, tape: RunningTape) -> AllFrames | OwnFrames:
        """Return which frames of an episode that starts now, and is to be recorded, are rendered while it runs."""
        if self.mode != REPLAY:
            return AllFrames()
        if self.plan.render == REPLAY:
            return OwnFrames((), Pictures(STEPS))
        if self._frames.is_proof():
            return AllFrames(are_encoded=False)
        return self._frames.own_frames(self._how, has_last=self._shows_last)

    def has_ended(
        self, episode: RunningEpisode, record: EpisodeRecord, leads: bool, *, shows_last: bool = True
    ) -> None:
        """Render the last frame of an episode that has just ended, if it is one of its own and still shown."""
        tape, self._shows_last = episode.tape, shows_last
        assert tape is not None
        if shows_last:
            tape.last_task = task_in(episode.start.env)
        length = len(tape)
        self._frames.ended(length)
        frames = episode.own_frames
        if episode.clips is not None and not episode.clips.are_cut and self.mode != DIRECT:
            self._proofs[record.id] = None
            if len(self._proofs) > _MOST_PROOFS:
                del self._proofs[next(iter(self._proofs))]
        is_wanted = episode.is_candidate and shows_last and self._frames.shows(length)
        if frames is None or frames.pictures.how == STEPS or not is_wanted:
            return
        if leads or self._has_leaderless or frames.want_last:
            with self._recorder.clock.render():
                episode.take_own_frame()

    def proofs(self) -> list[str]:
        """Return the ids of the records of episodes that were rendered as a whole and have tapes."""
        return list(self._proofs) if self.mode != DIRECT and self.plan.render == AUTO else []

    def forget(self, id: str) -> None:
        """An episode has been collected."""
        self._proofs.pop(id, None)

    def watched(self, index: int, env: Any, render: Render) -> Render:
        """Return a function that renders a sub-env, just reset, without moving a random generator; or None."""
        taping = tape_recorder_of(env)
        if index not in self._guards or self._guards[index][0] is not env:
            generators = None if env is None else EnvGenerators(env) if taping is None else taping.generators
            self._guards[index] = env, RenderGuard(generators, self._global_draws)
        guard = self._guards[index][1]
        guard.begin_episode(walks=taping is None or not taping.is_on)
        return functools.partial(self._guarded, guard, env, render)

    def _guarded(self, guard: RenderGuard, env: Any, render: Render) -> Any:
        has_moved, began = guard.has_moved, time.perf_counter()
        frames = guard(render)
        self._frames.took(time.perf_counter() - began)
        if guard.has_moved and not has_moved and self.mode != DIRECT and self.plan.render == AUTO:
            self._render_draws(DRAWS.format(describe(env)))
        if guard.others and not self._has_told_others:
            self._has_told_others = True
            drawn, threads = ", ".join(sorted(guard.moved)), ", ".join(guard.others)
            self._recorder.problems.report(_UNCLEAR.format(describe(env), drawn, threads), _LEFT, kind="threads")
        return frames

    def _look_up_draws(self, recipe: Recipe) -> None:
        """Learn which global generators ``render()`` draws from, if a frame check has found it out."""
        if self._global_draws.names is None and (draws := draws_of(recipe.hash)) is not None:
            self._global_draws.add(draws)

    def _render_draws(self, reason: str) -> None:
        """Render directly from the next round on, in all processes: ``render()`` moves random generators."""
        if self.recipe is not None and refuse(self.recipe.hash, reason):
            self._recorder.problems.report(f"render='auto': {reason}", DIRECTLY, kind="replay")

    def put_all_on_tape(self, env: Any, indices: Collection[int] | None = None, first: int = 0) -> None:
        """Put the episodes of an env's sub-envs (None: all), the first with index ``first``, on tape from now on."""
        reachable = sub_envs(env)
        if self.tapes and not reachable:
            self.give_up(
                f"the sub-envs of {describe(env)} are in other processes or in one batch, out of reach of a replay; "
                "use a synchronous vector env (gym_env_vectorize_mode='sync')"
            )
        for index, inner in enumerate(reachable, start=first):
            if indices is None or index in indices:
                self._put_on_tape(inner, index)

    def _put_on_tape(self, env: Any, index: int) -> None:
        taping = tape_recorder_of(env)
        if not self.tapes or (taping is not None and self._tapings.get(index) is taping):
            return
        if taping is not None:  # of another recorder
            taping.join()
            self._tapings[index] = taping
        elif hasattr(env, "step") and hasattr(env, "reset"):
            try:
                self._tapings[index] = TapeRecorder(env)
            except Exception as error:  # its attributes cannot be set
                self.give_up(f"{describe(env)} cannot be taped ({error_text(error)})")
        else:
            self.give_up(f"nobody steps {describe(env)} here: its simulator is outside")

    def watch_children(self) -> None:
        """Look, at the first episode that starts from now on, whether a reset has started processes."""
        self._children = child_processes()

    def on_tape(self, env: Any) -> OnTape | None:
        """Return the tape of the episode that starts on a sub-env, and the fate of its frames, or None for no tape."""
        if self._children is not None and self.mode != DIRECT:
            started, self._children = child_processes() - self._children, None
            if started:
                self.give_up(HAS_CHILDREN.format(describe(env)))
        taping = tape_recorder_of(env) if self.tapes else None
        if taping is None or taping.tape is None:
            return None
        if taping.tape.fault is not None:
            self.give_up(f"an episode of {describe(env)} cannot be replayed: {taping.tape.fault}")
            return None
        recipe = None if self.recipe is None else self.recipe.hash
        return OnTape(taping.tape, recipe, self.mode != DIRECT, functools.partial(self.frames_of, taping.tape))

    def give_up(self, reason: str, lost: int = 0) -> None:
        """Render the episodes that start from now on directly; this costs ``lost`` clips.

        The reason is reported, unless the user left the choice to us and it costs nothing.
        """
        self.go_direct(reason)
        if self.plan.render == REPLAY or lost:
            self._recorder.problems.report(reason, "no clip" if lost else DIRECTLY, kind="replay", lost=lost)
        elif self.plan.tapes:
            self._recorder.problems.report(reason, "episodes have no tape", kind="tape")

    def go_direct_and_report(self, reason: str) -> None:
        """Render the episodes that start from now on directly, and report why."""
        self.go_direct(reason)
        self._recorder.problems.report(reason, DIRECTLY, kind="replay")

    def go_direct(self, reason: str) -> None:
        """Render the episodes that start from now on directly, without a problem."""
        self.mode = DIRECT
        if not self.plan.tapes:
            self._leave_tapes()
        logger.info("recording %r: %s: %s", self.plan.name, DIRECTLY, reason)

    def _new_frame_plan(self) -> FramePlan:
        video = self.plan.video
        return FramePlan(self._recorder.clock, *((1, None) if video is None else (video.every, video.max_frames)))

    def start_over(self) -> None:
        """New envs were made, perhaps in another way: whether they repeat their episodes is not known yet."""
        self._leave_tapes()
        self.mode, self._how, self._shows_last = self._first_mode, SPARSE, True
        self._frames = self._new_frame_plan()
        self._global_draws.names = None
        self._guards.clear()
        self._proofs.clear()

    def _leave_tapes(self) -> None:
        for taping in self._tapings.values():
            taping.leave()
        self._tapings.clear()
