"""Calls of a backend as a reader makes them that reads rows from disk: plain data, and none of Ray's live objects."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.fs

import tune_media as tm
from tests.support.faults import episodes
from tune_media.callbacks.backend import Backend, Context, Report, StorageAwayError, TrialInfo
from tune_media.callbacks.rows import episodes_row, medium_row, read_media_row
from tune_media.storage.entry import MediaEntry
from tune_media.storage.episode_files import file_names
from tune_media.storage.filesystem import read_if_there
from tune_media.storage.index_lines import Line, read_index
from tune_media.storage.location import TrialLocation
from tune_media.values.plain import pack, unpack

Call = tuple[str, Any]


class PlainContext(Context):
    """A backend's context that lets each exception through and does work at once."""

    is_stored = True

    def __init__(self, **options: Any) -> None:
        super().__init__(tm.MediaOptions(**options), [])
        self.faults: list[tuple[str, Exception]] = []

    @contextlib.contextmanager
    def guard(self, what: str) -> Iterator[None]:
        yield

    def fault(self, what: str, error: Exception, kind: str = "") -> None:
        self.faults.append((what, error))

    def wait_for_storage(self) -> None:
        if not self.is_stored:
            raise StorageAwayError

    def lines(self, trial: TrialInfo) -> list[Line]:
        self.wait_for_storage()
        return [line.fields() for line in read_index(trial.location.filesystem, trial.location.path)[0]]

    def content(self, trial: TrialInfo, path: str) -> bytes | None:
        """Return a file of a trial by its path in an index line; None if it is gone."""
        return read_if_there(trial.location.filesystem, trial.location.on_storage(path))


def a_trial(folder: Path, **config: Any) -> TrialInfo:
    """Return a trial with its folders below ``folder``."""
    for name in ("storage/t1", "driver/t1"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    place = TrialLocation(pyarrow.fs.LocalFileSystem(), str(folder / "storage/t1"), folder / "driver/t1", "t1")
    return TrialInfo("t1", "train_t1", "experiment", config, place, None, dict(config), time=1000.0)


def calls_of(trial: TrialInfo, iterations: Iterable[int], returns: dict[int, float] | None = None) -> list[Call]:
    """Return the calls for a trial's results, each with a clip, a picture, a histogram and an episode.

    If a training iteration is not higher than the one before, the trial went back. ``returns`` are the episodes' by the
    number of the result, from 1; that number if it is missing.
    """
    calls: list[Call] = [("start", trial)]
    for number, iteration in enumerate(iterations, 1):
        at, step = 1000.0 + 10 * number, 100 * iteration
        result = {
            "score": float(number),
            "text": "words",
            "training_iteration": iteration,
            "config": dict(trial.config),
        }
        report = Report(step, iteration, result, time=at, row=10 * number)
        calls.append(("metrics", plain(report)))
        record = tm.EpisodeRecord(f"e{number}", (returns or {}).get(number, float(number)), 3)
        frames = np.random.default_rng(number).integers(0, 255, (3, 16, 16, 3), np.uint8)
        media = {
            "rollout": tm.Video(iter(frames), fps=5, episode=record),
            "map": tm.Image(frames[0]),
            "weights": tm.Histogram(np.arange(10.0 * number)),
            "episodes/data": episodes(f"of {number}", iteration),
        }
        for row, (key, medium) in enumerate(media.items(), 10 * number + 1):
            path = f"media/train/{key}/step_{step:09d}-{medium.id[:12]}{medium.suffix}"
            path = file_names(step, str(number)) if medium.kind == "episodes" else path
            entry = MediaEntry(medium, "train", key, path, step, iteration, time=at, row=row)
            calls.append(("media", on_disk(entry)))
    return calls


def plain(report: Report) -> Report:
    """Return a result as it comes back from a row of the outbox."""
    again = Report(report.step, report.training_iteration, time=report.time, row=report.row)
    again.__dict__.update(unpack(pack({"flat": report.flat, "config": report.config})))
    return again


def on_disk(entry: MediaEntry) -> MediaEntry:
    """Return an entry as it comes back from a row of the outbox."""
    kind = "episodes" if entry.is_episodes else "media"
    row, content = episodes_row("t1", [entry], {}) if entry.is_episodes else medium_row(entry)
    (again,) = read_media_row(kind, row.packed()).entries(content, entry.row)
    return again


def play(backend: Backend, calls: Iterable[Call], context: PlainContext | None = None) -> PlainContext:
    """Make the calls, as a reader does."""
    context = backend.context = context or PlainContext()
    trial = None
    for method, argument in calls:
        if method == "start":
            trial = argument
            backend.start(trial)
        elif method == "finish":
            backend.finish()
        else:
            assert trial is not None
            getattr(backend, method)(trial, argument)
    return context


def renewed(call: Call) -> Call:
    """Return a call as another process reads it from the disk."""
    method, argument = call
    if method == "media":
        return method, on_disk(argument)
    return method, plain(argument) if isinstance(argument, Report) else argument
