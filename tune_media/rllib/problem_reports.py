"""Carries a recorder's problems from the Algorithm into its results, and says each of them once.

With one of our logger callbacks in the experiment, the driver says them, even if ``log_to_driver=False`` hides the log
of this process. Otherwise they are warnings here.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from tune_media import ray_compat
from tune_media.values.problems import PROBLEMS, Problem, Problems

logger = logging.getLogger("tune_media")

_DEFAULT_NAME = "episodes"
_MOST = 1000
_NO_LOGGER = (
    "no tune_media logger callback runs in this experiment, so no clip is stored. Add one, for example "
    "tune.RunConfig(callbacks=[tune_media.JsonMediaLoggerCallback()])"
)


class ProblemReports:
    """The problems of one recorder in one Algorithm. The Algorithm's thread calls everything here."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._source = "record_episodes" if name == _DEFAULT_NAME else f"record_episodes(name={name!r})"
        self._problems = Problems(self._tell, _MOST)
        self._trial: str | None = None
        self._are_reported = False  # whether the driver sees this Algorithm's results
        self._says_them: bool | None = True  # None: not known yet

    def begin(self, algorithm: Any) -> None:
        """Find out whether the Algorithm runs in a trial of Tune, whose driver may say the problems."""
        self._trial, self._are_reported = ray_compat.trial_of(algorithm)
        self._says_them = None if self._trial is not None else True

    def add(self, text: str, lost: int = 0) -> None:
        """Hold a problem for the next result, unless it was added before and costs no further episodes."""
        # the recorder in front, and no dot: a longer line will end with one
        self._problems.add(Problem(f"{self._source}: {text.rstrip('.')}", lost))

    def put(self, env_runners: dict[str, Any], problems: Iterable[Problem] = (), key: str | None = None) -> None:
        """Put the problems beside the recorder's clips, under ``key`` (None: its name), in a section's result."""
        if self._trial is not None and self._says_them is None:  # now the driver's callbacks know the trial
            is_logged = ray_compat.is_logged(self._trial)
            self._says_them = not (is_logged and self._are_reported)
            for problem in self._problems:
                self._tell(problem)
            if not is_logged:
                self.add(_NO_LOGGER)
        for problem in problems:
            self.add(problem.text, problem.lost)
        waiting = self._problems.take()
        if waiting:
            of_recorder = env_runners.setdefault(key or self._name, {})
            together = Problems(most=_MOST)
            for problem in (*of_recorder.get(PROBLEMS, ()), *waiting):
                together.add(problem)
            of_recorder[PROBLEMS] = tuple(together)

    def _tell(self, problem: Problem) -> None:
        if self._says_them:
            logger.warning("tune_media: %s", problem.text)
