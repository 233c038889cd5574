"""The checkpoints of trials: found on the storage, chosen, and copied to this machine as far as they are needed."""

from __future__ import annotations

import contextlib
import hashlib
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
from tune_media.experiment.results import finite_metrics, json_object, result_step, results_of_trial
from tune_media.experiment.trial_files import TrialFiles
from tune_media.storage.filesystem import folders_in, local_path, read_if_there
from tune_media.storage.passed_over import warn_passed_over
from tune_media.values.foreign import of_type
from tune_media.values.number import whole_number
from tune_media.values.score import known_returns
from tune_media.values.secrets import error_text

_FOLDER = re.compile(r"checkpoint_(\d+)")
_STATE = "algorithm_state.pkl"
_NEW_STACK = "learner_group"
_PARTS = frozenset([_NEW_STACK, "policies"])  # folders of a checkpoint of RLlib's; the second of the old API stack
_NEEDED_OF_NEW_STACK = ("env_runner", "eval_env_runner", "learner_group/learner/rl_module")


@dataclass(frozen=True)
class StoredCheckpoint:
    """A checkpoint of a trial; ``step`` is that of the result with which it was saved."""

    filesystem: pyarrow.fs.FileSystem
    path: str
    number: int
    training_iteration: int = 0
    step: int = 0

    @property
    def name(self) -> str:
        """The name of its folder."""
        return posixpath.basename(self.path)

    @property
    def is_rllib(self) -> bool:
        """Whether it looks like one of RLlib's."""
        is_file = self.filesystem.get_file_info(self.path).is_file
        return not (is_file or _PARTS.isdisjoint(map(posixpath.basename, folders_in(self.filesystem, self.path))))

    def digest(self) -> str:
        """Return a digest of the content that is needed to play; a copy of it has the same one."""
        return content_digest(self.filesystem, self.path, _needed(self.filesystem, self.path))

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


def checkpoints_of(trial: TrialFiles, which: str) -> list[StoredCheckpoint]:
    """Return the checkpoints of a trial that ``which`` names, see ``WHICH``, in the order in which they were saved."""
    stored = []
    for path in folders_in(trial.filesystem, trial.path):
        name = _FOLDER.fullmatch(posixpath.basename(path))
        if name is not None:
            stored.append(StoredCheckpoint(trial.filesystem, path, int(name.group(1))))
    stored.sort(key=lambda checkpoint: checkpoint.number)
    if which == LAST:
        stored = stored[-1:]
    elif which not in (BEST, ALL):
        stored = [checkpoint for checkpoint in stored if checkpoint.number == int(which)]
    if not stored:
        return []
    all_results = map(json_object, results_of_trial(trial.filesystem, trial.path))
    results = {whole_number(result.get("training_iteration")): result for result in all_results}
    placed = [_placed(checkpoint, results) for checkpoint in stored]
    return _best(placed, results) if which == BEST else placed


def checkpoint_at(filesystem: pyarrow.fs.FileSystem, path: str) -> StoredCheckpoint | None:
    """Return the checkpoint in a folder, wherever that is; None if it is none of RLlib's, and has no such name."""
    path = path.rstrip("/")
    name = _FOLDER.fullmatch(posixpath.basename(path))
    checkpoint = StoredCheckpoint(filesystem, path, int(name.group(1)) if name else 0)
    return _placed(checkpoint, {}) if name or checkpoint.is_rllib else None


def content_digest(filesystem: pyarrow.fs.FileSystem, path: str, parts: Sequence[str] = ("",)) -> str:
    """Return a digest of a file, or of all files in some folders of a folder, and of their names in it."""
    infos = [filesystem.get_file_info(path)]
    if not infos[0].is_file:
        folders = [posixpath.join(path, part).rstrip("/") for part in parts]
        selectors = [pyarrow.fs.FileSelector(folder, allow_not_found=True, recursive=True) for folder in folders]
        infos = [info for selector in selectors for info in filesystem.get_file_info(selector) if info.is_file]
    whole = hashlib.sha256()
    for info in sorted(infos, key=lambda info: str(info.path)):
        with filesystem.open_input_stream(info.path) as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        whole.update(f"{info.path.removeprefix(path) if info.path != path else ''}\0{digest}\n".encode())
    return whole.hexdigest()[:16]


def _needed(filesystem: pyarrow.fs.FileSystem, path: str) -> tuple[str, ...]:
    """Return the folders of a checkpoint that are needed to play."""
    is_new = filesystem.get_file_info(posixpath.join(path, _NEW_STACK)).type == pyarrow.fs.FileType.Directory
    return _NEEDED_OF_NEW_STACK if is_new else ("",)


def _placed(checkpoint: StoredCheckpoint, results: dict[int, dict[str, Any]]) -> StoredCheckpoint:
    """Return a checkpoint with its iteration; of another library's trainable, or a broken one, it is guessed."""
    path = posixpath.join(checkpoint.path, _STATE)
    content = read_if_there(checkpoint.filesystem, path)
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
    return replace(checkpoint, training_iteration=iteration, step=step)


def _best(checkpoints: Sequence[StoredCheckpoint], results: dict[int, dict[str, Any]]) -> list[StoredCheckpoint]:
    """Return the checkpoint whose result has the highest score; the last one if no result has a score."""
    metrics = [finite_metrics(results.get(checkpoint.training_iteration, {})) for checkpoint in checkpoints]
    names = known_returns(name for numbers in metrics for name in numbers)
    if not names:
        return list(checkpoints[-1:])
    scores = [numbers.get(names[0], float("-inf")) for numbers in metrics]
    return [checkpoints[max(range(len(scores)), key=lambda number: (scores[number], number))]]


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
