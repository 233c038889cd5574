"""The checkpoints of trials: found on the storage, chosen, and copied to this machine as far as they are needed."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import os
import pickle
import posixpath
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.fs

from tune_media.evaluation.request import ALL, BEST, LAST
from tune_media.experiment import evaluations
from tune_media.experiment.named import matches
from tune_media.experiment.results import numbers_of, result_step
from tune_media.experiment.trial_files import TrialFiles
from tune_media.storage.filesystem import folders_in, json_object, local_path, read_if_there
from tune_media.storage.passed_over import warn_passed_over
from tune_media.values.foreign import of_type
from tune_media.values.number import whole_number
from tune_media.values.problems import remedy
from tune_media.values.score import Scores
from tune_media.values.secrets import error_text

_FOLDER = re.compile(r"checkpoint_(\d+)")
_NUMBER = re.compile(r"\d+")
_UNFINISHED = re.compile(r"/\.[^/]*$|\.(tmp|part)$")
_STATE = "algorithm_state.pkl"
_NEW_STACK = "learner_group"
_PARTS = frozenset([_NEW_STACK, "policies"])  # folders of a checkpoint of RLlib's; the second of the old API stack
_WRITTEN_LATER = frozenset(["__pycache__", evaluations.EVALUATIONS])  # folders in one that is a policy
_NEEDED_OF_NEW_STACK = ("env_runner", "eval_env_runner", "learner_group/learner/rl_module")


@dataclass(frozen=True)
class StoredCheckpoint:
    """A checkpoint of a trial; ``step`` is that of the result with which it was saved."""

    filesystem: pyarrow.fs.FileSystem
    path: str
    number: int
    training_iteration: int = 0
    step: int = 0
    is_reported: bool = True  # whether that result has been written

    @property
    def name(self) -> str:
        """The name of its folder."""
        return posixpath.basename(self.path)

    @property
    def is_rllib(self) -> bool:
        """Whether it looks like one of RLlib's."""
        is_file = self.filesystem.get_file_info(self.path).is_file
        return not (is_file or _PARTS.isdisjoint(map(posixpath.basename, folders_in(self.filesystem, self.path))))

    @property
    def is_there(self) -> bool:
        """Whether it has not been deleted."""
        return bool(self.filesystem.get_file_info(self.path).type != pyarrow.fs.FileType.NotFound)

    @property
    def has_state(self) -> bool:
        """Whether it is one of Tune's or RLlib's, whose state may say its iteration."""
        return _FOLDER.fullmatch(self.name) is not None or self.is_rllib

    def digest(self) -> str | None:
        """Return a digest of the content that is needed to play: of a file, or of files in a folder. It reads them all.

        A copy has the same one. What Python and evaluations write into a folder is left out. None: there is no file.
        """
        return content_digest(self.filesystem, self.path, _needed(self.filesystem, self.path))

    def files(self) -> tuple[tuple[str, int, int | None], ...]:
        """Return path, size and time of each of its files: equal in two reads if no process is writing."""
        infos = [self.filesystem.get_file_info(self.path)]
        if not infos[0].is_file:
            selector = pyarrow.fs.FileSelector(self.path, recursive=True, allow_not_found=True)
            infos = self.filesystem.get_file_info(selector)
        return tuple(sorted((info.path, info.size, info.mtime_ns) for info in infos if info.is_file))

    @contextlib.contextmanager
    def on_this_machine(self) -> Iterator[Path]:
        """Yield its folder on this machine; from elsewhere, only what is needed to play is copied: no optimizer."""
        here = local_path(self.filesystem, self.path)
        if here is not None:
            yield Path(here)
            return
        with tempfile.TemporaryDirectory(prefix="tune_media-checkpoint-") as folder:
            target = Path(folder, self.name)
            _copy(self.filesystem, self.path, target)
            yield target


