"""Clips that are rendered after the sweep and join its experiment, as if they had been recorded.

The order is the driver's: the line of a clip is in the experiment's log before its file is on the storage, and the
trial's index follows.
"""

from __future__ import annotations

import copy
import hashlib
import posixpath
import time
from collections.abc import Iterator, Sequence

import pyarrow.fs

from tune_media.callbacks.outbox import is_held
from tune_media.experiment.trial_files import TrialFiles
from tune_media.storage.entry import DELETED, LOST, STORED, UNRENDERED, MediaEntry, file_set
from tune_media.storage.episode_files import parquet_name
from tune_media.storage.filesystem import write_atomically, write_once
from tune_media.storage.index_lines import INDEX_PATH, Line, content_of
from tune_media.storage.log import LogWriter, read_log
from tune_media.storage.names import file_name, safe_key
from tune_media.storage.own_files import delete_own
from tune_media.storage.suspects import SUSPECT, as_failed, as_settled
from tune_media.storage.trial_media import read_lines
from tune_media.values.episodes import EpisodeBatch
from tune_media.values.number import whole_number
from tune_media.values.video import Video, has_pictures
from tune_media.viewing.taped_episodes import Rendered, TapedEpisode

KEY = "rendered"
"""The last part of the key of clips of episodes that no selector chose: ``<recorder>/rendered``."""

_OWNER = "render"  # of this module's parts of the log
_SILENT_SECONDS = 120.0  # a driver on another machine that has logged nothing for so long is taken for dead


class AddedClips:
    """Adds clips to the trials of an experiment. One thread calls all methods.

    A clip that the index lists as not rendered, or as lost, gets its file and keeps its place. Every other clip gets
    the key ``<recorder>/rendered``. The id of a clip follows from its episode and the options, so that a clip that is
    there already is not added again.

    Args:
        options: How the clips are rendered, as text; empty: as they were, or would have been, recorded.

    Example:
        >>> with AddedClips() as added:
        ...     added.files
        []
    """

    def __init__(self, options: str = "") -> None:
        self._options = options
        self._logs: dict[str, LogWriter] = {}
        self._seen: dict[str, TrialFiles] = {}  # trials that were looked at, by their folder
        self._lines: dict[str, tuple[dict[str, list[Line]], dict[str, Line]]] = {}  # see _grouped
        self.files: list[str] = []

    def __enter__(self) -> AddedClips:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def has(self, episode: TapedEpisode) -> bool:
        """Return whether the clip of an episode is there already.

        Raises:
            OSError: The storage does not answer.
        """
        lines = self._lines_of(episode)
        stored = [line for line in lines if line.get("status") == STORED]
        mine = [line for line in stored if line["id"] == self._id(episode, line.get("view") or "")]
        recorded = [line for line in stored if not line["key"].startswith(f"{episode.row['recorder']}/{KEY}")]
        waits = any(line.get("status") in (*UNRENDERED, *LOST) for line in lines)  # another view of it
        return bool(mine or (recorded and not waits and not self._options))

    def add(self, rendered: Rendered) -> None:
        """Store the clips of an episode, and list them.

        Raises:
            OSError: The storage does not answer.
        """
        trial = rendered.episode.trial
        lines: list[Line] = []
        files: dict[str, bytes] = {}
        for video, place in self._placed(rendered):
            entry = MediaEntry(
                video,
                place["section"],
                place["key"],
                place["path"],
                whole_number(place.get("step")),
                whole_number(place.get("training_iteration")),
                place.get("time", 0.0),
                tuple(place.get("lineage") or ()),
            )
            made = file_set([entry], str(place["trial_id"]), place["row"])
            files |= made.files
            lines += [{**_about_episode(place), **line} for line in made.lines]
        self._add(trial, lines)
        for path, content in files.items():
            full = posixpath.join(trial.media_path, path)
            write_once(trial.media_filesystem, full, content)
            self.files.append(full)

    def settle(self, rendered: Rendered) -> str | None:
        """List the suspect clips of an episode as its replay shows them; return why one stays suspect, or None.

        If the replay is another episode, the clips are listed as failed, and their files are deleted. If pictures were
        compared, they are suspect no longer.

        Raises:
            OSError: The storage does not answer.
        """
        trial = rendered.episode.trial
        lines = [line for line in self._lines_of(rendered.episode) if line.get(SUSPECT)]
        if rendered.is_another:
            self._add(trial, [as_failed(line, rendered.problem) for line in lines])
            for path in dict.fromkeys(line["path"] for line in lines):
                delete_own(trial.media_filesystem, trial.media_path, path)
            return None
        if rendered.problem:
            return rendered.problem
        compared = {view: clip.compared for view, clip in rendered.clips.items() if has_pictures(clip.compared)}
        settled = [(line, compared.get(line.get("view") or "")) for line in lines]
        self._add(trial, [as_settled(line, what) for line, what in settled if what])
        if all(what for _, what in settled):
            return None
        same = next(iter(rendered.clips.values())).compared
        return f"the same again ({same}), but nothing on its tape shows its pictures on this machine: it stays suspect"

    def _add(self, trial: TrialFiles, lines: Sequence[Line]) -> None:
        """Log lines of a trial, before its files are written."""
        experiment, name = posixpath.split(trial.media_path.rstrip("/"))
        if experiment not in self._logs:
            self._logs[experiment] = LogWriter(trial.media_filesystem, experiment, _OWNER)
        rows = [line["row"] for line in lines]
        if rows:
            self._logs[experiment].append(min(rows), max(rows), [{**line, "trial": name} for line in lines])

    def close(self) -> None:
        """Complete the indexes of all trials that were looked at.

        While the log of a driver is not done, this one is not either: that driver, or a restore, may still write an
        index without these lines, and readers take them from the log.

        Raises:
            OSError: The storage does not answer.
        """
        for experiment, filesystem in {posixpath.dirname(f): t.media_filesystem for f, t in self._seen.items()}.items():
            log = read_log(filesystem, experiment)
            folders = [folder for folder in self._seen if posixpath.dirname(folder) == experiment]
            seen = [folder for folder in folders if posixpath.basename(folder) in log.lines]
            for folder in seen:
                lines, _, _ = read_lines(filesystem, folder)
                write_atomically(filesystem, posixpath.join(folder, INDEX_PATH), content_of(lines))
            if len(seen) == len(log.lines) and all(part.owner == _OWNER for part in log.parts):
                LogWriter(filesystem, experiment, _OWNER).finish(log.parts)
        self._seen, self._logs, self._lines = {}, {}, {}

    def _placed(self, rendered: Rendered) -> Iterator[tuple[Video, Line]]:
        """Yield each clip of an episode with the fields of its line that say where it belongs."""
        episode, clips = rendered.episode, rendered.clips
        waiting = [line for line in self._lines_of(episode) if line.get("status") in (*UNRENDERED, *LOST)]
        if waiting and not self._options and all((line.get("view") or "") in clips for line in waiting):
            for line in waiting:
                yield _with_id(clips[line.get("view") or ""], line["id"]), line
            return
        row, report = episode.row, self._report_of(episode)
        for view, clip in clips.items():
            video = _with_id(clip, self._id(episode, view))
            key = "/".join(filter(None, (str(row["recorder"]), KEY, view)))
            path = posixpath.join("media", safe_key(row["section"]), safe_key(key))
            path = posixpath.join(path, file_name(int(row["step"] or 0), video))
            yield video, {**report, "section": row["section"], "key": key, "path": path}

    def _id(self, episode: TapedEpisode, view: str) -> str:
        text = "\n".join((episode.row["section"], episode.row["recorder"], episode.id, view, self._options))
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def _lines_of(self, episode: TapedEpisode) -> list[Line]:
        """Return the lines of an episode's clips by its recorder."""
        row = episode.row
        return [
            line
            for line in self._grouped(episode.trial)[0].get(episode.id, [])
            if line["section"] == row["section"] and line["key"].startswith(f"{row['recorder']}/")
        ]

    def _report_of(self, episode: TapedEpisode) -> Line:
        """Return what the line of an episode's report says of its result."""
        names = ("training_iteration", "step", "time", "trial_id", "lineage", "row", "undone", "again", "rolled_back")
        line = self._grouped(episode.trial)[1].get(episode.path)
        if line is None:
            raise FileNotFoundError(f"the index of trial {episode.trial.name} does not list {episode.path} any more")
        return {name: line[name] for name in names if name in line}

    def _grouped(self, trial: TrialFiles) -> tuple[dict[str, list[Line]], dict[str, Line]]:
        """Return a trial's lines as they were before: of clips by their episodes' ids, of reports by Parquet file."""
        if trial.media_path not in self._lines:
            self._seen[trial.media_path.rstrip("/")] = trial
            clips: dict[str, list[Line]] = {}
            reports: dict[str, Line] = {}
            for line in read_lines(trial.media_filesystem, trial.media_path.rstrip("/"))[0]:
                if line.get("kind") == EpisodeBatch.kind:
                    reports.setdefault(posixpath.join(trial.media_path, parquet_name(line["path"])), line)
                elif line.get("kind") == Video.kind and line.get("status") != DELETED and "episode_id" in line:
                    clips.setdefault(line["episode_id"], []).append(line)
            self._lines[trial.media_path] = clips, reports
        return self._lines[trial.media_path]


