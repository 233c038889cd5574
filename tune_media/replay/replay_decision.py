"""Decides whether episodes are rendered while they run or in a replay, and replays the chosen ones."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

from tune_media.recording.episode import Candidate
from tune_media.recording.problems import FrameError
from tune_media.recording.recorder import EpisodeRecorder
from tune_media.recording.render_clock import RenderClock
from tune_media.recording.rendering import Renderer, describe
from tune_media.recording.winners import Winners
from tune_media.replay.generators import same_states
from tune_media.replay.player import ReplayDiffers, replay
from tune_media.replay.render_cost import RenderCost
from tune_media.replay.rendering import render_tape
from tune_media.replay.second_env import close_env, pygame_in_use, same_random_numbers
from tune_media.replay.tape import Tape
from tune_media.replay.taping import Taping
from tune_media.values.episode_record import AUTO, DIRECT, REPLAY
from tune_media.values.secrets import error_text

logger = logging.getLogger(__name__)


class Replayer(Taping):
    """Decides how the episodes of a recorder are rendered, and replays the chosen ones.

    The thread that steps the envs calls everything here.

    Args:
        recorder: The recorder, whose plan says when to render, and which is told of problems.
        frame: The source of frames; see ``Renderer``.

    Attributes:
        mode: ``direct``: frames are rendered while episodes run. ``replay``: they are rendered in a replay. ``auto``:
            as ``direct``, until replays of the first winners have shown whether the env repeats its episodes, and
            whether that is worth it.

    Example:
        >>> from tune_media.recording.plan import Plan
        >>> from tune_media.selection import as_selectors
        >>> recorder = EpisodeRecorder(Plan("eval", as_selectors("best"), render="replay"))
        >>> Replayer(recorder).mode
        'replay'
    """

    def __init__(self, recorder: EpisodeRecorder, frame: Any = None) -> None:
        super().__init__(recorder)
        self._frame = frame
        self._renderer: Renderer | None = None
        self._is_closed = False
        self._pygame_in_use: list[ModuleType] = []

    def taken(self, winners: Mapping[str, Candidate], make: Callable[[], Any]) -> Winners:
        """Return the winners with their clips; those that have none yet are replayed.

        Args:
            winners: The winners by the id of their record.
            make: Makes an env like the one that the episodes were played in; called once.
        """
        if all(winner.tape is None for winner in winners.values()):
            return Winners(dict(winners))
        result = Winners()
        with same_random_numbers():
            if self.mode == AUTO:
                self._choose([winner for winner in winners.values() if winner.clips and winner.tape], make)
            with self._recorder.clock.render():
                for id, winner in winners.items():
                    if winner.tape is None or winner.clips:
                        result.kept[id] = replace(winner, tape=None)
                    else:
                        self._replay(id, winner, make, result)
        if self._is_closed or self.mode == DIRECT:
            self._close_env()
        result.problems.extend(self._recorder.problems.take())
        return result

    def close(self) -> None:
        """Close the env in which episodes were replayed; one that is still made is closed after its use."""
        self._is_closed = True
        self._close_env()

    def _close_env(self) -> None:
        if self._renderer is not None:
            close_env(self._renderer.env, self._pygame_in_use)
            self._renderer = None

    def _replay(self, id: str, winner: Candidate, make: Callable[[], Any], result: Winners) -> None:
        assert self.plan.video is not None
        try:
            renderer = self._env(make)
            assert isinstance(winner.tape, Tape)
            steps, of_episode = len(winner.tape), winner.record.episode_length
            if winner.tape.fault is None and steps != of_episode:
                raise ReplayDiffers(min(steps, of_episode), f"has {steps} steps and the episode {of_episode}")
            with same_states(renderer.env):
                clips = render_tape(winner.tape, renderer, self.plan.video, env_index=winner.record.env_index or 0)
            result.kept[id] = replace(winner, clips=clips, tape=None)
        except Exception as error:
            if self.plan.strict:
                raise
            reason = self._failed(error)
            result.kept[id], result.lost[id] = replace(winner, tape=None), f"no clip: {reason}"
            self.give_up(reason, lost=1)

    def _choose(self, winners: Sequence[Candidate], make: Callable[[], Any]) -> None:
        """Find out whether the env repeats the winners, without rendering them, and whether that is worth it."""
        clock, proof = self._recorder.clock, RenderClock()
        for winner in winners:
            assert isinstance(winner.tape, Tape)
            try:
                renderer = self._env(make)
                with proof.render(1 + len(winner.tape)), same_states(renderer.env):
                    for _ in replay(renderer.env, winner.tape):
                        pass
            except Exception as error:
                self.go_direct(f"a replay without a seed failed: {error_text(error)}")
                return
        if not winners:
            return
        cost = RenderCost.of(clock.rendering, clock.frames, proof.rendering, proof.frames)
        clock.rendering += proof.rendering
        if cost.is_replay_worth_it:
            self.mode = REPLAY
            logger.info("recording %r: the winners are rendered in a replay: %s", self.plan.name, cost)
        else:
            self.go_direct(str(cost))

    def _env(self, make: Callable[[], Any]) -> Renderer:
        """Return the env for replays; it is made once."""
        if self._renderer is None:
            self._pygame_in_use = pygame_in_use()
            self._renderer = Renderer(make(), self._frame)
        return self._renderer

    def _failed(self, error: Exception) -> str:
        name = "'a second one'" if self._renderer is None else describe(self._renderer.env)
        return reason_of(error, name)


def reason_of(error: Exception, env: str) -> str:
    """Return why a replay failed, with the remedy.

    Args:
        error: The exception.
        env: The env's name.

    Example:
        >>> reason_of(ReplayDiffers(17, "has another observation"), "'Maze'")
        "render='replay': env 'Maze' does not repeat its episodes: at step 17, the replay has another observation. \
Have the env draw all its random numbers from self.np_random, which reset(seed=) seeds, and begin each episode afresh; \
or pass render='direct'"
    """
    if isinstance(error, FrameError):
        return str(error)
    if isinstance(error, ReplayDiffers):
        return (
            f"render='replay': env {env} does not repeat its episodes: {error}. Have the env draw all its random "
            "numbers from self.np_random, which reset(seed=) seeds, and begin each episode afresh; or pass "
            "render='direct'"
        )
    return f"render='replay': a replay in env {env} raised {error_text(error)}"
