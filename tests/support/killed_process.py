"""Runs a script that kills itself at a given place, as a driver of Tune may be killed."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

from tune_media.callbacks.outbox import FOLDER_VARIABLE

_ROOT = Path(__file__).parents[2]


def state_after_kill(script: str, folder: Path, place: str) -> dict[str, Any]:
    """Run ``script FOLDER PLACE``, which is killed at the place; return the last state that Tune has saved.

    The script writes the state into ``state``, and ends with the exit code 9.
    """
    environment = {**os.environ, "PYTHONPATH": str(_ROOT), FOLDER_VARIABLE: str(folder / "outbox")}
    command = [sys.executable, script, str(folder), place]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 9, done.stderr
    state: dict[str, Any] = pickle.loads((folder / "state").read_bytes())
    return state
