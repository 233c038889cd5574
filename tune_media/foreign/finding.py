"""Finds runs below a folder: a folder with a tool's mark or with clips is one, a folder that is its part is none.

A mark is a file that tools write into a run's folder. Of two runs inside a folder, each is one, and the folder around
them is none. Folders of Tune, and of recorders of ours, are only named: who knows them reads them.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow
import pyarrow.fs

from tune_media.foreign.clip_paths import is_recorders_name
from tune_media.foreign.configs import SETTINGS
from tune_media.foreign.event_files import is_event_file, is_of_writer_around
from tune_media.foreign.run_files import RunFiles
from tune_media.storage.clip_names import is_clip_name, is_part
from tune_media.storage.filesystem import is_inside, is_local, local_path
from tune_media.storage.index_lines import INDEX_PATH
from tune_media.storage.location import LOCATION_FILE
from tune_media.storage.trial_folder import PARAMS
from tune_media.values.checks import first_names
from tune_media.values.number import counted
from tune_media.values.safe_names import safe_name

DEEPEST, MOST_FOLDERS = 6, 20_000
"""How many levels below the given folder a run may lie, parts not counted, and how many folders are looked at."""

_MARK = re.compile(
    r"(?:.*/)?(?:[^/]*tfevents[^/]*|(?:[^/]+\.)?monitor\.csv|progress\.(?:csv|txt)|args\.json|eval_info\.json|evaluations\.npz"
    r"|scores\.jsonl|metrics\.jsonl|hparams\.yaml|scalars/(?:.*/)?[^/]+\.csv|params/agent\.yaml|\.hydra/[^/]+"
    r"|files/wandb-metadata\.json|run-[^/]+\.wandb)"
)
_MLFLOWS = re.compile(r"(?:metrics|params|tags)/")  # beside the meta.yaml of a run, not of its experiment
_LOG = re.compile(r"(?:\.?summary|summaries|(?:logs?/)?(?:tb|tensorboard)(?:_logs?)?)(?:/\d)?")
"""The folder of a run's event files, beside its clips and settings: rl_games, Sample Factory, robomimic."""
_LEROBOTS = re.compile(r"(?:.*/)?videos_step_\d{1,15}/")
_TABLE = re.compile(r"[^/]+\.(?:csv|jsonl|npz)")
_INNER = frozenset((".hydra", "metrics", "params", "scalars", "tags"))  # parts of a run that hold no clips
_EXPERIMENT = re.compile(r"tuner\.pkl|\.tune_media_log|experiment_state-(?P<run>.+)\.json")
_TRIAL = frozenset((LOCATION_FILE, "params.pkl", "result.json"))
_OURS = frozenset(("evaluations", "gates", "episode_data", "media_recipes"))
_SKIPPED = re.compile(
    r"\.(?:git|hg|svn|tune_media.*|cache|local|config|npm|conda|venv|tox|nox|idea|vscode.*|ipynb_checkpoints|.+_cache)"
    r"|checkpoint_\d+|__pycache__|node_modules|site-packages"
)
_EXPORT = re.compile(r"offline-run-\d{8}_\d{6}-(?P<run>.+)-[0-9a-f]{12}")
_MOST_NAMED = 4


@dataclass(frozen=True)
class RunFolder:
    """A run of another tool; ``name`` is its path below the folder in which it was found, empty if it is that one."""

    name: str
    files: RunFiles
    is_sure: bool  # it has a mark, or a known recorder named a clip; else it may be a folder of anything

    @property
    def path(self) -> str:
        """Its folder on the filesystem."""
        return self.files.run_folder


