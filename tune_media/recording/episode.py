"""An episode while it runs, and as a candidate once it has ended."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tune_media.encoding.encoder import EncodedVideo, VideoEncoder
from tune_media.recording.episode_clips import Clips, Render
from tune_media.recording.overlay_lines import EpisodeLines, Lines
from tune_media.recording.own_frames import NEVER, OwnFrames
from tune_media.recording.pictures import STEPS, Pictures
from tune_media.recording.series import EpisodeValues
from tune_media.recording.success import SuccessSoFar
from tune_media.recording.trajectory import TrajectoryBuilder
from tune_media.steps import StepFacts
from tune_media.values.artifact import Artifact
from tune_media.values.episode_record import DIRECT, REPLAY, EpisodeRecord
from tune_media.values.episodes import EpisodeData, Trajectory
from tune_media.values.image import Image
from tune_media.values.medium import joined
from tune_media.values.options import VideoOptions
from tune_media.values.problems import Problem
from tune_media.values.video import Video


class RunningTape(Protocol):
    """The tape of an episode, as far as this wing needs it; ``replay.tape.Tape`` describes its fields."""

    seed: int | None
    fault: str | None
    every: int
    number: int
    task: Any
    last_task: Any
    rewards: array[float] | None
    pictures: Pictures
    lines: Lines | None
    fps: float

    def __len__(self) -> int: ...

    def packed(self) -> bytes:
        """Return it as it is stored. Raises TypeError for a part that cannot be stored."""


@dataclass(frozen=True)
class AllFrames:
    """All frames of an episode are rendered while it runs."""

    are_encoded: bool = True  # they become a clip; if not, only checksums are kept, and a clip is made of the tape
    # gets the step and the frames so far; returns those that are rendered instead of all others, when it is time
    until: Callable[[int, Pictures], OwnFrames | None] | None = None


@dataclass(frozen=True)
class OnTape:
    """An episode's tape, and the fate of its frames."""

    tape: RunningTape
    recipe: str | None = None  # the hash of the recipe that makes its env again, or None if not known
    is_rendered_later: bool = True  # its clips may be made of the tape after it has ended; if not, that is only kept
    # returns which of its frames are rendered while it runs; called if it is to be recorded
    frames: Callable[[], AllFrames | OwnFrames] = AllFrames


@dataclass(frozen=True)
class EpisodeStart:
    """An episode that starts: its env has been reset."""

    episode_id: str
    # returns the current frames; not called if the trigger declines the episode, or None if no frames are wanted
    render: Render | None = None
    fps: float = 0.0  # unless the plan says otherwise; 0: not known
    env: Any = None  # its sub-env, for overlays and ``collect=``
    vector_env: Any = None  # needed if the sub-env is out of reach
    # the last one of the env's generator: this episode's if it has changed, since a reset without a seed continues it
    seed: int | None = None
    seed_is_new: bool = False  # it is known to be this episode's
    agents: Collection[str] = ()  # a view with such a name shows that agent
    observation: Any = None  # that of the reset
    info: Any = None  # that of the reset, as far as it may say whether the episode has succeeded
    no_clip: str | None = None  # why there are no frames although they are wanted, for its record
    on_tape: OnTape | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)  # further fields of its ``EpisodeRecord``


