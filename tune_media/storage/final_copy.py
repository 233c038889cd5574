"""Brings the index of an ended trial to a local storage again, if one of Tune's syncs has put an older one there."""

from __future__ import annotations

from tune_media.storage.filesystem import is_local, read_if_there, write_atomically
from tune_media.storage.index_lines import INDEX_PATH
from tune_media.storage.location import TrialLocation


def copy_index_again(location: TrialLocation) -> bool:
    """Make the storage's index equal to the driver's; return whether it was not.

    Tune's last sync may read the driver's index before the end of a trial rewrites it, and write it to the storage
    after that. The sync is over when the experiment ends. On remote storage Tune's syncs leave the index out.

    Args:
        location: The folders of a trial that has ended, whose index is complete on the driver.

    Raises:
        OSError: The storage does not answer.

    Example:
        >>> import pathlib, pyarrow.fs
        >>> copy_index_again(TrialLocation(pyarrow.fs.LocalFileSystem(), "/no/trial", pathlib.Path("/no/driver"), "t1"))
        False
    """
    local = location.local_path / INDEX_PATH
    if not is_local(location.filesystem) or not local.exists():
        return False
    content = local.read_bytes()
    path = location.on_storage(INDEX_PATH)
    if read_if_there(location.filesystem, path) == content:
        return False
    write_atomically(location.filesystem, path, content)
    return True
