"""From a result to entries: its media are replaced by paths, and become entries that all callbacks share."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tune_media.callbacks.backend import Report
from tune_media.callbacks.faults import Faults
from tune_media.callbacks.summary import Summary
from tune_media.callbacks.trials import Trials
from tune_media.callbacks.writing import Writer
from tune_media.experiment.results import result_step, result_time
from tune_media.results.old_api_stack import RECORDER, Windows, new_episodes
from tune_media.results.reader import Found, replace_media
from tune_media.storage.entry import MediaEntry
from tune_media.storage.episode_files import DATA_KEY
from tune_media.values.episodes import EpisodeBatch
from tune_media.values.foreign import shown, without_address
from tune_media.values.number import whole_number
from tune_media.values.options import MediaOptions
from tune_media.values.recording_problems import take_problems

if TYPE_CHECKING:
    from ray.tune.experiment import Trial


class Intake:
    """Reads the results of an experiment. Tune's loop calls all methods.

    Args:
        trials: The trials' stores.
        writer: Gets the new media.
        faults: Counts faults.
        summary: Told problems of recording.
        options: Returns the user's options.
    """

    def __init__(
        self, trials: Trials, writer: Writer, faults: Faults, summary: Summary, options: Callable[[], MediaOptions]
    ) -> None:
        self._trials, self._writer, self._faults, self._summary = trials, writer, faults, summary
        self._options = options
        # One is enough: Tune shows a result to all callbacks, then the next one.
        self._last: tuple[Report | None, list[MediaEntry]] = (None, [])
        self._configs: dict[str, str] = {}  # each trial's last hyperparameters, as text
        self._windows: dict[str, Windows] = {}  # of the old API stack
        self._new_in_lists: dict[str, dict[tuple[str, ...], list[Any]]] = {}

    def read(self, trial: Trial, result: dict[str, Any]) -> tuple[Report, list[MediaEntry]]:
        """Replace the media of a trial's next result by their paths, and have them written.

        Returns:
            The result and its new media, the same for every callback that asks.
        """
        last, entries = self._last
        if last is None or last.result is not result:
            with self._faults.guard("the store", "reading where a trial goes on"):
                self._trials.goes_on(trial, result)
            with self._faults.guard("the reader", "reading problems of recording"):
                self._summary.problems(take_problems(result))
            entries = self.replace(trial, result, is_new=True)
            if self._trials.retention_check is not None:
                with self._faults.guard("the store", "checking the retention policy"):
                    self._summary.problems(self._trials.retention_check.look(result, entries))
            last = Report(
                result_step(result),
                whole_number(result.get("training_iteration")),
                result,
                self._new_in_lists.get(trial.trial_id, {}),
                time=result_time(result) or time.time(),
                changed=functools.partial(self._has_other_config, trial.trial_id, result.get("config")),
            )
            self._last = (last, entries)
        return last, entries

    def replace(self, trial: Trial, result: dict[str, Any], *, is_new: bool = False) -> list[MediaEntry]:
        """Replace the media of a result by their paths and have them written; return those that are new.

        If a medium cannot be stored, text that says so replaces it: no result keeps its bytes.

        Args:
            trial: The trial.
            result: The result; changed in place.
            is_new: Whether it is the next result of the trial, rather than a copy that Tune keeps.
        """
        entries: list[MediaEntry] = []
        told: set[str] = set()  # sections whose recorder has the episodes that the old API stack repeats
        place = functools.partial(self._place, trial, result, entries, told, functools.cache(self._report_path))
        try:
            replace_media(result, place, self._options().raw_fps, self._report_unread)
            if is_new:
                self._read_legacy(trial, result, place, told)
        finally:  # whatever comes after them, what is registered is written
            store = self._trials.known(trial.trial_id)
            if entries and store is not None:
                self._writer.put(store, entries, trial.storage.experiment_fs_path)
            if store is not None and store.rollbacks.has_revived:
                self._writer.later("marking what is recorded again", store.mark_revived)
        return entries

    def forget(self, trial: Trial) -> None:
        """A trial is over: hold nothing of it any longer."""
        self._last = (None, [])
        for held in (self._windows, self._new_in_lists, self._configs):
            held.pop(trial.trial_id, None)

    def _place(
        self,
        trial: Trial,
        result: dict[str, Any],
        entries: list[MediaEntry],
        told: set[str],
        report_path: Callable[[Trial, int], str],
        found: Found,
    ) -> str:
        """Register a medium, and return the text that replaces it."""
        medium, step = found.medium, result_step(result)
        own_path = None
        if isinstance(medium, EpisodeBatch):
            own_path = functools.partial(report_path, trial, step)
            if medium.holds_legacy:
                told.add(found.section)
        with self._faults.guard("the store", f"storing {found.section}/{found.key}"):
            iteration = whole_number(result.get("training_iteration"))
            store = self._trials.store(trial)
            path, entry = store.registry.register(medium, found.section, found.key, step, iteration, own_path)
            if entry is not None:
                entry.time = result_time(result) or entry.time
                entries.append(entry)
            return path
        return f"not stored: {medium.kind} {found.section}/{found.key}"

    def _report_path(self, trial: Trial, step: int) -> str:
        return self._trials.store(trial).registry.report_path(step)

    def _read_legacy(self, trial: Trial, result: dict[str, Any], place: Callable[[Found], str], told: set[str]) -> None:
        """Take the new values of single episodes that the old API stack reports."""
        windows = self._windows.setdefault(trial.trial_id, Windows())
        new_in_lists = self._new_in_lists[trial.trial_id] = {}
        for new in new_episodes(result, windows, self._report_unstored):
            is_known = False
            path = None
            if new.batch.episodes and new.section not in told:
                is_known = self._trials.store(trial).registry.knows(new.batch)
                path = place(Found(new.section, f"{RECORDER}{DATA_KEY}", new.batch))
            new.put(path)
            new_in_lists.update({where: [] if is_known else values for where, values in new.lists.items()})

    def _has_other_config(self, trial_id: str, config: Any) -> bool:
        """Return whether a trial's hyperparameters differ from those of its last result."""
        now = without_address(shown(config))
        before, self._configs[trial_id] = self._configs.get(trial_id), now
        return before is not None and before != now

    def _report_unstored(self, what: str) -> None:
        self._faults.report("episode data", "storing a value", TypeError(what), kind=what)

    def _report_unread(self, key: str, reason: str) -> None:
        self._faults.report("the reader", f"reading {key!r}", ValueError(reason), kind=key)
