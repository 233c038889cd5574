"""Makes the clips of an episode after it has ended: plays it again with rendering on, and checks each step."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace

from tune_media.recording.clips import Clips
from tune_media.recording.episode import Candidate, Taped
from tune_media.recording.problems import FrameError
from tune_media.recording.rendering import Renderer
from tune_media.replay.generators import same_states
from tune_media.replay.player import ReplayDiffers, replay
from tune_media.replay.tape import Tape
from tune_media.steps import StepFacts
from tune_media.values.options import VideoOptions
from tune_media.values.secrets import error_text

OnStep = Callable[[StepFacts], None]
"""Told of each step of a replay while the env shows its frame."""


def with_late_clips(candidate: Candidate, renderer: Renderer, video: VideoOptions) -> Candidate:
    """Return a candidate with the clips of its replay, and without its tape.

    Args:
        candidate: A candidate with a tape.
        renderer: Renders the env in which the episode is played again. Nobody else may step that env.
        video: Size, speed, quality and overlays of the clips.

    Raises:
        ReplayDiffers: The replay is not the episode.
        FrameError: The env does not render.
        Exception: Whatever a function in ``overlay=`` raises.

    Example:
        >>> import itertools
        >>> import numpy as np
        >>> from tune_media.replay.tape_recorder import TapeRecorder
        >>> from tune_media.values.episode_record import EpisodeRecord
        >>> class Env:
        ...     def reset(self, *, seed=None, options=None):
        ...         return 0, {}
        ...     def step(self, action):
        ...         return action, 1.0, False, False, {}
        ...     def render(self):
        ...         return np.zeros((32, 48, 3), np.uint8)
        >>> env = Env()
        >>> taping = TapeRecorder(env, itertools.count())
        >>> _ = env.reset(), env.step(0), env.step(1)
        >>> candidate = Candidate(EpisodeRecord("e1", 2.0, 2), {}, taped=Taped(taping.tape, [1.0, 1.0]))
        >>> with_late_clips(candidate, Renderer(Env()), VideoOptions()).clips[""].frames
        3
    """
    assert candidate.taped is not None
    index = candidate.record.env_index or 0
    clips = Clips(video, functools.partial(renderer.frames, 0), renderer.fps(0))
    try:
        play_again(candidate.taped, renderer, clips.feed, env_index=index)
        clips.feed_last()
        return replace(candidate, clips=clips.finish(), taped=None)
    except BaseException:
        clips.cancel()
        raise


def play_again(taped: Taped, renderer: Renderer, on_step: OnStep | None = None, *, env_index: int = 0) -> None:
    """Play an episode again.

    Args:
        taped: Its tape.
        renderer: Renders the env in which it is played.
        on_step: Told of each step while the env shows its frame. None: the steps are only checked.
        env_index: The sub-env that it was played on.

    Raises:
        ReplayDiffers: The replay is not the episode.
        Exception: Whatever ``on_step`` raises.
    """
    tape, rewards, total = taped.tape, taped.rewards, 0.0
    assert isinstance(tape, Tape)
    if tape.fault is None and len(tape) != len(rewards):
        raise ReplayDiffers(min(len(tape), len(rewards)), f"has {len(tape)} steps and the episode {len(rewards)}")
    with same_states(renderer.env):
        for number, action, observation, info, _ in replay(renderer.env, tape):
            renderer.new_step()
            reward = rewards[number - 1] if number else 0.0
            total += reward
            if on_step is not None:  # at the reset frame, direct recording has no info either
                seen = info if number and info else {}
                on_step(StepFacts(number, reward, total, action, renderer.env, seen, observation, env_index))


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
