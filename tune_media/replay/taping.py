"""Puts the episodes of a recorder on tape, and knows whether their clips are made of the tapes."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from tune_media.recording.clips import Frames
from tune_media.recording.episode import Tape as RunningTape
from tune_media.recording.plan import Plan
from tune_media.recording.recorder import EpisodeRecorder
from tune_media.recording.rendering import describe, sub_envs
from tune_media.replay.generators import has_emulator
from tune_media.replay.tape import Tape
from tune_media.replay.tape_recorder import NewSeeds, TapeRecorder, tape_recorder_of
from tune_media.values.episode_record import DIRECT, REPLAY
from tune_media.values.secrets import error_text

logger = logging.getLogger(__name__)

_DIRECTLY = "episodes are rendered while they run"


class Taping:
    """Puts the episodes of a recorder on tape. The thread that steps the envs calls everything here.

    Args:
        recorder: The recorder, whose plan says when to render, and which is told of problems.

    Attributes:
        mode: ``direct``: frames are rendered while episodes run. ``replay``: they are rendered of the tapes. ``auto``:
            as ``direct``, until it is known whether the env repeats its episodes.

    Example:
        >>> from tune_media.selection import as_selectors
        >>> recorder = EpisodeRecorder(Plan("eval", as_selectors("best"), render="replay"))
        >>> Taping(recorder).mode
        'replay'
    """

    def __init__(self, recorder: EpisodeRecorder) -> None:
        self._recorder = recorder
        self.mode = recorder.plan.render if recorder.plan.video is not None else DIRECT
        self._tapings: dict[int, TapeRecorder] = {}  # by sub-env

    @property
    def plan(self) -> Plan:
        """The recorder's plan."""
        return self._recorder.plan

    @property
    def tapes(self) -> bool:
        """Whether episodes are put on tape."""
        return self.mode != DIRECT or self.plan.tapes

    @property
    def may_render_later(self) -> bool:
        """Whether the clips of episodes that start now may be made in a replay."""
        return self.mode != DIRECT

    def frames_of(self, tape: RunningTape) -> Frames:
        """Return what becomes of the frames of an episode that starts now, and is to be recorded."""
        return Frames.LEFT_OUT if self.mode == REPLAY else Frames.ENCODED

    def put_all_on_tape(
        self,
        env: Any,
        indices: Collection[int] | None = None,
        entropy: Sequence[int | None] | None = (None,),
        first: int = 0,
    ) -> None:
        """Put the episodes of the sub-envs of an env on tape from now on.

        Args:
            env: A single env or a vector env.
            indices: The sub-envs. None: all.
            entropy: Decides, with the index of the sub-env, the seeds of resets that are given none. ``auto`` gives
                none: the episodes stay those that they are without a recorder. Atari games are given none either.
                None: no reset is given one.
            first: The index of the first sub-env in it.
        """
        reachable = sub_envs(env)
        if self.tapes and not reachable:
            self.give_up(
                f"the sub-envs of {describe(env)} are in other processes or in one batch, out of reach of a replay; "
                "use a synchronous vector env (gym_env_vectorize_mode='sync')"
            )
        for index, inner in enumerate(reachable, start=first):
            if indices is None or index in indices:
                seeds = None
                if entropy is not None and self.plan.render == self.mode == REPLAY and not has_emulator(inner):
                    seeds = NewSeeds(*entropy, index)
                self.put_on_tape(inner, seeds, index)

    def put_on_tape(self, env: Any, seeds: Iterator[int] | None = None, index: int = 0) -> None:
        """Put the episodes of an env on tape from now on.

        Args:
            env: The sub-env.
            seeds: Seeds for its resets that are given none; see ``TapeRecorder``.
            index: Its index.
        """
        taping = tape_recorder_of(env)
        if not self.tapes or (taping is not None and self._tapings.get(index) is taping):
            return
        if taping is not None:  # of another recorder
            taping.join(seeds)
            self._tapings[index] = taping
        elif hasattr(env, "step") and hasattr(env, "reset") and hasattr(env, "__dict__"):
            try:
                self._tapings[index] = TapeRecorder(env, seeds)
            except Exception as error:  # its attributes cannot be set
                self.give_up(f"{describe(env)} cannot be taped ({error_text(error)})")
        else:
            self.give_up(f"nobody steps {describe(env)} here: its simulator is outside")

    def tape_of(self, env: Any) -> Tape | None:
        """Return the tape of the episode that starts on a sub-env; None if it has none."""
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
            for taping in self._tapings.values():
                taping.leave()
            self._tapings.clear()
        logger.info("recording %r: %s: %s", self.plan.name, _DIRECTLY, reason)