@dataclass
class Found:
    """The runs below a folder, and the folders that others read.

    Attributes:
        experiments: Folders that Tune has begun an experiment in.
        trials: Folders that Tune or a recorder of ours has written a trial to, and known ones.
        inside: Folders directly in an experiment, which may be trials.
        refused: Why a folder cannot be listed, by path.
        is_away: Whether the filesystem answers for no folder of a level.
        passed_over: What was seen and is not read: a path, and why.
    """

    runs: list[RunFolder] = field(default_factory=list)
    experiments: list[str] = field(default_factory=list)
    trials: list[str] = field(default_factory=list)
    inside: list[str] = field(default_factory=list)
    refused: dict[str, OSError] = field(default_factory=dict)
    is_away: bool = False
    passed_over: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class _Folder:
    """A folder that was listed: its files, the folders in it, and where it lies in the run that it may belong to."""

    path: str
    depth: int = 0  # without parts
    part: str = ""  # its path in the folder that it is a part of; empty if it is none
    files: dict[str, pyarrow.fs.FileInfo] = field(default_factory=dict)
    inner: list[_Folder] = field(default_factory=list)
    is_ours: bool = False


@dataclass
class _Below:
    """What is below a folder and belongs to no run yet: files by their path in it; and the runs, and whose they are."""

    own: dict[str, pyarrow.fs.FileInfo] = field(default_factory=dict)  # of the folder and its parts
    loose: dict[str, pyarrow.fs.FileInfo] = field(default_factory=dict)  # of folders that are neither runs nor parts
    runs: list[RunFolder] = field(default_factory=list)
    in_parts: list[RunFolder] = field(default_factory=list)  # those of the runs that lie in a part
    has_ours: bool = False


def find_runs(filesystem: pyarrow.fs.FileSystem, root: str, known: Collection[str] = ()) -> Found:
    """Return all runs below a folder, which may be one itself; ``known`` trials of ours are not listed again."""
    search = _Search(filesystem, root, known)
    search.list_all()
    if links := search.links:
        where = f"{counted(len(links), 'link')} to other folders, which {_are(links)} not followed"
        search.found.passed_over.append((links[0], f"{where}; pass the folder itself"))
    search.found.runs = search.below(search.top).runs
    return search.found


