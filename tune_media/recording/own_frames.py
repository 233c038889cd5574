"""The single frames of an episode that are rendered while it runs, so that a replay can be compared with it.

Their number follows from counts, medians and the quickest frame: a slow one, or a busy machine, changes nothing.
"""

from __future__ import annotations

import random
import statistics
import sys
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tune_media.recording.pictures import SPARSE, Pictures
from tune_media.recording.render_clock import RenderClock

NEVER = sys.maxsize  # a step that no episode comes to
_AT_END = NEVER - 1  # stands for the last step of an episode, whatever its length
_MEASURED = 16  # the last episodes that lengths are of
_TIMED = 64  # the last frames that the quickest and the median are of
_MORE = 0.02  # of the time of sampling: for frames beyond the ones that each tape has
_DEAR = 0.05  # of the time of sampling: if the frames that each tape has cost more, only every n-th tape has them
_CHEAP = 0.001  # seconds: such a frame is not dear, however short the episodes are
_KNOWN = 16  # frames, until the quickest says whether they are dear: slow ones must not keep others from being taken
_MOST_WITHOUT = 10  # so many tapes have one with these frames among them at least
_PROOFS = 0.03  # of the time of sampling: for episodes that are rendered as a whole
_FIRST_PROOF, _LAST_PROOF = 4, 100  # episodes until the next one; the number doubles
_PLAYS_OF_A_PROOF = 2  # its frames are rendered while it runs, and again when it is played


class OwnFrames:
    """The frames of one episode at the steps ``places``, if it gets there."""

    def __init__(self, places: Iterable[int], pictures: Pictures) -> None:
        self._places = sorted(set(places), reverse=True)
        self.pictures = pictures
        self.next = self._places[-1] if self._places else NEVER  # the next step whose frame is rendered

    @property
    def want_last(self) -> bool:
        """Whether the last frame replaces one planned after the end."""
        return bool(self._places)

    def take(self, step: int, render: Callable[[], Mapping[str, Any]]) -> None:
        """Render the current frame, and note its checksum; raises ValueError, or whatever rendering raises."""
        while self._places and self._places[-1] <= step:
            self._places.pop()
        self.next = self._places[-1] if self._places else NEVER
        if not self.pictures.at(step):
            self.pictures.add(step, render())


class FramePlan:
    """Decides which frames of a recorder's episodes are their own (clips have these), and which episodes are proofs."""

    def __init__(self, clock: RenderClock, every: int = 1, most: int | None = None) -> None:
        self._clock, self._every, self._most = clock, every, most
        self._random = random.Random()
        self._frames: deque[float] = deque(maxlen=_TIMED)  # seconds of each
        self._lengths: deque[int] = deque(maxlen=_MEASURED)
        self._steps = self._steps_at_start = self._proof_frames = 0
        self._until_proof = self._between_proofs = _FIRST_PROOF

    def begin(self, length: int) -> None:
        """Begin to count the cost of proofs: the env is known to repeat its episodes, which have this length."""
        if not self._lengths:
            self._lengths.append(max(1, length))
        self._steps_at_start, self._proof_frames = self._steps, 0
        self._until_proof = self._between_proofs = _FIRST_PROOF

    def took(self, seconds: float) -> None:
        """Note how long a frame took, whatever it was rendered for."""
        self._frames.append(seconds)

    def ended(self, length: int) -> None:
        """Note the length of an episode."""
        self._clock.tick()
        self._lengths.append(max(1, length))
        self._steps += length

    def own_frames(self, how: str, *, has_last: bool = True) -> OwnFrames:
        """Return the frames of an episode that begins; ``has_last``: its env shows its last frame after its end."""
        longest = max(self._lengths, default=1)
        seconds = statistics.fmean(self._lengths) * self._step_seconds if self._lengths else 0.0
        quickest = min(self._frames, default=0.0)  # others may have waited for the processor, or for another thread
        share = quickest / max(seconds, 1e-9)  # of an episode's time, for one frame
        places: list[int] = []
        is_dear = len(self._frames) >= _KNOWN and quickest > _CHEAP
        dear = min(_MOST_WITHOUT, 2 * share / _DEAR) if is_dear else 0.0
        if self._random.random() * dear < 1:
            step = self._random.randint(1, min(longest, max(1, self._last_shown)))
            places = [0, step if step >= self._every else _AT_END]  # the last frame instead of a second first one
        elif not has_last:
            places = [0]
        if self._most is not None:
            places.append(self._last_shown)  # an episode that comes to it has no later frame in its clip
        more = self._more(share) if dear < 1 else []
        return OwnFrames(self._on_stride([*places, *more]), Pictures(how))

    def rest(self, step: int, pictures: Pictures) -> OwnFrames:
        """Return the frames of an episode of which all were rendered until a step: one more, or the last one."""
        pictures.how = SPARSE
        return OwnFrames(self._on_stride([step + self._random.randint(self._every, step + self._every)]), pictures)

    def shows(self, step: int) -> bool:
        """Return whether a clip has the frame of an episode's last step."""
        return self._most is None or step <= self._last_shown

    @property
    def _last_shown(self) -> int:
        """The last step whose frame a clip has, if that has so many."""
        return NEVER if self._most is None else (self._most - 1) * self._every

    def _on_stride(self, places: Iterable[int]) -> list[int]:
        steps = [place for place in places if place <= self._last_shown or place == _AT_END]
        return [place if place >= _AT_END else place - place % self._every for place in steps]

    def is_proof(self) -> bool:
        """Return whether the episode that begins is to be rendered as a whole."""
        self._until_proof -= 1
        if self._until_proof > 0 or not self._lengths:
            return False
        length = statistics.fmean(self._lengths)
        frames = self._proof_frames + length / self._every
        sampled = (self._steps - self._steps_at_start) * self._step_seconds
        frame_seconds = statistics.median(self._frames) if self._frames else 0.0
        if _PLAYS_OF_A_PROOF * frames * frame_seconds > _PROOFS * sampled:
            return False
        self._proof_frames += round(length / self._every)
        self._between_proofs = min(2 * self._between_proofs, _LAST_PROOF)
        self._until_proof = self._between_proofs
        return True

    @property
    def _step_seconds(self) -> float:
        """The seconds that a step takes without frames; the steps of all sub-envs count."""
        return max(0.0, self._clock.sampling - self._clock.rendering) / max(1, self._steps)

    def _more(self, share: float) -> list[int]:
        """Return one step each of some of the ranges [2, 4), [4, 8), ..., as many as may be."""
        longest = max(self._lengths, default=1)
        ranges = [2**power for power in range(1, longest.bit_length())]
        wanted = _MORE / share if share else 0.0
        count = min(len(ranges), int(wanted) + (self._random.random() < wanted % 1))
        return [self._random.randrange(first, 2 * first) for first in self._random.sample(ranges, count)]
