"""Ray's JSON logger with media: result.json stays small, and the files lie beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ray.tune.logger import JsonLoggerCallback

from tune_media.callbacks.base import FamilyMember, MediaLogging
from tune_media.values import MediaOptions

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

_MOST_OPEN = 256  # files


class JsonMediaLoggerCallback(FamilyMember, JsonLoggerCallback):
    """Everything ``ray.tune.logger.JsonLoggerCallback`` does, and media as files.

    A medium in a result is stored at ``<trial>/media/<section>/<key>/step_<step>-<id>.<suffix>`` and listed in
    ``<trial>/media/index.jsonl``; in result.json, the experiment state and ``ResultGrid`` stands its path.

    Args:
        media: Options, shared by all callbacks of the family in one experiment.
    """

    def __init__(self, media: MediaOptions | None = None) -> None:
        super().__init__()
        self._media = MediaLogging(self, "JSON", media)

    def log_trial_start(self, trial: Trial) -> None:  # noqa: D102
        self._media.begin(trial)
        with self._media.guard("opening result.json"):
            super().log_trial_start(trial)
            self._close_others(trial)

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:  # noqa: D102
        self._media.take(trial, result)
        with self._media.guard("writing result.json"):
            super().log_trial_result(iteration, trial, result)
            self._trial_files[trial] = self._trial_files.pop(trial)  # the last that was used

    def log_trial_save(self, trial: Trial) -> None:  # noqa: D102
        self._media.take_from_checkpoint(trial)

    def log_trial_end(self, trial: Trial, failed: bool = False) -> None:  # noqa: D102
        self._media.trial_is_over(trial)
        with self._media.guard("closing result.json"):
            super().log_trial_end(trial, failed)

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:  # noqa: D102
        for trial in list(self._trial_files):  # what was interrupted
            super().log_trial_end(trial)
        self._media.finish()

    def _close_others(self, trial: Trial) -> None:
        """Close the files of trials that wait, where there are many; Ray's callback opens them again."""
        while len(self._trial_files) > _MOST_OPEN:
            self._trial_files.pop(next(iter(self._trial_files))).close()