@dataclass(frozen=True)
class CheckpointSeries:
    """The checkpoints of one training: a trial's; the files of another program; or only one."""

    trial: TrialFiles
    pattern: str | None = None  # of the names of another program's files in the folder of ``trial``; None: Tune's
    only: StoredCheckpoint | None = None

    def there(self) -> list[StoredCheckpoint]:
        """Return those that are there, in their order; of Tune's without their iterations and steps."""
        if self.only is not None:
            return [self.only]
        trial, storage = self.trial, self.trial.filesystem
        if self.pattern is None:
            paths = [path for path in folders_in(storage, trial.path) if _FOLDER.fullmatch(posixpath.basename(path))]
            stored = [StoredCheckpoint(storage, path, number_of(path) or 0) for path in paths]
        else:
            steps = [(path, number_of(path)) for path in self._matching()]
            stored = [StoredCheckpoint(storage, path, step, step, step) for path, step in steps if step is not None]
        stored.sort(key=lambda checkpoint: (checkpoint.number, checkpoint.name))
        for one, other in itertools.pairwise(stored):
            if one.number == other.number:
                endings = [posixpath.splitext(checkpoint.name)[1] for checkpoint in (one, other)]
                what_to_do = remedy(
                    f"pass a pattern that only policies match, such as {posixpath.join(trial.path, '*' + endings[1])!r}"
                )
                if endings[0] == endings[1]:
                    what_to_do = "the last number in a name is its step: " + remedy("choose names in which it differs")
                raise ValueError(f"{one.name!r} and {other.name!r} in {trial.path!r} have one number: " + what_to_do)
        return stored

    def without_number(self) -> list[StoredCheckpoint]:
        """Return the files of another program in whose names no number tells the step."""
        paths = [path for path in self._matching() if number_of(path) is None]
        return [StoredCheckpoint(self.trial.filesystem, path, 0) for path in sorted(paths)]

    def _matching(self) -> list[str]:
        selector = pyarrow.fs.FileSelector(self.trial.path, allow_not_found=True)
        infos = self.trial.filesystem.get_file_info(selector)
        is_wanted = functools.partial(matches, pattern=self.pattern or "")
        return [info.path for info in infos if is_wanted(info.base_name) and not _UNFINISHED.search(info.path)]

    def chosen(self, which: str) -> list[StoredCheckpoint]:
        """Return those that ``which`` names, see ``WHICH``."""
        stored = self.there()
        if which == LAST or self.only is not None:
            stored = stored[-1:]
        elif which not in (BEST, ALL):
            stored = [checkpoint for checkpoint in stored if checkpoint.number == int(which)]
        return self.placed(stored, which)

    def placed(self, stored: Sequence[StoredCheckpoint], which: str = ALL) -> list[StoredCheckpoint]:
        """Return checkpoints with their iterations and steps; the best of them if ``which`` says so."""
        if self.only is not None:
            return [_placed(self.only, {}) if self.only.has_state else self.only]
        if not stored or self.pattern is not None:
            return list(stored[-1:] if which == BEST else stored)
        all_results = map(json_object, self.trial.result_lines())
        results = {whole_number(result.get("training_iteration")): result for result in all_results}
        placed = [_placed(checkpoint, results) for checkpoint in stored]
        return _best(placed, results) if which == BEST else placed


def number_of(path: str) -> int | None:
    """Return the last number in the name of a checkpoint, without its ending.

    >>> number_of("models/rl_model_10000_steps.zip"), number_of("PPO_0/checkpoint_000003"), number_of("best.zip")
    (10000, 3, None)
    """
    numbers = _NUMBER.findall(posixpath.splitext(posixpath.basename(path))[0])
    return int(numbers[-1]) if numbers else None


def checkpoint_at(filesystem: pyarrow.fs.FileSystem, path: str) -> StoredCheckpoint | None:
    """Return the checkpoint in a folder, wherever that is; None if it is none of RLlib's, and has no such name."""
    path = path.rstrip("/")
    name = _FOLDER.fullmatch(posixpath.basename(path))
    checkpoint = StoredCheckpoint(filesystem, path, int(name.group(1)) if name else 0)
    return checkpoint if checkpoint.has_state else None


