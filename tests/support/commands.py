"""Commands of ``tune-media``, run in this process."""

import inspect
from typing import Any

from click.testing import CliRunner

from tune_media.cli import main


def split_runner() -> CliRunner:
    """Return a runner whose ``stdout`` has no standard error: click 8.1 mixes the two unless it is told not to."""
    can_mix = "mix_stderr" in inspect.signature(CliRunner).parameters
    return CliRunner(**{"mix_stderr": False} if can_mix else {})


def command(*words: Any, code: int = 0, **options: Any) -> str:
    """Run a command, which must end with this exit code; return its output."""
    done = CliRunner().invoke(main, list(map(str, words)), **options)
    assert done.exit_code == code, done.output
    return str(done.output)
