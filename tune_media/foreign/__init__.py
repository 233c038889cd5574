"""Reads the folders of runs that other tools made: where runs are, and what stands beside their clips.

In come folders and files, out go ``ForeignRun``s: clips, hyperparameters, episodes and curves. Nothing is written into
these folders, nothing in them is run, and a number is taken only if its place says what it is. It may import
``storage`` and the wings below it.
"""

__all__ = [
    "configs",
    "finding",
    "reading",
    "result_files",
    "run",
    "run_files",
]