def driver_of(filesystem: pyarrow.fs.FileSystem, experiment: str) -> str | None:
    """Return what tells that a driver writes to an experiment; None if nothing does.

    Args:
        filesystem: The storage.
        experiment: The experiment's folder on it.

    Raises:
        OSError: The storage does not answer.
    """
    for part in read_log(filesystem, experiment).parts:
        if part.owner in ("", _OWNER):
            continue
        held, silent = is_held(part.owner), time.time() - part.written
        if held:
            return f"its driver, on this machine, has the outbox {part.owner}"
        if held is None and silent < _SILENT_SECONDS:
            return f"a driver on another machine wrote {part.path} {silent:.0f} s ago"
    return None


def check_no_driver(episodes: Sequence[TapedEpisode]) -> None:
    """Make sure that no driver writes to the experiments of episodes.

    Raises:
        ValueError: One does.
        OSError: The storage does not answer.
    """
    places = {posixpath.dirname(one.trial.media_path.rstrip("/")): one.trial.media_filesystem for one in episodes}
    for experiment, filesystem in places.items():
        why = driver_of(filesystem, experiment)
        if why is not None:
            raise ValueError(
                f"{experiment} is being written: {why}. That driver renders the clips of its tapes itself; run "
                "`tune-media render --storage` when it has ended, or write the clips into a folder: -o FOLDER. If the "
                f"driver was killed, this works {_SILENT_SECONDS:g} s after its last file."
            )


def _about_episode(place: Line) -> Line:
    """Return the fields of a line that the clip's own do not replace, but for those of a clip without a file."""
    return {name: value for name, value in place.items() if name not in ("status", "note", "row")}


def _with_id(clip: Video, id: str) -> Video:
    video = copy.copy(clip)
    video.reidentify(id, None)
    return video
