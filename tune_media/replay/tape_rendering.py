"""Plays a tape in an env, checks each step, renders, compares the episode's own frames, and encodes a clip."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

from tune_media.encoding.encoder import EncodedVideo
from tune_media.recording.episode_clips import Clips
from tune_media.recording.overlay_lines import ReplayedLines
from tune_media.recording.pictures import Pictures
from tune_media.recording.rendering import Renderer
from tune_media.replay.generators import RenderDraws, RenderGuard
from tune_media.replay.player import ReplayDiffers, ReplayedStep, recorder_on, replay
from tune_media.replay.tape import Tape
from tune_media.steps import StepFacts
from tune_media.values.medium import joined
from tune_media.values.options import VideoOptions


def render_tape(
    tape: Tape,
    renderer: Renderer,
    video: VideoOptions | None = None,
    *,
    env_index: int = 0,
    on_step: Callable[[int, int], None] | None = None,
    compared: Collection[int] = (),
) -> dict[str, EncodedVideo]:
    """Play a tape and return its clips by view; the name of the only view is "". Texts of functions are the tape's.

    ``render()`` is called at the steps of the tape's schedule, whichever frames are kept, until no more are wanted: it
    may change how the next frames look. ``on_step`` gets each step from 0, the reset, and the number of all. The frames
    of the steps ``compared`` are compared with the tape's checksums. Raises ReplayDiffers or FrameError.
    """
    video = video or VideoOptions(every=tape.every)
    shown, pictures = _Shown(renderer), Pictures()
    steps = replay(renderer.env, tape)
    reset = next(steps)  # an env may state its speed anew with each reset
    clips = Clips(video, shown, tape.fps or renderer.fps(0), texts=ReplayedLines(video, tape.lines))
    total = 0.0
    try:
        for step in itertools.chain([reset], steps):
            shown.is_old()
            reward = _reward(tape, step)
            total += reward
            is_due = step.step % tape.every == 0 or step.step == len(tape)
            if step.step in compared:
                pictures.add(step.step, shown())
            elif is_due and not clips.are_full:
                shown()
            info = step.info if step.step and step.info else {}  # direct recording has none at the reset, either
            totals = step.step, reward, total
            clips.feed(StepFacts(*totals, step.action, renderer.env, info, step.observation, env_index))
            if on_step is not None:
                on_step(step.step, len(tape))
        clips.feed_last()
        raise_if_other(tape, pictures, compared)
        finished = clips.finish()
    except BaseException:
        clips.cancel()
        raise
    if video.every % tape.every == 0:
        return finished
    note = f"render() was called at every {tape.every}th step while it was recorded: frames may have looked different"
    return {view: replace(clip, note=joined(clip.note, note)) for view, clip in finished.items()}


def _reward(tape: Tape, step: ReplayedStep) -> float:
    if tape.rewards is not None and step.step:
        return float(tape.rewards[step.step - 1])  # a wrapper with running means would give others
    return float(sum(step.reward.values()) if isinstance(step.reward, Mapping) else step.reward)


def frames_at(
    tape: Tape,
    renderer: Renderer,
    places: Collection[int],
    on_step: Callable[[int], None] = lambda step: None,
    draws: RenderDraws | None = None,
) -> tuple[Pictures, list[str] | None]:
    """Play a tape, rendering the frames of some steps only. Raises ReplayDiffers.

    Return their checksums, and the global generators that rendering drew from, or None if not known: ``draws`` is older
    than a thread that may draw, too.
    """
    pictures, shown = Pictures(), _Shown(renderer, draws)
    for step in replay(renderer.env, tape):
        shown.is_old()
        if step.step in places:
            pictures.add(step.step, shown())
        on_step(step.step)
    return pictures, shown.guard.drawn


def raise_if_other(tape: Tape, shown: Pictures, places: Collection[int]) -> None:
    """Compare the frames of a replay with the checksums on its tape. Raises ReplayDiffers."""
    difference = tape.pictures.difference(shown, places)
    if difference is not None:
        step, where = difference
        raise ReplayDiffers(f"the replay shows other pictures than the episode, {where}", step)


class _Shown:
    """Renders the frames of a step once, however often they are asked for, and moves no random generator."""

    def __init__(self, renderer: Renderer, draws: RenderDraws | None = None) -> None:
        self._renderer, self.guard = renderer, RenderGuard(recorder_on(renderer.env).generators, draws)
        self._frames: dict[str, Any] | None = None

    def is_old(self) -> None:
        """The env has been stepped or reset."""
        self._renderer.new_step()
        self._frames = None

    def __call__(self) -> dict[str, Any]:
        if self._frames is None:
            self._frames = self.guard(lambda: self._renderer.frames(0))
        return self._frames
