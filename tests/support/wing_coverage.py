"""How many lines of each wing the tests ran: ``python -m tests.support.wing_coverage``, after a run with ``--cov``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from coverage import Coverage

ROOT = Path(__file__).parents[2]


def measured() -> dict[str, tuple[int, int]]:
    """Return how many lines each module has, and how many of them ran."""
    coverage, lines = Coverage(), {}
    coverage.load()
    for file in coverage.get_data().measured_files():
        _, statements, _, missing, _ = coverage.analysis2(file)
        lines[str(Path(file).relative_to(ROOT))] = len(statements), len(statements) - len(missing)
    return lines


def table(lines: Mapping[str, tuple[int, int]]) -> str:
    """Lay out the share of the lines that ran, for each wing and for the whole package.

    >>> print(table({"tune_media/cli/a.py": (3, 3), "tune_media/cli/b.py": (5, 3), "tune_media/export.py": (2, 1)}))
    | wing | lines | run |
    |---|---|---|
    | cli | 8 | 75.0 % |
    | top-level files | 2 | 50.0 % |
    | all | 10 | 70.0 % |
    """
    there, ran = Counter[str](), Counter[str]()
    for module, (statements, executed) in sorted(lines.items()):
        _, *folders, _ = module.split("/")
        for name in (folders[0] if folders else "top-level files", "all"):
            there[name] += statements
            ran[name] += executed
    wings = sorted(there, key=lambda name: (name == "all", name == "top-level files", name))
    rows = [f"| {wing} | {there[wing]} | {100 * ran[wing] / max(1, there[wing]):.1f} % |" for wing in wings]
    return "\n".join(["| wing | lines | run |", "|---|---|---|", *rows])


if __name__ == "__main__":
    print(table(measured()))
