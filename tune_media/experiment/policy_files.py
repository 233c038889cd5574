"""The policies of files of results, as trials."""

from __future__ import annotations

import contextlib
import posixpath
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.fs
from typing_extensions import override

from tune_media.experiment import params
from tune_media.experiment.places import folder_at
from tune_media.experiment.trial_files import TrialFiles, Version, version_of
from tune_media.foreign.result_files import SUFFIXES, NoEpisodesError, read_results
from tune_media.foreign.run import ForeignRun
from tune_media.storage.trial_media import TrialContents
from tune_media.values.checks import did_you_mean, first_names
from tune_media.values.clip_columns import Columns, checked_columns
from tune_media.values.problems import remedy


class ResultFile:
    """A file of results, which is read again if it has changed."""

    def __init__(self, filesystem: pyarrow.fs.FileSystem, path: str, columns: Columns | None = None) -> None:
        self.filesystem, self.path, self._columns = filesystem, path, columns
        self._version: Version | None = None
        self._runs: dict[str, ForeignRun] = {}

    @property
    def version(self) -> Version:
        """Its size and when it was written, or zeros if it is gone. Raises OSError."""
        return version_of(self.filesystem.get_file_info(self.path))

    def runs(self) -> dict[str, ForeignRun]:
        """Return the episodes of each policy. Raises OSError, or ValueError if it has none."""
        version = self.version
        if version != self._version:
            self._runs = read_results(self.filesystem, self.path, self._columns)
            self._version = version
        return self._runs

    def policy(self, name: str, prefix: str = "") -> PolicyFiles:
        """Return the files of a policy, which are not read yet; ``prefix`` stands before its name."""
        return PolicyFiles(self, name, prefix)


class PolicyFiles(TrialFiles):
    """A policy of a file of results; its path is that of the file and the policy's name, its folder the file's."""

    def __init__(self, file: ResultFile, policy: str, prefix: str = "") -> None:
        super().__init__(posixpath.join(prefix, policy), file.filesystem, posixpath.join(file.path, policy))
        self._file, self._policy = file, policy

    @property
    @override
    def experiment(self) -> str:
        return posixpath.dirname(self._file.path)

    @override
    def _read_contents(self) -> TrialContents:
        self.run = self._file.runs().get(self._policy, ForeignRun())
        return TrialContents(self.experiment, [line.fields() for line in self.run.lines])

    @override
    def _is_medium(self, path: str) -> bool:
        return self.line(path) is not None  # the file names it

    @override
    def refresh(self, version: Version) -> bool:
        if version == self.version:
            return False
        self.read()
        self.version = version
        return True

    @property
    @override
    def config(self) -> dict[str, Any]:
        """None are known; policies whose names differ in a seed alone are one configuration."""
        return params.OnlyNamed({}, self.name, params.name_without_seed(self.name))


def policy_named(
    source: Any, filesystem: pyarrow.fs.FileSystem | None, columns: Mapping[str, str] | None
) -> TrialFiles | None:
    """Return the policy that ``FILE`` or ``FILE:POLICY`` names; None if the source is no file of results.

    Raises OSError, or ValueError if the file has no such policy, or several and none is named.
    """
    before, _, policy = str(source).rpartition(":")
    for path, name in ((str(source), ""), (before, policy)) if isinstance(source, (str, Path)) else ():
        if path.lower().endswith(SUFFIXES) and (file := folder_at(path, filesystem)).is_file:
            results = ResultFile(file.filesystem, file.path, columns and checked_columns(columns))
            with contextlib.suppress(*([NoEpisodesError] if path.endswith(".json") else [])):  # a policy's own file
                return _policy(results, name)
    return None


def _policy(file: ResultFile, name: str) -> TrialFiles:
    names = list(file.runs())
    if not name and len(names) > 1:
        several = f"{file.path!r} has {len(names)} policies ({first_names(names)}): "
        raise ValueError(several + remedy(f"name one, such as {posixpath.basename(file.path)}:{names[0]}."))
    if name and name not in names:
        raise ValueError(f"{file.path!r} has no policy {name!r}; " + did_you_mean(name, names))
    return file.policy(name or names[0]).read()


def policies_of(files: Sequence[ResultFile]) -> list[TrialFiles]:
    """Return the policies of files; names that occur twice have the files before them. Raises OSError, ValueError."""
    policies = [file.policy(name) for file in files for name in file.runs()]
    counts = Counter(policy.name for policy in policies)
    for policy in policies:
        if counts[policy.name] > 1:
            policy.name = policy.path.lstrip("/")
    return [policy.read() for policy in policies]
