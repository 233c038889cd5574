"""Makes the clips of a tape: plays it in an env, checks each step, renders and encodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tune_media.encoding.encoder import EncodedVideo
from tune_media.recording.clips import Clips
from tune_media.recording.pictures import SPARSE, Pictures
from tune_media.recording.rendering import Renderer
from tune_media.replay.player import ReplayDiffers, StateCheck, replay
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
    on_step: Callable[[int], None] | None = None,
    check: StateCheck | None = None,
    compares: bool = False,
) -> dict[str, EncodedVideo]:
    """Play a tape and return its clips by view; the name of the only view is the empty string.

    ``render()`` is called at the steps of the tape's schedule, whichever frames are kept, until no more are wanted: it
    may change how the next frames look. So all frames are those that were, or would have been, recorded while the
    episode ran.

    Args:
        renderer: Renders the env in which the tape is played. Nobody else may step that env.
        video: Size, speed, quality, overlays, and which frames are kept. None: the frames of the tape's schedule.
        env_index: The sub-env that the episode was played on.
        on_step: Told the number of each step that has been played, from 0, the reset.
        check: See ``replay``.
        compares: Whether frames are compared with the checksums on the tape.

    Raises:
        ReplayDiffers: The replay is not the episode.
        FrameError: The env does not render.
    """
    video = video or VideoOptions(every=tape.every)
    shown, pictures = _Shown(renderer), Pictures()
    compares = compares and bool(tape.pictures) and tape.pictures.how != SPARSE
    clips = Clips(video, shown, renderer.fps(0))
    total = 0.0
    try:
        for step in replay(renderer.env, tape, check):
            shown.is_old()
            reward = float(sum(step.reward.values()) if isinstance(step.reward, Mapping) else step.reward)
            total += reward
            is_due = step.step % tape.every == 0 or step.step == len(tape)
            is_compared = compares and is_due and tape.pictures.wants(step.step)
            if is_due and (is_compared or not clips.are_full):
                shown()
            if is_compared:
                pictures.add(step.step, shown())
            info = step.info if step.step and step.info else {}  # direct recording has none at the reset, either
            clips.feed(
                StepFacts(step.step, reward, total, step.action, renderer.env, info, step.observation, env_index)
            )
            if on_step is not None:
                on_step(step.step)
        clips.feed_last()
        raise_if_other(tape, pictures, compares=compares)
        finished = clips.finish()
    except BaseException:
        clips.cancel()
        raise
    if video.every % tape.every == 0:
        return finished
    note = f"render() was called at every {tape.every}th step while it was recorded: frames may have looked different"
    return {view: replace(clip, note=joined(clip.note, note)) for view, clip in finished.items()}


def play_tape(
    tape: Tape, renderer: Renderer, check: StateCheck | None, wants: Callable[[int], bool]
) -> tuple[Pictures, tuple[float, float]]:
    """Play a tape without a clip, and return the frames of some steps.

    Args:
        check: See ``replay``.
        wants: Returns whether the frame of a step is rendered, if the tape's schedule has it.

    Returns:
        The frames, and the seconds that the first one and another one took.

    Raises:
        ReplayDiffers: The replay is not the episode.
        FrameError: The env does not render.
    """
    pictures, seconds = Pictures(), list[float]()
    for step in replay(renderer.env, tape, check):
        renderer.new_step()
        if (step.step % tape.every == 0 or step.step == len(tape)) and wants(step.step):
            began = time.perf_counter()
            frames = renderer.frames(0)
            seconds.append(time.perf_counter() - began)
            pictures.add(step.step, frames)
    later = sorted(seconds[1:])
    return pictures, (seconds[0] if seconds else 0.0, later[len(later) // 2] if later else 0.0)


def raise_if_other(tape: Tape, pictures: Pictures, *, compares: bool = True) -> None:
    """Compare the frames of a replay with the checksums on its tape.

    Raises:
        ReplayDiffers: They are others.
    """
    where = tape.pictures.difference(pictures) if compares and tape.pictures else None
    if where is not None:
        raise ReplayDiffers(len(tape), f"the replay shows other pictures than the episode, {where}", is_told=True)


class _Shown:
    """Renders the frames of a step once, however often they are asked for."""

    def __init__(self, renderer: Renderer) -> None:
        self._renderer = renderer
        self._frames: dict[str, Any] | None = None

    def is_old(self) -> None:
        """The env has been stepped or reset."""
        self._renderer.new_step()
        self._frames = None

    def __call__(self) -> dict[str, Any]:
        if self._frames is None:
            self._frames = self._renderer.frames(0)
        return self._frames
