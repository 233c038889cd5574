"""The folder of a trial in an evaluation: the same files as those of a trial that recorded while it was trained."""

from __future__ import annotations

import contextlib
import datetime
import posixpath
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow.fs
from typing_extensions import override

from tune_media.evaluation.checkpoints import StoredCheckpoint, number_of
from tune_media.replay import playing
from tune_media.storage import episode_files
from tune_media.storage.filesystem import json_file, read_if_there, write_atomically
from tune_media.storage.index_lines import Line, MediumLine, read_index
from tune_media.storage.trial_folder import TrialFolder
from tune_media.values import strict_json
from tune_media.values.episodes import EpisodeBatch, EpisodeData, with_progress
from tune_media.values.safe_names import name_digest
from tune_media.values.video import Video

SECTION, RECORDER = "evaluation", "episodes"
_PLAYED_AS = "played_as.json"
_DATA_FILE = re.compile(r"data-\d{8,}(-\w+)?\.(json|parquet)")


class EvaluatedTrial(TrialFolder):
    """The folder of one trial under one condition. One process at a time may write it.

    A file is written before the index names it, and deleted after the index has forgotten it. Files of episodes that
    the index does not name are of a process that was interrupted; they are removed, and their episodes are played
    again.
    """

    def __init__(self, filesystem: pyarrow.fs.FileSystem, folder: str, trial_id: str) -> None:
        super().__init__(filesystem, folder, trial_id)
        self._lines, _ = read_index(filesystem, folder)
        self._remove_unlisted()
        self._rows: list[dict[str, Any]] = []
        for name in sorted({line.path for line in self._listed(EpisodeBatch.kind)}):
            content = read_if_there(filesystem, self.place(episode_files.parquet_name(name)))
            self._rows += episode_files.rows_of_parquet(content or b"")

    def episodes(self, training_iteration: int) -> list[dict[str, Any]]:
        """Return the rows of the episodes of a checkpoint that are stored, without their tapes; metrics are pairs."""
        return [row for row in self._rows if row["training_iteration"] == training_iteration]

    def reports(self, training_iteration: int) -> list[str]:
        """Return the paths of the episodes of a checkpoint in the index."""
        lines = [line for line in self._lines if line.facts.get("kind") == EpisodeBatch.kind]
        return [line.path for line in lines if line.training_iteration == training_iteration]

    def clips(self, training_iteration: int) -> list[Line]:
        """Return the index lines of the clips of a checkpoint."""
        lines = self._listed(Video.kind)
        return [line.fields() for line in lines if line.training_iteration == training_iteration]

    def result(self, training_iteration: int) -> dict[str, Any] | None:
        """Return the result of a checkpoint, which is written when all else is; None if there is none yet."""
        results = [result for result in self.results() if result.get("training_iteration") == training_iteration]
        return results[-1] if results else None

    def checkpoints(self, folder: str) -> list[StoredCheckpoint]:
        """Return the checkpoints, once in this folder, whose episodes are all stored."""
        checkpoints = []
        for result in self.results():
            iteration, path = int(result["training_iteration"]), posixpath.join(folder, str(result.get("checkpoint")))
            step = int(result.get("timesteps_total", iteration))
            checkpoints.append(StoredCheckpoint(self.filesystem, path, number_of(path) or 0, iteration, step))
        return checkpoints

    def played_as(self, training_iteration: int) -> playing.PlayedAs | None:
        """Return what the episodes of a checkpoint were played with; None if it has none."""
        settings = json_file(self.filesystem, self.place(_PLAYED_AS)).get(str(training_iteration))
        return playing.PlayedAs(**settings) if isinstance(settings, dict) else None

    def note_played_as(self, training_iteration: int, used: playing.PlayedAs) -> None:
        """Write what the episodes of a checkpoint are played with, before the first of them."""
        before = json_file(self.filesystem, self.place(_PLAYED_AS))
        changed = {**before, str(training_iteration): vars(used)}
        if changed != before:
            write_atomically(self.filesystem, self.place(_PLAYED_AS), strict_json.json_bytes(changed) + b"\n")

    def add_played(
        self, training_iteration: int, step: int, episodes: Sequence[EpisodeData], recipes: Mapping[str, bytes]
    ) -> None:
        """Store episodes of a checkpoint."""
        placed = with_progress(episodes, training_iteration, None)
        ids = sorted(episode.record.episode_id for episode in placed)
        part = episode_files.RecorderEpisodes(SECTION, RECORDER, EpisodeBatch(tuple(placed), recipes=recipes))
        made = self.add_episodes(part, step, training_iteration, name_digest(str(ids)))
        self._rows += episode_files.rows_of_parquet(made.files[episode_files.parquet_name(made.path)])

    def finish(self, training_iteration: int, facts: Mapping[str, Any]) -> None:
        """Write the result of a checkpoint; the results stay in the order of their iterations."""
        now = time.time()
        result = {
            **facts,
            "training_iteration": training_iteration,
            "trial_id": self.trial_id,
            "timestamp": int(now),
            "date": datetime.datetime.fromtimestamp(now).strftime("%Y-%m-%d_%H-%M-%S"),
            "done": True,
        }
        self.replace_results(
            sorted([*self._results_without(training_iteration), result], key=lambda line: line["training_iteration"])
        )

    def discard(self, training_iteration: int) -> None:
        """Delete the episodes of a checkpoint, its result and its clips, whose lines stay as ``deleted``.

        At whatever place it is killed, no result outlives its episodes, and all of them are listed or none.
        """
        others = self._results_without(training_iteration)
        if len(others) < len(self.results()):
            self.replace_results(others)
        kept, clips = list[MediumLine](), set[str]()
        for line in self._lines:
            if line.training_iteration != training_iteration or not line.is_stored:
                kept.append(line)
            elif line.facts.get("kind") != EpisodeBatch.kind:
                kept.append(line.deleted())
                clips.add(line.path)
        self._lines = kept
        self._rows = [row for row in self._rows if row["training_iteration"] != training_iteration]
        self.replace_lines(kept)
        self._remove_unlisted()
        for path in clips:
            with contextlib.suppress(FileNotFoundError):
                self.filesystem.delete_file(self.place(path))

    @override
    def add_lines(self, lines: Sequence[MediumLine]) -> None:
        """List media, which are known from then on."""
        super().add_lines(lines)
        self._lines += lines

    def _listed(self, kind: str) -> list[MediumLine]:
        """Return the lines of the media of a kind that have files."""
        return [line for line in self._lines if line.is_stored and line.facts.get("kind") == kind]

    def _results_without(self, training_iteration: int) -> list[dict[str, Any]]:
        return [line for line in self.results() if line.get("training_iteration") != training_iteration]

    def _remove_unlisted(self) -> None:
        """Remove the files of episodes that the index does not name."""
        paths = {line.path for line in self._listed(EpisodeBatch.kind)}
        named = {*paths, *map(episode_files.parquet_name, paths), *map(episode_files.steps_name, paths)}
        selector = pyarrow.fs.FileSelector(self.place(episode_files.FOLDER), allow_not_found=True)
        for info in self.filesystem.get_file_info(selector):
            name = posixpath.join(episode_files.FOLDER, info.base_name)
            if name not in named and _DATA_FILE.fullmatch(info.base_name):
                self.filesystem.delete_file(info.path)
