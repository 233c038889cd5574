"""The W&B backend: each trial is a run in W&B's helper process."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ray.tune.utils import flatten_dict
from typing_extensions import override

from tune_media.callbacks.backend import (
    Backend,
    Report,
    Status,
    StorageAwayError,
    TrialInfo,
    clips_best_first,
    wait_for_storage,
)
from tune_media.callbacks.export import FinishedTrial, calls_of
from tune_media.callbacks.wandb import private_names
from tune_media.callbacks.wandb.arguments import check_values, is_offline
from tune_media.callbacks.wandb.helper import DirectHelper, HelperDiedError, WandbHelper
from tune_media.callbacks.wandb.offline_runs import copy_runs
from tune_media.callbacks.wandb.values import as_item, best_item, is_excluded, is_logged
from tune_media.storage.entry import MediaEntry
from tune_media.storage.filesystem import read_if_there
from tune_media.storage.location import TrialLocation
from tune_media.storage.suspects import SUSPECT
from tune_media.values.secrets import keep_secret

if TYPE_CHECKING:
    from ray.air.integrations.wandb import WandbLoggerCallback

logger = logging.getLogger("tune_media")

_EXIT_CODES = {"finished": 0, "failed": 1, "interrupted": 255}


class WandbBackend(Backend):
    """Logs to W&B by its helper process, in the backend's own thread; only ``setup`` is called by Tune's loop.

    Args:
        rays: Ray's callback, which has the user's arguments.
        episodes_artifact: Whether all clips of a trial go into an artifact, too.
        patience: How long the end of the experiment waits for W&B, seconds.
    """

    name = "W&B"

    def __init__(self, rays: WandbLoggerCallback, *, episodes_artifact: bool, patience: float) -> None:
        self._rays, self._episodes_artifact, self.patience = rays, episodes_artifact, patience
        self._helper: WandbHelper | None = None
        self._exports = False  # a finished experiment, without Ray
        self._locations: dict[str, TrialLocation] = {}  # of the trials whose run has not ended
        self._configs: dict[str, Mapping[str, Any]] = {}
        self._last_rows: dict[str, dict[str, int]] = {}
        self._statuses: dict[str, Status] = {}  # of trials that have ended in this process
        self._to_write_anew: set[str] = set()  # trials that an earlier process began, and whose runs are offline
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
        if self._helper.has(trial.trial_id):
            return
        if trial.is_restored and is_offline(self._rays.kwargs):
            self._to_write_anew.add(trial.trial_id)  # when it has ended: an offline run cannot be resumed
            return
        self._begin(trial, {**self._settings(trial), "anew": self._exports, "must_be_new": self._exports})

    @override
    def metrics(self, trial: TrialInfo, report: Report) -> None:
        if trial.trial_id in self._to_write_anew:
            return
        row = {name: value for name, value in report.flat.items() if is_logged(value)}
        changed = None
        if report.config is not None or self._rays.log_config:
            config = report.config or self._configs[trial.trial_id]
            self._configs[trial.trial_id] = config
            changed = private_names.clean_log({name: value for name, value in config.items() if name != "callbacks"})
            row |= {f"config/{name}": value for name, value in flatten_dict(changed, delimiter="/").items()}
        call = (report.row, report.time)
        problem = self._started.ask("log", trial.trial_id, row, report.training_iteration, changed, call)
        if problem is not None:
            self.context.fault("logging metrics", ValueError(problem))

    @override
    def media(self, trial: TrialInfo, entry: MediaEntry) -> None:
        is_later = trial.trial_id in self._to_write_anew
        if not is_later and not is_excluded(entry.section, entry.key, self._rays.excludes):
            self._started.ask("show", trial.trial_id, as_item(entry))

    @override
    def media_again(self, trial: TrialInfo, id: str, row: int) -> None:
        if trial.is_restored and is_offline(self._rays.kwargs):  # an earlier process may have had it, and its run
            self._to_write_anew.add(trial.trial_id)

    def last_rows(self, trial_id: str) -> dict[str, int]:
        """Return ``Report.row`` of the last numbers, and ``MediaEntry.row`` of the last media, that W&B had of a run.

        They are known of an online run that is resumed; else they are 0. Calls up to these rows change nothing.
        """
        return dict(self._last_rows.get(trial_id, {}))

    def write_anew(self, trial: TrialInfo, calls: Iterable[Report | MediaEntry], status: Status) -> None:
        """Write a trial's whole offline run, and have it replace what an earlier process left of the run.

        An offline run cannot be resumed, and of two with the same id W&B keeps the one that is synced last. After a
        kill, the run is therefore written again from the trial's first result.

        Args:
            trial: The trial; none of its runs may be open.
            calls: All results and media of the trial, in order.
            status: How the trial ended.

        Raises:
            Exception: As the other methods; the former run is still there then.
        """
        if self._helper is None:
            self._helper = WandbHelper(self.context.scratch(), self.context.seconds_left)
        self._begin(trial, {**self._settings(trial), "anew": True})
        for call in calls:
            if isinstance(call, Report):
                self.metrics(trial, call)
            else:
                self.media(trial, call)
                if call.medium.facts().get(SUSPECT):
                    self.suspect(trial, call)
        self._end(trial, status, is_anew=True)

    @override
    def suspect(self, trial: TrialInfo, entry: MediaEntry) -> None:
        id = trial.trial_id
        if id in self._to_write_anew or is_excluded(entry.section, entry.key, self._rays.excludes):
            return
        if self._helper is not None and self._helper.has(id):
            self._helper.ask("suspect", id, entry.tag, entry.training_iteration, str(entry.medium.note))
        elif id in self._statuses and is_offline(self._rays.kwargs):
            write = functools.partial(self._write_from_files, trial, self._statuses[id])
            self.context.later("writing a run anew", write, key=("anew", id))
        else:  # W&B has the run, and takes nothing more for it
            self.context.lacks(id, "mark(s) of suspect clips")

    @override
    def checkpoint(self, trial: TrialInfo, path: str) -> None:
        if trial.trial_id not in self._to_write_anew:
            self._started.ask("checkpoint", trial.trial_id, path)

    @override
    def end(self, trial: TrialInfo, status: Status) -> None:
        self._statuses[trial.trial_id] = status
        if trial.trial_id not in self._to_write_anew:
            self._end(trial, status, is_anew=self._exports)
            return
        self._to_write_anew.discard(trial.trial_id)
        try:
            self._write_from_files(trial, status)
        except BaseException:
            self._to_write_anew.add(trial.trial_id)
            raise

    def _write_from_files(self, trial: TrialInfo, status: Status) -> None:
        """Write a trial's whole offline run anew, of the files on the storage.

        Raises:
            Exception: As for ``write_anew``.
        """
        wait_for_storage(self.context)
        problems: list[str] = []
        calls = calls_of(FinishedTrial.of_driver(trial, status), problems)
        self.write_anew(trial, calls, status)
        for problem in problems:
            self.context.fault("writing a run anew", ValueError(problem))

    def _end(self, trial: TrialInfo, status: Status, *, is_anew: bool = False) -> None:
        best = self._best_of(trial)
        self._started.end(trial.trial_id, _EXIT_CODES[status], best)  # if it fails, finish() copies what there is
        self._copy_later(trial.trial_id, unsent=False, replaces=is_anew)

    def _best_of(self, trial: TrialInfo) -> dict[str, Any] | None:
        """Return a trial's best clip that is not excluded, in plain values; None if the storage does not tell."""
        with self.context.guard("reading the best clip"):
            for line in clips_best_first(trial, self.context):
                if not is_excluded(line["section"], line["key"], self._rays.excludes):
                    place = trial.location
                    return best_item(line, read_if_there(place.filesystem, place.on_storage(line["path"])))
        return None

    @override
    def finish(self) -> None:
        helper, self._helper = self._helper, None
        if helper is None:
            return
        helper.close()
        for trial_id in list(self._locations):  # of runs that have not ended as they should
            self._copy_later(trial_id, unsent=True, helper=helper)
        self.context.wait_for_storage()
        if not helper.remove_folder():
            logger.warning("tune_media: W&B: runs that the storage did not accept are in %s", helper.folder)

    @override
    def is_away(self, error: Exception) -> bool:
        return isinstance(error, (HelperDiedError, StorageAwayError)) or private_names.is_passing(error)

    def _begin(self, trial: TrialInfo, settings: dict[str, Any]) -> None:
        self._last_rows[trial.trial_id] = self._started.begin(trial.trial_id, settings)
        self._locations[trial.trial_id] = trial.location
        self._configs[trial.trial_id] = trial.config

    @property
    def _started(self) -> WandbHelper:
        assert self._helper is not None, "a trial has started"
        return self._helper

    def _copy_later(
        self, trial_id: str, *, unsent: bool, replaces: bool = False, helper: WandbHelper | None = None
    ) -> None:
        """Copy a trial's offline runs to its storage, and online ones that W&B does not have yet (``unsent``)."""
        location = self._locations.pop(trial_id)
        self._configs.pop(trial_id, None)
        self._last_rows.pop(trial_id, None)
        folder = (helper or self._started).folder / trial_id
        copy = functools.partial(copy_runs, folder, location, unsent=unsent, replaces=replaces)
        self.context.on_storage("copying a W&B run", copy)

    def _settings(self, trial: TrialInfo) -> dict[str, Any]:
        """Return the settings of a trial's run, which are Ray's, for the helper process."""
        rays = self._rays
        config = {name: value for name, value in trial.config.items() if name != "callbacks"}
        cleaned = private_names.clean_log(config)
        init = {
            "id": trial.trial_id,
            "name": trial.name,
            "resume": "allow",  # a restored trial goes on in its run
            "allow_val_change": True,
            "group": rays.group or trial.experiment,
            "project": rays.project,
            "config": {name: value for name, value in cleaned.items() if name not in rays.excludes},
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
        }

    @override
    def __getstate__(self) -> dict[str, Any]:
        return {
            **super().__getstate__(),
            "_helper": None,
            "_locations": {},
            "_configs": {},
            "_last_rows": {},
            "_statuses": {},
            "_to_write_anew": set(),
        }


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
