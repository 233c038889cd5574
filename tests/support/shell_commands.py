"""Checks the shell commands of the docs: cheap ones run; of the others, the program parses all arguments."""

from __future__ import annotations

import configparser
import os
import re
import shlex
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner

from tests.support.doc_pages import ROOT

SWEEP = ("~/ray_results/my_sweep", "~/ray_results/my_rates", "s3://my-bucket/ray/my_sweep")
RUNS = ("runs", "videos")  # what scripts without Tune leave


def check(command: str, experiment: Path, folder: Path) -> None:
    """Run a command of the docs, or have its arguments parsed; raise if one is wrong. It writes into the folder."""
    words = shlex.split(command)
    while "=" in words[0]:
        _CHECKS["environment"](words.pop(0).split("=", 1))
    program, *arguments = words
    places = [str(experiment) if word.startswith(SWEEP) or word in RUNS else word for word in arguments]
    here = Path.cwd()
    os.chdir(folder)
    try:
        _CHECKS[Path(program).name](places)
    finally:
        os.chdir(here)


def _parse(command: click.Command, arguments: list[str]) -> None:
    if isinstance(command, click.Group):
        _parse(command.commands[arguments[0]], arguments[1:])
    else:
        command.make_context(command.name, arguments)


def _tune_media(arguments: list[str]) -> None:
    from tune_media.cli import main

    if arguments[0] in ("list", "grid", "gallery"):
        result = CliRunner().invoke(main, arguments)
        assert result.exit_code == 0, result.output
    else:  # these train, serve or start Ray
        _parse(main, arguments)


def _tensorboard(arguments: list[str]) -> None:
    from tensorboard import default, program

    program.TensorBoard(default.get_plugins()).configure(argv=["tensorboard", *arguments])


def _pip(arguments: list[str]) -> None:
    config = configparser.ConfigParser(interpolation=None)
    config.read(ROOT / "setup.cfg")
    assert arguments[0] in ("install", "wheel")
    for extras in re.findall(r"\[([^]]+)\]", " ".join(arguments)):
        assert set(extras.split(",")) <= set(config["options.extras_require"]), extras


def _make(arguments: list[str]) -> None:
    assert all(re.search(rf"^{name}:", (ROOT / "Makefile").read_text(), re.MULTILINE) for name in arguments)


def _wandb(arguments: list[str]) -> None:
    from wandb.cli.cli import cli

    _parse(cli, arguments)


def _mlflow(arguments: list[str]) -> None:
    from mlflow.cli import cli

    _parse(cli, arguments)


def _python(arguments: list[str]) -> None:
    assert arguments == ["train.py"] or (ROOT / arguments[0]).exists(), arguments


def _pre_commit(arguments: list[str]) -> None:
    assert arguments == ["install"]
    assert (ROOT / ".pre-commit-config.yaml").exists()


def _script(name: str, count: int, arguments: list[str]) -> None:
    assert len(arguments) == count
    assert os.access(ROOT / ".ci" / name, os.X_OK)


def _trackio(arguments: list[str]) -> None:  # the tests' environment does not have it
    assert arguments == ["show", "--project", "walkers"]


def _environment(assignment: list[str]) -> None:
    import tune_media

    assert assignment[0] == "RAY_TUNE_CALLBACKS", assignment
    module, _, name = assignment[1].rpartition(".")
    assert module == "tune_media"
    assert hasattr(tune_media, name), name


_CHECKS: dict[str, Callable[[Any], None]] = {
    "tune-media": _tune_media,
    "tensorboard": _tensorboard,
    "pip": _pip,
    "make": _make,
    "wandb": _wandb,
    "mlflow": _mlflow,
    "python": _python,
    "pre-commit": _pre_commit,
    "lower-bounds": partial(_script, "lower-bounds", 0),
    "ray-wheel": partial(_script, "ray-wheel", 1),
    "beside": partial(_script, "beside", 1),
    "trackio": _trackio,
    "environment": _environment,
}
