"""Where a trial's files are: on the storage, and in the folder on the driver that Tune syncs to it."""

from __future__ import annotations

import json
import posixpath
from dataclasses import dataclass
from pathlib import Path

import pyarrow.fs

from tune_media.storage.filesystem import is_local, read_if_there

LOCATION_FILE = ".tune_media.json"
"""A file in the trial's folder on the driver that says where the trial's media are."""
_SCHEMES = {"s3": "s3", "gcs": "gs"}  # of pyarrow's filesystems whose URIs are made of a path alone


@dataclass(frozen=True)
class TrialLocation:
    """Where a trial's files are.

    Attributes:
        filesystem: The filesystem that results end up on.
        path: The trial's folder on it.
        local_path: The trial's folder on the driver, which Tune syncs to ``path``.
        trial_id: The trial's id.
    """

    filesystem: pyarrow.fs.FileSystem
    path: str
    local_path: Path
    trial_id: str

    def on_storage(self, name: str) -> str:
        """Return the path on the filesystem of a file of the trial.

        Example:
            >>> TrialLocation(pyarrow.fs.LocalFileSystem(), "/results/trial", Path("/tmp/trial"), "1").on_storage("a")
            '/results/trial/a'
        """
        return posixpath.join(self.path, name)

    def write_pointer(self) -> None:
        """Tell readers of the driver's folder where the media are: a path on this machine, or a URI of an object store.

        Raises:
            OSError: The driver's folder cannot be written.
        """
        scheme = _SCHEMES.get(str(self.filesystem.type_name))
        if scheme or is_local(self.filesystem):
            file = self.local_path / LOCATION_FILE
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps({"media_of": f"{scheme}://{self.path}" if scheme else self.path}))


def media_folder(filesystem: pyarrow.fs.FileSystem, folder: str) -> str:
    """Return the folder that holds a trial's media: ``folder``, unless that is the trial's folder on the driver."""
    try:
        pointer = json.loads(read_if_there(filesystem, posixpath.join(folder, LOCATION_FILE)) or b"{}")
        path = pointer.get("media_of")
        is_there = isinstance(path, str) and filesystem.get_file_info(path).type == pyarrow.fs.FileType.Directory
    except (ValueError, AttributeError, RecursionError):  # a URI, too: the media are on another filesystem
        return folder
    return path if is_there else folder
