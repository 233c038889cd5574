"""The last line of an experiment: the media stored and lost, and the reason if nothing was recorded."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tune_media.storage.episode_files import FOLDER
from tune_media.values.checks import first_names
from tune_media.values.number import counted
from tune_media.values.problems import NUM_PENDING, NUM_UNANSWERED

if TYPE_CHECKING:
    from tune_media.callbacks.faults import Faults

logger = logging.getLogger("tune_media")

_MAX_NAMES = 5
_MAX_PROBLEMS = 100  # different texts
_WITH_RLLIB = "add record_episodes(...) to .callbacks() of the RLlib config"
_WITH_A_LOOP = (
    "in a loop of your own, report what RecordEpisodes.take() returns, which is empty until an episode has ended, or a "
    "tune_media.Video"
)


class Summary:
    """Counts for the last line. Any thread calls any method."""

    def __init__(self, faults: Faults, folder: str, argument: str) -> None:
        self._faults, self._folder = faults, folder
        self.argument = argument  # the experiment, as the command line takes it
        self._lock = threading.Lock()
        self.has_new = self.had_media = False  # whether media have come now, and before a restore
        self.has_recorder = False  # whether a trial's config has a recorder
        self.has_results = False  # whether a trial has reported a result
        self._without_result: dict[str, str] = {}  # names of the trials that failed before their first result, by id
        self._files = self._episodes = self._lost = self._nbytes = 0
        self._tapes = self._unrendered = self._left = 0
        self._lost_names: list[str] = []
        self._left_names: list[str] = []
        self._trials: set[str] = set()
        self._pending: dict[str, dict[str, int]] = {}  # of each trial, by the key

    @property
    def has_media(self) -> bool:
        """Whether media have come, now or before the experiment was restored."""
        return self.has_new or self.had_media

    def reported(self, trial_id: str) -> None:
        """Take note that a trial has reported a result."""
        self.has_results = True
        self._without_result.pop(trial_id, None)

    def failed_early(self, trial_id: str, name: str) -> None:
        """Take note that a trial failed before its first result."""
        self._without_result[trial_id] = name

    def stored(self, trial_id: str, nbytes: int) -> None:
        """Count a file that is on the storage; once, whatever number of keys share it."""
        with self._lock:
            self.has_new = True
            self._files += 1
            self._nbytes += nbytes
            self._trials.add(trial_id)

    def episodes(self, trial_id: str, count: int, nbytes: int = 0) -> None:
        """Count episodes whose data is on the storage."""
        with self._lock:
            self._episodes += count
            self._nbytes += nbytes
            self._trials.add(trial_id)

    def lost(self, path: str, count: int = 1) -> None:
        """Count media that could not be stored, and name the first ones."""
        with self._lock:
            self._lost += count
            if len(self._lost_names) < _MAX_NAMES:
                self._lost_names.append(path)

    def left_in_outbox(self, path: str, count: int = 1) -> None:
        """Count media that the storage has not taken, and that wait in the outbox; name the first ones."""
        with self._lock:
            self._left += count
            if len(self._left_names) < _MAX_NAMES:
                self._left_names.append(path)

    def taped(self) -> None:
        """Count a clip that is to be rendered of a tape."""
        with self._lock:
            self._tapes += 1

    def not_rendered(self) -> None:
        """Count a clip of which there is only the tape."""
        with self._lock:
            self._unrendered += 1

    def waiting_text(self) -> str:
        """Return how many clips are tapes only, and how they are made; empty if there are none."""
        if not self._unrendered:
            return ""
        return (
            f"{self._unrendered} of {self._tapes} clips wait as tapes; when the experiment has ended, "
            f"`tune-media render {self.argument} --episodes waiting` writes these clips into a folder"
        )

    def folders_text(self) -> str:
        """Return whether the trials' folders have everything, by what the storage's reader has passed; call it last."""
        export = f"`tune-media export {self.argument} --to ...` logs"
        if not self._left + self._lost:
            return f"Everything is in the trials' folders. {export} it anew."
        missing = [f"{self._lost} that are lost"] if self._lost else []
        if self._left:
            missing += [
                f"{self._left} that the storage did not take (`tune-media deliver {self.argument}` stores them)"
            ]
        return f"The trials' folders have all media but {' and '.join(missing)}. {export} what is there anew."

    def pending(self, trial_id: str, counts: Mapping[str, int]) -> None:
        """Note the clips that come with a later result of a trial; see ``problems.pending``."""
        with self._lock:
            for key, count in counts.items():
                of_key = self._pending.setdefault(key, {})
                of_key.pop(trial_id, None)
                if count:
                    of_key[trial_id] = count

    def line(self) -> str:
        """Return the last line."""
        problems = [problem for problem in self._faults.problems if not problem.remedy][:_MAX_PROBLEMS]
        texts = [str(problem) for problem in problems if problem.lost]
        warnings = [str(problem) for problem in problems if not problem.lost]
        late = {key: sum(counts.values()) for key, counts in self._pending.items()}
        if late.get(NUM_PENDING):
            texts.append(f"{counted(late[NUM_PENDING], 'episode')} had not arrived when their trials ended")
        if late.get(NUM_UNANSWERED):
            texts.append(
                f"episodes of {late[NUM_UNANSWERED]} env runner(s), which still played the last evaluation when their "
                "trials ended"
            )
        if self._without_result:
            failed = list(self._without_result.values())
            texts.append(
                f"{len(failed)} trial(s) failed before their first result ({first_names(failed)}); the error "
                "is in error.txt in the trial's folder"
            )
        if not self.has_new:
            return self._line_without_media("; ".join([*texts, *warnings])) + self._fault_text()
        line = (
            f"tune_media: stored {counted(self._files, 'media file')} of {counted(len(self._trials), 'trial')}, "
            f"{self._nbytes / 1e6:.2g} MB, in {self._folder}/<trial>/media, listed in its index.jsonl."
        )
        if not self._nbytes and not self._files:
            line = "tune_media: stored nothing."
        if self._episodes:
            line += f" The data of {counted(self._episodes, 'episode')} is in <trial>/{FOLDER}."
        if self._unrendered:
            line += f" {self.waiting_text()}."
        if self._lost:
            line += f" {self._lost_text()}: the index's lines whose status is not 'stored', or the log, say why."
        if self._left:
            names = first_names(self._left_names, _MAX_NAMES, count=self._left)
            line += (
                f" The storage did not take {self._left} media ({names}); they wait on this machine for a week. "
                f"`tune-media deliver {self.argument}` stores them, and so does Tuner.restore."
            )
        if texts:
            line += f" Not recorded: {'; '.join(texts)}."
        if warnings:
            line += f" Warnings: {'; '.join(warnings)}."
        return line + self._fault_text()

    def _line_without_media(self, reasons: str) -> str:
        if self._lost:
            line = f"tune_media: nothing was stored: {self._lost_text()}; not even their names, which no index has."
            return f"{line} Not recorded: {reasons}." if reasons else line
        if self.had_media:
            line = (
                "tune_media: nothing new was recorded since the restore; what was recorded before is in "
                f"{self.argument}/<trial>/media."
            )
            return f"{line} Not recorded: {reasons}." if reasons else line
        if not reasons and not self.has_results:
            reasons = "no trial reported a result"
        if not reasons:  # media may have come, and failed
            reasons = next((problem.text for problem in self._faults.problems if problem.remedy), "")
        if not reasons and self.has_recorder:
            reasons = (
                "no result held any media or episode, though the config has record_episodes(...). Either no episode of "
                'its sections= has ended, or, with sections="evaluation", no trial has come to an evaluation: set '
                "evaluation_interval="
            )
        if not reasons:  # the remedy for what the script uses comes first
            remedies = [_WITH_RLLIB, _WITH_A_LOOP] if "ray.rllib" in sys.modules else [_WITH_A_LOOP, _WITH_RLLIB]
            reasons = f"no result held any media: {'; '.join(remedies)}. `tune-media doctor` checks an env"
        return f"tune_media: nothing was recorded, because: {reasons}."

    def _lost_text(self) -> str:
        return f"{self._lost} could not be stored ({first_names(self._lost_names, _MAX_NAMES, count=self._lost)})"

    def _fault_text(self) -> str:
        if not self._faults.count:
            return ""
        return f" {self._faults.count} fault(s) were met on the way; the first of each kind is in the log."
