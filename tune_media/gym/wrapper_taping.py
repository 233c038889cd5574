"""Renders the chosen episodes of a wrapper from their tapes, in a separate process."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym
from typing_extensions import override

from tune_media.recording.choosing import Winners
from tune_media.recording.episode import Candidate
from tune_media.recording.recorder import Recorder
from tune_media.recording.rendering import FrameSource, describe, sub_env
from tune_media.replay.player import RenderError, ReplayDiffers
from tune_media.replay.proofs import Proofs, compare
from tune_media.replay.recipe import Recipe
from tune_media.replay.render_pool import RenderPool
from tune_media.replay.taped_clip import TapedClip
from tune_media.replay.taping import DIRECTLY, Taping
from tune_media.values.episode_record import AUTO, DIRECT, REPLAY
from tune_media.values.episodes import EpisodeData
from tune_media.values.secrets import error_text


@dataclass(frozen=True)
class MadeByUser:
    """Makes an env by ``env_fn``, also one whose id only the user's script registers."""

    env_fn: Callable[[], gym.Env[Any, Any]]
    spec: Any  # the registered spec of the env that is recorded

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
    without one. With ``auto``, episodes are rendered directly, and are proofs, until that process has shown the same
    pictures; then only their own frames are rendered, and compared when a clip is made. Without ``env_fn``, all
    episodes are rendered directly.
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
        self._proofs_of_env, self._draws = Proofs(), ""
        self._refused = ""  # why the env does not repeat its episodes
        inner = sub_env(env, 0)
        if self.tapes and env_fn is not None and inner is not None:
            try:
                made = MadeByUser.like(inner, env_fn)
                self.recipe = Recipe.of(made, {}, inner, frame=frame, video=self.plan.video)
            except Exception as error:
                self.go_direct_and_report(
                    f"render={self.plan.render!r}: env_fn= (or frame=) cannot be pickled for the "
                    f"process that renders: {error_text(error)}. Have it make or import all that it uses, instead of "
                    "holding an env, a lock or large data; or pass render='direct'"
                )
        self.put_all_on_tape(env, indices)
        self.watch_children()

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the process: a copy starts its own."""
        return {**self.__dict__, "_pool": None}

    def taken(self, winners: Mapping[str, Candidate], episodes: Sequence[EpisodeData] = ()) -> Winners:
        """Return the winners with their clips, rendered from their tapes if needed; whole episodes become proofs.

        Raises RenderError if one cannot be rendered, and the recorder is strict.
        """
        result = Winners({id: replace(winner, tape=None) for id, winner in winners.items()})
        ids = set(self.proofs())
        taped = {id: winner for id, winner in winners.items() if winner.tape is not None and not winner.clips}
        with self._recorder.clock.render():
            self._prove([episode for episode in episodes if episode.record.id in ids])
            tapes = {episode.record.id: episode.tape for episode in episodes}
            self._render_all(taped, tapes, result)
        for episode in episodes:
            self.forget(episode.record.id)
        if self._draws:
            self.go_direct(self._draws)
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

    def _render_all(self, winners: Mapping[str, Candidate], tapes: Mapping[str, bytes | None], result: Winners) -> None:
        """Render winners from their tapes. If the env does not repeat one of them, none of them has a clip."""
        why = self._refused
        for id, winner in winners.items():
            if why:
                break
            try:
                clips = self._taped(winner, tapes.get(id)).clips_by(self._process())
                result.kept[id] = replace(winner, clips=clips, tape=None)
            except Exception as error:
                reason = self._reason(error)
                if self.plan.strict:
                    raise RenderError(reason) from error
                if isinstance(error, RenderError) and not error.is_of_env:
                    result.lose(id, reason)
                    self._recorder.problems.report(reason, "no clip", kind="one tape", lost=1)
                    continue
                why = reason
                if _is_of_one_episode(error):
                    self._refused = reason
        for id in winners if why else ():
            if id not in result.lost and (self._refused or not result.kept[id].clips):
                result.kept[id] = replace(result.kept[id], clips={})
                result.lose(id, why)
                self.give_up(why, lost=1)
        for id in winners:
            self._recorder.stills.look(result.kept[id].clips.values())

    def _prove(self, episodes: Sequence[EpisodeData]) -> None:
        """Compare episodes that were rendered as a whole with their replays."""
        assert self.recipe is not None or not episodes
        samples = [TapedClip(e.tape, self.recipe, e.record) for e in episodes if e.tape and self.recipe]
        try:
            if self.mode == AUTO and samples:
                if (verdict := self._proofs_of_env.add(samples, self._process())) is not None:
                    self.is_proven(verdict)
            elif self.mode == REPLAY:
                for sample in samples:
                    compare(sample, self._process())
        except Exception as error:
            if isinstance(error, RenderError) and not error.is_of_env:
                self._recorder.problems.report_error("comparing a replay", error, "it was not compared")
                return
            self._refused = self._reason(error)
            self.go_direct_and_report(self._refused)

    @override
    def _render_draws(self, reason: str) -> None:
        self._draws = reason
        self._recorder.problems.report(f"render='auto': {reason}", DIRECTLY, kind="replay")

    def _process(self) -> RenderPool:
        if self._pool is None:
            self._pool = RenderPool()
        return self._pool

    def _taped(self, winner: Candidate, packed: bytes | None) -> TapedClip:
        """Return the clip of an episode's tape, not rendered yet; RenderError if the tape is missing or not whole."""
        tape, steps = winner.tape, winner.record.episode_length
        assert tape is not None and self.recipe is not None
        differs = None
        if tape.fault is not None:
            differs = ReplayDiffers.at(len(tape), f"is impossible: {tape.fault}")
        elif len(tape) != steps:
            differs = ReplayDiffers.at(min(len(tape), steps), f"has {len(tape)} steps and the episode {steps}")
        if differs is not None:
            raise RenderError(str(differs), differs.step)
        if not packed:
            raise RenderError("its tape was left out: the tapes since the last take() took too much", is_of_env=False)
        return TapedClip(packed, self.recipe, winner.record)

    def _reason(self, error: Exception) -> str:
        """Return why a tape could not be rendered, with the remedy."""
        text = str(error) if isinstance(error, RenderError) else error_text(error)
        if _is_of_one_episode(error):
            return (
                f"render={self.plan.render!r}: env {self._name} does not repeat its episodes: {text}. If that is meant "
                "to be so, pass render='direct'"
            )
        if isinstance(error, RenderError) and (error.touches or not error.is_of_env):
            return f"render={self.plan.render!r}: {text}"
        return (
            f"render={self.plan.render!r}: the process that renders cannot play episodes of env {self._name} again: "
            f"{text}. Have env_fn= make the env from what it imports itself; or pass render='direct'"
        )


def _is_of_one_episode(error: Exception) -> bool:
    """Return whether the replay differed from its episode; otherwise no tape can be played."""
    return isinstance(error, RenderError) and error.step is not None
