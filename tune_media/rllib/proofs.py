"""Proves, beside training, that an env repeats its episodes, pictures included; and that it renders at all.

The envs for this are made in a process of their own, never in the user's. Of all trials of a Ray job, one proves a
recipe; the others read its verdict.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tune_media.recording.clips import has_all
from tune_media.recording.rendering import ONLY_VIEW
from tune_media.replay.process import RenderError
from tune_media.replay.recipe import Recipe
from tune_media.replay.render_actor import NoRoomError
from tune_media.replay.render_pool import RenderPool, background_niceness
from tune_media.replay.tape import Tape
from tune_media.replay.verdicts import Verdict, claim, decide, verdict_on
from tune_media.values.episode_record import DIRECT, EpisodeRecord
from tune_media.values.secrets import error_text, redacted

logger = logging.getLogger(__name__)

_MOST_SAMPLES = 4  # of a round
_IDLE_SECONDS = 1.0  # until the thread ends
_CHECK_SECONDS = 20.0  # how long the first result waits for the frame check; it takes 2 s, beside the first iteration


@dataclass(frozen=True)
class Sample:
    """An episode that was rendered while it ran, and its tape.

    Attributes:
        recipe: How its env is made.
        tape: The tape as it is stored.
        record: Its record.
        checks: The checksum of each frame that was rendered, by view.
        views: The names of the views, as far as they were known before the first frame.
        node: The id of the node of the cluster on which it was recorded; empty: not known.
    """

    recipe: Recipe
    tape: bytes
    record: EpisodeRecord
    checks: Mapping[str, Sequence[int]]
    views: Sequence[str] = (ONLY_VIEW,)
    node: str = ""


class Prover:
    """Plays tapes again and compares their pictures with those of the episodes, in a thread and a process of its own.

    The Algorithm's thread calls all methods.

    Attributes:
        is_busy: Whether it has something to do.
    """

    def __init__(self) -> None:
        self._pool = RenderPool(niceness=background_niceness())
        self._work: queue.SimpleQueue[Recipe | list[Sample]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self.is_busy = False
        self._claimed: set[str] = set()  # recipes that no other trial proves meanwhile
        self._checking: threading.Event | None = None
        self._found: queue.SimpleQueue[str] = queue.SimpleQueue()

    def check(self, recipe: Recipe, experiment: str) -> None:
        """Have a frame of an env of a recipe rendered, unless another trial of the experiment does it."""
        if claim(f"check in {experiment}", recipe.hash):
            self._checking = self._checking or threading.Event()
            self._put(recipe)

    def prove(self, samples: Sequence[Sample]) -> None:
        """Have the tapes of some episodes proven; the first of a recipe, unless another trial does it."""
        if not samples:
            return
        recipe = samples[0].recipe.hash
        verdict = verdict_on(recipe)
        if verdict is None:
            may = not self.is_busy and (recipe in self._claimed or claim("proof", recipe))
            if may:
                self._claimed.add(recipe)
        else:
            may = verdict.repeats  # of all env runners of the job, one has rendered these
        if may:
            self._put(list(samples))

    def problems(self) -> list[str]:
        """Return what was found since the last call; the first call waits for the check, which began before training.

        A short experiment might end before it otherwise.
        """
        if self._checking is not None:
            self._checking.wait(_CHECK_SECONDS)
            self._checking = None
        found = []
        while not self._found.empty():
            found.append(self._found.get())
        return found

    def _put(self, work: Recipe | list[Sample]) -> None:
        self.is_busy = True
        with self._lock:
            self._work.put(work)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="tune_media prover", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                work = self._work.get(timeout=_IDLE_SECONDS)
            except queue.Empty:
                with self._lock:
                    if self._work.empty():
                        self._thread = None
                        return
                continue
            try:
                if isinstance(work, Recipe):
                    problem = self._pool.check(work)
                    if problem is not None:
                        self._found.put(f"no clip: {problem}")  # as the recording of an episode names it
                else:
                    self._decide(work)
            except Exception as error:
                logger.info("proving tapes failed: %s", error_text(error), exc_info=True)
            self.is_busy = not self._work.empty()
            if not self.is_busy and (checking := self._checking) is not None:
                checking.set()

    def _decide(self, samples: Sequence[Sample]) -> None:
        recipe = samples[0].recipe.hash
        samples = _to_prove(samples)
        for sample in samples:
            reason = self._difference(sample)
            if reason is not None:
                reason = f"render='auto': episodes are rendered while they run, since the env {reason}"
                if decide(recipe, Verdict(False, reason)):
                    self._found.put(reason)
                return
        if any(Tape.unpacked(sample.tape).number for sample in samples):  # first episodes alone prove little
            decide(recipe, Verdict(True))

    def _difference(self, sample: Sample) -> str | None:
        """Return how a replay differs from an episode; None: it does not.

        Raises:
            RenderError: The process died, was ended, or found no room; this says nothing of the env.
        """
        place: dict[str, Any] = {"env_runner": sample.record.env_runner or 0, "env_index": sample.record.env_index or 0}
        try:
            clips = self._pool.render(sample.recipe, sample.tape, node=sample.node, only_checked=True, **place)
        except NoRoomError:
            raise
        except RenderError as error:
            if error.has_died or self._pool.is_over:
                raise
            return f"does not repeat its episodes in another process: {redacted(str(error))}"
        if set(sample.checks) != set(sample.views):
            names = ", ".join(sorted(sample.checks))
            return f"shows several views ({names}); if they are always the same, name them: frame={{'front': ...}}"
        for view, before in sample.checks.items():
            again, of_view = clips[view].checks if view in clips else (), f" of view {view!r}" if view else ""
            for frame, (one, other) in enumerate(zip(before, again, strict=False)):
                if one != other:
                    return f"shows other pictures{of_view} in a replay, from frame {frame} of {len(before)} on"
            is_whole = sample.record.rendered == DIRECT or has_all(Tape.unpacked(sample.tape).pictures)
            if len(before) > len(again) or (is_whole and len(before) < len(again)):
                return f"shows {len(again)} frames{of_view} in a replay instead of {len(before)}"
        return None


def _to_prove(samples: Sequence[Sample]) -> list[Sample]:
    """Return the latest episodes, and one among them of which every frame was rendered, if there is any."""
    latest = sorted(samples, key=lambda sample: -Tape.unpacked(sample.tape).number)
    whole = next((sample for sample in latest if sample.record.rendered == DIRECT), None)
    others = [sample for sample in latest if sample is not whole]
    return others[:_MOST_SAMPLES] if whole is None else [whole, *others[: _MOST_SAMPLES - 1]]
