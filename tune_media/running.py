"""An episode while it runs, when it has ended, and when it is handed over.

Its frames go into encoders as they are rendered, its values into bounded series; nothing of it is kept twice.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tune_media.encoding import EncodedVideo, VideoEncoder, as_rgb, resize, target_size
from tune_media.episodes import EpisodeData, EpisodeValues, Trajectory, points_of
from tune_media.overlay import Overlay
from tune_media.steps import StepFacts
from tune_media.trajectories import Steps
from tune_media.values import Artifact, EpisodeRecord, Image, Video, VideoOptions

Render = Callable[[], Mapping[str, Any]]
"""Returns the current frames of an env, by the name of their view; the only view's name is the empty string."""

Taken = Video | EpisodeRecord | dict[str, Video]
"""What a winner is handed over as: its clip; its record where no frames are recorded; a clip for each view."""

MoreValues = Callable[[EpisodeValues], None]
"""Adds what others say of an episode that has ended; asked when it is collected, since they may say it late."""


@dataclass(frozen=True)
class Kept:
    """All that is handed over of a winner.

    Attributes:
        shown: Its clip, its record, or its clips by view.
        media: Its pictures and files, by name.
        trajectory: Its steps, where they are recorded.
    """

    shown: Taken
    media: Mapping[str, Image | Artifact] = field(default_factory=dict)
    trajectory: Trajectory | None = None


@dataclass
class Running:
    """An episode that is being recorded."""

    facts: dict[str, Any]
    clips: Clips | None
    env: Any
    agents: frozenset[str]
    episode_return: float = 0.0
    episode_length: int = 0
    is_candidate: bool = True
    steps: Steps | None = None
    values: EpisodeValues = field(default_factory=EpisodeValues)

    def is_no_candidate(self) -> None:
        """Drop what is only for those who may be chosen."""
        if self.clips is not None:
            self.clips.cancel()
        self.is_candidate, self.clips, self.steps = False, None, None

    def data(self, facts: dict[str, Any]) -> EpisodeData:
        """Return what is known of it now that it is over, and what was taken from its steps."""
        own = {
            "episode_return": self.episode_return,
            "episode_length": self.episode_length,
            "finished_at": time.time(),
            "metrics": self.values.metrics(),
        }
        record = EpisodeRecord(**{**own, **self.facts, **facts})
        return EpisodeData(record, self.values.series(), self.values.values())

    def finished(self, record: EpisodeRecord) -> Finished:
        """Finish its clips and return it as a candidate."""
        clips = self.clips.finish() if self.clips is not None else None
        steps = self.steps.finish() if self.steps is not None else None
        return Finished(record, clips, self.agents, self.values.media(), steps)


@dataclass
class Ended:
    """The data of an episode that waits to be collected."""

    data: EpisodeData
    more: MoreValues | None = None
    media: Mapping[str, Image | Artifact] = field(default_factory=dict)

    @property
    def points(self) -> int:
        """Number of values in its series."""
        return points_of(self.data)

    def take_in(self) -> None:
        """Take in what others say of it by now."""
        assert self.more is not None
        values = EpisodeValues()
        self.more(values)
        record = replace(self.data.record, metrics={**self.data.record.metrics, **values.metrics()})
        series = {**self.data.series, **values.series()}
        self.media = values.media()
        self.data = replace(self.data, record=record, series=series, values={**self.data.values, **values.values()})


@dataclass(frozen=True)
class Finished:
    """A candidate."""

    record: EpisodeRecord
    clips: dict[str, EncodedVideo] | None
    agents: frozenset[str]
    media: Mapping[str, Image | Artifact] = field(default_factory=dict)
    trajectory: Trajectory | None = None

    def told(self, ended: Ended) -> Finished:
        """Return it with what others said of it by now."""
        return replace(self, record=ended.data.record, media={**self.media, **ended.media})

    def hand_over(self) -> Kept:
        """Return all that is kept of a winner."""
        if self.clips is None:
            return Kept(self.record, self.media, self.trajectory)
        videos = {view: self._video(view, clip) for view, clip in self.clips.items()}
        return Kept(videos[""] if set(videos) == {""} else videos, self.media, self.trajectory)

    def _video(self, view: str, clip: EncodedVideo) -> Video:
        note = "; ".join(text for text in (self.record.note, clip.note) if text) or None
        if not view:
            return Video.from_encoded(clip, episode=self.record, note=note, id=self.record.id)
        of_view = replace(self.record, view=view, agent=view if view in self.agents else None)
        return Video.from_encoded(clip, episode=of_view, note=note, id=uuid.uuid5(uuid.UUID(self.record.id), view).hex)


class Clips:
    """The clips of one episode, one for each view, as they are encoded."""

    def __init__(self, options: VideoOptions, render: Render, fps: float) -> None:
        self._options, self._render, self._fps = options, render, options.fps or fps
        self._encoders: dict[str, VideoEncoder] = {}
        self._overlays: dict[str, Overlay] = {}

    def feed(self, facts: StepFacts) -> None:
        """Render and encode the current frame of each view."""
        most = self._options.max_frames
        if most is not None and self._encoders and all(encoder.frames >= most for encoder in self._encoders.values()):
            for encoder in self._encoders.values():
                encoder.cut()
            return
        frames = self._render()
        if not frames:
            raise ValueError("there is no frame: frame= returned an empty dict")
        for view, picture in frames.items():
            if view not in self._encoders:
                self._encoders[view] = VideoEncoder(self._fps, **self._options.encoder_keywords())
                self._overlays[view] = Overlay(self._options.overlay)
                if facts.step:
                    self._encoders[view].add_note(f"this view began at step {facts.step}")
            self._encoders[view].feed(self._drawn(view, picture, facts) if self._options.overlay else picture)
        for view in self._encoders.keys() - frames.keys():
            self._encoders[view].add_note("this view ended before the episode")

    def _drawn(self, view: str, picture: Any, facts: StepFacts) -> Any:
        rgb = as_rgb(picture)
        height, width = rgb.shape[:2]
        wanted = target_size(width, height, self._options.width, self._options.height)
        if self._options.width or self._options.height:  # text is drawn at the size that people read it at
            rgb = resize(rgb, height=wanted[1], width=wanted[0])
        return self._overlays[view].draw(rgb, facts)

    def finish(self) -> dict[str, EncodedVideo]:
        """Return the finished clips by view."""
        return {view: encoder.finish() for view, encoder in self._encoders.items()}

    def cancel(self) -> None:
        """Drop what has been encoded."""
        for encoder in self._encoders.values():
            encoder.cancel()