@dataclass
class RunningEpisode:
    """An episode that is being recorded."""

    start: EpisodeStart
    success: SuccessSoFar
    seed: int | None = None
    clips: Clips | None = None  # if all frames are rendered
    own_frames: OwnFrames | None = None  # the single frames that are rendered while it runs, if not all are
    next_place: int = NEVER  # the next step whose frame is one of these
    steps: TrajectoryBuilder | None = None  # its trajectory so far, or None if it is not kept
    lines: EpisodeLines | None = None  # the texts of overlay functions so far, if there are any
    values: EpisodeValues = field(default_factory=EpisodeValues)
    is_candidate: bool = True
    note: str | None = None  # why it has no clip
    episode_return: float = 0.0
    episode_length: int = 0
    _until: Callable[[int, Pictures], OwnFrames | None] | None = None

    @property
    def tape(self) -> RunningTape | None:
        """Its tape, if it has one."""
        return None if self.start.on_tape is None else self.start.on_tape.tape

    @property
    def is_rendered_later(self) -> bool:
        """Whether its clips may be made of its tape."""
        return self.start.on_tape is not None and self.start.on_tape.is_rendered_later

    def begin_frames(self, all_frames: AllFrames, video: VideoOptions, *, are_lean: bool, holds: bool) -> None:
        """Begin to render all frames."""
        assert self.start.render is not None
        how: dict[str, Any] = {"are_encoded": all_frames.are_encoded, "are_lean": are_lean, "holds": holds}
        how["texts"] = self.lines
        self.clips, self._until = Clips(video, self.start.render, self.start.fps, **how), all_frames.until

    def begin_own_frames(self, own_frames: OwnFrames) -> None:
        """Begin to render single frames."""
        self.own_frames, self.next_place = own_frames, own_frames.next

    def take_own_frame(self) -> None:
        """Render the current frame, and note its checksum; raises whatever rendering raises."""
        if self.own_frames is not None and self.start.render is not None:
            self.own_frames.take(self.episode_length, self.start.render)
            self.next_place = self.own_frames.next

    @property
    def has_media(self) -> bool:
        """Whether all its frames, its steps, or the texts of overlay functions are recorded."""
        return self.clips is not None or self.steps is not None or self.lines is not None

    @property
    def nbytes(self) -> int:
        """The memory that its clips and its steps take, roughly."""
        clips = 0 if self.clips is None else self.clips.nbytes
        clips += 0 if self.lines is None else self.lines.lines.nbytes
        return clips + (0 if self.steps is None else self.steps.nbytes)

    def cut(self, why: str) -> None:
        """Leave out the frames and the steps after this point."""
        if self.clips is not None:
            self.clips.cut(why)
        if self.steps is not None:
            self.steps.cut()

    def count(self, reward: float) -> None:
        """Count a step."""
        self.episode_return += reward
        self.episode_length += 1

    def feed(self, step: StepFacts, *, picture: bool = True) -> None:
        """Add a step to its trajectory, and the frame after it to its clips, if the env still shows it."""
        if self.lines is not None:
            self.lines.follow(step, picture=picture)
        if self.steps is not None:
            self.steps.add(step)
        if self.clips is not None:
            self.clips.feed(step, picture=picture)
            frames = None if self._until is None else self._until(self.episode_length, self.clips.pictures)
            if frames is not None:
                self.clips.cancel()  # the clip will be made of the tape
                self.clips, self._until = None, None
                self.begin_own_frames(frames)

    def lose_clip(self, reason: str) -> None:
        """Drop its clips and its trajectory: it cannot be chosen, and its record will say why."""
        self.is_candidate, self.clips, self.steps, self.lines = False, None, None, None
        self.own_frames, self.next_place = None, NEVER
        self.note = self.note or Problem.no_clip(reason).text

    def data(self, metrics: Mapping[str, float], facts: Mapping[str, Any]) -> EpisodeData:
        """Return its record, series and values now that it is over; ``facts`` win over the counts here."""
        may_be_rendered = self.is_rendered_later and self.is_candidate
        is_encoded = self.clips is not None and self.clips.are_encoded
        fields = {
            "episode_id": self.start.episode_id,
            "seed": self.seed,
            "episode_return": self.episode_return,
            "episode_length": self.episode_length,
            "finished_at": time.time(),
            "metrics": {**metrics, **self.values.metrics()},
            "rendered": DIRECT if is_encoded else REPLAY if may_be_rendered else None,
            **self.start.facts,
            **facts,
        }
        fields["note"] = joined(fields.get("note"), self.note)
        return EpisodeData(EpisodeRecord(**fields), self.values.series(), self.values.values())

    def has_whole_tape(self) -> bool:
        """Return whether its tape has the whole episode."""
        return self.tape is not None and self.tape.fault is None and len(self.tape) == self.episode_length

    def note_shown(self, video: VideoOptions | None) -> None:
        """Put on its tape what its clip shows besides its steps; another recorder may share it until it is packed.

        These are the checksums of its own frames, the texts of overlay functions, and the speed.
        """
        if self.tape is None:
            return
        self.tape.lines, self.tape.fps = None if self.lines is None else self.lines.lines, self.start.fps
        self.tape.every = 1 if video is None else video.every
        if self.clips is not None:
            self.clips.pictures.are_all = not self.clips.are_cut
            self.tape.pictures = self.clips.pictures
        elif self.own_frames is not None:
            self.tape.pictures = self.own_frames.pictures
        else:  # without frames, a replay is compared by its steps only
            self.tape.pictures = Pictures(STEPS) if video is None else Pictures()

    def packed_tape(self) -> bytes | None:
        """Return its tape as it is stored, if that has the whole episode."""
        if self.tape is None or not self.has_whole_tape():
            return None
        try:
            return self.tape.packed()
        except (TypeError, ValueError) as error:
            self.tape.fault = f"its tape cannot be stored: {error}"
            return None

    def candidate(self, record: EpisodeRecord) -> Candidate:
        """Return it as a candidate; clips whose frames are not held are finished."""
        held = self.clips.held() if self.clips is not None else {}
        clips = self.clips.finish() if self.clips is not None and not held else {}
        steps = self.steps.finish() if self.steps is not None else None
        tape = self.tape if self.is_rendered_later else None
        rewards = self._rewards() if clips or held else None
        step_bytes = (0 if self.steps is None else self.steps.nbytes) + (0 if rewards is None else rewards.nbytes)
        agents, media = frozenset(self.start.agents), self.values.media()
        return Candidate(record, clips, agents, media, steps, tape, rewards=rewards, step_bytes=step_bytes, held=held)

    def _rewards(self) -> npt.NDArray[np.float64] | None:
        """Return the reward of each step, unless its tape has them, or some are missing."""
        are_on_tape = self.has_whole_tape() and self.tape is not None and self.tape.rewards is not None
        if are_on_tape or self.clips is None or len(self.clips.rewards) != 1 + self.episode_length:
            return None
        return np.array(self.clips.rewards[1:])