class _Search:
    """Lists folders level by level, several at a time if they are far away, and tells runs from their parts."""

    def __init__(self, filesystem: pyarrow.fs.FileSystem, root: str, known: Collection[str]) -> None:
        self._filesystem, self._known = filesystem, frozenset(known)
        self._is_local = is_local(filesystem)
        self.top = _Folder(root.rstrip("/") or root)
        self.found = Found()
        self.links: list[str] = []

    def list_all(self) -> None:
        """List the folders below the top, as deep and as many as is allowed."""
        level, left = [self.top], MOST_FOLDERS
        with contextlib.ExitStack() as stack:
            workers = None if self._is_local else ThreadPoolExecutor(pyarrow.io_thread_count(), "tune_media-find")
            pool = stack.enter_context(workers) if workers is not None else None
            while level and left:
                if len(level) > left:
                    self._say(level[left].path, f"more than {MOST_FOLDERS:,} folders are below; pass one of them")
                    level = level[:left]
                left -= len(level)
                listed = list((map if pool is None else pool.map)(self._listed, level))
                refused = {f.path: i for f, i in zip(level, listed, strict=True) if isinstance(i, OSError)}
                self.found.refused |= refused
                self.found.is_away = self.found.is_away or len(refused) == len(level)
                for folder, infos in zip(level, listed, strict=True):
                    self._take(folder, [] if isinstance(infos, OSError) else infos)
                level = [inner for folder in level if not folder.is_ours for inner in folder.inner]

    def _listed(self, folder: _Folder) -> list[pyarrow.fs.FileInfo] | OSError:
        try:
            selector = pyarrow.fs.FileSelector(folder.path, allow_not_found=True)
            return list(self._filesystem.get_file_info(selector))
        except OSError as error:
            return error

    def _take(self, folder: _Folder, infos: Iterable[pyarrow.fs.FileInfo]) -> None:
        """Note the files of a folder, and which folders in it are to be listed."""
        inner: dict[str, str] = {}
        for info in infos:
            with contextlib.suppress(UnicodeDecodeError):  # a name that is no text is no tool's
                name = str(info.base_name)
                if info.is_file:
                    folder.files[name] = info
                elif info.type == pyarrow.fs.FileType.Directory:
                    inner[name] = info.path
        marks = map(_EXPERIMENT.fullmatch, (*folder.files, *inner))
        if any(mark and mark["run"] not in inner for mark in marks):  # rsl_rl's runs have a snapshot each, beside them
            self.found.experiments.append(folder.path)
            self.found.inside += [path for name, path in sorted(inner.items()) if not _is_skipped(name)]
            folder.is_ours = True
        elif not _TRIAL.isdisjoint(folder.files):
            self._note_trial(folder, inner)
        elif not _is_media_of_ours(folder):
            self._add_inner(folder, inner)

    def _note_trial(self, folder: _Folder, inner: Mapping[str, str]) -> None:
        folder.is_ours = True
        self.found.trials.append(folder.path)
        if folder is self.top:  # it may be a trial, and have others inside
            self.found.inside += sorted(inner.values())

    def _add_inner(self, folder: _Folder, inner: Mapping[str, str]) -> None:
        for name, path in sorted(inner.items()):
            part = posixpath.join(folder.part, name)
            part = part if is_part(part) or name in _INNER or _is_step_of_trackio(path) else ""
            depth = folder.depth + (not part)
            if path in self._known:
                self.found.trials.append(path)
                folder.inner.append(_Folder(path, is_ours=True))
            elif not _is_skipped(name) and not _is_export(path) and depth <= DEEPEST and not self._is_link(path):
                folder.inner.append(_Folder(path, depth, part))

    def _is_link(self, path: str) -> bool:
        """Return whether a folder is a link, and count it if it leads to somewhere else."""
        here = local_path(self._filesystem, path) if self._is_local else None
        if here is None or not Path(here).is_symlink():
            return False
        target, top = os.path.realpath(here), os.path.realpath(local_path(self._filesystem, self.top.path) or "/")
        if not is_inside(target, top) and not is_inside(top, target):
            self.links.append(path)
        return True

    def below(self, folder: _Folder) -> _Below:
        """Return what is below a folder, and is the folder itself, if it is a run."""
        below = _Below(dict(folder.files), has_ours=folder.is_ours)
        for inner in () if folder.is_ours else folder.inner:
            self._join(below, inner, self.below(inner))
        if INDEX_PATH in below.own:
            self._note_trial(folder, {posixpath.basename(inner.path): inner.path for inner in folder.inner})
            return _Below(has_ours=True)
        return below if folder.part or folder.is_ours else self._decided(folder, below)

    def _join(self, below: _Below, inner: _Folder, found: _Below) -> None:
        name = posixpath.basename(inner.path)
        own = {posixpath.join(name, path): info for path, info in found.own.items()}
        (below.own if inner.part else below.loose).update(own)
        below.loose.update({posixpath.join(name, path): info for path, info in found.loose.items()})
        below.runs += found.runs
        below.in_parts += found.runs if inner.part else []
        below.has_ours = below.has_ours or found.has_ours

    def _decided(self, folder: _Folder, below: _Below) -> _Below:
        """Return the folder as the run that it is, or else the runs inside."""
        clips = [path for path in below.own if is_clip_name(path)]
        is_marked = _is_marked(below.own) or _has_a_log(folder, below, clips)
        if is_marked:
            self._take_in(folder, below)
        elif below.in_parts:
            _give_clips(folder, below)
        if below.runs or below.has_ours:
            self._pass_over(folder, below, clips)
            return _Below(runs=below.runs, has_ours=below.has_ours)
        if not is_marked and not clips:
            if PARAMS in folder.files:  # a trial that has recorded nothing
                self.found.trials.append(folder.path)
            return _Below(has_ours=True) if PARAMS in folder.files else below
        name = "" if folder is self.top else posixpath.relpath(folder.path, self.top.path)
        files = RunFiles(self._filesystem, folder.path, below.loose | below.own)
        is_sure = is_marked or any(map(_is_recorded, clips)) or _has_steps_of_trackio(folder)
        return _Below(runs=[RunFolder(name, files, is_sure)])

    def _take_in(self, folder: _Folder, below: _Below) -> None:
        """Add to a run's files those of clips by task in a part, of its writer's folders, or of the only run inside."""
        for run in list(below.in_parts):
            if not _is_marked(run.files.infos):
                below.runs.remove(run)
                below.own |= _in_folder(run, folder.path)
        for run in list(below.runs) if any(map(is_event_file, folder.files)) else ():
            if is_of_writer_around(run.files, posixpath.relpath(run.path, folder.path)):
                below.runs.remove(run)
                below.own |= _in_folder(run, folder.path)
        if len(below.runs) == 1 and not below.has_ours:
            below.own |= _in_folder(below.runs.pop(), folder.path)

    def _pass_over(self, folder: _Folder, below: _Below, clips: Sequence[str]) -> None:
        """Note the files of a folder that belong to none of the runs inside."""
        tables = [path for path in below.own if _TABLE.fullmatch(path) or (_MARK.fullmatch(path) and "/" not in path)]
        files = sorted({*tables, *clips})
        if files and below.runs:
            names = first_names(files, _MOST_NAMED)
            runs = counted(len(below.runs), "run")
            self._say(posixpath.join(folder.path, files[0]), f"{names} {_are(files)} of none of the {runs} below")

    def _say(self, path: str, why: str) -> None:
        self.found.passed_over.append((path, why))


