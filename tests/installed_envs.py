"""Records episodes of envs that people install, and prints which are taped, and whether their clips are right.

``python -m tests.installed_envs --only LunarLander,MiniGrid``, with MuJoCo's software renderer (Debian's libosmesa6).
Each env has a process of its own, so that a crash or a hang costs its row only.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
MOST_SECONDS = 200.0
HEADER = f"{'env':34} {'way':19} {'right':>7} {'cpu ms':>9} {'far':>5} {'s':>5}  places"


def main() -> int:
    """Print the table; return 1 if a clip is wrong or missing."""
    parser = argparse.ArgumentParser(prog="python -m tests.installed_envs", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="parts of names, with commas: envs that have one of them")
    parser.add_argument("--jobs", type=int, default=3, help="envs at the same time; default: %(default)s")
    parser.add_argument("--json", help="a file for all rows")
    parser.add_argument("--part", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.part:
        return _part(*arguments.part)
    from tests.support.installed_envs import ENVS

    names = [name for name in ENVS if any(part in name for part in arguments.only.split(","))]
    print(HEADER, flush=True)
    began, rows = time.monotonic(), []
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for row in pool.map(_row, names):
            rows.append(row)
            _show(row)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps([dataclasses.asdict(row) for row in rows], indent=1))
    ways = [row.way for row in rows if not row.is_missing]
    clips, right = sum(row.clips for row in rows), sum(row.right for row in rows)
    print(
        f"{len(ways)} envs: {ways.count('taped')} taped, {right} of {clips} clips right, "
        f"in {time.monotonic() - began:.0f} s"
    )
    return 0 if right == clips and "failed" not in ways else 1


def _show(row: Any) -> None:
    if row.is_missing:
        print(f"{row.name:34} not installed", flush=True)
        return
    right = f"{row.right}/{row.clips}"
    figures = f"{right:>7} {row.frame_ms:9.1f} {row.farthest:5.1f} {row.seconds:5.0f}"
    print(
        f"{row.name:34} {row.way:19} {figures}  {row.places}\n"
        + "".join(f"      said: {' '.join(text.split())[:330]}\n" for text in dict.fromkeys(row.said))
        + "".join(f"      WRONG: {text}\n" for text in row.wrong[:4]),
        end="",
        flush=True,
    )


def _row(name: str) -> Any:
    """Return the row of an env: one process records, another one plays the run again."""
    from tests.support.installed_envs import ENVS, Row

    if importlib.util.find_spec(ENVS[name].package) is None:
        return Row(name, is_missing=True)
    began = time.monotonic()
    row = Row(name)
    environment = {"MUJOCO_GL": "osmesa", "PYOPENGL_PLATFORM": "osmesa"} | os.environ
    environment |= {"PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))}
    environment |= {"TUNE_MEDIA_RENDER_NICENESS": "0", "SDL_AUDIODRIVER": "dummy", "PYTHONWARNINGS": "ignore"}
    with tempfile.TemporaryDirectory(prefix="installed_envs-") as folder:
        for part in ("record", "compare"):
            command = [sys.executable, "-m", "tests.installed_envs", "--part", part, name, folder]
            try:
                done = subprocess.run(
                    command, cwd=folder, env=environment, capture_output=True, text=True, timeout=MOST_SECONDS
                )
            except subprocess.TimeoutExpired:
                row.wrong.append(f"{part}: no end after {MOST_SECONDS:.0f} s")
                break
            if done.returncode:
                row.wrong.append(f"{part}: exit {done.returncode}: {done.stderr.strip()[-300:]}")
                break
            row = Row(**json.loads(Path(folder, "row.json").read_text()))
    row.seconds = time.monotonic() - began
    return row


def _part(part: str, name: str, folder: str) -> int:
    from tests.support import installed_envs

    file = Path(folder, "row.json")
    if part == "record":
        row = installed_envs.record(name, Path(folder))
    else:
        row = installed_envs.compare_replays(installed_envs.Row(**json.loads(file.read_text())), Path(folder))
    file.write_text(json.dumps(dataclasses.asdict(row)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
