"""Runs each setting with and without the recorder, and prints which numbers of training are not the same.

``python -m tests.same_numbers --only old-,np_random``
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time
import warnings
from pathlib import Path

ROOT = Path(__file__).parents[1]


def main() -> int:
    """Run the settings that the arguments name; return 1 if a number is not the same."""
    parser = argparse.ArgumentParser(prog="python -m tests.same_numbers", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="parts of names, with commas: settings that have all of them")
    parser.add_argument("--baseline", action="store_true", help="run each twice without the recorder instead")
    parser.add_argument("--lines", type=int, default=3, help="how many numbers to print; default: %(default)s")
    arguments = parser.parse_args()
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    path = [str(ROOT), str(ROOT / "tests" / "support" / "at_start"), os.environ.get("PYTHONPATH")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    warnings.filterwarnings("ignore")
    from tests.support.fork_workers import forked_workers, make_connectors_fast

    make_connectors_fast()
    with forked_workers():
        import ray

        from tests.support import quiet_ray
        from tests.support.same_numbers import SETTINGS, changed_by_itself, changed_by_recorder

        logging.getLogger("ray").setLevel(logging.ERROR)
        logging.getLogger("tune_media").setLevel(logging.ERROR)
        quiet_ray.init(num_cpus=8)
        compare = changed_by_itself if arguments.baseline else changed_by_recorder
        bad = 0
        chosen = [one for one in SETTINGS if all(part in one.name for part in arguments.only.split(","))]
        for setting in chosen:
            began = time.monotonic()
            lines = compare(setting)
            bad += bool(lines)
            seconds = time.monotonic() - began
            outcome = f"{len(lines)} numbers changed" if lines else "same"
            print(f"{setting.name:40} {seconds:5.1f} s  {outcome}", flush=True)
            print(*(f"    {line}" for line in lines[: arguments.lines]), sep="\n", end="\n" * bool(lines), flush=True)
        ray.shutdown()
        print(f"{len(chosen)} settings, {bad} not the same; Ray {ray.__version__}")
        return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
