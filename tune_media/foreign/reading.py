"""Reads a run of another tool with all readers, and puts together what they tell."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import Any

from typing_extensions import override

from tune_media.foreign.clip_paths import is_recorders_name
from tune_media.foreign.clips import clip_lines
from tune_media.foreign.configs import params_of_name, read_name
from tune_media.foreign.readers import READERS
from tune_media.foreign.run import ForeignRun
from tune_media.foreign.run_files import RunFiles
from tune_media.foreign.settings import TASK_NAMES
from tune_media.foreign.told import Told
from tune_media.values.clip_columns import Columns

_SMALL = 16 * 1024  # bytes of a file that takes about a millisecond
_FIRST_NAME = re.compile(rb"(?:\s*(?:#.*|---.*)?\n)*[\"']?[\w.-]+[\"']?\s*:\s")
_TASK = re.compile(  # a name that may say which task it is, with what is indented below it
    rb"^[\"']?(?:%s)[\"']?[ \t]*:.*(?:\n(?:[ \t#-].*)?)*" % "|".join(TASK_NAMES).encode(), re.MULTILINE
)


def read_run(files: RunFiles, columns: Columns | None = None) -> ForeignRun:
    """Return a run of these files, of which a later reader tells only what no earlier one did.

    ``columns`` are those of tables in them.
    """
    found = [(reader, files.matching(*reader.patterns)) for reader in READERS]
    told = [reader.read(files, paths, columns) for reader, paths in found if paths]
    lines = clip_lines(files, files.clips, _facts_of_clips(told))
    return ForeignRun(
        lines,
        frozenset().union(*(part.columns for part in told)),
        _joined([part.config for part in told]),
        next((part.env_id for part in told if part.env_id), None),
        told,
        bool(lines) and not any(is_recorders_name(line.path) for line in lines),
    )


def env_id_of(files: RunFiles) -> str | None:
    """Return the task of a run without reading all of it: by its folder's name, or small files of hyperparameters."""
    if env_id := params_of_name(posixpath.basename(files.run_folder.rstrip("/"))).get("env_id"):
        return str(env_id)
    heads = _TaskFiles(files.filesystem, files.folder, files.infos, files.own)
    for reader in READERS:
        read = reader.read_env_id if reader.read is not read_name else None
        paths = heads.matching(*reader.patterns) if read is not None else []
        if read is reader.read:
            paths = [path for path in paths if (files.infos[path].size or 0) <= _SMALL]
        if paths and read is not None and (env_id := read(heads, paths, None).env_id):
            return env_id
    return None


class _TaskFiles(RunFiles):
    """The files of a run; of YAML without tags, only what may say which task it is: to parse all takes long."""

    @override
    def read(self, path: str) -> bytes:
        content = super().read(path)
        is_of_names = path.endswith((".yaml", ".yml")) and _FIRST_NAME.match(content)
        return b"".join(_TASK.findall(content)) if is_of_names else content


def _facts_of_clips(told: Sequence[Told]) -> dict[str, dict[str, Any]]:
    facts: dict[str, dict[str, Any]] = {}
    for part in reversed(told):
        for clip, of_clip in part.clips.items():
            facts.setdefault(clip, {}).update(of_clip)
    return facts


def _joined(configs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return nested hyperparameters in one, of two with one name the first.

    >>> _joined([{"a": {"lr": 1}}, {"a": {"lr": 2, "seed": 3}, "b": 4}])
    {'a': {'lr': 1, 'seed': 3}, 'b': 4}
    """
    joined: dict[str, Any] = {}
    for config in configs:
        for name, value in config.items():
            before = joined.get(name, value)
            both = isinstance(before, Mapping) and isinstance(value, Mapping)
            joined[name] = _joined([before, value]) if both and before is not value else before
    return joined
