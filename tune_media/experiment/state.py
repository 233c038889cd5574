"""The trials of an experiment as Tune's snapshots have them."""

from __future__ import annotations

import contextlib
import math
import posixpath
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow.fs

from tune_media.experiment.params import nested_choice
from tune_media.storage.filesystem import check_is_file, is_listed_file, is_local, json_file, json_object
from tune_media.storage.passed_over import warn_passed_over
from tune_media.values.strict_json import parse_json

_PREFIX, _SUFFIX = "experiment_state-", ".json"
_PERTURBED = "@perturbed["  # in the tag of a trial that has copied another, as PBT names it
_HEAD, _BETWEEN = b'{"trial_data": [["', b'"], ["'  # of a snapshot; inside of texts, quotes have a backslash
_BLOCK = 2**22  # bytes that are read at a time
_PAUSE_REMOTE = 10.0  # seconds: so long the files on a remote storage are not listed again


@dataclass(frozen=True)
class TrialState:
    """A trial as Tune's snapshots have it."""

    trial_id: str
    name: str  # for example ``PPO_CartPole-v1_49541_00000``
    folder: str  # the name of its folder; empty if the snapshot does not say
    status: str  # ``PENDING``, ``RUNNING``, ``PAUSED``, ``TERMINATED`` or ``ERROR``
    searched: Mapping[str, Any]  # what Tune chose for it, see ``nested_choice``
    iterations: float | None = None  # at which it ends by the dict ``stop=`` of Tune's RunConfig
    has_copied: bool = False  # it goes on from another trial's checkpoint: population based training (PBT)


@dataclass(frozen=True)
class ExperimentState:
    """All snapshots of an experiment: each session of Tune's (a start, a restore) has one, which it replaces."""

    # by id, each as the last snapshot that knows it has it
    trials: Mapping[str, TrialState] = field(default_factory=dict)
    written_at: float = 0.0  # when the last snapshot was written, Unix time in seconds; 0: there is none

    def find(self, trial_ids: Iterable[str], path: str) -> TrialState | None:
        """Return the trial that has one of some ids, or else the one in a folder, or None."""
        by_id = next((self.trials[id] for id in trial_ids if id in self.trials), None)
        return by_id or self._by_folder.get(posixpath.basename(path.rstrip("/")))

    @cached_property
    def _by_folder(self) -> dict[str, TrialState]:
        return {trial.folder: trial for trial in self.trials.values() if trial.folder}


class Listings:
    """Lists folders; a remote folder's listing is kept for ten seconds, so that one look lists each folder once."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, str], tuple[float, pyarrow.fs.FileSystem, list[pyarrow.fs.FileInfo]]] = {}

    def of(self, filesystem: pyarrow.fs.FileSystem, folder: str) -> list[pyarrow.fs.FileInfo]:
        """Return the files and folders directly inside a folder, or nothing without one. Raises OSError."""
        place, now = (id(filesystem), folder), time.monotonic()
        time_of_look, held, infos = self._seen.get(place, (float("-inf"), None, []))
        if held is filesystem and now - time_of_look < _PAUSE_REMOTE:
            return infos
        infos = list(filesystem.get_file_info(pyarrow.fs.FileSelector(folder, allow_not_found=True)))
        if not is_local(filesystem):
            self._seen[place] = now, filesystem, infos
        return infos

    def forget(self) -> None:
        """List folders again from now on."""
        self._seen.clear()


class Snapshots:
    """Reads Tune's snapshots of experiments, each again only if it has changed."""

    def __init__(self, listings: Listings | None = None) -> None:
        self._listings = listings or Listings()
        self._read: dict[str, tuple[Any, list[TrialState]]] = {}  # of each file: its version, its trials

    def of(self, filesystem: pyarrow.fs.FileSystem, experiment: str) -> ExperimentState:
        """Return the trials of all snapshots in an experiment's folder. Raises OSError."""
        trials: dict[str, TrialState] = {}
        written_at = 0.0
        for info in _files(filesystem, self._listings.of(filesystem, experiment)):
            version = (info.size, info.mtime_ns)
            if self._read.get(info.path, (None,))[0] != version:
                self._read[info.path] = version, _trials(filesystem, info.path)
            trials |= {trial.trial_id: trial for trial in self._read[info.path][1]}
            written_at = max(written_at, (info.mtime_ns or 0) / 1e9)
        return ExperimentState(trials, written_at)

    def known(self, filesystem: pyarrow.fs.FileSystem, experiment: str) -> ExperimentState:
        """Return the same, or nothing if the filesystem does not answer."""
        with contextlib.suppress(OSError):
            return self.of(filesystem, experiment)
        return ExperimentState()


