"""Decides whether episodes are rendered while they run or in a replay, and replays the chosen ones."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

from tune_media.recording.episode import Candidate, joined
from tune_media.recording.plan import Plan
from tune_media.recording.recorder import EpisodeRecorder
from tune_media.recording.render_clock import RenderClock
from tune_media.recording.rendering import Renderer, describe, sub_envs
from tune_media.replay.generators import has_emulator
from tune_media.replay.late_clips import play_again, reason_of, with_late_clips
from tune_media.replay.render_cost import RenderCost
from tune_media.replay.second_env import close_env, pygame_in_use, same_random_numbers
from tune_media.replay.tape import Tape
from tune_media.replay.tape_recorder import NewSeeds, TapeRecorder, tape_recorder_of
from tune_media.values.episode_record import AUTO, DIRECT, REPLAY
from tune_media.values.episodes import EpisodeData
from tune_media.values.recording_problems import RecordingProblem
from tune_media.values.secrets import error_text

logger = logging.getLogger(__name__)

_DIRECTLY = "episodes are rendered while they run"


@dataclass(frozen=True)
class Taken:
    """The winners that one env runner, or several, handed over.

    Attributes:
        kept: The winners by the id of their record, with their clips; those in ``lost`` have none.
        lost: Why a winner has no clip, by the id of its record.
        problems: The problems of making the clips.
    """

    kept: dict[str, Candidate] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)
    problems: list[RecordingProblem] = field(default_factory=list)

    def add(self, other: Taken) -> None:
        """Add the winners of another env runner."""
        self.kept.update(other.kept)
        self.lost.update(other.lost)
        self.problems.extend(other.problems)


class Replayer:
    """Decides how the episodes of a recorder are rendered, and replays the chosen ones.

    The thread that steps the envs calls everything here.

    Args:
        recorder: The recorder, whose plan says when to render, and which is told of problems.
        frame: The source of frames; see ``Renderer``.
        is_possible: Whether these episodes may be replayed at all.

    Attributes:
        mode: ``direct``: frames are rendered while episodes run. ``replay``: they are rendered in a replay. ``auto``:
            as ``direct``, until replays of the first winners have shown whether the env repeats its episodes, and
            whether that is worth it.

    Example:
        >>> from tune_media.selection import as_selectors
        >>> recorder = EpisodeRecorder(Plan("eval", as_selectors("best"), render="replay"))
        >>> Replayer(recorder).mode, Replayer(recorder, is_possible=False).mode
        ('replay', 'direct')
    """

    def __init__(self, recorder: EpisodeRecorder, frame: Any = None, *, is_possible: bool = True) -> None:
        self._recorder, self._frame = recorder, frame
        self.mode = recorder.plan.render if is_possible and recorder.plan.video is not None else DIRECT
        self._envs: dict[int, Renderer] = {}
        self._tapings: dict[int, TapeRecorder] = {}  # by sub-env
        self._is_closed = False
        self._pygame_in_use: list[ModuleType] = []

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

    @property
    def renders_later(self) -> bool:
        """Whether the episodes that start now are rendered in a replay only."""
        return self.mode == REPLAY

    def put_all_on_tape(
        self, env: Any, indices: Collection[int] | None = None, entropy: Sequence[int | None] = (None,), first: int = 0
    ) -> None:
        """Put the episodes of the sub-envs of an env on tape from now on.

        Args:
            env: A single env or a vector env.
            indices: The sub-envs. None: all.
            entropy: Decides, with the index of the sub-env, the seeds of resets that are given none. ``auto`` gives
                none: the episodes stay those that they are without a recorder. Atari games are given none either.
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
                gives_seeds = self.plan.render == self.mode == REPLAY and not has_emulator(inner)
                self.put_on_tape(inner, NewSeeds(*entropy, index) if gives_seeds else None, index)

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

    def taken(self, winners: Mapping[str, Candidate], make: Callable[[int], Any]) -> Taken:
        """Return the winners with their clips; those that have none yet are replayed.

        Args:
            winners: The winners by the id of their record.
            make: Makes an env like the sub-env with an index; called once for each index, unless ``key_of`` says
                that all sub-envs are alike.
        """
        if all(winner.taped is None for winner in winners.values()):
            return Taken(dict(winners))
        result = Taken()
        with same_random_numbers():
            if self.mode == AUTO:
                self._choose([winner for winner in winners.values() if winner.clips and winner.taped], make)
            with self._recorder.clock.render():
                for id, winner in winners.items():
                    if winner.taped is None or winner.clips:
                        result.kept[id] = replace(winner, taped=None)
                    else:
                        self._replay(id, winner, make, result)
        if self._is_closed or self.mode == DIRECT:
            self._close_envs()
        result.problems.extend(self._recorder.problems.take())
        return result

    def key_of(self, index: int) -> int:
        """Return the key of the env in which the episodes of a sub-env are replayed; one env for all, if alike."""
        return 0

    def close(self) -> None:
        """Close the envs in which episodes were replayed; those that are still made are closed after their use."""
        self._is_closed = True
        self._close_envs()

    def _close_envs(self) -> None:
        for renderer in self._envs.values():
            close_env(renderer.env, self._pygame_in_use)
        self._envs.clear()

    def give_up(self, reason: str, lost: int = 0) -> None:
        """Render the episodes that start from now on directly.

        Args:
            reason: Why. It is reported, unless the user left the choice to us and it costs nothing.
            lost: The number of clips that it costs.
        """
        self._go_direct(reason)
        if self.plan.render == REPLAY or lost:
            self._recorder.problems.report(reason, "no clip" if lost else _DIRECTLY, kind="replay", lost=lost)
        elif self.plan.tapes:
            self._recorder.problems.report(reason, "episodes have no tape", kind="tape")

    def _replay(self, id: str, winner: Candidate, make: Callable[[int], Any], result: Taken) -> None:
        assert self.plan.video is not None
        try:
            renderer = self._env(winner.record.env_index or 0, make)
            result.kept[id] = with_late_clips(winner, renderer, self.plan.video)
        except Exception as error:
            if self.plan.strict:
                raise
            reason = self._failed(error)
            result.kept[id], result.lost[id] = replace(winner, taped=None), f"no clip: {reason}"
            self.give_up(reason, lost=1)

    def _choose(self, winners: Sequence[Candidate], make: Callable[[int], Any]) -> None:
        """Find out whether the env repeats the winners, without rendering them, and whether that is worth it."""
        clock, proof = self._recorder.clock, RenderClock()
        for winner in winners:
            assert winner.taped is not None
            try:
                renderer = self._env(winner.record.env_index or 0, make)
                with proof.render(1 + len(winner.taped.tape)):
                    play_again(winner.taped, renderer)
            except Exception as error:
                self._go_direct(f"a replay without a seed failed: {error_text(error)}")
                return
        if not winners:
            return
        cost = RenderCost.of(clock.rendering, clock.frames, proof.rendering, proof.frames)
        clock.rendering += proof.rendering
        if cost.is_replay_worth_it:
            self.mode = REPLAY
            logger.info("recording %r: the winners are rendered in a replay: %s", self.plan.name, cost)
        else:
            self._go_direct(str(cost))

    def _go_direct(self, reason: str) -> None:
        self.mode = DIRECT
        if not self.plan.tapes:
            for taping in self._tapings.values():
                taping.leave()
            self._tapings.clear()
        logger.info("recording %r: %s: %s", self.plan.name, _DIRECTLY, reason)

    def _env(self, index: int, make: Callable[[int], Any]) -> Renderer:
        """Return the env for replays of a sub-env's episodes; it is made once."""
        key = self.key_of(index)
        if key not in self._envs:
            self._pygame_in_use = self._pygame_in_use or pygame_in_use()
            self._envs[key] = Renderer(make(key), self._frame)
        return self._envs[key]

    def _failed(self, error: Exception) -> str:
        name = next((describe(renderer.env) for renderer in self._envs.values()), "'a second one'")
        return reason_of(error, name)


def with_note(episode: EpisodeData, note: str | None) -> EpisodeData:
    """Return an episode whose record says why it has no clip, if it has none for that reason."""
    if note is None:
        return episode
    record = replace(episode.record, note=joined(episode.record.note, note), rendered=None)
    return replace(episode, record=record)
