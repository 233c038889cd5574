import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_what_three_killed_drivers_reported_is_there_once():
    pytest.importorskip("mlflow")
    pytest.importorskip("wandb")
    command = [sys.executable, "-m", "tests.kills", "3", "--seed", "5", "--mlflow", "store"]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
