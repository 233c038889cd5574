"""Logs a finished trial with a backend, from its files on the storage: the same calls as while it ran."""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tune_media.callbacks.backend import ROW_KINDS, STATUS_OF, Backend, Report, Status, TrialInfo, until_it_works
from tune_media.experiment.params import searched_params
from tune_media.experiment.results import result_step, result_time, without_lists
from tune_media.experiment.state import trial_name
from tune_media.experiment.stored_media import entry_of_line, iteration_of
from tune_media.experiment.trial_files import Line, TrialFiles
from tune_media.storage.filesystem import json_object
from tune_media.storage.location import TrialLocation
from tune_media.storage.trial_folder import plain_config
from tune_media.values.foreign import shown, without_address
from tune_media.values.number import whole_number
from tune_media.values.secrets import error_text


class AlreadyThereError(Exception):
    """The tracker has a trial already, and cannot take it twice without doubling it."""


@dataclass
class ExportSummary:
    """The numbers of an export, and its problems.

    Attributes:
        media: How many media: clips, pictures, histograms and files; the data of episodes are none.
        left_alone: Trials that the tracker has already, or that were abandoned: why, by their names.
        problems: Values that could not be logged, each in a sentence.
    """

    trials: int = 0
    results: int = 0
    media: int = 0
    left_alone: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class FinishedTrial:
    """A trial that is over, read from its files and Tune's snapshots."""

    files: TrialFiles
    results: Sequence[bytes] = field(repr=False)  # the lines of those that count
    info: TrialInfo
    status: Status
    chosen: Mapping[str, Any] = field(default_factory=dict, repr=False)  # see ``nested_choice``

    @classmethod
    def of(cls, files: TrialFiles) -> FinishedTrial:
        """Return a trial of a catalog, as it began and ended. Raises OSError."""
        results, folder = files.result_lines(), posixpath.basename(files.path.rstrip("/"))
        id = files.id_by_path if files.is_loop else files.trial_id  # of loops, too, many folders have one name
        folder = folder if files.run is None else files.name  # its path: many folders of other tools have one name
        state = None if files.tune_view is None else files.tune_view.state(files)
        first, last = (json_object(results[0]), json_object(results[-1])) if results else ({}, {})
        chosen = state.searched if state else {}
        config = first.get("config")  # PBT may have written another one since
        config = plain_config(config if isinstance(config, dict) and config else files.read_config(), chosen)
        info = TrialInfo(
            id,
            state.name if state else trial_name(folder, id) or folder,
            posixpath.basename(files.experiment),
            config,
            TrialLocation(files.filesystem, files.path, Path(files.path), id),
            searched=searched_params(config, chosen) if chosen else files.params,
            time=next(filter(None, map(result_time, map(json_object, results))), files.newest),
        )
        ended = _ended(files, last)
        return cls(files, results, info, STATUS_OF.get(state.status, ended) if state else ended, chosen)


def _ended(files: TrialFiles, last: Mapping[str, Any]) -> Status:
    """Return how a trial ended that no snapshot of Tune's has; loops and runs of other tools do not say it."""
    if files.has_errors:
        return "failed"
    return "finished" if last.get("done") is True or files.is_loop or files.run is not None else "interrupted"


def log_trial(backend: Backend, trial: FinishedTrial, exported: ExportSummary, patience: float = 60.0) -> None:
    """Log a finished trial with a backend: its results that count, its media, its end.

    Results and media that were rolled back are left out. Times, steps and names are those of the files, so that a
    backend whose calls are repeatable may be given the same trial again. A result or medium that cannot be read, or
    that the tracker refuses, is skipped alone. While the tracker is away, a call is repeated for ``patience`` seconds.

    Raises AlreadyThereError if the tracker has the trial; any other error if the trial cannot be started or ended, or
    the tracker is away.
    """
    for kind, label, *arguments in calls_of(trial, exported.problems):
        call = functools.partial(ROW_KINDS[kind].call, backend, trial.info, *arguments)
        try:
            until_it_works(call, backend.is_away, patience)
        except Exception as error:
            if kind in ("start", "end") or backend.is_away(error):
                raise
            exported.problems.append(f"{trial.info.name}, {label}: {error_text(error)}")
        else:
            exported.results += kind == "result"
            exported.media += kind == "media" and not arguments[0].is_episodes
    exported.trials += 1


def calls_of(trial: FinishedTrial, problems: list[str]) -> Iterator[tuple[Any, ...]]:
    """Yield the calls for a trial's results and media that count, as a backend got them while it ran.

    A call is the kind of row that asks for it, a name for the logged value, and the arguments after the trial.
    ``problems`` gets a sentence for each medium that cannot be read, and for results that are missing.
    """
    files, name = trial.files, trial.info.name
    lines = [line for line in (*files.lines, *files.report_lines) if not line.get("rolled_back")]
    lines.sort(key=iteration_of)
    row, iteration, config, reported = 0, 0, "", trial.info.time

    def media(some: Sequence[Line]) -> Iterator[tuple[Any, ...]]:
        for number, line in enumerate(some, row + 1):
            try:
                entry = entry_of_line(line, files.read_media, reported, number)
            except Exception as error:  # of one file: it is gone, or broken
                problems.append(f"{name}, {line['path']}: {error_text(error)}")
                continue
            yield "media", entry.path, entry

    yield "start", "its start"
    for result in map(json_object, trial.results):
        row, reported = row + 1, result_time(result) or trial.info.time
        iteration = whole_number(result.get("training_iteration"))
        before, config = config, without_address(shown(result.get("config")))
        report = Report(
            result_step(result),
            iteration,
            {**without_lists(result), "config": plain_config(result.get("config") or {}, trial.chosen)},
            time=reported,
            changed=functools.partial(bool, before and config != before),
            row=row,
        )
        yield "result", f"iteration {iteration}", report
        count = sum(iteration_of(line) <= iteration for line in lines)
        yield from media(lines[:count])
        row, lines = row + count, lines[count:]
    if lines and files.has_results:
        reached = iteration_of(lines[-1])
        problems.append(
            f"trial {trial.info.trial_id} had {reached} results, and its result.json ends at {iteration}: the driver "
            "may have been killed while Tune copied it"
        )
    yield from media(lines)
    yield "end", "its end", trial.status
