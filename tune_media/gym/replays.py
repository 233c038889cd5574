"""Renders the chosen episodes of a wrapper from their tapes, in a process of its own."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym

from tune_media.recording.episode import Candidate
from tune_media.recording.recorder import Recorder
from tune_media.recording.rendering import FrameSource, describe, sub_env
from tune_media.recording.winners import Winners
from tune_media.replay.env_state import Baseline, EnvState
from tune_media.replay.player import RenderError, ReplayDiffers
from tune_media.replay.recipe import Recipe
from tune_media.replay.render_pool import RenderPool
from tune_media.replay.tape import Tape
from tune_media.replay.taped_clip import TapedClip
from tune_media.replay.taping import Taping
from tune_media.replay.verdicts import Verdict, has_unproven, note_unproven, refuse, take_suspects
from tune_media.values.episode_record import AUTO, DIRECT, REPLAY
from tune_media.values.episodes import EpisodeData
from tune_media.values.secrets import error_text
from tune_media.values.video import has_pictures

_MOST_PROOFS = 4  # of a take(), the latest: whoever calls it waits for them


@dataclass(frozen=True)
class MadeByUser:
    """Makes an env by ``env_fn``, also one whose id only the user's script registers.

    Attributes:
        spec: The registered spec of the env that is recorded. None: it has none.
    """

    env_fn: Callable[[], gym.Env[Any, Any]]
    spec: Any

    def __call__(self, config: Mapping[str, Any]) -> gym.Env[Any, Any]:
        """Make an env."""
        if self.spec is not None:
            gym.registry.setdefault(self.spec.id, self.spec)
        return self.env_fn()

    @classmethod
    def like(cls, env: gym.Env[Any, Any], env_fn: Callable[[], Any]) -> MadeByUser:
        """Return how an env is made that is like the recorded one."""
        spec = None if env.unwrapped.spec is None else gym.registry.get(env.unwrapped.spec.id)
        if spec is not None and str(spec.entry_point).startswith("__main__:"):  # another module in the other process
            spec = copy.copy(spec)
            spec.entry_point = getattr(sys.modules["__main__"], str(spec.entry_point).partition(":")[2])
        return cls(env_fn, spec)


class WrapperTaping(Taping):
    """Tapes the episodes of a wrapper, and renders the chosen ones. The thread that steps the envs calls everything.

    No env is made in this process. The process that renders starts with the first tape, and is ended after a minute
    without one. With ``auto``, episodes are rendered directly until that process has played some of the chosen ones
    again and shown the same pictures; then they are taped only.

    Args:
        recorder: The wrapper's recorder, whose plan says when to render, and which is told of problems.
        env_fn: Makes an env like a sub-env. None: all episodes are rendered directly.
    """

    def __init__(
        self,
        recorder: Recorder,
        env: Any,
        indices: Collection[int],
        env_fn: Callable[[], Any] | None,
        frame: FrameSource = None,
    ) -> None:
        super().__init__(recorder)
        self._name = describe(env)
        self._pool: RenderPool | None = None
        self._is_closed = False
        base: Baseline | None = None
        inner = sub_env(env, 0)
        if self.tapes and env_fn is not None and inner is not None:
            try:
                made = MadeByUser.like(inner, env_fn)
                base = EnvState(inner).as_baseline()
                self.recipe = Recipe.of(made, {}, inner, frame=frame, video=self.plan.video, base=base)
            except Exception as error:
                self._go_direct_and_say_so(
                    f"render={self.plan.render!r}: env_fn= (or frame=, or an overlay) cannot be pickled for the "
                    f"process that renders: {error_text(error)}. Have it make or import all that it uses, instead of "
                    "holding an env, a lock or large data; or pass render='direct'"
                )
        self.put_all_on_tape(env, indices, base=base)
        self.watch_children()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the process: a copy starts its own."""
        return {**self.__dict__, "_pool": None}

    def taken(self, winners: Mapping[str, Candidate], episodes: Sequence[EpisodeData] = ()) -> Winners:
        """Return the winners with their clips; those that have none yet are rendered from their tapes.

        Args:
            winners: The winners by the id of their record.
            episodes: The data of all episodes since the last call; the frames of one that has some are compared.

        Raises:
            RenderError: One cannot be rendered, and the recorder is strict.
        """
        result = Winners({id: replace(winner, tape=None) for id, winner in winners.items()})
        direct = [winner for winner in winners.values() if winner.tape is not None and winner.clips]
        checked = [one for one in episodes if one.record.id in self.samples() and one.record.id not in winners]
        taped = {id: winner for id, winner in winners.items() if winner.tape is not None and not winner.clips}
        clock, before = self._recorder.clock, self._recorder.clock.rendering
        with clock.render():
            if self.mode == AUTO:
                self._prove(direct)
            elif self.mode == REPLAY and checked:
                self._check(checked[-1])
            self._render_all(taped, result)
        self._budget.leave_out(clock.rendering - before)
        for one in episodes:
            self.forget(one.record.id)
        if self._is_closed or self.mode == DIRECT:
            self._end_process()
        return result

    def close(self) -> None:
        """End the process; if a later ``take()`` needs one again, it is ended there."""
        self._is_closed = True
        self._end_process()

    def _end_process(self) -> None:
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _render_all(self, winners: Mapping[str, Candidate], result: Winners) -> None:
        """Render winners from their tapes; if the process cannot play one for want of an env, it plays none."""
        why: str | None = None
        for id, winner in winners.items():
            reason = why
            if reason is None:
                try:
                    clips = self._taped(winner).clips_by(self._process())
                    self._recorder.stills.look(clips.values())
                    result.kept[id] = replace(winner, clips=clips, tape=None)
                    for video in result.kept[id].videos().values():
                        if not has_pictures(video.compared):
                            note_unproven(str(video.recipe_hash), video.id)
                    continue
                except Exception as error:
                    reason = self._reason(error)
                    if self.plan.strict:
                        raise RenderError(reason) from error
                    if not _is_of_one_episode(error):
                        why = reason
                    if isinstance(error, RenderError) and error.is_of_tape:
                        self._refuse(error)
            result.lost[id] = f"no clip: {reason}"
            self.give_up(reason, lost=1)

    def _prove(self, winners: Sequence[Candidate]) -> None:
        """Find out whether the env repeats episodes that were rendered directly, pictures included.

        The latest one is played first, in a new env: if its frames depend on earlier episodes, they differ.
        """
        numbers = {winner.record.id: winner.tape.number for winner in winners if winner.tape is not None}
        if not any(numbers.values()):  # the first episode of an env proves little
            return
        latest = sorted(winners, key=lambda winner: -numbers[winner.record.id])[:_MOST_PROOFS]
        facts: dict[str, Any] = {}
        for winner in latest:
            try:
                facts |= self._taped(winner).compared_by(self._process(), is_first=True)
            except Exception as error:
                self._go_direct_and_say_so(self._reason(error))
                return
        self.is_proven(Verdict(True, **facts))

    def _check(self, episode: EpisodeData) -> None:
        """Compare the frames that an episode has with its replay."""
        if episode.tape and self.recipe is not None:
            try:
                TapedClip(episode.tape, self.recipe, episode.record).compared_by(self._process())
            except RenderError as error:
                if error.is_of_tape:
                    self._refuse(error)
                    self._go_direct_and_say_so(self._reason(error))
            except Exception as error:
                self._recorder.problems.report_error("comparing a replay", error, "it was not compared")

    def _refuse(self, error: RenderError) -> None:
        """Tell the driver of a sweep, which marks the clips that it has."""
        assert self.recipe is not None
        refuse(self.recipe.hash, str(error), differs=error.step is not None)
        if error.step is not None and has_unproven(self.recipe.hash):
            self._recorder.problems.report(take_suspects(self.recipe.hash), "the env does not repeat its episodes")

    def _process(self) -> RenderPool:
        if self._pool is None:
            self._pool = RenderPool()
        return self._pool

    def _taped(self, winner: Candidate) -> TapedClip:
        """Return the clip of an episode's tape, not rendered yet.

        Raises:
            RenderError: The tape does not have the whole episode.
        """
        tape, steps = winner.tape, winner.record.episode_length
        assert isinstance(tape, Tape) and self.recipe is not None
        differs = None
        if tape.fault is not None:
            differs = ReplayDiffers(len(tape), f"is impossible: {tape.fault}")
        elif len(tape) != steps:
            differs = ReplayDiffers(min(len(tape), steps), f"has {len(tape)} steps and the episode {steps}")
        if differs is not None:
            raise RenderError(str(differs), differs.step)
        return TapedClip(tape.packed(), self.recipe, winner.record)

    def _go_direct_and_say_so(self, reason: str) -> None:
        self.go_direct(reason)
        self._recorder.problems.report(reason, "episodes are rendered while they run", kind="replay")

    def _reason(self, error: Exception) -> str:
        """Return why a tape could not be rendered, with the remedy."""
        text = str(error) if isinstance(error, RenderError) else error_text(error)
        if _is_of_one_episode(error):
            return (
                f"render={self.plan.render!r}: env {self._name} does not repeat its episodes: {text}. Have the env "
                "draw all its random numbers from self.np_random, which reset(seed=) seeds, and begin each episode "
                "afresh; or pass render='direct'"
            )
        return (
            f"render={self.plan.render!r}: the process that renders cannot play episodes of env {self._name} again: "
            f"{text}. Have env_fn= make the env from what it imports itself; or pass render='direct'"
        )


def _is_of_one_episode(error: Exception) -> bool:
    """Return whether the replay differed from its episode; otherwise no tape can be played."""
    return isinstance(error, RenderError) and error.step is not None