def _is_media_of_ours(folder: _Folder) -> bool:
    name = posixpath.basename(folder.path)
    return any(posixpath.join(name, file) == INDEX_PATH for file in folder.files)


def _is_marked(files: Mapping[str, pyarrow.fs.FileInfo]) -> bool:
    return any(map(_MARK.fullmatch, files)) or ("meta.yaml" in files and any(map(_MLFLOWS.match, files)))


def _has_a_log(folder: _Folder, below: _Below, clips: Sequence[str]) -> bool:
    """Return whether the only run inside a folder is its log, and its clips or settings are beside it."""
    if len(below.runs) != 1 or (not clips and folder.files.keys().isdisjoint(SETTINGS)):
        return False
    return _LOG.fullmatch(posixpath.relpath(below.runs[0].path, folder.path)) is not None


def _is_recorded(clip: str) -> bool:
    """Return whether a known recorder named a clip, or the folder that it is in."""
    return is_recorders_name(clip) or _LEROBOTS.match(clip) is not None


def _in_folder(run: RunFolder, folder: str) -> dict[str, pyarrow.fs.FileInfo]:
    """Return the files of a run by their paths in a folder around it."""
    inner = posixpath.relpath(run.files.folder, folder)
    return {posixpath.join(inner, path): info for path, info in run.files.infos.items()}


def _give_clips(folder: _Folder, below: _Below) -> None:
    """Add clips in a part to the run with their folder's name: ``runs/<name>`` and ``videos/<name>``, as of CleanRL."""
    runs = {run.path: run for run in below.runs}
    clips = {run.path: run for run in below.in_parts if not _is_marked(run.files.infos)}
    named: dict[str, list[str]] = {}
    for path in runs.keys() - {run.path for run in below.in_parts}:
        named.setdefault(posixpath.basename(path), []).append(path)
    for path in clips:
        same = named.get(posixpath.basename(path), [])
        if len(same) == 1:
            run = runs[same[0]]
            infos = _in_folder(run, folder.path) | _in_folder(runs.pop(path), folder.path)
            files = RunFiles(run.files.filesystem, folder.path, infos, posixpath.relpath(run.path, folder.path))
            runs[same[0]] = RunFolder(run.name, files, run.is_sure)
    below.runs = list(runs.values())


def _is_skipped(name: str) -> bool:
    return name in _OURS or _SKIPPED.fullmatch(name) is not None


def _is_export(path: str) -> bool:
    """Return whether a folder is our export to W&B of the run that it lies in, with its ``TrialFiles.trial_id``."""
    found = _EXPORT.fullmatch(posixpath.basename(path))
    run = posixpath.basename(posixpath.dirname(posixpath.dirname(path)))
    return found is not None and found["run"] == safe_name(run, max_length=40)


def _is_step_of_trackio(path: str) -> bool:
    """Return whether a folder is that of a step in a run's media: ``media/<project>/<run>/<step>``."""
    return path.split("/")[-4:-3] == ["media"] and posixpath.basename(path).isdecimal()


def _has_steps_of_trackio(folder: _Folder) -> bool:
    return any(_is_step_of_trackio(inner.path) for inner in folder.inner)


def _are(items: Sequence[str]) -> str:
    return "is" if len(items) == 1 else "are"
