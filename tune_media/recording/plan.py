"""The plan of a recorder: the arguments of ``record_episodes`` and ``RecordEpisodes`` as one frozen value."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from tune_media.recording.choosing import RESERVED
from tune_media.recording.collector import Collector
from tune_media.recording.overlay import check_can_draw
from tune_media.recording.rendering import ONLY_VIEW
from tune_media.recording.success import Success, check_success, names_of
from tune_media.selection import RenderBudget, Selector, Trigger
from tune_media.steps import Collect
from tune_media.values.checks import one_of
from tune_media.values.episode_record import DIRECT, RENDERS
from tune_media.values.number import counted
from tune_media.values.options import VideoOptions
from tune_media.values.tiled import MOST_TILES


@dataclass(frozen=True)
class Plan:
    """The arguments of a recorder. Raises ValueError, TypeError, or ImportError for overlays without Pillow."""

    name: str  # the key under which its clips are filed
    selectors: tuple[Selector, ...]  # they choose the finished episodes that are kept
    # decides which episodes are recorded, by their index on their sub-env, or all if None
    trigger: Trigger | RenderBudget | None = None
    video: VideoOptions | None = field(default_factory=VideoOptions)  # or None for records only, without frames
    collect: Collect | None = None  # the values to take from all steps; by default, by the convention of ``info``
    trajectories: bool = False  # the steps of the chosen episodes are kept
    sees_all: bool = True  # the recorder sees all episodes, on all env runners and sub-envs
    strict: bool = False  # raise at the first fault instead of warning once
    render: str = DIRECT  # when frames are rendered: ``direct``, ``replay`` or ``auto``
    tapes: bool = False  # all episodes are taped, whenever they are rendered
    views: tuple[str, ...] = (ONLY_VIEW,)  # their names, as far as they are known before the first frame
    success: Success | None = None  # by default, ``success`` or ``is_success`` of infos decides
    success_when: str | None = None  # ``end`` or ``once``; by default, the end, unless ``success`` is a function
    tiled: bool = False  # the clips of a round become one more, side by side
    later: VideoOptions | None = None  # how clips will be made of the tapes: its overlay functions are called, too

    def __post_init__(self) -> None:
        one_of(*RENDERS).check("render=", self.render)
        Collector(self.collect)  # raises if it is of the wrong type
        check_success(self.success, self.success_when)
        taken = RESERVED & {selector.name for selector in self.selectors}
        if taken:
            raise ValueError(f"a selector cannot be named {min(taken)!r}: something else has that name in the result.")
        if self.video is not None and self.video.overlay:
            check_can_draw()
        if self.tiled:
            self._check_tiled()

    def _check_tiled(self) -> None:
        """Refuse to tile what is no clip, one clip, or more than fit."""
        if self.video is None:
            raise ValueError("tiled=True puts clips side by side, and video=None makes none; leave one of them out.")
        names, limits = ", ".join(selector.name for selector in self.selectors), [s.limit for s in self.selectors]
        count = math.inf if None in limits else len(self.views) * sum(limit or 0 for limit in limits)
        if not 1 < count <= MOST_TILES:
            number = "any number of clips" if count == math.inf else counted(int(count), "clip")
            raise ValueError(
                f"tiled=True puts 2 to {MOST_TILES} clips of a round side by side, and keep= ({names}) keeps {number}; "
                "keep=('worst', 'median', 'best') keeps three."
            )
        check_can_draw()

    @property
    def keeps_all(self) -> bool:
        """Whether every episode is chosen, if the trigger wants it."""
        return any(selector.name == "all" for selector in self.selectors)

    @property
    def looks_at_info(self) -> bool:
        """Whether a step's info is needed."""
        return self.collect is not False or self.looks_at_steps

    @property
    def tells_success(self) -> tuple[str, ...]:
        """The paths inside infos that say whether an episode succeeded."""
        return () if self.collect is False and self.success is None else names_of(self.success)

    @property
    def looks_at_steps(self) -> bool:
        """Whether a step's action, info and observation are needed."""
        overlay = self.video is not None and bool(self.video.overlay)
        overlay = overlay or (self.later is not None and any(map(callable, self.later.overlay)))
        return overlay or self.trajectories or Collector(self.collect).needs_more_than_info
