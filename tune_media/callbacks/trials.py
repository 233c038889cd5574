"""The trials of an experiment: their stores, how each goes on, and whose clone it is."""

from __future__ import annotations

import functools
import logging
import posixpath
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.fs

from tune_media.callbacks.faults import Faults
from tune_media.callbacks.pruning import Pruner
from tune_media.callbacks.retention_check import RetentionCheck
from tune_media.callbacks.work_queue import Task
from tune_media.experiment.results import result_step
from tune_media.ray_compat import latest_checkpoint_metrics, leave_out_of_syncs, sync_everything
from tune_media.storage.filesystem import for_small_files, is_local
from tune_media.storage.final_copy import copy_index_again
from tune_media.storage.healing import EndedTrials
from tune_media.storage.index_lines import INDEX_PATH
from tune_media.storage.location import TrialLocation
from tune_media.storage.trial_store import TrialStore
from tune_media.values.number import whole_number
from tune_media.values.options import Retention

if TYPE_CHECKING:
    from ray.tune.experiment import Trial

    from tune_media.callbacks.writing import Writer

logger = logging.getLogger("tune_media")

_LOAD_SECONDS = 5.0  # how long a restored trial's first result waits for its index


class Trials:
    """The stores of an experiment's trials.

    The storage's thread calls ``prune`` and ``is_written``, Tune's loop all other methods.

    Args:
        faults: Counts faults.
        writer: Returns the writer of the media.
    """

    def __init__(self, faults: Faults, writer: Callable[[], Writer]) -> None:
        self._faults, self._writer = faults, writer
        self.running: dict[str, Trial] = {}
        self.keeper: Pruner | None = None
        self.retention_check: RetentionCheck | None = None
        self._complete: set[str] = set()  # the folders of trials whose index has been completed, in _experiment
        self._experiment: tuple[pyarrow.fs.FileSystem, str, Path] | None = None
        self._stores: dict[str, TrialStore] = {}  # shared with the pruner, so that each trial has one store
        self._ended: EndedTrials | None = None
        self._last: Trial | None = None
        self._patience = _LOAD_SECONDS

    def begin(self, trial: Trial) -> None:
        """A trial starts, for the first time or again: find its files, and its donor if it is a clone."""
        self.running[trial.trial_id] = trial
        with self._faults.guard("the store", "opening a trial's index"):
            store = self.store(trial)
            store.is_over = False
            self._look_for_donor(trial, store)

    def store(self, trial: Trial) -> TrialStore:
        """Return the trial's store; the storage's thread reads the lines of earlier runs before all else."""
        store = self._stores.get(trial.trial_id)
        if store is None:
            report = functools.partial(self._faults.report, "the index", "reading or writing a trial's index")
            retention = self.keeper.policy if self.keeper else None
            new = TrialStore(trial_place(trial), retention, report, self._writer().beside)
            store = self._stores.setdefault(trial.trial_id, new)  # the pruner may have opened the trial just now
            early = store.load if store.uploads.is_remote else None
            load = Task("reading an index", store.load, give_up=store.go_on_without, is_vital=True, early=early)
            self._writer().queue.put(load, first=True)
            self._heal_ended(store.location)
            if not is_local(store.location.filesystem):  # it is copied rarely, and Tune would copy it at each sync
                self._last = trial if leave_out_of_syncs(trial, f"*/{INDEX_PATH}") else None
        return store

    def known(self, trial_id: str) -> TrialStore | None:
        """Return the store of a trial that has one."""
        return self._stores.get(trial_id)

    def goes_on(self, trial: Trial, result: dict[str, Any]) -> None:
        """Find out whether a trial's next result goes back behind earlier ones, and whether it is the best."""
        store, queue = self.store(trial), self._writer().queue
        if trial.last_result and not queue.is_away:
            self._wait_for_index(trial, store)
        if store.rollbacks.goes_on(whole_number(result.get("training_iteration")), result_step(result)):
            queue.put(Task("marking what was rolled back", store.mark_rolled_back))
        former = self.keeper.saw(trial.trial_id, result) if self.keeper is not None else None
        if former is not None and self.keeper is not None:
            queue.put(Task("deleting media", functools.partial(self.keeper.tidy_former_best, former)))
        if store.uploads.index_is_late:
            queue.put(Task("copying an index", store.uploads.copy_index, key=("index", trial.trial_id)))

    def prune(self, store: TrialStore) -> None:
        """Have surplus media deleted, now that a trial has one more."""
        if self.keeper is not None:
            key, work = ("deleting media", store.location.trial_id), functools.partial(self._prune, self.keeper, store)
            self._writer().queue.put(Task("deleting media", work, key=key))

    def is_written(self, store: TrialStore) -> None:
        """If a trial has ended, its index is complete now: nothing of the trial waits to be written."""
        if store.is_over:
            self._end_later(store)

    def set_retention(self, retention: Retention | None) -> None:
        """Use a retention policy; for the trial that is just starting, too."""
        self.keeper = Pruner(retention, self._stores) if retention else None
        self.retention_check = RetentionCheck(retention) if retention else None
        for store in list(self._stores.values()):
            self._writer().queue.put(Task("reading an index again", functools.partial(store.keep, retention)))

    def forget(self, trial: Trial) -> None:
        """A trial is over: hold nothing of it any longer, once it is written."""
        self.running.pop(trial.trial_id, None)
        store = self._stores.get(trial.trial_id)
        if store is not None and not store.is_over:
            store.is_over = True
            self._end_later(store)

    def finish(self) -> None:
        """Have each index rewritten with one line a medium, and the storage's copy of it brought up to date."""
        for store in list(self._stores.values()):
            store.is_over = True
            self._end_later(store, "last index")  # after deletions that wait behind an earlier end of this trial
        self._writer().queue.put(Task("copying indexes again", self._copy_again))
        if self._last is not None:
            sync_everything(self._last)

    def give_up(self, error: Exception) -> None:
        """The storage does not take the rest: each index goes on in the driver's folder."""
        for store in list(self._stores.values()):  # the storage's thread may still end trials
            store.go_on_without(error)

    def _prune(self, keeper: Pruner, store: TrialStore) -> None:
        keeper.tidy(store)
        if store.is_over and not self._writer().is_waiting(store.location.trial_id):
            self._end_later(store)

    def _end_later(self, store: TrialStore, name: str = "ended index") -> None:
        """Have a trial's index completed after all that waits now; once for each name, if asked for several times."""
        key = (name, store.location.trial_id)
        early = functools.partial(self._copy_early, store) if store.uploads.is_remote else None
        self._writer().queue.put(Task("copying an index", functools.partial(self._end, store), key=key, early=early))

    def _copy_early(self, store: TrialStore) -> None:
        """Copy the index of a trial that ends while those of other trials are copied; a helper of the storage does."""
        if self._writer().is_waiting(store.location.trial_id):
            raise OSError("the index lacks media that wait to be written")
        store.uploads.copy_index_early()

    def _end(self, store: TrialStore) -> None:
        store.finish()
        is_needed = self.keeper is not None and self.keeper.needs_ended_trials
        if store.is_over and not store.index_is_held:
            location = store.location
            self._experiment = location.filesystem, posixpath.dirname(location.path), location.local_path.parent
            self._complete.add(posixpath.basename(location.path))
        if store.is_over and not store.index_is_held and not is_needed:
            self._stores.pop(store.location.trial_id, None)  # unless it has begun again, or a sync may undo the copy

    def _copy_again(self) -> None:
        filesystem, experiment, driver = self._experiment or (None, "", Path())
        for name in self._complete:
            copy_index_again(TrialLocation(filesystem, posixpath.join(experiment, name), driver / name, ""))

    def _heal_ended(self, location: TrialLocation) -> None:
        """Have the files of trials that ended before a restore listed, a few trials at a time, between other work."""
        if self._ended is not None:
            return

        def in_use() -> list[str]:
            return [store.location.path for store in list(self._stores.values())]

        ended = self._ended = EndedTrials(location.filesystem, posixpath.dirname(location.path), in_use)

        def heal() -> None:
            if ended.heal_some():
                self._writer().queue.put(Task("listing the files of ended trials", heal))

        self._writer().queue.put(Task("listing the files of ended trials", heal))

    def _wait_for_index(self, trial: Trial, store: TrialStore) -> None:
        """Wait until the index of a trial's earlier runs is read; for all trials together not long, if none ever is."""
        started = time.monotonic()
        if store.registry.wait_until_complete(self._patience):
            self._patience = _LOAD_SECONDS
            return
        self._patience = max(0.0, self._patience - (time.monotonic() - started))
        logger.info("tune_media: the index of trial %s is not read yet; its storage is slow", trial.trial_id)

    def _look_for_donor(self, trial: Trial, store: TrialStore) -> None:
        """See whether a trial starts from the checkpoint of another one, as population-based training has it do.

        Only a start tells: Tune gives a trial its donor's checkpoint before it shows us the trial's own last result.
        """
        metrics = latest_checkpoint_metrics(trial) or {}
        donor, iteration = metrics.get("trial_id"), metrics.get("training_iteration")
        if not isinstance(donor, str) or donor == trial.trial_id:
            return
        link = f"{donor}@{iteration}"
        if store.registry.lineage[:1] != (link,):
            others = self._stores[donor].registry.lineage if donor in self._stores else ()
            store.registry.descends_from((link, *others))


def trial_place(trial: Trial) -> TrialLocation:
    """Return the location of a trial's files."""
    storage = trial.storage
    return TrialLocation(
        for_small_files(storage.storage_filesystem), storage.trial_fs_path, Path(trial.local_path or ""), trial.trial_id
    )
