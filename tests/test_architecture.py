"""The house rules that a machine can check: which wing imports which, and which wing a foreign library."""

import ast
import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "tune_media"
FILES = sorted(PACKAGE.rglob("*.py"))
NAMES = [str(path.relative_to(PACKAGE)) for path in FILES]

BELOW = {  # wing: the wings that it may import
    "values": {"encoding"},
    "encoding": set(),
    "steps": {"values"},
    "selection": {"values", "steps", "triggers"},
    "triggers": {"values"},
    "ray_compat": {"values"},
    "recording": {"values", "encoding", "selection", "steps"},
    "replay": {"recording", "values", "encoding", "selection", "steps", "ray_compat"},
    "results": {"values"},
    "storage": {"values", "encoding"},
    "experiment": {"storage", "values"},
    "rllib": {"replay", "recording", "values", "encoding", "selection", "steps", "ray_compat"},
    "gym": {"replay", "recording", "experiment", "storage", "values", "encoding", "selection", "steps"},
    "callbacks": {"replay", "experiment", "storage", "results", "values", "encoding", "ray_compat"},
    "viewing": {
        *("experiment", "storage", "values", "encoding", "rllib", "gym", "replay", "recording", "callbacks"),
        *("selection", "steps", "ray_compat"),
    },
    "evaluation": {
        *("viewing", "rllib", "replay", "recording", "experiment", "storage", "values", "encoding"),
        *("selection", "steps", "ray_compat"),
    },
    "export": {"viewing", "callbacks", "experiment", "values", "ray_compat"},
    "rsl_rl": {"experiment", "storage", "values"},
    "cli": {"evaluation", "export", "callbacks", "replay", "viewing", "rllib", "experiment", "values"},
    "trial_names": {"values"},
}
FOREIGN = {  # library: the folders that may import it
    "ray.rllib": ("rllib/", "viewing/demo.py"),
    "gymnasium": ("gym/", "rllib/", "viewing/doctor.py"),
    "av": ("encoding/",),
    "wandb": ("callbacks/wandb/",),
    "mlflow": ("callbacks/mlflow/",),
    "tensorboard": ("viewing/",),
    "tensorboardX": ("callbacks/tensorboard/",),
    "rsl_rl": ("rsl_rl.py",),
    "trackio": ("callbacks/trackio.py", "callbacks/trackio_names.py"),
}


@functools.cache
def imports(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def test_a_wing_imports_only_wings_below_it():
    for path, name in zip(FILES, NAMES, strict=True):
        wing = name.split("/")[0].removesuffix(".py")
        if wing not in ("__init__", "_version"):
            targets = {module.split(".")[1] for module in imports(path) if module.startswith("tune_media.")}
            assert targets - {wing, "_version"} <= BELOW[wing], name


def test_a_foreign_library_is_imported_in_one_wing():
    for path, name in zip(FILES, NAMES, strict=True):
        for module in imports(path):
            for library, places in FOREIGN.items():
                if module == library or module.startswith(f"{library}."):
                    assert name.startswith(places), f"{name} imports {module}"


def test_no_test_imports_another_test():
    for path in (ROOT / "tests").rglob("*.py"):
        for module in imports(path):
            assert not re.match(r"tests\.(\w+\.)*test_", module), f"{path.name} imports {module}"


@pytest.mark.parametrize("wing", sorted({name.partition("/")[0] for name in NAMES if "/" in name} - {"values"}))
def test_the_files_of_a_wing_import_each_other_in_no_circle(wing):
    """Not for types, either."""
    own = {name: path for path, name in zip(FILES, NAMES, strict=True) if name.startswith(f"{wing}/")}
    modules = {f"tune_media.{name.removesuffix('.py').replace('/', '.')}": path for name, path in own.items()}
    left = {
        module: {other for other in modules for target in imports(path) if f"{target}.".startswith(f"{other}.")}
        for module, path in modules.items()
    }
    while free := {module for module, needed in left.items() if not needed & left.keys()}:
        left = {module: needed for module, needed in left.items() if module not in free}
    assert left == {}
