"""Reads a folder as a run of another tool, whatever its folders are called."""

import pathlib

import pyarrow.fs

from tune_media.foreign.reading import read_run
from tune_media.foreign.run_files import RunFiles

FOREIGN = pathlib.Path(__file__).parents[1] / "data/foreign"  # folders that other tools' own code wrote


def run_in(folder, columns=None):
    """Return what all readers tell of the files below a folder."""
    filesystem = pyarrow.fs.LocalFileSystem()
    found = filesystem.get_file_info(pyarrow.fs.FileSelector(str(folder), recursive=True))
    infos = {str(pathlib.Path(info.path).relative_to(folder)): info for info in found if info.is_file}
    return read_run(RunFiles(filesystem, str(folder), infos), columns)


def curves_in(folder, columns=None):
    """Return the curves of a run by name."""
    return {curve.name: curve for curve in run_in(folder, columns).curves}
