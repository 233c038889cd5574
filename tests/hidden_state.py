"""Runs the kinds of envs with hidden state in each way of recording them, and prints which clips are not their episode.

``python -m tests.hidden_state --kinds theme,pipe --ways rllib-new,gym --placements first-two,last --steps 24,200``
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import logging
import os
import random
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def main() -> int:
    """Run the cells that the arguments name; return 1 if a clip is wrong or missing without a word."""
    arguments = _arguments()
    os.environ.setdefault("TUNE_MEDIA_RENDER_NICENESS", "0")
    os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    at_start = ROOT / "tests" / "support" / "at_start"
    path = [str(ROOT), str(at_start), os.environ.get("PYTHONPATH")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    from tests.support.fork_workers import forked_workers, make_connectors_fast

    make_connectors_fast()
    warnings.filterwarnings("ignore")
    with contextlib.ExitStack() as until:
        folder = Path(until.enter_context(tempfile.TemporaryDirectory(prefix="hidden_state-")))
        os.environ["TUNE_MEDIA_OUTBOX"] = str(folder / "outbox")
        if not arguments.as_users:
            until.enter_context(forked_workers())
        import ray

        from tests.support import quiet_ray

        if set(arguments.ways.split(",")) != {"gym"}:
            session = quiet_ray.init(num_cpus=8)
            os.environ["TUNE_MEDIA_TEST_RAY"] = session.address_info["address"]
            until.callback(ray.shutdown)
        return _run(arguments, folder)


def _run(arguments: argparse.Namespace, folder: Path) -> int:
    from tests.support import hidden_state_runs as runs
    from tests.support.hidden_state import KINDS

    for name in ("tune_media", "ray"):
        logging.getLogger(name).propagate = False
        logging.getLogger(name).addHandler(logging.NullHandler())
    kinds = arguments.kinds.split(",") if arguments.kinds else list(KINDS)
    ways = arguments.ways.split(",")
    if unknown := (set(kinds) - set(KINDS)) | (set(ways) - set(runs.WAYS)):
        print(f"unknown: {', '.join(sorted(unknown))}; kinds are {', '.join(KINDS)}; ways are {', '.join(runs.WAYS)}")
        return 2
    cells = _cells(arguments, kinds, ways)
    outcomes, began = [], time.monotonic()
    print(runs.HEADER, flush=True)
    for outcome in runs.run(cells, folder, arguments.evaluations, arguments.env_runners, arguments.jobs):
        outcomes.append(outcome)
        print(runs.row_of(outcome), flush=True)
        if arguments.problems:
            print(*(f"    {text[:300]}" for text in outcome.problems), sep="\n", flush=True)
    bad = [one for one in outcomes if not one.is_good]
    print(*runs.totals(outcomes), sep="\n")
    print(f"{len(outcomes)} cells, {len(bad)} bad, in {time.monotonic() - began:.0f} s")
    print(f"cells with replays: {sum(one.replay > 0 for one in outcomes)}")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps([dataclasses.asdict(one) for one in outcomes], indent=1))
    return 1 if bad else 0


def _cells(arguments: argparse.Namespace, kinds: list[str], ways: list[str]) -> list[Any]:
    """Return the cells; a kind that shows its value in frames of its own choice has one placement."""
    from tests.support.hidden_state import KINDS
    from tests.support.hidden_state_runs import Cell

    placements = arguments.placements.split(",")
    cells = [
        Cell(kind, way, int(count), placement, 0 if steps == "own" else int(steps), tuple(keep.split(",")), every)
        for kind in kinds
        for way in ways
        for count in arguments.sub_envs.split(",")
        for placement in ([KINDS[kind].placement] if KINDS[kind].placement else placements)
        for steps in arguments.steps.split(",")
        for keep in arguments.keep.split("|")
        for every in [arguments.every]
    ]
    if arguments.sample and arguments.sample < len(cells):
        chosen = set(random.Random(arguments.seed).sample(range(len(cells)), arguments.sample))
        cells = [cell for index, cell in enumerate(cells) if index in chosen]
    return cells


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.hidden_state", description=__doc__.partition("\n")[0])
    parser.add_argument("--kinds", default="", help="names of kinds, with commas; default: all")
    parser.add_argument("--ways", default="rllib-new,rllib-old,gym,tune", help="default: %(default)s")
    parser.add_argument("--sub-envs", default="1,3", help="default: %(default)s")
    shown = "the frames that show what is hidden: all, first-two, last, middle (wrong clips are reported only)"
    parser.add_argument("--placements", default="all", help=shown)
    parser.add_argument("--steps", default="own", help="lengths of the episodes, at most 200; own: the kind's")
    parser.add_argument("--keep", default="best,worst", help="selectors; | between those of different cells")
    parser.add_argument("--every", type=int, default=12, help="episodes after which a theme changes")
    parser.add_argument("--sample", type=int, default=0, help="run that many of the cells, drawn at random")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--jobs", type=int, default=2, help="cells at a time; 0: all cells in this process")
    parser.add_argument("--evaluations", type=int, default=30, help="default: %(default)s")
    parser.add_argument("--env-runners", type=int, default=0, help="of the loops' evaluation; default: a local one")
    parser.add_argument("--json", help="a file for all numbers and problems")
    parser.add_argument("--problems", action="store_true", help="print the problems of each cell, too")
    parser.add_argument("--as-users", action="store_true", help="start Ray's workers and renderers unforked")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
