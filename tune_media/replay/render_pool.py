"""Holds the process that plays tapes: of one recipe at a time, ended when it has been idle for a minute."""

from __future__ import annotations

import atexit
import os
import threading
import time
from typing import Any

from tune_media.encoding.encoder import EncodedVideo
from tune_media.recording.rendering import FrameFunction
from tune_media.replay.player import RenderError
from tune_media.replay.process import RenderProcess
from tune_media.replay.recipe import Creator, Recipe
from tune_media.replay.verdicts import note_draws

IDLE_SECONDS = 60.0  # how long a process that renders waits for another tape before it is ended


def background_niceness() -> int:
    """Return the niceness of background processes: training comes first, and Ray's workers have 15."""
    return int(os.environ.get("TUNE_MEDIA_RENDER_NICENESS", "19"))


class RenderPool:
    """Renders tapes, each recipe in its own process. Any thread calls any method; one tape is played at a time."""

    def __init__(
        self, env: Creator | str | None = None, frame: FrameFunction | str | None = None, *, niceness: int = 0
    ) -> None:
        self._other, self._niceness = (env, frame), niceness
        self._process: RenderProcess | None = None
        self._made_for = ""  # the hash of the process's recipe
        self._lock = threading.Lock()
        self._used_at = 0.0
        self._timer: threading.Timer | None = None
        self.is_over = False  # it was killed, and renders nothing more

    def render(self, recipe: Recipe, tape: bytes, **how: Any) -> dict[str, EncodedVideo]:
        """Return the clips of a tape by view. Raises RenderError, also if the tape has ended two processes."""
        clips: dict[str, EncodedVideo] = self._played("render", recipe, tape, **how)
        return clips

    def prove(self, recipe: Recipe, tape: bytes, **how: Any) -> dict[str, Any]:
        """Compare a replay with the episode; arguments and exceptions as of ``render``, see ``RenderProcess.prove``."""
        facts: dict[str, Any] = self._played("prove", recipe, tape, **how)
        return facts

    def _played(self, method: str, recipe: Recipe, tape: bytes, **how: Any) -> Any:
        """Call a method of ``RenderProcess``, and once more if the process dies of the tape."""
        with self._lock:
            try:
                return getattr(self._process_of(recipe), method)(tape, **how)
            except RenderError as error:
                if not error.has_died or self.is_over:
                    raise
                return getattr(self._process_of(recipe), method)(tape, **how)
            finally:
                self._used_at = time.monotonic()

    def check(self, recipe: Recipe) -> str | None:
        """Return why an env of a recipe shows no frame, or None if it shows one, or cannot be made or reset here.

        Which global generators ``render()`` draws from is noted for all env runners of the Ray job.
        """
        with self._lock:
            try:
                problem, draws = self._process_of(recipe).check()
                if draws is not None:
                    note_draws(recipe.hash, draws)
                return problem
            except RenderError:
                return None
            finally:
                self._used_at = time.monotonic()

    def kill(self) -> None:
        """End the process at once, whatever it does: ``render`` raises, now and from now on."""
        self.is_over, process = True, self._process
        if process is not None:
            process.end()

    def close(self) -> None:
        """End the process; another tape starts one again."""
        with self._lock:
            self._close()

    def _process_of(self, recipe: Recipe) -> RenderProcess:
        if self.is_over:
            raise RenderError("the processes that render were ended")
        if self._process is None or self._made_for != recipe.hash:
            if self._process is not None:
                self._process.close()
            self._process = RenderProcess(recipe.content or None, *self._other, niceness=self._niceness)
            self._made_for = recipe.hash
        if self._timer is None:
            atexit.register(self._end_if_busy)
            self._begin_timer(IDLE_SECONDS)
        return self._process

    def _begin_timer(self, seconds: float) -> None:
        self._timer = threading.Timer(seconds, self._end_if_idle)
        self._timer.name, self._timer.daemon = "tune_media timer", True
        self._timer.start()

    def _end_if_idle(self) -> None:
        with self._lock:
            left = self._used_at + IDLE_SECONDS - time.monotonic()
            if self._timer is None:
                return
            if left > 0:
                self._begin_timer(left)
            else:
                self._close()

    def _end_if_busy(self) -> None:
        """Kill a busy process at the exit, which must not wait; an idle one ends by itself when its requests end."""
        if self._lock.locked():
            self.kill()

    def _close(self) -> None:
        atexit.unregister(self._end_if_busy)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._process is not None:
            self._process.close()
            self._process = None