def _files(filesystem: pyarrow.fs.FileSystem, infos: Iterable[pyarrow.fs.FileInfo]) -> list[pyarrow.fs.FileInfo]:
    """Return the files of snapshots among those of an experiment's folder, the oldest first."""
    files = []
    for info in infos:
        with contextlib.suppress(UnicodeDecodeError):  # a name that is no text is none of Tune's
            name = str(info.base_name)
            is_ours = name.startswith(_PREFIX) and name.endswith(_SUFFIX)
            if is_ours and is_listed_file(filesystem, info):
                files.append((name, info))
    return [info for _, info in sorted(files, key=lambda item: item[0])]


def _trials(filesystem: pyarrow.fs.FileSystem, path: str) -> list[TrialState]:
    try:
        read = [_trial(row) for row in _texts_of_tune(filesystem, path)]
    except (OSError, ValueError, TypeError):  # it is damaged, or laid out in another way
        rows = json_file(filesystem, path).get("trial_data")
        read = [_trial(row) for row in (rows if isinstance(rows, list) else [])]
    trials = [trial for trial in read if trial is not None]
    if len(trials) < len(read):
        warn_passed_over(path, f"{len(read) - len(trials)} of its {len(read)} trials, which have no trial_id")
    return trials


def _texts_of_tune(filesystem: pyarrow.fs.FileSystem, path: str) -> Iterator[str]:
    """Yield the text of each trial in a snapshot as Tune lays it out, a block of the file in memory at a time.

    Each trial has a second text, with its results, which may be the larger one. Raises OSError, and ValueError or
    TypeError if the layout is another one.
    """
    check_is_file(filesystem, path)
    with filesystem.open_input_stream(path) as stream:
        block = bytes(stream.read(_BLOCK))
        if not block.startswith(_HEAD):
            raise ValueError(path)
        rest = b""
        while block:
            *rows, rest = (rest + block).split(_BETWEEN)
            for row in rows:
                first, has_second, _ = row.removeprefix(_HEAD).partition(b'", "')
                if not has_second:
                    raise ValueError(path)
                yield str(parse_json(b'"' + first + b'"'))
            block = bytes(stream.read(_BLOCK))
    ((text, _),) = parse_json(_HEAD + rest.removeprefix(_HEAD))["trial_data"]  # the file is whole
    yield text


def _trial(row: Any) -> TrialState | None:
    """Return a trial of a snapshot, which has it as JSON inside the JSON, or None if it is broken."""
    first = row[0] if isinstance(row, list) and row else row
    values = json_object(first.encode("utf-8", "surrogatepass")) if isinstance(first, str) else {}
    id = values.get("trial_id")
    if not isinstance(id, str):
        return None
    folder, custom = str(values.get("relative_logdir") or ""), values.get("custom_trial_name")
    custom = custom if isinstance(custom, str) else ""
    chosen = nested_choice(values.get("evaluated_params"), values.get("_Trial__unresolved_config"))
    stop = values.get("stopping_criterion")
    last = stop.get("training_iteration") if isinstance(stop, dict) else None
    return TrialState(
        trial_id=id,
        name=custom or trial_name(folder, id) or f"{values.get('trainable_name')}_{id}",
        folder=folder,
        status=str(values.get("status") or ""),
        searched={name: _plain(value) for name, value in chosen.items()},
        iterations=last if isinstance(last, int | float) and 0 < last < math.inf else None,
        has_copied=_PERTURBED in str(values.get("experiment_tag")),
    )


def trial_name(folder: str, trial_id: str) -> str:
    """Return Tune's name of a trial, which its folder's name begins with; empty if the folder has another name."""
    before, id, _ = folder.partition(trial_id) if trial_id else (folder, "", "")
    return f"{before}{id}" if id else ""


def _plain(value: Any) -> Any:
    """Return a hyperparameter; a value that Tune could not write as JSON is named by that."""
    if isinstance(value, dict):
        is_pickled = value.get("_type") == "CLOUDPICKLE_FALLBACK"
        return "<object>" if is_pickled else {name: _plain(inner) for name, inner in value.items()}
    return value
