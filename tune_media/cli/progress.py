"""How far an evaluation, a gate or a fork is, printed. It loads Ray, so commands import it when they run."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from typing import Any

import click
from typing_extensions import override

from tune_media.cli.command import warn_of_stored_code
from tune_media.evaluation.evaluation import EvaluatedCheckpoint, Progress
from tune_media.evaluation.evaluation_table import checkpoint_line
from tune_media.evaluation.fork import ForkProgress
from tune_media.evaluation.gate import GateProgress
from tune_media.evaluation.sequential import Standing
from tune_media.values.number import counted
from tune_media.viewing.status_line import ERASED, in_place
from tune_media.viewing.table import in_lines

_SECONDS = 30.0  # between two lines of a gate's progress
_CODE = "its checkpoints and in what makes its envs"  # where it has code


class ShownEvaluation(Progress):
    """Prints a line for each checkpoint, and how many episodes have been played."""

    total = done = 0

    @override
    def reads_checkpoints(self, path: str) -> None:
        warn_of_stored_code("its checkpoints", path)

    @override
    def follows(self, name: str, path: str) -> None:
        click.echo(f"Evaluation {name} waits for checkpoints. See it while it plays:\n\n    tune-media watch {path}\n")

    @override
    def begin(self, name: str, episodes: int, missing: int) -> None:
        self.total, self.done = missing, 0
        stored = episodes - missing
        there = f"; {stored} {'is' if stored == 1 else 'are'} there already" if stored else ""
        click.echo(f"Evaluation {name}: {counted(missing, 'episode')} to play{there}.")

    @override
    def played(self, episodes: int) -> None:
        self.done += episodes
        self._bar()

    @override
    def tells(self, text: str) -> None:
        self._bar(clear=True)
        click.echo(text)
        self._bar()

    @override
    def finished(self, checkpoint: EvaluatedCheckpoint) -> None:
        self.tells(in_lines(checkpoint_line(checkpoint)))

    def _bar(self, *, clear: bool = False) -> None:
        if self.total and sys.stdout.isatty():
            click.echo(ERASED if clear else in_place(f"{self.done}/{self.total} episodes"), nl=False)


class ShownGate(GateProgress):
    """Prints the difference so far; without a terminal, a line each half minute."""

    def __init__(self) -> None:
        self._told = time.monotonic()

    @override
    def plays(self, *names: str) -> None:
        warn_of_stored_code(_CODE, *names)

    @override
    def stands(self, condition: str, standing: Standing, seeds: int) -> None:
        interval = "" if math.isinf(standing.low) else f" [{standing.low:.5g}, {standing.high:.5g}]"
        difference = f"  {standing.difference:+.5g}{interval}" if standing.seeds else ""
        line = f"{condition} {standing.seeds}/{seeds} seeds{difference}".strip()
        if sys.stderr.isatty():
            click.echo(in_place(line), nl=False, err=True)
        elif time.monotonic() - self._told >= _SECONDS:
            self._told = time.monotonic()
            click.echo(line, err=True)

    @override
    def tells(self, text: str) -> None:
        click.echo(f"{ERASED}{text}" if sys.stderr.isatty() else text, err=True)


class WatchedGate(ShownGate):
    """Also sends signs of life, with the seconds in which the next one is due; None: it may take any time."""

    def __init__(self, send: Callable[[tuple[str, Any]], None], timeout: float, seconds: float) -> None:
        super().__init__()
        self._send, self._timeout, self._seconds = send, timeout, seconds

    @override
    def imports(self) -> None:
        self._send(("importing", self._timeout))

    @override
    def begins(self, condition: str) -> None:
        self._send(("playing", self._seconds))

    @override
    def stands(self, condition: str, standing: Standing, seeds: int) -> None:
        super().stands(condition, standing, seeds)
        self._send(("playing", self._seconds))

    @override
    def renders(self, condition: str) -> None:
        self._send(("rendering", None))


class ShownFork(ForkProgress):
    """Warns of the code that runs."""

    @override
    def runs(self, experiment: str, policy: str) -> None:
        warn_of_stored_code(_CODE, experiment, policy)