@dataclass(frozen=True)
class Candidate:
    """A finished episode that may be chosen, with everything that is stored if it is."""

    record: EpisodeRecord
    clips: Mapping[str, EncodedVideo]  # by view; empty if no frames are recorded, or if they are held
    agents: frozenset[str] = frozenset()
    media: Mapping[str, Image | Artifact] = field(default_factory=dict)  # its pictures and files by name
    trajectory: Trajectory | None = None
    tape: RunningTape | None = None  # if its clips may be made of it; it stays in its process
    unrendered: Mapping[str, Video] = field(default_factory=dict)  # its clips by view, if it has no others
    rewards: npt.NDArray[np.float64] | None = None  # of each step, if it has clips and the rewards are on no tape
    step_bytes: int = 0  # the memory that its trajectory and its rewards take, roughly
    held: Mapping[str, VideoEncoder] = field(default_factory=dict)  # by view, if clips are not encoded yet
    no_clip: str | None = None  # why its held clips could not be encoded

    @property
    def nbytes(self) -> int:
        """The memory that its clips, pictures, files and steps take, roughly."""
        media = sum(medium.nbytes for medium in self.media.values())
        return sum(len(clip.data) for clip in self.clips.values()) + self.held_bytes + media + self.step_bytes

    @property
    def held_bytes(self) -> int:
        """The memory that its held frames take."""
        return sum(encoder.nbytes for encoder in self.held.values())

    @property
    def is_light(self) -> bool:
        """Whether it holds neither clips nor pictures nor steps."""
        return not self.clips and not self.held and not self.media and self.trajectory is None

    def encoded(self) -> Candidate:
        """Return it with its held clips encoded."""
        return replace(self, clips={view: encoder.finish() for view, encoder in self.held.items()}, held={})

    def of_record(self, record: EpisodeRecord, media: Mapping[str, Image | Artifact] | None = None) -> Candidate:
        """Return it with a record that says more, and with further pictures and files."""
        return replace(self, record=record, media={**self.media, **(media or {})})

    def videos(self) -> dict[str, Video]:
        """Return its clips by view; the name of the only view is the empty string."""
        videos = {}
        for view, clip in self.clips.items():
            record = self._of_view(view)
            note = joined(record.note, clip.note)
            videos[view] = Video.from_encoded(clip, episode=record, note=note, id=record.clip_id)
        return videos

    def in_result(self) -> Video | EpisodeRecord | dict[str, Video]:
        """Return its value in a result: its clip, its clips by view, or its record if no frames are recorded."""
        videos = self.videos() or {view: clip.of_episode(self._of_view(view)) for view, clip in self.unrendered.items()}
        return self.record if not videos else videos[""] if set(videos) == {""} else videos

    def _of_view(self, view: str) -> EpisodeRecord:
        return replace(self.record, view=view, agent=view if view in self.agents else None) if view else self.record
