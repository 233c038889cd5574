"""Carries a recorder's problems from the Algorithm into its results, and says each of them once.

With one of our logger callbacks in the experiment, the driver says them, even if ``log_to_driver=False`` hides the log
of this process. Otherwise they are warnings here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tune_media import ray_compat
from tune_media.values.recording_problems import PROBLEMS, RecordingProblem, merged

logger = logging.getLogger("tune_media")

_DEFAULT_NAME = "episodes"
_NO_LOGGER = (
    "no tune_media logger callback runs in this experiment, so no clip is stored. Add one, for example "
    "tune.RunConfig(callbacks=[tune_media.JsonMediaLoggerCallback()])"
)


class ProblemReports:
    """The problems of one recorder in one Algorithm. The Algorithm's thread calls everything here.

    Args:
        name: The recorder's name.

    Example:
        >>> reports, result = ProblemReports("small"), {}
        >>> reports.put(result, [RecordingProblem("no clip: env 'X' has no render_mode", lost=2)])
        >>> str(result["small"]["problems"][0])
        "record_episodes(name='small'): no clip: env 'X' has no render_mode (2 episodes without a clip)"
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._source = "record_episodes" if name == _DEFAULT_NAME else f"record_episodes(name={name!r})"
        self._waiting: list[RecordingProblem] = []
        self._told: set[str] = set()
        self._trial: str | None = None
        self._are_reported = False  # whether the driver sees this Algorithm's results
        self._says_them: bool | None = True  # None: not known yet

    def begin(self, algorithm: Any) -> None:
        """Find out whether the Algorithm runs in a trial of Tune, whose driver may say the problems."""
        self._trial, self._are_reported = ray_compat.trial_of(algorithm)
        self._says_them = None if self._trial is not None else True

    def add(self, text: str) -> None:
        """Hold a problem for the next result, unless it has been added before."""
        text = self._whole(text)
        if text not in self._told:
            self._told.add(text)
            self._waiting.append(RecordingProblem(text))
            if self._says_them:
                logger.warning("tune_media: %s", text)

    def put(self, env_runners: dict[str, Any], found: Iterable[RecordingProblem] = (), key: str | None = None) -> None:
        """Put the problems into the part of a result that holds the recorder's clips.

        Args:
            env_runners: ``result["env_runners"]`` or the same of an evaluation; changed in place.
            found: The problems of this round.
            key: The key of the recorder's clips in it. None: the recorder's name.
        """
        if self._trial is not None and self._says_them is None:
            self._look_for_loggers(self._trial)
        for problem in found:
            self.add(problem.text)
            if problem.lost:
                self._waiting.append(replace(problem, text=self._whole(problem.text)))
        if self._waiting:
            own = env_runners.setdefault(key or self._name, {})
            own[PROBLEMS] = merged((*own.get(PROBLEMS, ()), *self._waiting))
            self._waiting = []

    def _whole(self, text: str) -> str:
        """Return a problem's text with the recorder in front, without a dot: a longer line will end with one."""
        return f"{self._source}: {text.rstrip('.')}"

    def _look_for_loggers(self, trial: str) -> None:
        """Decide who says the problems, now that the trial has started and the driver's callbacks know it."""
        is_logged = ray_compat.is_logged(trial)
        self._says_them = not (is_logged and self._are_reported)
        if self._says_them:
            for problem in self._waiting:
                logger.warning("tune_media: %s", problem.text)
        if not is_logged:
            self.add(_NO_LOGGER)
