"""The folder that a wrapper records to: its clips, and what makes it a trial that the viewer and ``tm.load`` open."""

from __future__ import annotations

import errno
import logging
import os
import time
import weakref
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.fs

from tune_media.recording.episode import Candidate
from tune_media.storage.clip_names import KEY, section_of
from tune_media.storage.entry import MediaEntry
from tune_media.storage.episode_files import RecorderEpisodes
from tune_media.storage.index_lines import read_index
from tune_media.storage.trial_folder import TrialFolder
from tune_media.values.checks import as_shown
from tune_media.values.episodes import EpisodeBatch, EpisodeData, Trajectory, thinned
from tune_media.values.medium import new_id
from tune_media.values.number import whole_number
from tune_media.values.safe_names import safe_name
from tune_media.values.secrets import error_text
from tune_media.values.sections import TRAIN
from tune_media.values.video import Video

logger = logging.getLogger(__name__)

_LOCAL = pyarrow.fs.LocalFileSystem()
_MOST_HELD = 10_000  # episodes
_PAUSE, _SHARE = 1.0, 0.02  # seconds, and part of the time so far: a long run has some hundred reports
_STEPS: dict[tuple[Path, str], int] = {}  # of the episodes that ended, of all wrappers here, by folder and section


class VideoFolder:
    """Writes clips as ``<prefix>-<name>.mp4``, or ``<prefix>-env-<i>-<name>.mp4`` if there are several sub-envs.

    A file that exists is never overwritten: the name of the new one ends with the clip's id. Each clip is listed in the
    folder's index, and all episodes are in its ``episode_data``, so that the folder is a trial's. Several wrappers,
    also of several processes, may write to it. ``section_of`` says which prefixes file clips as an evaluation's.
    Raises OSError; ValueError if the folder is that of a run with other ``params``.
    """

    def __init__(self, folder: Path, prefix: str, count: int, params: Mapping[str, Any] | None = None) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._folder = folder.resolve()
            self._trial = TrialFolder(_LOCAL, str(self._folder))
            if params is not None:
                _write_params(self._trial, params)
        except OSError as error:
            reason = "it is a file" if folder.is_file() else error.strerror
            raise type(error)(
                f"RecordEpisodes(video_folder={str(folder)!r}) cannot be made: {reason}. Pass a folder that you may "
                "write to; it need not exist."
            ) from error
        self._prefix, self._count = prefix, count
        self._reports: _Reports | None = None
        self._section = section_of(prefix)
        if (self._folder, self._section) not in _STEPS:  # the steps continue those of an earlier process
            lines, _ = read_index(_LOCAL, str(self._folder))
            if lines and self._folder not in {folder for folder, _ in _STEPS}:
                logger.warning(
                    "tune_media: %s has episodes of an earlier run, and these are added to them; pass another "
                    "video_folder if this is another run.",
                    folder,
                )
            steps_of = {self._section: 0}
            for line in lines:
                steps_of[line.section] = max(steps_of.get(line.section, 0), whole_number(line.facts.get("step")))
            for section, steps in steps_of.items():
                _STEPS.setdefault((self._folder, section), steps)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the episodes that are still to be written: a copy has its own."""
        return {**self.__dict__, "_reports": None}

    def write(
        self, index: int, name: str, video: Video, *, view: str = "", whole: bool = True, running: int = 0
    ) -> Path:
        """Write a clip, list it in the index, and return its path. Raises OSError.

        ``name`` is that of its episode or first step. If it did not end as planned (not ``whole``), its name says
        ``unfinished``, and its line has no return. ``running`` are the env steps of the episodes that run.
        """
        parts = [self._prefix, *([f"env-{index}"] if self._count > 1 else []), name]
        if view:
            parts.append(safe_name(view))
        if not whole:
            parts.append("unfinished")
        path = self._folder / f"{'-'.join(parts)}.mp4"
        try:
            path.touch(exist_ok=False)  # nobody else writes to it now
        except FileExistsError:
            path = path.with_name(f"{path.stem}-{video.id[:12]}.mp4")
            path.touch(exist_ok=False)
        entry = MediaEntry(video, self._section, KEY, path.name, self._step(running), None, time.time())
        facts: dict[str, Any] = {"env_index": index} if self._count > 1 else {}
        self._trial.store(entry, **facts, **({} if whole else {"episode_return": None}))
        self._episodes().note_clip(video, path.name)
        return path

    def add(self, data: EpisodeData, candidate: Candidate | None) -> None:
        """Add an ended episode, whose clips are written, to those that wait. OSError: these stay for the next time."""
        place = self._folder, self._section
        _STEPS[place] = _STEPS.get(place, 0) + data.record.episode_length
        reports = self._episodes()
        reports.add(replace(data, record=replace(data.record, env_steps=self._step())), candidate)
        if reports.are_due():
            reports.write()

    def flush(self) -> None:
        """Write the episodes that are still to be written. Raises OSError."""
        if self._reports is not None:
            self._reports.write()

    def _step(self, running: int = 0) -> int:
        """Return the env steps of training so far, also for an evaluation; its own ones if nothing trains here."""
        section = TRAIN if (self._folder, TRAIN) in _STEPS else self._section
        return _STEPS.get((self._folder, section), 0) + (running if section == self._section else 0)

    def _episodes(self) -> _Reports:
        if self._reports is None or not self._reports.are_of_this_process:  # a fork has its parent's
            self._reports = _Reports(self._trial, self._prefix)
            weakref.finalize(self, _write_late, self._reports)  # also when the process ends and the env was not closed
        return self._reports


class _Reports:
    """The episodes that are still to be written: as the reports of a trial, a file from time to time."""

    def __init__(self, trial: TrialFolder, prefix: str) -> None:
        self._trial, self._prefix = trial, prefix
        self._process = os.getpid()
        self._began = self._wrote = time.monotonic()
        self._empty()

    def _empty(self) -> None:
        self._episodes: list[EpisodeData] = []
        self._steps: dict[str, Trajectory] = {}
        self._clips: dict[str, dict[str, str]] = {}

    @property
    def are_of_this_process(self) -> bool:
        return os.getpid() == self._process

    def note_clip(self, video: Video, path: str) -> None:
        if video.episode is not None:
            self._clips.setdefault(video.episode.episode_id, {})[path] = video.id

    def add(self, data: EpisodeData, candidate: Candidate | None) -> None:
        if candidate is not None and candidate.trajectory is not None:
            self._steps[data.record.id] = candidate.trajectory
        rewards = None if candidate is None else candidate.rewards
        self._episodes.append(replace(data, rewards=rewards))

    def are_due(self) -> bool:
        now = time.monotonic()
        is_late = now - self._wrote > max(_PAUSE, _SHARE * (now - self._began))
        return is_late or len(self._episodes) >= _MOST_HELD or self._wrote == self._began

    def write(self) -> None:
        """Write the held episodes as one report; a forked process leaves that to its parent. OSError: they stay."""
        if not self._episodes or not self.are_of_this_process:
            return
        self._wrote = time.monotonic()
        try:
            if not Path(self._trial.folder).is_dir():
                raise FileNotFoundError(errno.ENOENT, "the folder is gone", self._trial.folder)
            batch = EpisodeBatch(tuple(thinned(self._episodes)), self._steps)
            part = RecorderEpisodes(section_of(self._prefix), self._prefix, batch)
            self._trial.add_episodes(part, self._episodes[-1].record.env_steps or 0, None, new_id()[:12], self._clips)
        except OSError as error:
            if len(self._episodes) < _MOST_HELD:
                raise
            count = len(self._episodes)
            self._empty()
            raise OSError(f"the data of {count} episodes are lost: {error_text(error)}") from error
        self._empty()


def _write_late(reports: _Reports) -> None:
    """Write the reports that are left when the wrapper is gone or the process ends."""
    try:
        reports.write()
    except FileNotFoundError:  # the folder is gone, too
        pass
    except Exception as error:
        logger.warning("RecordEpisodes: the data of the last episodes are not stored: %s", error_text(error))


def _write_params(trial: TrialFolder, params: Mapping[str, Any]) -> None:
    """Write the hyperparameters of a run to its folder. Raises OSError; ValueError if it has others."""
    if trial.has_other_params(params):
        raise ValueError(
            f"RecordEpisodes(params={as_shown(params)}): {trial.folder!r} is the folder of a run with params "
            f"{as_shown(trial.params())}. Pass another video_folder for each run, such as 'runs/2'."
        )
    trial.write_params(params)