def content_digest(filesystem: pyarrow.fs.FileSystem, path: str, parts: Sequence[str] = ("",)) -> str | None:
    """Return a digest of a file, or of all files in some folders of a folder, with their names; None: there is none."""
    infos = [filesystem.get_file_info(path)]
    if not infos[0].is_file:
        folders = [posixpath.join(path, part).rstrip("/") for part in parts]
        selectors = [pyarrow.fs.FileSelector(folder, allow_not_found=True, recursive=True) for folder in folders]
        infos = [info for selector in selectors for info in filesystem.get_file_info(selector) if info.is_file]
        infos = [info for info in infos if _WRITTEN_LATER.isdisjoint(info.path.removeprefix(path).split("/"))]
    whole = hashlib.sha256()
    for info in sorted(infos, key=lambda info: str(info.path)):
        with filesystem.open_input_stream(info.path) as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        whole.update(f"{info.path.removeprefix(path) if info.path != path else ''}\0{digest}\n".encode())
    return whole.hexdigest()[:16] if infos else None


def _needed(filesystem: pyarrow.fs.FileSystem, path: str) -> tuple[str, ...]:
    """Return the folders of a checkpoint that are needed to play."""
    is_new = filesystem.get_file_info(posixpath.join(path, _NEW_STACK)).type == pyarrow.fs.FileType.Directory
    return _NEEDED_OF_NEW_STACK if is_new else ("",)


def _placed(checkpoint: StoredCheckpoint, results: dict[int, dict[str, Any]]) -> StoredCheckpoint:
    """Return a checkpoint with its iteration; of another library's trainable, or a broken one, it is guessed."""
    path = posixpath.join(checkpoint.path, _STATE)
    here, at = local_path(checkpoint.filesystem, path), (checkpoint.filesystem, path)
    if here is not None:  # it may be a link, as in a model hub's cache: whoever wrote it runs code here anyway
        at = pyarrow.fs.LocalFileSystem(), os.path.realpath(here)
    content = read_if_there(*at)
    state: Any = {}
    try:
        state = {} if content is None else pickle.loads(content)
        why = "" if isinstance(state, dict) else f"it holds {of_type(state)} instead of a dict"
    except Exception as error:  # of one checkpoint: playing it shows whether it can be played
        why = error_text(error)
    if why:
        warn_passed_over(path, f"{why}; the iteration of the checkpoint is guessed from its number")
        state = {}
    iteration = whole_number(state.get("training_iteration")) or checkpoint.number + 1
    step = result_step(results.get(iteration, {})) or iteration
    return replace(checkpoint, training_iteration=iteration, step=step, is_reported=iteration in results)


def _best(checkpoints: Sequence[StoredCheckpoint], results: dict[int, dict[str, Any]]) -> list[StoredCheckpoint]:
    """Return the checkpoint whose result has the highest score; the last one if no result has a score."""
    metrics = [numbers_of(results.get(checkpoint.training_iteration, {})) for checkpoint in checkpoints]
    values = Scores.of(metrics, [None] * len(metrics)).values
    ranks = [float("-inf") if value is None else value for value in values]
    return [checkpoints[max(range(len(ranks)), key=lambda number: (ranks[number], number))]]


def _copy(filesystem: pyarrow.fs.FileSystem, path: str, target: Path) -> None:
    local = pyarrow.fs.LocalFileSystem()
    if filesystem.get_file_info(path).is_file:  # of another library
        pyarrow.fs.copy_files(path, str(target), source_filesystem=filesystem, destination_filesystem=local)
        return
    for part in _needed(filesystem, path):
        source = posixpath.join(path, part).rstrip("/")
        if filesystem.get_file_info(source).type == pyarrow.fs.FileType.Directory:
            folder = target / part
            folder.mkdir(parents=True, exist_ok=True)
            pyarrow.fs.copy_files(
                source, str(folder), source_filesystem=filesystem, destination_filesystem=local, use_threads=True
            )
