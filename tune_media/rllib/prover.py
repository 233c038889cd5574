"""Proves, beside training, that an env repeats its episodes, pictures included; and that it renders at all.

The envs for this are made in a separate process, never in the user's. Of all trials of a Ray job, one proves a
recipe; the others read its verdict.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Sequence

import ray

from tune_media.recording.rendering import ONLY_VIEW
from tune_media.replay.player import RenderError
from tune_media.replay.proofs import MOST_FAULTS, compare, note_proofs, proofs_of
from tune_media.replay.recipe import Recipe
from tune_media.replay.render_pool import RenderPool, background_niceness
from tune_media.replay.taped_clip import TapedClip
from tune_media.replay.verdicts import decide, is_first, refuse, verdict_on
from tune_media.values.secrets import error_text, redacted
from tune_media.values.threads import start_thread

logger = logging.getLogger(__name__)

_IDLE_SECONDS = 1.0  # until the thread ends
_AWAITED_SECONDS = 40.0  # how long a result waits for the frame check, or for a first proof; each takes some 2 s


class Prover:
    """Plays tapes again and compares their pictures with the episodes', in a thread and a process of its own.

    The Algorithm's thread calls all methods. ``views`` are their names, as far as they are known beforehand.
    """

    def __init__(self, views: Sequence[str] = (ONLY_VIEW,)) -> None:
        self._views = set(views)
        self._pool = RenderPool(niceness=background_niceness())
        self._work: queue.SimpleQueue[Recipe | list[TapedClip]] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lock = threading.RLock()
        self.is_busy = False  # it has proofs to play; a frame check, which comes before them, keeps none waiting
        self._claimed: set[str] = set()  # recipes that no other trial proves meanwhile
        self._awaited: threading.Event | None = None
        self._reasons: queue.SimpleQueue[str] = queue.SimpleQueue()

    def check(self, recipe: Recipe, experiment: str) -> None:
        """Begin to render a frame of an env of a recipe, unless another trial of the experiment does it."""
        if is_first(f"check in {experiment}", recipe.hash):
            self._awaited = self._awaited or threading.Event()
            self._put(recipe)

    def prove(self, samples: Sequence[TapedClip]) -> None:
        """Begin to play some episodes again; the first of a recipe, unless another trial does it.

        In an actor of Ray's, which may be a trial, the result waits for this first proof: other trials leave it to this
        one, and a trial of one evaluation ends with this result.
        """
        if not samples:
            return
        recipe = samples[-1].recipe.hash  # of several, that of the newest envs
        samples = [sample for sample in samples if sample.recipe.hash == recipe]
        verdict = verdict_on(recipe)
        if verdict is None:
            claim = f"proof {proofs_of(recipe).count}"  # another trial continues if the one that began has ended
            may = not self.is_busy and (recipe in self._claimed or is_first(claim, recipe))
            is_awaited = may and recipe not in self._claimed and ray.get_runtime_context().get_actor_id() is not None
        else:
            may, is_awaited = verdict.repeats and not self.is_busy, False
        if may:
            self._claimed.add(recipe)
            with self._lock:  # the thread may just have ended a frame check
                self._awaited = threading.Event() if is_awaited else self._awaited
                self.is_busy = True
                self._put(list(samples))

    def problems(self) -> list[str]:
        """Return the findings since the last call; wait for the frame check and a first proof, lest training ends."""
        if self._awaited is not None:
            self._awaited.wait(_AWAITED_SECONDS)
            self._awaited = None
        return [self._reasons.get() for _ in range(self._reasons.qsize())]

    def _put(self, work: Recipe | list[TapedClip]) -> None:
        with self._lock:
            self._work.put(work)
            if self._thread is None:
                self._thread = start_thread("tune_media prover", self._run)

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
                if not isinstance(work, Recipe):
                    self._decide(work)
                elif (problem := self._pool.check(work)) is not None:
                    self._reasons.put(problem)
            except Exception as error:
                logger.info("proving tapes failed: %s", error_text(error), exc_info=True)
            with self._lock:
                self.is_busy = not self._work.empty()
                if not self.is_busy and (awaited := self._awaited) is not None:
                    awaited.set()

    def _decide(self, samples: Sequence[TapedClip]) -> None:
        recipe, proofs = samples[0].recipe.hash, None
        try:
            if verdict_on(recipe) is None:
                proofs = proofs_of(recipe)
                verdict = proofs.add(samples, self._pool, self._views)
                note_proofs(recipe, proofs)
                if verdict is not None:
                    decide(recipe, verdict)
            else:
                for sample in samples:
                    compare(sample, self._pool, views=self._views)
        except RenderError as error:
            why = "the env does not repeat its episodes in another process"
            if not error.is_of_env and not self._pool.is_over and proofs is not None:
                proofs.faults += 1
                note_proofs(recipe, proofs)
                why = f"{proofs.faults} times another process could not play an episode again"
            if self._pool.is_over or (not error.is_of_env and (proofs is None or proofs.faults < MOST_FAULTS)):
                raise
            why = redacted(str(error)) if error.touches else f"{why}: {redacted(str(error))}"
            reason = f"render='auto': episodes are rendered while they run, since {why}"
            if refuse(recipe, reason):
                self._reasons.put(reason)
