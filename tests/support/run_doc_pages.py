"""Runs the Python code of all pages of the docs in one process, with one Ray, and writes what failed as JSON.

``HOME=FOLDER python -m tests.support.run_doc_pages FOLDER [PAGE ...]``: each page runs in a folder of its own inside
FOLDER, and ``~/ray_results/my_sweep`` is a small experiment.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from pathlib import Path

from tests.support.doc_pages import PAGES, ROOT, blocks, name_of
from tests.support.viewing import write_trial


def run(page: Path) -> str:
    """Run the code of a page, its blocks one after the other; return the traceback, or an empty text."""
    names = {"__name__": "__main__"}
    for above, code in blocks(page, "python"):
        try:
            exec(compile("\n" * above + code, page, "exec"), names)
        except BaseException:
            return traceback.format_exc()
    return ""


def main(folder: str, *pages: str) -> None:
    """Run the pages. A page whose blocks are all those of an earlier page is not run again."""
    import ray

    for number in range(2):
        write_trial(Path(folder) / "ray_results" / "my_sweep" / f"trial_{number}", number)
    ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    outcomes: dict[str, str] = {}
    seen: dict[tuple[str, ...], str] = {}
    for page in [ROOT / page for page in pages] or PAGES:
        code = tuple(text for _, text in blocks(page, "python"))
        earlier = next((outcome for ran, outcome in seen.items() if set(code) <= set(ran)), None)
        if code and earlier is None:
            own = Path(folder) / "pages" / page.stem
            own.mkdir(parents=True)
            os.chdir(own)
            started = time.monotonic()
            earlier = seen[code] = run(page)
            print(f"{name_of(page)}: {time.monotonic() - started:.1f} s", file=sys.stderr)
        if code:
            outcomes[name_of(page)] = earlier or ""
    (Path(folder) / "outcomes.json").write_text(json.dumps(outcomes))


if __name__ == "__main__":
    main(*sys.argv[1:])
