"""Proves, beside training, that an env repeats its episodes, pictures included; and that it renders at all.

The envs for this are made in a process of their own, never in the user's. Of all trials of a Ray job, one proves a
recipe; the others read its verdict.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Sequence
from typing import Any

import ray

from tune_media.recording.rendering import ONLY_VIEW
from tune_media.replay.player import RenderError
from tune_media.replay.recipe import Recipe
from tune_media.replay.render_pool import RenderPool, background_niceness
from tune_media.replay.tape import Tape
from tune_media.replay.taped_clip import TapedClip
from tune_media.replay.verdicts import Verdict, decide, is_first, verdict_on
from tune_media.values.secrets import error_text, redacted

logger = logging.getLogger(__name__)

_MOST_SAMPLES = 4  # of a round
_REST = 10.0  # times as long as a check of a proven env took, until the next one
_IDLE_SECONDS = 1.0  # until the thread ends
_AWAITED_SECONDS = 20.0  # how long a result waits for the frame check, or for a first proof; each takes some 2 s


class Prover:
    """Plays tapes again and compares their pictures with those of the episodes, in a thread and a process of its own.

    The Algorithm's thread calls all methods.

    Args:
        views: The names of the views, as far as they are known before the first frame.

    Attributes:
        is_busy: Whether it has something to do.
    """

    def __init__(self, views: Sequence[str] = (ONLY_VIEW,)) -> None:
        self._views = set(views)
        self._pool = RenderPool(niceness=background_niceness())
        self._work: queue.SimpleQueue[Recipe | list[TapedClip]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self.is_busy, self._rests_until = False, 0.0
        self._claimed: set[str] = set()  # recipes that no other trial proves meanwhile
        self._awaited: threading.Event | None = None
        self._found: queue.SimpleQueue[str] = queue.SimpleQueue()

    def check(self, recipe: Recipe, experiment: str) -> None:
        """Begin to render a frame of an env of a recipe, unless another trial of the experiment does it."""
        if is_first(f"check in {experiment}", recipe.hash):
            self._awaited = self._awaited or threading.Event()
            self._put(recipe)

    def prove(self, samples: Sequence[TapedClip]) -> None:
        """Begin to prove the tapes of some episodes; the first of a recipe, unless another trial does it.

        Frames of these episodes were rendered while they ran; their tapes have the checksums.

        In an actor of Ray's, which may be a trial, the result waits for this first proof: other trials leave it to this
        one, and a trial of one evaluation ends with this result.
        """
        if not samples:
            return
        recipe = samples[-1].recipe.hash  # of several, that of the newest envs
        samples = [sample for sample in samples if sample.recipe.hash == recipe]
        verdict = verdict_on(recipe)
        if verdict is None:
            may = not self.is_busy and (recipe in self._claimed or is_first("proof", recipe))
            if may and recipe not in self._claimed:
                self._claimed.add(recipe)
                if ray.get_runtime_context().get_actor_id() is not None:
                    self._awaited = threading.Event()
        else:
            may = verdict.repeats and not self.is_busy and time.monotonic() >= self._rests_until
        if may:
            self._put(list(samples))

    def problems(self) -> list[str]:
        """Return what was found since the last call, which waits for the frame check and for a first proof.

        A short experiment might end before them otherwise.
        """
        if self._awaited is not None:
            self._awaited.wait(_AWAITED_SECONDS)
            self._awaited = None
        found = []
        while not self._found.empty():
            found.append(self._found.get())
        return found

    def _put(self, work: Recipe | list[TapedClip]) -> None:
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
            began = time.monotonic()
            try:
                if isinstance(work, Recipe):
                    problem = self._pool.check(work)
                    if problem is not None:
                        self._found.put(problem)
                else:
                    self._decide(work)
            except Exception as error:
                logger.info("proving tapes failed: %s", error_text(error), exc_info=True)
            self._rests_until = time.monotonic() + _REST * (time.monotonic() - began)
            self.is_busy = not self._work.empty()
            if not self.is_busy and (awaited := self._awaited) is not None:
                awaited.set()

    def _decide(self, samples: Sequence[TapedClip]) -> None:
        recipe, tapes = samples[0].recipe.hash, {id(one): Tape.unpacked(one.tape) for one in samples}
        is_first = verdict_on(recipe) is None
        latest = sorted(samples, key=lambda one: -tapes[id(one)].number)
        wholes = [one for one in latest if tapes[id(one)].pictures.are_all]
        others = [one for one in latest if one not in wholes[:1]]
        facts: dict[str, Any] = {}
        for sample in [*wholes[:1], *others[: _MOST_SAMPLES - len(wholes[:1])]]:
            try:
                facts |= self._compared(sample, tapes[id(sample)], is_first=is_first)
            except RenderError as error:
                if not error.is_of_tape or self._pool.is_over:
                    raise
                reason = f"render='auto': episodes are rendered while they run, since the env {redacted(str(error))}"
                if decide(recipe, Verdict(False, reason, differs=error.step is not None)):
                    self._found.put(reason)
                return
        if is_first and facts and any(tape.number for tape in tapes.values()):  # first episodes alone prove little
            decide(recipe, Verdict(True, **facts))

    def _compared(self, sample: TapedClip, tape: Tape, *, is_first: bool) -> dict[str, Any]:
        """Return the facts of a verdict that come from a replay which is the episode.

        Raises:
            RenderError: It is not; or the process died or was ended, which says nothing of the env.
        """
        if tape.pictures.are_all and tape.pictures.views != self._views:
            names = ", ".join(sorted(tape.pictures.views))
            raise RenderError(
                f"shows several views ({names}); if they are always the same, name them: frame={{'front': ...}}"
            )
        try:
            return sample.compared_by(self._pool, is_first=is_first)
        except RenderError as error:
            if error.is_of_tape:
                text = f"does not repeat its episodes in another process: {error}"
                raise RenderError(text, error.step) from error
            raise
