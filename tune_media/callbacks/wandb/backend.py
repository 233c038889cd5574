"""The W&B backend: each trial is a run in W&B's helper process."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ray.tune.utils import flatten_dict
from typing_extensions import override

from tune_media.callbacks.backend import Backend, Report, Status, StorageAwayError, TrialInfo, clips_best_first
from tune_media.callbacks.finished_trial import ExportSummary, FinishedTrial, log_trial
from tune_media.callbacks.wandb import private_names
from tune_media.callbacks.wandb.arguments import check_values, is_offline
from tune_media.callbacks.wandb.helper import DirectHelper, HelperDiedError, WandbHelper
from tune_media.callbacks.wandb.offline_runs import copy_runs
from tune_media.callbacks.wandb.values import as_item, best_item, is_excluded, is_logged
from tune_media.experiment.params import title_of_choice
from tune_media.experiment.trial_files import TrialFiles
from tune_media.storage.entry import MediaEntry
from tune_media.values.secrets import keep_secret

if TYPE_CHECKING:
    from ray.air.integrations.wandb import WandbLoggerCallback

logger = logging.getLogger("tune_media")

_EXIT_CODES = {"finished": 0, "failed": 1, "interrupted": 255}


class WandbBackend(Backend):
    """Logs to W&B by its helper process, in the backend's own thread; only ``setup`` is called by Tune's loop.

    An offline run cannot be resumed, and of two with the same id W&B keeps the one that is synced last. So if the
    driver or the helper process is killed, the trial's run is written at the trial's end, from its files.
    """

    name = "W&B"

    def __init__(self, rays: WandbLoggerCallback, *, episodes_artifact: bool, patience: float) -> None:
        self._rays, self._episodes_artifact, self.patience = rays, episodes_artifact, patience
        self._helper: WandbHelper | None = None
        self._exports = False  # a finished experiment, without Ray
        self._configs: dict[str, Mapping[str, Any]] = {}  # the last one of each trial that has not ended
        self.use_key()

    def use_key(self) -> None:
        """Put the API key where W&B looks for it."""
        if self._rays.api_key:
            os.environ["WANDB_API_KEY"] = self._rays.api_key
        keep_secret(self._rays.api_key, os.environ.get("WANDB_API_KEY"))

    @override
    def setup(self, **info: Any) -> None:
        from ray.air.integrations.wandb import WandbLoggerCallback

        self.use_key()
        mode = self._rays.kwargs.get("mode")
        with _environment(WANDB_MODE=mode) if mode in ("offline", "disabled") else contextlib.nullcontext():
            WandbLoggerCallback.setup(self._rays, **info)  # finds the key and the project
        keep_secret(os.environ.get("WANDB_API_KEY"))  # from a file, or from a hook
        check_values({"project": self._rays.project, "group": self._rays.group, **self._rays.kwargs})

    @override
    def prepare_export(self) -> None:
        self.setup()
        self._exports = True

    @override
    def start(self, trial: TrialInfo) -> None:
        if self._helper is None:
            kind = DirectHelper if self._exports else WandbHelper
            self._helper = kind(self.context.scratch(), self.context.seconds_left)
        if trial.trial_id in self._configs:
            return  # paused, cloned or retried: its run is open already
        if not (trial.is_restored and self._is_offline):  # else its run is written at its end
            self._helper.begin(trial.trial_id, self._settings(trial))
        self._configs[trial.trial_id] = trial.config

    @override
    def metrics(self, trial: TrialInfo, report: Report) -> None:
        if not self._is_open(trial):
            return
        row = {name: value for name, value in report.flat.items() if is_logged(value)}
        changed = None
        if report.config is not None or self._rays.log_config:
            config = report.config or self._configs[trial.trial_id]
            self._configs[trial.trial_id] = config
            changed = _cleaned(config)
            row |= {f"config/{name}": value for name, value in flatten_dict(changed, delimiter="/").items()}
        problem = self._started.ask("log", trial.trial_id, row, report.training_iteration, changed, report.time)
        if problem is not None:
            self.context.fault("logging metrics", ValueError(problem))

    @override
    def media(self, trial: TrialInfo, entry: MediaEntry) -> None:
        if self._is_open(trial) and not is_excluded(entry.section, entry.key, self._rays.excludes):
            self._started.ask("show", trial.trial_id, as_item(entry))

    @override
    def media_again(self, trial: TrialInfo, id: str, row: int) -> None:
        if trial.is_restored and self._is_offline:  # an earlier process may have had it, and its run
            self._started.runs.discard(trial.trial_id)

    @override
    def checkpoint(self, trial: TrialInfo, path: str) -> None:
        if self._is_open(trial):
            self._started.ask("checkpoint", trial.trial_id, path)

    @override
    def end(self, trial: TrialInfo, status: Status) -> None:
        if not self._is_open(trial):
            self._write_from_files(trial, status)
            return
        self._started.end(trial.trial_id, _EXIT_CODES[status], self._best_of(trial))
        self._configs.pop(trial.trial_id, None)
        copy = functools.partial(copy_runs, self._started.folder / trial.trial_id, trial.location)
        self.context.on_storage("copying a W&B run", copy)

    def _write_from_files(self, trial: TrialInfo, status: Status) -> None:
        """Write a trial's whole offline run from its files, as an export does; it replaces what the storage has of it.

        If it raises, the former run is still there.
        """
        self.context.wait_for_storage()
        place, exported = trial.location, ExportSummary()
        files = TrialFiles(trial.name, place.filesystem, place.path).read()
        results = files.result_lines(place.local_path)
        self._configs.pop(trial.trial_id, None)  # it starts again
        try:
            log_trial(self, FinishedTrial(files, results, replace(trial, is_restored=False), status), exported, 0.0)
        except BaseException:
            self._started.runs.discard(trial.trial_id)
            raise
        for problem in exported.problems:
            self.context.fault("writing a run from its trial's files", ValueError(problem), kind=problem)

    def _best_of(self, trial: TrialInfo) -> dict[str, Any] | None:
        """Return a trial's best clip that is not excluded, in plain values, if the storage has its index."""
        with self.context.guard("reading the best clip"):
            for line in clips_best_first(trial, self.context):
                if not is_excluded(line["section"], line["key"], self._rays.excludes):
                    return best_item(line, self.context.content(trial, line["path"]))
        return None

    @override
    def finish(self) -> None:
        helper, self._helper = self._helper, None
        if helper is None:
            return
        helper.close()
        try:
            self.context.wait_for_storage()
        except StorageAwayError:
            logger.warning("tune_media: W&B: runs that the storage did not accept are in %s", helper.folder)
        else:
            shutil.rmtree(helper.folder, ignore_errors=True)

    @override
    def is_away(self, error: Exception) -> bool:
        return isinstance(error, (HelperDiedError, StorageAwayError)) or private_names.is_passing(error)

    @property
    def _is_offline(self) -> bool:
        return is_offline(self._rays.kwargs)

    def _is_open(self, trial: TrialInfo) -> bool:
        """Return whether the trial has a run that is open. An online one that a dead helper had is resumed."""
        id, helper = trial.trial_id, self._helper
        if helper is not None and id in self._configs and id not in helper.runs and not self._is_offline:
            helper.begin(id, self._settings(trial))
        return helper is not None and id in helper.runs

    @property
    def _started(self) -> WandbHelper:
        assert self._helper is not None, "a trial has started"
        return self._helper

    def _settings(self, trial: TrialInfo) -> dict[str, Any]:
        """Return the settings of a trial's run, which are Ray's, for the helper process."""
        rays = self._rays
        config = {"configuration": title_of_choice(trial.searched), **_cleaned(trial.config)}
        init = {
            "id": trial.trial_id,
            "name": trial.name,
            "resume": "allow",  # a restored trial continues its run
            "allow_val_change": True,
            "group": rays.group or trial.experiment,
            "project": rays.project,
            "config": {name: value for name, value in config.items() if name not in rays.excludes},
            **rays.kwargs,
        }
        return {
            "exclude": [*private_names.results_left_out(), *([] if rays.log_config else ["config"]), *rays.excludes],
            "to_config": list(rays.AUTO_CONFIG_KEYS),
            "video_kwargs": rays.video_kwargs,
            "image_kwargs": rays.image_kwargs,
            "episodes_artifact": self._episodes_artifact,
            "trial": trial.name,
            "searched": {name: value if is_logged(value) else str(value) for name, value in trial.searched.items()},
            "trial_log_path": str(trial.location.local_path),
            "init": init,
            "anew": self._is_offline,
            "must_be_new": self._exports,
        }


def _cleaned(config: Mapping[str, Any]) -> dict[str, Any]:
    return dict(private_names.clean_log({name: value for name, value in config.items() if name != "callbacks"}))


@contextlib.contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
